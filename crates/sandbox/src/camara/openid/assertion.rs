//! What all signed tokens of clients have in common: whose they are, for whom, for how long, and only once.

use serde_json::Value;

use super::LONGEST_ASSERTION;
use crate::camara::{
    Client, Core,
    jose::{Claims, Jws},
};

/// How far the clocks of clients may be ahead, in seconds.
const LEEWAY: i64 = 5;

/// The claims of a token that this client has signed for one of these audiences and has not used before.
///
/// Its `jti` is not used up by this: whoever has judged the rest does that, by [`use_up`].
pub(super) fn verify(
    core: &Core,
    client: &Client,
    token: Jws<'_>,
    audiences: &[String],
) -> Result<Claims, &'static str> {
    let claims = token.verified_by(&client.keys).ok_or("the signature is not by a key of this client")?;
    if text(&claims, "iss") != Some(&client.id) {
        return Err("iss is not the client");
    }
    if !names_one_of(claims.get("aud"), audiences) {
        return Err("aud is someone else");
    }
    let now = core.now();
    let second = |name| match claims.get(name) {
        None => Ok(None),
        Some(value) => value.as_i64().map(Some).ok_or("a time is not a whole number of seconds"),
    };
    let expires_at = second("exp")?.ok_or("exp is missing")?;
    let issued_at = second("iat")?;
    if expires_at <= now {
        return Err("it has expired");
    }
    let lifetime = expires_at.saturating_sub(issued_at.unwrap_or(now));
    if lifetime > LONGEST_ASSERTION || expires_at.saturating_sub(now) > LONGEST_ASSERTION + LEEWAY {
        return Err("it lives for more than 300 seconds");
    }
    let begins = [issued_at, second("nbf")?].into_iter().flatten().max();
    if begins.is_some_and(|begins| begins > now + LEEWAY) {
        return Err("it is not good yet");
    }
    if core.memory().used_jtis.contains(now, &used_as(client, &claims)?) {
        return Err("jti was used before");
    }
    Ok(claims)
}

/// Remembers the token for as long as it could be used again.
pub(super) fn use_up(core: &Core, client: &Client, claims: &Claims) -> Result<(), &'static str> {
    let now = core.now();
    let name = used_as(client, claims)?;
    let mut memory = core.memory();
    if memory.used_jtis.contains(now, &name) {
        return Err("jti was used before");
    }
    memory.used_jtis.insert(now, name, now + LONGEST_ASSERTION + LEEWAY + 1, ());
    Ok(())
}

pub(super) fn text<'a>(claims: &'a Claims, name: &str) -> Option<&'a str> {
    claims.get(name).and_then(Value::as_str)
}

fn used_as(client: &Client, claims: &Claims) -> Result<String, &'static str> {
    let jti = text(claims, "jti").filter(|jti| !jti.is_empty()).ok_or("jti is missing")?;
    Ok(format!("{} {jti}", client.id))
}

fn names_one_of(audience: Option<&Value>, names: &[String]) -> bool {
    match audience {
        Some(Value::String(name)) => names.contains(name),
        Some(Value::Array(many)) => many.iter().any(|one| names_one_of(Some(one), names)),
        _ => false,
    }
}
