use std::sync::atomic::{AtomicU64, Ordering};

use aws_lc_rs::{
    encoding::AsDer,
    rand::SystemRandom,
    rsa::KeySize,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, RsaKeyPair},
};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, jwk::Jwk};
use serde_json::{Value, json};

/// Signing key of a client, with its public JWK.
pub struct Signer {
    key: EncodingKey,
    algorithm: Algorithm,
    pub jwk: Value,
}

impl Signer {
    pub fn es256() -> Self {
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
        Self::new(EncodingKey::from_ec_der(key.as_ref()), Algorithm::ES256)
    }

    pub fn eddsa() -> Self {
        let key = Ed25519KeyPair::generate_pkcs8v1(&SystemRandom::new()).unwrap();
        Self::new(EncodingKey::from_ed_der(key.as_ref()), Algorithm::EdDSA)
    }

    pub fn rsa(algorithm: Algorithm) -> Self {
        let key = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
        let wrapped: aws_lc_rs::encoding::Pkcs8V1Der<'_> = key.as_der().unwrap();
        // The PKCS #8 prefix of a 2048-bit key has 26 octets.
        Self::new(EncodingKey::from_rsa_der(&wrapped.as_ref()[26..]), algorithm)
    }

    fn new(key: EncodingKey, algorithm: Algorithm) -> Self {
        let mut jwk = serde_json::to_value(Jwk::from_encoding_key(&key, algorithm).unwrap()).unwrap();
        jwk["kid"] = json!("the key");
        Self { key, algorithm, jwk }
    }

    pub fn sign(&self, claims: &Value) -> String {
        let header = Header { kid: Some("the key".to_owned()), ..Header::new(self.algorithm) };
        encode(&header, claims, &self.key).unwrap()
    }
}

pub fn fresh_jti() -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed).to_string()
}
