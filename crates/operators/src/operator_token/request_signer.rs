//! Our key and certificates for requests. Wallets compare the digest of the root certificate with those that the SIM's
//! operator has registered.

use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};
use jsonwebtoken::{Algorithm, EncodingKey, Header, crypto, encode};
use serde::Serialize;
use tokio_rustls::rustls::{
    crypto::aws_lc_rs::default_provider,
    pki_types::{CertificateDer, PrivatePkcs8KeyDer, TrustAnchor, UnixTime, pem::PemObject},
};
use webpki::{EndEntityCert, ExtendedKeyUsageValidator, KeyPurposeIdIter, anchor_from_trusted_cert};
use x509_cert::{Certificate, der::Decode};

use super::public_key::VerifyingKey;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WalletRequestSignerError {
    #[error("the file must contain two certificates in PEM (`BEGIN CERTIFICATE`): our own, then its root")]
    NotTwoCertificates,
    #[error("a certificate is malformed")]
    MalformedCertificate,
    #[error("the root certificate has not signed our own")]
    NotSignedByRoot,
    #[error("the private key must be an EC key on P-256, PKCS#8 in PEM (`BEGIN PRIVATE KEY`)")]
    InvalidKey,
    #[error("the private key does not belong to our own certificate, which must come first")]
    KeyMismatch,
}

/// Signs requests to wallets.
#[derive(Clone, derive_more::Debug)]
#[debug("WalletRequestSigner({})", hex::encode(self.root_sha256()))]
pub struct WalletRequestSigner {
    /// Our certificate, and its root.
    certificates: [CertificateDer<'static>; 2],
    key: EncodingKey,
}

impl WalletRequestSigner {
    /// `certificates` contains our certificate and its root. Expired certificates are accepted: the caller reports
    /// them.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, WalletRequestSignerError> {
        let parsed = CertificateDer::pem_slice_iter(certificates).collect::<Result<Vec<_>, _>>();
        let parsed = parsed.ok().and_then(|parsed| parsed.try_into().ok());
        let certificates: [_; 2] = parsed.ok_or(WalletRequestSignerError::NotTwoCertificates)?;
        verify_issuer(&certificates)?;
        PrivatePkcs8KeyDer::from_pem_slice(key).map_err(|_| WalletRequestSignerError::InvalidKey)?;
        let key = EncodingKey::from_ec_pem(key).map_err(|_| WalletRequestSignerError::InvalidKey)?;
        // Signing also rejects keys of another curve.
        let signature = crypto::sign(b"", &key, Algorithm::ES256).ok();
        let signature = signature.and_then(|signature| BASE64_URL_SAFE_NO_PAD.decode(signature).ok());
        let signature = signature.ok_or(WalletRequestSignerError::InvalidKey)?;
        let public_key = VerifyingKey::from_certificate(&certificates[0]);
        if public_key.ok_or(WalletRequestSignerError::MalformedCertificate)?.verify(b"", &signature) {
            Ok(WalletRequestSigner { certificates, key })
        } else {
            Err(WalletRequestSignerError::KeyMismatch)
        }
    }

    /// Returns our certificate and its root.
    pub fn certificates(&self) -> &[CertificateDer<'static>; 2] {
        &self.certificates
    }

    /// Returns the digest of the root certificate, which operators register.
    pub fn root_sha256(&self) -> [u8; 32] {
        let mut sha256 = [0; 32];
        sha256.copy_from_slice(digest(&SHA256, &self.certificates[1]).as_ref());
        sha256
    }

    /// Signs the claims; `kind` is the `typ` header. `None`: the cryptographic library failed.
    pub(super) fn sign(&self, kind: &str, claims: &impl Serialize) -> Option<String> {
        let mut header = Header::new(Algorithm::ES256);
        header.typ = Some(kind.to_owned());
        header.x5c = Some(self.certificates.iter().map(|certificate| BASE64_STANDARD.encode(certificate)).collect());
        encode(&header, claims, &self.key).ok()
    }
}

/// Checks that the second certificate has signed the first.
fn verify_issuer([certificate, root]: &[CertificateDer<'static>; 2]) -> Result<(), WalletRequestSignerError> {
    let anchor = anchor_from_trusted_cert(root).map_err(|_| WalletRequestSignerError::MalformedCertificate)?;
    let validity = Certificate::from_der(certificate).map(|parsed| parsed.tbs_certificate.validity);
    let validity = validity.map_err(|_| WalletRequestSignerError::MalformedCertificate)?;
    verify_chain(certificate, &[anchor], &[], validity.not_before.to_unix_duration())
        .map_err(|()| WalletRequestSignerError::NotSignedByRoot)
}

/// Checks that a certificate leads to one of the roots, for any key usage. `now` is a Unix time.
pub(super) fn verify_chain(
    certificate: &CertificateDer<'_>,
    roots: &[TrustAnchor<'_>],
    intermediates: &[CertificateDer<'_>],
    now: Duration,
) -> Result<(), ()> {
    struct AnyUsage;

    impl ExtendedKeyUsageValidator for AnyUsage {
        fn validate(&self, _: KeyPurposeIdIter<'_, '_>) -> Result<(), webpki::Error> {
            Ok(())
        }
    }

    let algorithms = default_provider().signature_verification_algorithms.all;
    let certificate = EndEntityCert::try_from(certificate).map_err(|_| ())?;
    let now = UnixTime::since_unix_epoch(now);
    certificate.verify_for_usage(algorithms, roots, intermediates, now, AnyUsage, None, None).map(drop).map_err(|_| ())
}
