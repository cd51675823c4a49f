//! JWS compact serialization, and signing keys.

mod key;
mod signing;

use std::fmt;

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use serde_json::{Map, Value};

pub use self::key::InvalidJwk;
pub(super) use self::{key::JwkSet, signing::SigningKey};

/// Signing algorithms of clients.
pub(super) const CLIENT_SIGNING_ALGORITHMS: [&str; 4] = ["ES256", "RS256", "PS256", "EdDSA"];

pub(super) type Claims = Map<String, Value>;

/// A parsed JWS whose signature is not verified yet.
pub(super) struct Jws<'a> {
    algorithm: String,
    kid: Option<String>,
    claims: Claims,
    signing_input: &'a str,
    signature: Vec<u8>,
}

impl<'a> Jws<'a> {
    pub(super) fn parse(compact: &'a str) -> Option<Self> {
        let (signing_input, signature) = compact.rsplit_once('.')?;
        let (header, claims) = signing_input.split_once('.')?;
        let header = decode_json_part(header)?;
        // No critical extensions are supported.
        if header.contains_key("crit") {
            return None;
        }
        let text = |name| header.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            algorithm: text("alg")?,
            kid: text("kid"),
            claims: decode_json_part(claims)?,
            signing_input,
            signature: BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?,
        })
    }

    /// Unverified `iss`.
    pub(super) fn claimed_issuer(&self) -> Option<&str> {
        self.claims.get("iss").and_then(Value::as_str)
    }

    /// The claims, if one of the keys verifies the signature.
    pub(super) fn verify_with(self, keys: &JwkSet) -> Option<Claims> {
        let is_valid =
            keys.verify(&self.algorithm, self.kid.as_deref(), self.signing_input.as_bytes(), &self.signature);
        is_valid.then_some(self.claims)
    }
}

/// Hides the claims, which may contain a phone number.
impl fmt::Debug for Jws<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jws").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

fn decode_json_part(part: &str) -> Option<Map<String, Value>> {
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}
