//! The operator's own key, made when it starts and gone when it stops.

use std::fmt;

use aws_lc_rs::{
    error::Unspecified,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use serde::Serialize;
use serde_json::{Value, json};

/// A key for ES256.
pub(in crate::camara) struct SigningKey {
    pair: EcdsaKeyPair,
    kid: String,
    /// The first part of every token.
    header: String,
}

impl SigningKey {
    pub(in crate::camara) fn generate() -> Result<Self, Unspecified> {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING)?;
        // Any part of the key names it well enough.
        let kid = BASE64_URL_SAFE_NO_PAD.encode(&pair.public_key().as_ref()[1..13]);
        Ok(Self::named(pair, kid))
    }

    fn named(pair: EcdsaKeyPair, kid: String) -> Self {
        let header = json!({ "alg": "ES256", "kid": kid, "typ": "JWT" });
        Self { pair, header: BASE64_URL_SAFE_NO_PAD.encode(header.to_string()), kid }
    }

    /// Pretends to be another key.
    pub(in crate::camara) fn named_like(self, other: &Self) -> Self {
        Self::named(self.pair, other.kid.clone())
    }

    /// The public half, as `jwks_uri` shows it.
    pub(in crate::camara) fn jwks(&self) -> Value {
        // The point is uncompressed: a four, then both coordinates.
        let (x, y) = self.pair.public_key().as_ref()[1..].split_at(32);
        json!({ "keys": [{
            "kty": "EC",
            "crv": "P-256",
            "use": "sig",
            "alg": "ES256",
            "kid": self.kid,
            "x": BASE64_URL_SAFE_NO_PAD.encode(x),
            "y": BASE64_URL_SAFE_NO_PAD.encode(y),
        }]})
    }

    pub(in crate::camara) fn sign(&self, claims: &impl Serialize) -> Result<String, Unspecified> {
        let claims = serde_json::to_vec(claims).map_err(|_| Unspecified)?;
        let mut token = format!("{}.{}", self.header, BASE64_URL_SAFE_NO_PAD.encode(claims));
        let signature = self.pair.sign(&SystemRandom::new(), token.as_bytes())?;
        token.push('.');
        BASE64_URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        Ok(token)
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("kid", &self.kid).finish_non_exhaustive()
    }
}
