//! Signed tokens (JWS in compact form) and the keys they are signed by.

mod key;
mod signing;

use std::fmt;

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use serde_json::{Map, Value};

pub use self::key::BadKey;
pub(super) use self::{key::KeySet, signing::SigningKey};

/// The algorithms that clients may sign by.
pub(super) const ALGORITHMS: [&str; 4] = ["ES256", "RS256", "PS256", "EdDSA"];

pub(super) type Claims = Map<String, Value>;

/// A token taken apart, and not yet believed.
pub(super) struct Jws<'a> {
    algorithm: String,
    kid: Option<String>,
    claims: Claims,
    signed: &'a str,
    signature: Vec<u8>,
}

impl<'a> Jws<'a> {
    pub(super) fn parse(compact: &'a str) -> Option<Self> {
        let (signed, signature) = compact.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let header = object(header)?;
        // Nobody here knows an extension that must be understood.
        if header.contains_key("crit") {
            return None;
        }
        let text = |name| header.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            algorithm: text("alg")?,
            kid: text("kid"),
            claims: object(claims)?,
            signed,
            signature: BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?,
        })
    }

    /// Whose it claims to be.
    pub(super) fn claimed_issuer(&self) -> Option<&str> {
        self.claims.get("iss").and_then(Value::as_str)
    }

    /// The claims, if one of these keys has signed them.
    pub(super) fn verified_by(self, keys: &KeySet) -> Option<Claims> {
        let is_genuine =
            keys.have_signed(&self.algorithm, self.kid.as_deref(), self.signed.as_bytes(), &self.signature);
        is_genuine.then_some(self.claims)
    }
}

/// What a token says may be a number.
impl fmt::Debug for Jws<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jws").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

fn object(part: &str) -> Option<Map<String, Value>> {
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}
