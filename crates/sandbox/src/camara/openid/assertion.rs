//! Common checks of JWTs signed by clients: issuer, audience, lifetime and single use.

use serde_json::Value;

use super::MAX_ASSERTION_LIFETIME;
use crate::camara::{
    OAuthClient, OperatorState,
    jose::{Claims, Jws},
};

/// Tolerated clock skew of clients, in seconds.
const CLOCK_SKEW_SECONDS: i64 = 5;

/// Verifies a JWT of this client for one of the audiences, and that its `jti` is unused.
///
/// Does not consume the `jti`; the caller does so after its own checks, by [`consume_jti`].
pub(super) fn verify_assertion(
    state: &OperatorState,
    client: &OAuthClient,
    token: Jws<'_>,
    audiences: &[String],
) -> Result<Claims, &'static str> {
    let claims = token.verify_with(&client.keys).ok_or("the signature does not match a key of this client")?;
    if claim_str(&claims, "iss") != Some(&client.id) {
        return Err("iss is not the client_id");
    }
    if !audience_contains(claims.get("aud"), audiences) {
        return Err("aud does not identify this server");
    }
    let now = state.now();
    let second = |name| match claims.get(name) {
        None => Ok(None),
        Some(value) => value.as_i64().map(Some).ok_or("a timestamp claim is not an integer"),
    };
    let expires_at = second("exp")?.ok_or("exp is missing")?;
    let issued_at = second("iat")?;
    if expires_at <= now {
        return Err("the token has expired");
    }
    let lifetime = expires_at.saturating_sub(issued_at.unwrap_or(now));
    if lifetime > MAX_ASSERTION_LIFETIME || expires_at.saturating_sub(now) > MAX_ASSERTION_LIFETIME + CLOCK_SKEW_SECONDS
    {
        return Err("the lifetime exceeds 300 seconds");
    }
    let valid_from = [issued_at, second("nbf")?].into_iter().flatten().max();
    if valid_from.is_some_and(|valid_from| valid_from > now + CLOCK_SKEW_SECONDS) {
        return Err("the token is not valid yet");
    }
    if state.store().used_jtis.contains(now, &jti_key(client, &claims)?) {
        return Err("jti was already used");
    }
    Ok(claims)
}

/// Records the `jti` until the token has expired.
pub(super) fn consume_jti(state: &OperatorState, client: &OAuthClient, claims: &Claims) -> Result<(), &'static str> {
    let now = state.now();
    let key = jti_key(client, claims)?;
    let mut store = state.store();
    if store.used_jtis.contains(now, &key) {
        return Err("jti was already used");
    }
    store.used_jtis.insert(now, key, now + MAX_ASSERTION_LIFETIME + CLOCK_SKEW_SECONDS + 1, ());
    Ok(())
}

pub(super) fn claim_str<'a>(claims: &'a Claims, name: &str) -> Option<&'a str> {
    claims.get(name).and_then(Value::as_str)
}

fn jti_key(client: &OAuthClient, claims: &Claims) -> Result<String, &'static str> {
    let jti = claim_str(claims, "jti").filter(|jti| !jti.is_empty()).ok_or("jti is missing")?;
    Ok(format!("{} {jti}", client.id))
}

fn audience_contains(audience: Option<&Value>, names: &[String]) -> bool {
    match audience {
        Some(Value::String(name)) => names.contains(name),
        Some(Value::Array(many)) => many.iter().any(|one| audience_contains(Some(one), names)),
        _ => false,
    }
}
