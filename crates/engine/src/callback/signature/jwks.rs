//! Reading a set of public keys, as it is published.

use serde::Deserialize;

use crate::keys::PublicKey;

#[derive(Debug, thiserror::Error)]
#[error("not a JSON Web Key Set: {0}")]
pub struct NotAJwks(#[from] serde_json::Error);

#[derive(Deserialize)]
struct Set {
    keys: Vec<Key>,
}

#[derive(Deserialize)]
struct Key {
    kty: String,
    kid: Option<String>,
    n: Option<String>,
    e: Option<String>,
}

/// The RSA keys in a key set. Keys of other kinds are passed over, as RFC 7517 asks.
pub fn read_jwks(json: &str) -> Result<Vec<PublicKey>, NotAJwks> {
    let set: Set = serde_json::from_str(json)?;
    let rsa = set.keys.into_iter().filter(|key| key.kty == "RSA");
    Ok(rsa.filter_map(|key| Some(PublicKey { kid: key.kid?, n: key.n?, e: key.e? })).collect())
}
