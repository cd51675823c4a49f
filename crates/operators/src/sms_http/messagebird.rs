//! `MessageBird`: the fields of an SMS as a form, as JSON or in the query of a GET, depending on the flow.
//!
//! Signed with a JWT (`messagebird-signature-jwt`, HMAC with SHA-256, SHA-384 or SHA-512) that contains hashes of URL
//! and body, a single-use id and a validity period. Accounts migrated to Bird use [`Bird`](super::Bird) instead.

use aws_lc_rs::hmac::{HMAC_SHA256, HMAC_SHA384, HMAC_SHA512};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use http::Method;
use jiff::Timestamp;
use ringtrue_domain::phone::AddressKind;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    request::{Fields, VendorRequest},
    secret::{Secret, constant_time_eq, decode_hex, sha256},
    vendor::{InvalidSignature, MalformedRequest, MessageText, VendorMessage, VerifiedSignature, WebhookVendor},
};

#[derive(Clone, Debug)]
pub struct MessageBird {
    /// The signing key of the account.
    pub secret: Option<Secret>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
}

#[derive(Deserialize)]
struct Claims {
    iss: String,
    jti: String,
    nbf: i64,
    exp: i64,
    url_hash: String,
    payload_hash: Option<String>,
}

impl WebhookVendor for MessageBird {
    fn methods(&self) -> &'static [Method] {
        &[Method::POST, Method::GET]
    }

    fn verify_signature(&self, request: &VendorRequest<'_>) -> Result<VerifiedSignature, InvalidSignature> {
        let Some(secret) = &self.secret else { return Ok(VerifiedSignature::default()) };
        let token = request.header("messagebird-signature-jwt").ok_or(InvalidSignature)?;
        let (signed_data, tag) = token.rsplit_once('.').ok_or(InvalidSignature)?;
        let (header, claims) = signed_data.split_once('.').ok_or(InvalidSignature)?;
        let Header { alg } = decode_jwt_part(header)?;
        let algorithm = match &*alg {
            "HS256" => HMAC_SHA256,
            "HS384" => HMAC_SHA384,
            "HS512" => HMAC_SHA512,
            _ => return Err(InvalidSignature),
        };
        let tag = BASE64_URL_SAFE_NO_PAD.decode(tag).map_err(|_| InvalidSignature)?;
        if !secret.verify_hmac(algorithm, signed_data.as_bytes(), &tag) {
            return Err(InvalidSignature);
        }
        let Claims { iss, jti, nbf, exp, url_hash, payload_hash } = decode_jwt_part(claims)?;
        let is_hash_of =
            |hash: &str, data: &[u8]| decode_hex(hash).is_some_and(|hash| constant_time_eq(&hash, &sha256(data)));
        let body_is_covered = match &payload_hash {
            Some(hash) => is_hash_of(hash, request.body),
            None => request.body.is_empty(),
        };
        if iss != "MessageBird" || !is_hash_of(&url_hash, request.signed_url().as_bytes()) || !body_is_covered {
            return Err(InvalidSignature);
        }
        let expires_at = Timestamp::from_second(exp).map_err(|_| InvalidSignature)?;
        Ok(VerifiedSignature {
            expires_at: Some(expires_at),
            ..VerifiedSignature::signed_at_second(&nbf.to_string())?.with_nonce(&jti)
        })
    }

    fn parse_messages(&self, request: &VendorRequest<'_>) -> Result<Vec<VendorMessage>, MalformedRequest> {
        if request.method == Method::POST && request.is_json() {
            let json = request.json()?;
            return build_message(|name| match json.get(name)? {
                Value::String(text) => Some(text.clone()),
                Value::Number(number) => Some(number.to_string()),
                _ => None,
            });
        }
        let fields: Fields<'_> = request.fields()?;
        build_message(|name| fields.text(name).map(str::to_owned))
    }
}

fn build_message(field: impl Fn(&str) -> Option<String>) -> Result<Vec<VendorMessage>, MalformedRequest> {
    let text = field("body").or_else(|| field("payload"));
    // Status reports of outbound messages have no text.
    if text.is_none() && field("status").is_some() {
        return Ok(vec![]);
    }
    Ok(vec![VendorMessage {
        id: field("id").or_else(|| field("message_id")),
        from: field("originator").unwrap_or_default(),
        to: field("recipient").ok_or(MalformedRequest)?,
        kind: AddressKind::International,
        text: MessageText::Complete(text.ok_or(MalformedRequest)?),
    }])
}

fn decode_jwt_part<T: DeserializeOwned>(part: &str) -> Result<T, InvalidSignature> {
    let octets = BASE64_URL_SAFE_NO_PAD.decode(part).map_err(|_| InvalidSignature)?;
    serde_json::from_slice(&octets).map_err(|_| InvalidSignature)
}
