//! ID tokens: which user, by a name that is not the number and that no other client knows.

use aws_lc_rs::{
    digest::{SHA256, digest},
    hmac,
};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use serde_json::json;

use super::{Refusal, grants::Issued};
use crate::camara::{Core, Fault, jose::SigningKey, memory::Authentication};

/// In seconds.
const LIFETIME: i64 = 300;

/// There is one if a user is known, and it was asked for.
pub(super) fn id_token(core: &Core, issued: &Issued, fault: &Fault) -> Result<Option<String>, Refusal> {
    let grant = &issued.grant;
    let Some(subject) = grant.subject.as_ref().filter(|_| grant.scopes.openid()) else {
        return Ok(None);
    };
    let now = core.now();
    let pseudonym = hmac::sign(&core.pseudonyms, format!("{} {}", grant.client_id, subject.number.as_str()).as_bytes());
    let hash = digest(&SHA256, issued.access_token.as_bytes());
    let mut claims = json!({
        "iss": core.stated_issuer(fault),
        "sub": BASE64_URL_SAFE_NO_PAD.encode(pseudonym),
        "aud": grant.client_id,
        "exp": now + LIFETIME,
        "iat": now,
        "auth_time": now,
        "at_hash": BASE64_URL_SAFE_NO_PAD.encode(&hash.as_ref()[..16]),
    });
    if subject.authentication == Authentication::Network {
        claims["amr"] = json!(["nba"]);
    }
    if let Some(nonce) = &issued.nonce {
        claims["nonce"] = if fault.wrong_nonce { json!("another nonce") } else { json!(nonce) };
    }
    if fault.badly_signed {
        return Ok(Some(SigningKey::generate()?.named_like(&core.key).sign(&claims)?));
    }
    Ok(Some(core.key.sign(&claims)?))
}
