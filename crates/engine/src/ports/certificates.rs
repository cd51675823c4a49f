//! TLS certificates of a node.

use jiff::Timestamp;

/// A certificate that this node presents to others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateStatus {
    /// Setting that names the certificate's file, such as `http.tls.certificate`.
    pub setting: String,
    pub expires_at: Timestamp,
}
