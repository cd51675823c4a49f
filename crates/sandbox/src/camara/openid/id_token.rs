//! ID tokens: which user, by a name that is not the number and that no other client knows.

use aws_lc_rs::{
    digest::{SHA256, digest},
    hmac,
};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use serde::Serialize;

use super::{Refusal, grants::Issued};
use crate::camara::{Core, Fault, jose::SigningKey, memory::Authentication};

/// In seconds.
const LIFETIME: i64 = 300;

#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    sub: String,
    aud: &'a str,
    exp: i64,
    iat: i64,
    auth_time: i64,
    at_hash: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    amr: Option<[&'static str; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nonce: Option<&'a str>,
}

/// There is one if a user is known, and it was asked for.
pub(super) fn id_token(core: &Core, issued: &Issued, fault: &Fault) -> Result<Option<String>, Refusal> {
    let grant = &issued.grant;
    let Some(subject) = grant.subject.as_ref().filter(|_| grant.scopes.openid()) else {
        return Ok(None);
    };
    let now = core.now();
    let pseudonym = hmac::sign(&core.pseudonyms, format!("{} {}", grant.client_id, subject.number.as_str()).as_bytes());
    let hash = digest(&SHA256, issued.access_token.as_bytes());
    let nonce = issued.nonce.as_deref();
    let claims = Claims {
        iss: core.stated_issuer(fault),
        sub: BASE64_URL_SAFE_NO_PAD.encode(pseudonym),
        aud: &grant.client_id,
        exp: now + LIFETIME,
        iat: now,
        auth_time: now,
        at_hash: BASE64_URL_SAFE_NO_PAD.encode(&hash.as_ref()[..16]),
        amr: (subject.authentication == Authentication::Network).then_some(["nba"]),
        nonce: if fault.wrong_nonce { nonce.and(Some("another nonce")) } else { nonce },
    };
    if fault.badly_signed {
        return Ok(Some(SigningKey::generate()?.named_like(&core.key).sign(&claims)?));
    }
    Ok(Some(core.key.sign(&claims)?))
}
