//! Reading the certificate that a server or client presents, which is the first of its chain.

use std::path::Path;

use jiff::Timestamp;
use rustls::pki_types::{CertificateDer, pem::PemObject};
use x509_cert::{Certificate, der::Decode, time::Time};

/// Reads the first certificate of a PEM file.
pub fn read_leaf(certificate: &Path) -> Option<CertificateDer<'static>> {
    CertificateDer::pem_file_iter(certificate).ok()?.next()?.ok()
}

/// Returns from when until when a certificate is valid. `None`: it is malformed.
pub fn validity(leaf: &CertificateDer<'_>) -> Option<(Timestamp, Timestamp)> {
    let validity = Certificate::from_der(leaf).ok()?.tbs_certificate.validity;
    let instant = |time: Time| Timestamp::from_second(time.to_unix_duration().as_secs().try_into().ok()?).ok();
    Some((instant(validity.not_before)?, instant(validity.not_after)?))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    #[test]
    fn validity_is_read_from_the_certificate() {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(2026, 1, 1), date_time_ymd(2049, 12, 31));
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let expected = ["2026-01-01T00:00:00Z", "2049-12-31T00:00:00Z"].map(|at| at.parse::<Timestamp>().unwrap());
        assert_eq!(validity(certificate.der()), Some((expected[0], expected[1])));
        assert_eq!(validity(&CertificateDer::from(vec![1, 2, 3])), None);
    }
}
