//! How Vonage writes and signs a letter.

use ::hmac::{Hmac, KeyInit, Mac};
use aws_lc_rs::{
    digest::{SHA256, digest},
    hmac::{HMAC_SHA1_FOR_LEGACY_USE_ONLY, HMAC_SHA256, HMAC_SHA512},
};
use base64::{Engine as _, prelude::*};
use md5::{Digest, Md5};
use ringtrue_operators::sms_http::{Driver, SigMethod, Vonage, VonageSignature, WebhookConfig};
use serde_json::json;

use crate::{
    vendors::{SECRET, hex, secret, tag},
    world::{Call, Letter, open},
};

pub fn vonage(method: SigMethod, text: &str) -> WebhookConfig {
    let signature = VonageSignature::Sig { method, secret: secret(text) };
    open(Driver::Vonage(Vonage { signature: Some(signature) }))
}

/// Signs fields and gives them with their `sig`.
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

fn vonage_fields(method: SigMethod, letter: &Letter<'_>) -> Vec<(String, String)> {
    let Letter { id, from, to, text, at } = *letter;
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

pub fn borrowed(fields: &[(String, String)]) -> Vec<(&str, &str)> {
    fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

pub fn vonage_form(method: SigMethod, letter: &Letter<'_>) -> Call {
    Call::form(&borrowed(&vonage_fields(method, letter)))
}

pub fn vonage_get(letter: &Letter<'_>) -> Call {
    Call::get(&borrowed(&vonage_fields(SigMethod::HmacSha256, letter)))
}

pub fn vonage_json(letter: &Letter<'_>) -> Call {
    let fields = vonage_fields(SigMethod::HmacSha256, letter);
    Call::json(&fields.into_iter().map(|(name, value)| (name, value.into())).collect::<serde_json::Map<_, _>>().into())
}

pub fn vonage_messages(text: &str) -> WebhookConfig {
    open(Driver::Vonage(Vonage { signature: Some(VonageSignature::Bearer(secret(text))) }))
}

pub fn vonage_bearer(letter: &Letter<'_>) -> Call {
    let Letter { id, from, to, text, at } = *letter;
    let call = Call::json(&json!({
        "channel": "sms", "message_uuid": id, "from": from, "to": to, "text": text, "message_type": "text",
        "timestamp": "2026-11-14T23:46:40Z", "sms": {"num_messages": "1", "keyword": "VERIFY"},
    }));
    let claims = json!({
        "iss": "Vonage", "iat": at, "jti": format!("jti-{id}-{at}"), "api_key": "abcd1234",
        "payload_hash": hex(digest(&SHA256, &call.body).as_ref()),
    });
    let part = |json: &serde_json::Value| BASE64_URL_SAFE_NO_PAD.encode(json.to_string());
    let signed = format!("{}.{}", part(&json!({"alg": "HS256", "typ": "JWT"})), part(&claims));
    let signature = BASE64_URL_SAFE_NO_PAD.encode(tag(HMAC_SHA256, signed.as_bytes()));
    call.with("Authorization", format!("Bearer {signed}.{signature}"))
}
