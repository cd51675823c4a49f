//! Public keys of clients.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PSS_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use serde_json::Value;
use thiserror::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("unsupported key; use a JWK of type EC on P-256, RSA of at least 2048 bits, or OKP on Ed25519")]
pub struct InvalidJwk;

#[derive(Clone, Debug, Default)]
pub(in crate::camara) struct JwkSet(Vec<PublicKey>);

#[derive(Clone, Debug)]
struct PublicKey {
    kid: Option<String>,
    /// Restricts the algorithm, if present.
    algorithm: Option<String>,
    material: KeyMaterial,
}

#[derive(Clone, Debug)]
enum KeyMaterial {
    /// Uncompressed point.
    P256(Vec<u8>),
    Rsa(RsaPublicKeyComponents<Vec<u8>>),
    Ed25519(Vec<u8>),
}

impl JwkSet {
    /// Parses a JWK or a JWK set. Skips encryption keys.
    pub(in crate::camara) fn parse(json: &Value) -> Result<Self, InvalidJwk> {
        let keys = match json.get("keys") {
            Some(keys) => keys.as_array().ok_or(InvalidJwk)?.as_slice(),
            None => std::slice::from_ref(json),
        };
        let for_signing = keys.iter().filter(|key| key.get("use").is_none_or(|purpose| purpose == "sig"));
        Ok(Self(for_signing.map(PublicKey::parse).collect::<Result<_, _>>()?))
    }

    pub(super) fn verify(&self, algorithm: &str, kid: Option<&str>, message: &[u8], signature: &[u8]) -> bool {
        self.0
            .iter()
            .filter(|key| kid.is_none() || key.kid.is_none() || key.kid.as_deref() == kid)
            .filter(|key| key.algorithm.as_deref().is_none_or(|only| only == algorithm))
            .any(|key| key.material.verify(algorithm, message, signature))
    }
}

impl PublicKey {
    fn parse(json: &Value) -> Result<Self, InvalidJwk> {
        let text = |name: &str| json.get(name).and_then(Value::as_str);
        let octets = |name| text(name).and_then(|text| BASE64_URL_SAFE_NO_PAD.decode(text).ok()).ok_or(InvalidJwk);
        let material = match (text("kty"), text("crv")) {
            (Some("EC"), Some("P-256")) => {
                let (x, y) = (octets("x")?, octets("y")?);
                if x.len() != 32 || y.len() != 32 {
                    return Err(InvalidJwk);
                }
                KeyMaterial::P256([&[4], x.as_slice(), y.as_slice()].concat())
            }
            (Some("RSA"), None) => KeyMaterial::Rsa(RsaPublicKeyComponents { n: octets("n")?, e: octets("e")? }),
            (Some("OKP"), Some("Ed25519")) => KeyMaterial::Ed25519(octets("x")?),
            _ => return Err(InvalidJwk),
        };
        Ok(Self { kid: text("kid").map(str::to_owned), algorithm: text("alg").map(str::to_owned), material })
    }
}

impl KeyMaterial {
    fn verify(&self, algorithm: &str, message: &[u8], signature: &[u8]) -> bool {
        let verdict = match (self, algorithm) {
            (Self::P256(point), "ES256") => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            (Self::Rsa(key), "RS256") => key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature),
            (Self::Rsa(key), "PS256") => key.verify(&RSA_PSS_2048_8192_SHA256, message, signature),
            (Self::Ed25519(key), "EdDSA" | "Ed25519") => {
                UnparsedPublicKey::new(&ED25519, key).verify(message, signature)
            }
            _ => return false,
        };
        verdict.is_ok()
    }
}
