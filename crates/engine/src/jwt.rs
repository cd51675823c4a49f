//! Verification of JSON Web Tokens (RFC 7519) that operators, identity providers and clients have signed.

pub use jsonwebtoken::Algorithm;
use jsonwebtoken::{
    DecodingKey, Header, Validation, decode, decode_header,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};

/// Algorithms that we sign with as a client, and accept in tokens of others.
pub const SIGNING_ALGORITHMS: [Algorithm; 4] = [Algorithm::ES256, Algorithm::RS256, Algorithm::PS256, Algorithm::EdDSA];

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JwtError {
    #[error("malformed token, or unsupported signature algorithm")]
    Malformed,
    #[error("unknown signing key")]
    UnknownKey,
    #[error("invalid signature")]
    InvalidSignature,
}

/// Public keys of an issuer (JWKS, RFC 7517).
#[derive(Clone, Debug)]
pub struct KeySet(Vec<Jwk>);

#[derive(Deserialize)]
struct JwksDocument {
    keys: Vec<Value>,
}

impl KeySet {
    pub fn parse(jwks: &[u8]) -> Option<Self> {
        let document: JwksDocument = serde_json::from_slice(jwks).ok()?;
        // A malformed key does not invalidate the others.
        Some(KeySet(document.keys.into_iter().filter_map(|key| serde_json::from_value(key).ok()).collect()))
    }

    /// Whether the set has a key that can verify a token.
    pub fn is_usable(&self) -> bool {
        let is_usable = |Jwk { algorithm, .. }: &Jwk| match algorithm {
            AlgorithmParameters::EllipticCurve(key) => key.curve == EllipticCurve::P256,
            AlgorithmParameters::OctetKeyPair(key) => key.curve == EllipticCurve::Ed25519,
            AlgorithmParameters::RSA(_) => true,
            _ => false,
        };
        self.0.iter().any(is_usable)
    }

    /// Returns the claims of a token that one of these keys signed. The caller checks the claims.
    pub fn verify(&self, token: &str) -> Result<Map<String, Value>, JwtError> {
        let header = decode_header(token).map_err(|_| JwtError::Malformed)?;
        let mut candidates = self.0.iter().filter(|key| may_verify(key, &header)).peekable();
        if candidates.peek().is_none() {
            return Err(JwtError::UnknownKey);
        }
        let verify = |key| verify_signature(token, &DecodingKey::from_jwk(key).ok()?, &[header.alg]);
        candidates.find_map(verify).ok_or(JwtError::InvalidSignature)
    }
}

/// Whether this key may have signed a token with this header. A header without a `kid` can match any key.
fn may_verify(Jwk { common, algorithm }: &Jwk, header: &Header) -> bool {
    let type_matches = match (algorithm, header.alg) {
        (AlgorithmParameters::EllipticCurve(key), Algorithm::ES256) => key.curve == EllipticCurve::P256,
        (AlgorithmParameters::RSA(_), Algorithm::RS256 | Algorithm::PS256) => true,
        (AlgorithmParameters::OctetKeyPair(key), Algorithm::EdDSA) => key.curve == EllipticCurve::Ed25519,
        _ => false,
    };
    type_matches
        && matches!(common.public_key_use, None | Some(PublicKeyUse::Signature))
        && common.key_algorithm.is_none_or(|permitted| permitted == KeyAlgorithm::from(header.alg))
        && (header.kid.is_none() || common.key_id == header.kid)
}

/// Verifies the signature of a token and returns its claims. The caller validates the claims, by its own clock. `None`:
/// the token is malformed, or not signed with this key and one of these algorithms.
pub fn verify_signature<T: DeserializeOwned>(token: &str, key: &DecodingKey, algorithms: &[Algorithm]) -> Option<T> {
    let mut validation = Validation::new(*algorithms.first()?);
    validation.algorithms = algorithms.to_vec();
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation.required_spec_claims.clear();
    let token = decode(token, key, &validation).ok()?;
    // A token with critical extensions (`crit`) is rejected, because none is supported.
    token.header.crit.is_none().then_some(token.claims)
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
