//! Verifies the certificates of a request: a leaf that is signed by a self-signed root, both with P-256 keys.

use std::time::Duration;

use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use x509_cert::{
    Certificate,
    der::{Decode, Encode},
    spki::ObjectIdentifier,
};

const ECDSA_WITH_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2");

/// Verifies a certificate chain (`x5c`) at a Unix time, and returns the public key of its leaf as a point.
pub(super) fn verify_chain(chain: &[String], now: i64) -> Result<Vec<u8>, &'static str> {
    let [leaf, root] = chain else { return Err("x5c must contain the leaf certificate and the root certificate") };
    let parse = |text| Certificate::from_der(&BASE64_STANDARD.decode(text).ok()?).ok();
    let (leaf, root) = parse(leaf).zip(parse(root)).ok_or("x5c must contain certificates in base64")?;
    if leaf.tbs_certificate.issuer != root.tbs_certificate.subject
        || ![&leaf, &root].into_iter().all(|certificate| is_signed_by(certificate, &root))
    {
        return Err("the leaf certificate is not signed by the root certificate");
    }
    if ![&leaf, &root].into_iter().all(|certificate| is_valid_at(certificate, now)) {
        return Err("a certificate has expired or is not valid yet");
    }
    Ok(public_key(&leaf).to_owned())
}

fn public_key(certificate: &Certificate) -> &[u8] {
    certificate.tbs_certificate.subject_public_key_info.subject_public_key.raw_bytes()
}

fn is_signed_by(certificate: &Certificate, issuer: &Certificate) -> bool {
    let Ok(message) = certificate.tbs_certificate.to_der() else { return false };
    let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, public_key(issuer));
    certificate.signature_algorithm.oid == ECDSA_WITH_SHA256
        && key.verify(&message, certificate.signature.raw_bytes()).is_ok()
}

fn is_valid_at(certificate: &Certificate, now: i64) -> bool {
    let validity = &certificate.tbs_certificate.validity;
    let now = Duration::from_secs(now.unsigned_abs());
    validity.not_before.to_unix_duration() <= now && now <= validity.not_after.to_unix_duration()
}
