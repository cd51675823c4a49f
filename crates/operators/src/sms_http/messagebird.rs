//! `MessageBird`: the fields of an SMS as a form, as JSON or in the query of a GET, as the flow is set up.
//!
//! Signed with a token (`messagebird-signature-jwt`, HMAC with SHA-256, SHA-384 or SHA-512) that holds hashes of the URL
//! and of the body, an id that is used once, and the time during which it is good. Accounts that have moved to Bird are
//! called by [`Bird`](super::Bird) instead.

use aws_lc_rs::hmac::{HMAC_SHA256, HMAC_SHA384, HMAC_SHA512};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use http::Method;
use jiff::Timestamp;
use ringtrue_domain::phone::AddressKind;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    request::{Fields, Request},
    secret::{Secret, hex, same, sha256},
    vendor::{Forged, Message, Proof, Text, Unreadable, Vendor},
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

impl Vendor for MessageBird {
    fn methods(&self) -> &'static [Method] {
        &[Method::POST, Method::GET]
    }

    fn authenticate(&self, request: &Request<'_>) -> Result<Proof, Forged> {
        let Some(secret) = &self.secret else { return Ok(Proof::default()) };
        let token = request.header("messagebird-signature-jwt").ok_or(Forged)?;
        let (signed, tag) = token.rsplit_once('.').ok_or(Forged)?;
        let (header, claims) = signed.split_once('.').ok_or(Forged)?;
        let Header { alg } = json(header)?;
        let algorithm = match &*alg {
            "HS256" => HMAC_SHA256,
            "HS384" => HMAC_SHA384,
            "HS512" => HMAC_SHA512,
            _ => return Err(Forged),
        };
        let tag = BASE64_URL_SAFE_NO_PAD.decode(tag).map_err(|_| Forged)?;
        if !secret.signed(algorithm, signed.as_bytes(), &tag) {
            return Err(Forged);
        }
        let Claims { iss, jti, nbf, exp, url_hash, payload_hash } = json(claims)?;
        let is_hash_of = |hash: &str, data: &[u8]| hex(hash).is_some_and(|hash| same(&hash, &sha256(data)));
        let body_is_covered = match &payload_hash {
            Some(hash) => is_hash_of(hash, request.body),
            None => request.body.is_empty(),
        };
        if iss != "MessageBird" || !is_hash_of(&url_hash, request.signed_url().as_bytes()) || !body_is_covered {
            return Err(Forged);
        }
        let expires_at = Timestamp::from_second(exp).map_err(|_| Forged)?;
        Ok(Proof { expires_at: Some(expires_at), ..Proof::at(&nbf.to_string())?.once(&jti) })
    }

    fn read(&self, request: &Request<'_>) -> Result<Vec<Message>, Unreadable> {
        if request.method == Method::POST && request.is_json() {
            let json = request.json()?;
            return message(|name| match json.get(name)? {
                Value::String(text) => Some(text.clone()),
                Value::Number(number) => Some(number.to_string()),
                _ => None,
            });
        }
        let fields: Fields<'_> = request.fields()?;
        message(|name| fields.text(name).map(str::to_owned))
    }
}

fn message(field: impl Fn(&str) -> Option<String>) -> Result<Vec<Message>, Unreadable> {
    let text = field("body").or_else(|| field("payload"));
    // The states of messages that we would have sent have no text.
    if text.is_none() && field("status").is_some() {
        return Ok(vec![]);
    }
    Ok(vec![Message {
        id: field("id").or_else(|| field("message_id")),
        from: field("originator").unwrap_or_default(),
        to: field("recipient").ok_or(Unreadable)?,
        kind: AddressKind::International,
        text: Text::Whole(text.ok_or(Unreadable)?),
    }])
}

fn json<T: DeserializeOwned>(part: &str) -> Result<T, Forged> {
    let octets = BASE64_URL_SAFE_NO_PAD.decode(part).map_err(|_| Forged)?;
    serde_json::from_slice(&octets).map_err(|_| Forged)
}
