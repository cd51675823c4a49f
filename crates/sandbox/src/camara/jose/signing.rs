//! Signing key of the operator, generated at start.

use std::fmt;

use aws_lc_rs::{
    error::Unspecified,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use serde::Serialize;
use serde_json::{Value, json};

/// ES256 key.
pub(in crate::camara) struct SigningKey {
    pair: EcdsaKeyPair,
    kid: String,
    /// Encoded JOSE header.
    header: String,
}

impl SigningKey {
    pub(in crate::camara) fn generate() -> Result<Self, Unspecified> {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING)?;
        // Part of the public key is unique enough.
        let kid = BASE64_URL_SAFE_NO_PAD.encode(&pair.public_key().as_ref()[1..13]);
        Ok(Self::with_kid(pair, kid))
    }

    fn with_kid(pair: EcdsaKeyPair, kid: String) -> Self {
        let header = json!({ "alg": "ES256", "kid": kid, "typ": "JWT" });
        Self { pair, header: BASE64_URL_SAFE_NO_PAD.encode(header.to_string()), kid }
    }

    /// Uses the `kid` of another key, for invalid signatures.
    pub(in crate::camara) fn with_kid_of(self, other: &Self) -> Self {
        Self::with_kid(self.pair, other.kid.clone())
    }

    /// Public key as a JWK set.
    pub(in crate::camara) fn jwks(&self) -> Value {
        // Uncompressed point: 0x04, then both coordinates.
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
