//! Keys for signing tokens.

use std::{fmt, sync::Arc};

use aws_lc_rs::{
    rand::SystemRandom,
    rsa::KeyPair as RsaKeyPair,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, RSA_PKCS1_SHA256, RSA_PSS_SHA256},
};
use serde_json::{Value, json};
use tokio_rustls::rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject};

use super::encode_base64url;

/// Supported signature algorithms; `none` is deliberately absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Es256,
    Rs256,
    Ps256,
    EdDsa,
}

impl Algorithm {
    pub const ALL: [Algorithm; 4] = [Algorithm::Es256, Algorithm::Rs256, Algorithm::Ps256, Algorithm::EdDsa];

    pub fn as_str(self) -> &'static str {
        match self {
            Algorithm::Es256 => "ES256",
            Algorithm::Rs256 => "RS256",
            Algorithm::Ps256 => "PS256",
            Algorithm::EdDsa => "EdDSA",
        }
    }

    /// Parses the name used in headers and in the configuration.
    pub fn from_name(name: &str) -> Option<Self> {
        Algorithm::ALL.into_iter().find(|algorithm| algorithm.as_str() == name)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SigningKeyError {
    #[error("the signing key must be PKCS#8 in PEM (`BEGIN PRIVATE KEY`)")]
    NotPkcs8,
    #[error("the signing key type does not match its algorithm")]
    WrongKeyType,
}

/// Parsed once, cheap to clone.
#[derive(Clone)]
pub struct SigningKey(Arc<Inner>);

struct Inner {
    id: String,
    algorithm: Algorithm,
    pair: KeyPair,
}

enum KeyPair {
    Ec(EcdsaKeyPair),
    Rsa(RsaKeyPair),
    Ed(Ed25519KeyPair),
}

impl SigningKey {
    /// `id` is the `kid` of the public key registered with the operator.
    pub fn from_pem(pem: &[u8], algorithm: Algorithm, id: impl Into<String>) -> Result<Self, SigningKeyError> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem).map_err(|_| SigningKeyError::NotPkcs8)?;
        let der = der.secret_pkcs8_der();
        let pair = match algorithm {
            Algorithm::Es256 => EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der).map(KeyPair::Ec),
            Algorithm::Rs256 | Algorithm::Ps256 => RsaKeyPair::from_pkcs8(der).map(KeyPair::Rsa),
            Algorithm::EdDsa => Ed25519KeyPair::from_pkcs8(der).map(KeyPair::Ed),
        };
        let pair = pair.map_err(|_| SigningKeyError::WrongKeyType)?;
        Ok(SigningKey(Arc::new(Inner { id: id.into(), algorithm, pair })))
    }

    /// Signs the claims; `kind` is the `typ` header. `None`: the cryptographic library failed.
    pub fn sign(&self, kind: &str, claims: &Value) -> Option<String> {
        let header = json!({ "alg": self.0.algorithm.as_str(), "kid": self.0.id, "typ": kind });
        let message = format!("{}.{}", encode_base64url(header.to_string()), encode_base64url(claims.to_string()));
        let random = SystemRandom::new();
        let signature = match &self.0.pair {
            KeyPair::Ec(pair) => pair.sign(&random, message.as_bytes()).ok()?.as_ref().to_vec(),
            KeyPair::Ed(pair) => pair.sign(message.as_bytes()).as_ref().to_vec(),
            KeyPair::Rsa(pair) => {
                let padding = if self.0.algorithm == Algorithm::Ps256 { &RSA_PSS_SHA256 } else { &RSA_PKCS1_SHA256 };
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(padding, &random, message.as_bytes(), &mut signature).ok()?;
                signature
            }
        };
        Some(format!("{message}.{}", encode_base64url(signature)))
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({}, {})", self.0.algorithm.as_str(), self.0.id)
    }
}
