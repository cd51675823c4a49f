//! Public keys on the curve P-256: of wallets and certificates, and of our requests.

use aws_lc_rs::{
    agreement::PrivateKey,
    signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey},
};
use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};
use serde::{Deserialize, Serialize};
use tokio_rustls::rustls::pki_types::CertificateDer;
use x509_cert::{
    Certificate,
    der::{Decode, Encode},
};

/// First octet of an uncompressed point (SEC 1).
const UNCOMPRESSED: u8 = 4;
const COORDINATE_BYTES: usize = 32;

/// Public key as a JSON Web Key (RFC 7518, 6.2).
#[derive(Deserialize, Serialize)]
pub(super) struct EcJwk {
    kty: String,
    crv: String,
    x: String,
    y: String,
}

impl EcJwk {
    /// Returns the public key of a private key. `None`: the cryptographic library failed.
    pub fn of_private_key(key: &PrivateKey) -> Option<Self> {
        let point = key.compute_public_key().ok()?;
        let (&UNCOMPRESSED, coordinates) = point.as_ref().split_first()? else { return None };
        let (x, y) = coordinates.split_at_checked(COORDINATE_BYTES)?;
        let [x, y] = [x, y].map(|coordinate| BASE64_URL_SAFE_NO_PAD.encode(coordinate));
        Some(EcJwk { kty: "EC".to_owned(), crv: "P-256".to_owned(), x, y })
    }

    /// Returns the uncompressed point. `None`: the key is malformed, or on another curve. Whether the point is on the
    /// curve is checked when the key is used.
    pub fn point(&self) -> Option<Vec<u8>> {
        if (&*self.kty, &*self.crv) != ("EC", "P-256") {
            return None;
        }
        let decode = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).ok();
        let coordinates = [decode(&self.x)?, decode(&self.y)?];
        let is_valid = coordinates.iter().all(|coordinate| coordinate.len() == COORDINATE_BYTES);
        is_valid.then(|| [&[UNCOMPRESSED][..], &coordinates[0], &coordinates[1]].concat())
    }
}

/// Public key for ES256 signatures: an uncompressed point, or a `SubjectPublicKeyInfo` (DER).
pub(super) struct VerifyingKey(Vec<u8>);

impl VerifyingKey {
    pub fn from_jwk(jwk: &EcJwk) -> Option<Self> {
        jwk.point().map(VerifyingKey)
    }

    /// Reads the key of an element of `x5c`: of a certificate, or a bare key, which some wallets send in its place.
    pub fn from_x5c(element: &str) -> Option<Self> {
        let der = BASE64_STANDARD.decode(element).ok()?;
        Self::from_certificate(&der).or(Some(VerifyingKey(der)))
    }

    pub fn from_certificate(der: &[u8]) -> Option<Self> {
        let certificate = Certificate::from_der(der).ok()?;
        certificate.tbs_certificate.subject_public_key_info.to_der().ok().map(VerifyingKey)
    }

    /// Whether the signature is valid. Keys that are malformed or on another curve verify nothing.
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.0).verify(message, signature).is_ok()
    }
}

/// Decodes the certificates of `x5c`. `None`: an element is malformed.
pub(super) fn decode_certificates(x5c: &[String]) -> Option<Vec<CertificateDer<'static>>> {
    x5c.iter().map(|element| BASE64_STANDARD.decode(element).ok().map(CertificateDer::from)).collect()
}
