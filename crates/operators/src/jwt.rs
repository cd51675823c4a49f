//! Signing of JSON Web Tokens (RFC 7519), with which connectors authenticate.

use jsonwebtoken::{Algorithm, EncodingKey, Header, crypto, encode};
use serde_json::Value;
use tokio_rustls::rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject};

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SigningKeyError {
    #[error("the signing key must be PKCS#8 in PEM (`BEGIN PRIVATE KEY`)")]
    NotPkcs8,
    #[error("the signing key type does not match its algorithm")]
    WrongKeyType,
}

/// Key for client assertions and request objects.
#[derive(Clone, derive_more::Debug)]
#[debug("SigningKey({algorithm:?}, {id})")]
pub struct SigningKey {
    id: String,
    algorithm: Algorithm,
    key: EncodingKey,
}

impl SigningKey {
    /// `id` is the `kid` of the public key registered with the operator.
    pub fn from_pem(pem: &[u8], algorithm: Algorithm, id: impl Into<String>) -> Result<Self, SigningKeyError> {
        PrivatePkcs8KeyDer::from_pem_slice(pem).map_err(|_| SigningKeyError::NotPkcs8)?;
        let key = match algorithm {
            Algorithm::ES256 => EncodingKey::from_ec_pem(pem),
            Algorithm::RS256 | Algorithm::PS256 => EncodingKey::from_rsa_pem(pem),
            Algorithm::EdDSA => EncodingKey::from_ed_pem(pem),
            _ => return Err(SigningKeyError::WrongKeyType),
        };
        // Signing once also rejects keys of another curve.
        let key = key.and_then(|key| crypto::sign(b"", &key, algorithm).map(|_| key));
        Ok(SigningKey { id: id.into(), algorithm, key: key.map_err(|_| SigningKeyError::WrongKeyType)? })
    }

    /// Signs the claims; `kind` is the `typ` header. `None`: the cryptographic library failed.
    pub fn sign(&self, kind: &str, claims: &Value) -> Option<String> {
        let mut header = Header::new(self.algorithm);
        header.kid = Some(self.id.clone());
        header.typ = Some(kind.to_owned());
        encode(&header, claims, &self.key).ok()
    }
}
