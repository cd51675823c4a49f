//! Reading a set of public keys, as it is published.

use ringtrue_domain::tenancy::Mode;
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
    use_mode: Option<String>,
    n: Option<String>,
    e: Option<String>,
}

/// The RSA keys in a key set. Keys of other kinds are skipped, as RFC 7517 demands, and so are keys with an unknown
/// `use_mode`. A key without one signs for live checks.
pub fn read_jwks(json: &str) -> Result<Vec<PublicKey>, NotAJwks> {
    let set: Set = serde_json::from_str(json)?;
    let rsa = set.keys.into_iter().filter(|key| key.kty == "RSA");
    let public = |key: Key| {
        let mode = key.use_mode.map_or(Ok(Mode::Live), |mode| mode.parse()).ok()?;
        Some(PublicKey { kid: key.kid?, mode, n: key.n?, e: key.e? })
    };
    Ok(rsa.filter_map(public).collect())
}
