use aws_lc_rs::{rsa::KeyPair as RsaKeyPair, signature::KeyPair as _};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use jsonwebtoken::{DecodingKey, TokenData, Validation, decode};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, PKCS_RSA_SHA256};
use ringtrue_operators::camara::{Algorithm, SigningKey};
use serde_json::{Value, json};

/// A key pair, whose public key tests publish as a JWK.
pub struct Key {
    pub algorithm: Algorithm,
    pub id: &'static str,
    pair: KeyPair,
}

impl Key {
    pub fn new(algorithm: Algorithm, id: &'static str) -> Self {
        let kind = match algorithm {
            Algorithm::ES256 => &PKCS_ECDSA_P256_SHA256,
            Algorithm::RS256 | Algorithm::PS256 => &PKCS_RSA_SHA256,
            Algorithm::EdDSA => &PKCS_ED25519,
            _ => unreachable!("not a signing algorithm"),
        };
        Key { algorithm, id, pair: KeyPair::generate_for(kind).unwrap() }
    }

    pub fn pem(&self) -> String {
        self.pair.serialize_pem()
    }

    pub fn signing(&self) -> SigningKey {
        SigningKey::from_pem(self.pem().as_bytes(), self.algorithm, self.id).unwrap()
    }

    pub fn jwk(&self) -> Value {
        let text = |octets: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(octets);
        let raw = self.pair.public_key_raw();
        let mut jwk = match self.algorithm {
            Algorithm::ES256 => json!({ "kty": "EC", "crv": "P-256", "x": text(&raw[1..33]), "y": text(&raw[33..]) }),
            Algorithm::EdDSA => json!({ "kty": "OKP", "crv": "Ed25519", "x": text(raw) }),
            Algorithm::RS256 | Algorithm::PS256 => {
                let pair = RsaKeyPair::from_pkcs8(&self.pair.serialize_der()).unwrap();
                let n = text(pair.public_key().modulus().big_endian_without_leading_zero());
                let e = text(pair.public_key().exponent().big_endian_without_leading_zero());
                json!({ "kty": "RSA", "n": n, "e": e })
            }
            _ => unreachable!("not a signing algorithm"),
        };
        jwk["kid"] = json!(self.id);
        jwk["use"] = json!("sig");
        jwk["alg"] = json!(self.algorithm);
        jwk
    }

    pub fn verify(&self, token: &str, audience: &str) -> TokenData<Value> {
        let key = DecodingKey::from_jwk(&serde_json::from_value(self.jwk()).unwrap()).unwrap();
        let mut validation = Validation::new(self.algorithm);
        validation.set_audience(&[audience]);
        // The token's times are those of the manual clock, so its expiry is not checked.
        validation.validate_exp = false;
        let read = decode(token, &key, &validation).unwrap();
        assert_eq!(read.header.kid.as_deref(), Some(self.id));
        read
    }

    pub fn sign(&self, claims: &Value) -> String {
        self.signing().sign("JWT", claims).unwrap()
    }
}
