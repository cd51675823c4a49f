//! Request formats and signatures of Vonage.

use ::hmac::{Hmac, KeyInit, Mac};
use aws_lc_rs::{
    digest::{SHA256, digest},
    hmac::{HMAC_SHA1_FOR_LEGACY_USE_ONLY, HMAC_SHA256, HMAC_SHA512},
};
use base64::{Engine as _, prelude::*};
use md5::{Digest, Md5};
use ringtrue_operators::sms_http::{SigMethod, Vonage, VonageSignature, WebhookConfig, WebhookDriver};
use serde_json::json;

use crate::{
    fixture::{TestRequest, TestSms, unrestricted},
    vendors::{SECRET, hex, secret, tag},
};

pub fn vonage(method: SigMethod, text: &str) -> WebhookConfig {
    let signature = VonageSignature::Sig { method, secret: secret(text) };
    unrestricted(WebhookDriver::Vonage(Vonage { signature: Some(signature) }))
}

/// Adds `sig` to the fields.
pub fn vonage_signed(method: SigMethod, fields: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut fields: Vec<(String, String)> =
        fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    fields.sort_unstable();
    let written = |(name, value): &(String, String)| format!("&{name}={}", value.replace(['&', '='], "_"));
    let signed = fields.iter().map(written).collect::<Vec<_>>().concat();
    let sig = match method {
        SigMethod::Md5Hash => hex(&Md5::digest(signed + SECRET)),
        SigMethod::HmacMd5 => {
            let mac = Hmac::<Md5>::new_from_slice(SECRET.as_bytes()).unwrap().chain_update(signed);
            hex(&mac.finalize().into_bytes())
        }
        SigMethod::HmacSha1 => hex(&tag(HMAC_SHA1_FOR_LEGACY_USE_ONLY, signed.as_bytes())),
        SigMethod::HmacSha256 => hex(&tag(HMAC_SHA256, signed.as_bytes())),
        SigMethod::HmacSha512 => hex(&tag(HMAC_SHA512, signed.as_bytes())),
    };
    fields.push(("sig".to_owned(), sig));
    fields
}

fn vonage_fields(method: SigMethod, message: &TestSms<'_>) -> Vec<(String, String)> {
    let TestSms { id, from, to, text, at } = *message;
    let at = at.to_string();
    let nonce = format!("nonce-{id}-{at}");
    vonage_signed(
        method,
        &[
            ("msisdn", from),
            ("to", to),
            ("messageId", id),
            ("text", text),
            ("type", "unicode"),
            ("keyword", "VERIFY"),
            ("timestamp", &at),
            ("nonce", &nonce),
        ],
    )
}

pub fn as_str_pairs(fields: &[(String, String)]) -> Vec<(&str, &str)> {
    fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

pub fn vonage_form(method: SigMethod, message: &TestSms<'_>) -> TestRequest {
    TestRequest::form(&as_str_pairs(&vonage_fields(method, message)))
}

pub fn vonage_get(message: &TestSms<'_>) -> TestRequest {
    TestRequest::get(&as_str_pairs(&vonage_fields(SigMethod::HmacSha256, message)))
}

pub fn vonage_json(message: &TestSms<'_>) -> TestRequest {
    let fields = vonage_fields(SigMethod::HmacSha256, message);
    TestRequest::json(
        &fields.into_iter().map(|(name, value)| (name, value.into())).collect::<serde_json::Map<_, _>>().into(),
    )
}

pub fn vonage_messages(text: &str) -> WebhookConfig {
    unrestricted(WebhookDriver::Vonage(Vonage { signature: Some(VonageSignature::Bearer(secret(text))) }))
}

pub fn vonage_bearer(message: &TestSms<'_>) -> TestRequest {
    let TestSms { id, from, to, text, at } = *message;
    let request = TestRequest::json(&json!({
        "channel": "sms", "message_uuid": id, "from": from, "to": to, "text": text, "message_type": "text",
        "timestamp": "2026-11-14T23:46:40Z", "sms": {"num_messages": "1", "keyword": "VERIFY"},
    }));
    let claims = json!({
        "iss": "Vonage", "iat": at, "jti": format!("jti-{id}-{at}"), "api_key": "abcd1234",
        "payload_hash": hex(digest(&SHA256, &request.body).as_ref()),
    });
    let part = |json: &serde_json::Value| BASE64_URL_SAFE_NO_PAD.encode(json.to_string());
    let signed = format!("{}.{}", part(&json!({"alg": "HS256", "typ": "JWT"})), part(&claims));
    let signature = BASE64_URL_SAFE_NO_PAD.encode(tag(HMAC_SHA256, signed.as_bytes()));
    request.with("Authorization", format!("Bearer {signed}.{signature}"))
}
