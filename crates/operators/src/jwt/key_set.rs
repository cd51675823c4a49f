//! An operator's public keys (JWKS, RFC 7517), and token verification.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, RSA_PSS_2048_8192_SHA256,
    RsaPublicKeyComponents,
};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Algorithm, decode_base64url};

/// Keys that are not for signatures, and unsupported keys, are skipped.
#[derive(Clone, Debug)]
pub struct KeySet(Vec<PublicKey>);

#[derive(Clone, Debug)]
struct PublicKey {
    id: Option<String>,
    /// The only permitted algorithm, if the key names one.
    algorithm: Option<String>,
    material: KeyMaterial,
}

#[derive(Clone, Debug)]
enum KeyMaterial {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(ParsedPublicKey),
    Ed25519(ParsedPublicKey),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JwtError {
    #[error("malformed token")]
    Malformed,
    #[error("unsupported signature algorithm")]
    UnsupportedAlgorithm,
    #[error("unknown signing key")]
    UnknownKey,
    #[error("invalid signature")]
    InvalidSignature,
}

#[derive(Deserialize)]
struct JwksDocument {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    r#use: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

impl KeySet {
    pub fn parse(jwks: &[u8]) -> Option<Self> {
        let document: JwksDocument = serde_json::from_slice(jwks).ok()?;
        // A malformed key does not invalidate the others.
        let keys = document.keys.into_iter().filter_map(|key| serde_json::from_value::<Jwk>(key).ok());
        Some(KeySet(keys.filter_map(PublicKey::from_jwk).collect()))
    }

    /// Returns the claims of a token that one of these keys signed.
    pub fn verify(&self, token: &str) -> Result<Map<String, Value>, JwtError> {
        let (message, signature) = token.rsplit_once('.').ok_or(JwtError::Malformed)?;
        let (header, claims) = message.split_once('.').ok_or(JwtError::Malformed)?;
        let header: Header = decode_part(header)?;
        let algorithm = Algorithm::from_name(&header.alg).ok_or(JwtError::UnsupportedAlgorithm)?;
        if header.crit.is_some() {
            return Err(JwtError::UnsupportedAlgorithm);
        }
        let signature = decode_base64url(signature).ok_or(JwtError::Malformed)?;
        let mut candidates = self.0.iter().filter(|key| key.matches(algorithm, header.kid.as_deref())).peekable();
        if candidates.peek().is_none() {
            return Err(JwtError::UnknownKey);
        }
        if candidates.any(|key| key.verifies(algorithm, message.as_bytes(), &signature)) {
            decode_part(claims)
        } else {
            Err(JwtError::InvalidSignature)
        }
    }
}

fn decode_part<T: for<'a> Deserialize<'a>>(part: &str) -> Result<T, JwtError> {
    let bytes = decode_base64url(part).ok_or(JwtError::Malformed)?;
    serde_json::from_slice(&bytes).map_err(|_| JwtError::Malformed)
}

impl PublicKey {
    fn from_jwk(jwk: Jwk) -> Option<Self> {
        if jwk.r#use.is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let part = |text: Option<String>| text.as_deref().and_then(decode_base64url);
        let material = match (&*jwk.kty, jwk.crv.as_deref()) {
            ("RSA", _) => KeyMaterial::Rsa { n: part(jwk.n)?, e: part(jwk.e)? },
            ("EC", Some("P-256")) => {
                // Prefix of an uncompressed point.
                let point = [&[4][..], &part(jwk.x)?, &part(jwk.y)?].concat();
                KeyMaterial::P256(ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).ok()?)
            }
            ("OKP", Some("Ed25519")) => KeyMaterial::Ed25519(ParsedPublicKey::new(&ED25519, part(jwk.x)?).ok()?),
            _ => return None,
        };
        Some(PublicKey { id: jwk.kid, algorithm: jwk.alg, material })
    }

    /// Whether a token with this header may be signed by this key. Without a `kid`, any key may match.
    fn matches(&self, algorithm: Algorithm, id: Option<&str>) -> bool {
        let type_matches = match algorithm {
            Algorithm::Es256 => matches!(self.material, KeyMaterial::P256(_)),
            Algorithm::Rs256 | Algorithm::Ps256 => matches!(self.material, KeyMaterial::Rsa { .. }),
            Algorithm::EdDsa => matches!(self.material, KeyMaterial::Ed25519(_)),
        };
        let id_matches = id.is_none_or(|id| self.id.as_deref() == Some(id));
        type_matches && id_matches && self.algorithm.as_deref().is_none_or(|permitted| permitted == algorithm.as_str())
    }

    fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        let outcome = match &self.material {
            KeyMaterial::Rsa { n, e } => {
                let key = RsaPublicKeyComponents { n, e };
                if algorithm == Algorithm::Ps256 {
                    key.verify(&RSA_PSS_2048_8192_SHA256, message, signature)
                } else {
                    key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
                }
            }
            KeyMaterial::P256(key) | KeyMaterial::Ed25519(key) => key.verify_sig(message, signature),
        };
        outcome.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ONE_KEY: &[u8] =
        br#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

    proptest! {
        #[test]
        fn arbitrary_tokens_are_rejected(
            set in ".{0,200}",
            token in ".{0,200}",
            claims in "[A-Za-z0-9_-]{0,50}",
            signature in "[A-Za-z0-9_.-]{0,100}",
        ) {
            let _ = KeySet::parse(set.as_bytes());
            let keys = KeySet::parse(ONE_KEY).unwrap();
            prop_assert_eq!(keys.0.len(), 1);
            // The header is `{"alg":"EdDSA"}`.
            let token_eddsa = format!("eyJhbGciOiJFZERTQSJ9.{claims}.{signature}");
            for token in [token, token_eddsa] {
                prop_assert!(keys.verify(&token).is_err());
            }
        }
    }
}
