//! Parser for the published JSON Web Key Set.

use ringtrue_domain::tenancy::Mode;
use serde::Deserialize;

use crate::keys::CallbackPublicKey;

#[derive(Debug, thiserror::Error)]
#[error("invalid JSON Web Key Set: {0}")]
pub struct JwksError(#[from] serde_json::Error);

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

/// Returns the RSA keys. Other key types are skipped (RFC 7517), as are keys with an unknown `use_mode`. A key without
/// `use_mode` signs live callbacks.
pub fn parse_jwks(json: &str) -> Result<Vec<CallbackPublicKey>, JwksError> {
    let set: Set = serde_json::from_str(json)?;
    let rsa = set.keys.into_iter().filter(|key| key.kty == "RSA");
    let public = |key: Key| {
        let mode = key.use_mode.map_or(Ok(Mode::Live), |mode| mode.parse()).ok()?;
        Some(CallbackPublicKey { kid: key.kid?, mode, n: key.n?, e: key.e? })
    };
    Ok(rsa.filter_map(public).collect())
}
