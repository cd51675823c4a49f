//! ID tokens with a pairwise subject identifier.

use aws_lc_rs::{
    digest::{SHA256, digest},
    hmac,
};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use serde::Serialize;

use super::{OAuthError, grants::IssuedToken};
use crate::camara::{EndpointFault, OperatorState, jose::SigningKey, store::AuthenticationMethod};

/// In seconds.
const ID_TOKEN_LIFETIME: i64 = 300;

#[derive(Serialize)]
struct IdTokenClaims<'a> {
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

/// Issued if the grant has a user and the scope `openid`.
pub(super) fn issue_id_token(
    state: &OperatorState,
    issued: &IssuedToken,
    fault: &EndpointFault,
) -> Result<Option<String>, OAuthError> {
    let grant = &issued.grant;
    let Some(subject) = grant.subject.as_ref().filter(|_| grant.scopes.includes_openid()) else {
        return Ok(None);
    };
    let now = state.now();
    let pseudonym =
        hmac::sign(&state.pseudonym_key, format!("{} {}", grant.client_id, subject.number.as_str()).as_bytes());
    let hash = digest(&SHA256, issued.access_token.as_bytes());
    let nonce = issued.nonce.as_deref();
    let claims = IdTokenClaims {
        iss: state.stated_issuer(fault),
        sub: BASE64_URL_SAFE_NO_PAD.encode(pseudonym),
        aud: &grant.client_id,
        exp: now + ID_TOKEN_LIFETIME,
        iat: now,
        auth_time: now,
        at_hash: BASE64_URL_SAFE_NO_PAD.encode(&hash.as_ref()[..16]),
        amr: (subject.authentication == AuthenticationMethod::Network).then_some(["nba"]),
        nonce: if fault.wrong_nonce { nonce.and(Some("another nonce")) } else { nonce },
    };
    if fault.invalid_signature {
        return Ok(Some(SigningKey::generate()?.with_kid_of(&state.signing_key).sign(&claims)?));
    }
    Ok(Some(state.signing_key.sign(&claims)?))
}
