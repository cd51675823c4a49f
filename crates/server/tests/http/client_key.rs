//! Keys with which OAuth clients sign assertions and requests.

use aws_lc_rs::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use serde_json::{Value, json};

/// A client's key.
pub struct ClientKey(EcdsaKeyPair);

impl ClientKey {
    pub fn generate() -> Self {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        ClientKey(EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.as_ref()).unwrap())
    }

    pub fn jwks(&self) -> Value {
        let point = self.0.public_key().as_ref();
        let coordinate = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        let key = json!({
            "kty": "EC", "crv": "P-256", "kid": "k", "x": coordinate(&point[1..33]), "y": coordinate(&point[33..]),
        });
        json!({ "keys": [key] })
    }

    pub fn sign(&self, claims: &Value) -> String {
        let encode = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encode(&json!({"alg": "ES256", "kid": "k"})), encode(claims));
        let signature = self.0.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }
}

/// The field of a token request that says that it contains a client assertion.
pub const ASSERTION_TYPE: (&str, &str) =
    ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
