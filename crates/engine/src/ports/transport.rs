//! Port for HTTP requests to URLs of clients: callbacks, and the key sets of OpenID clients.

use async_trait::async_trait;
use ringtrue_domain::web_url::CallbackUrl;
use strum::{IntoStaticStr, VariantArray};

/// POST request to a callback URL.
#[derive(Clone, Debug)]
pub struct OutboundRequest {
    pub url: CallbackUrl,
    /// Headers in the order in which they are sent. The transport adds `host` and `content-length`.
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

/// HTTP response to an outbound POST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboundResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    /// The beginning of the body. The transport cuts off longer bodies.
    pub body: Vec<u8>,
}

/// Reason why a request got no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum TransportError {
    #[error("the host resolves to an address that is not allowed for callbacks")]
    BlockedAddress,
    /// The host names of this service cannot be resolved, so the transport cannot tell whether the callback URL leads
    /// back to it.
    #[error("the host names of this service cannot be resolved")]
    OwnAddressUnknown,
    #[error("the host name cannot be resolved")]
    Unresolved,
    #[error("the connection was refused or lost")]
    Connection,
    #[error("TLS handshake failed: {0}")]
    Tls(#[from] TlsError),
    #[error("no response within the timeout")]
    Timeout,
    #[error("the response exceeds the size limit")]
    TooLarge,
    #[error("the response is not valid HTTP")]
    Protocol,
}

impl TransportError {
    /// Returns the name of the error in attempt logs and metrics.
    pub const fn into_str(self) -> &'static str {
        match self {
            TransportError::BlockedAddress => "blocked_address",
            TransportError::OwnAddressUnknown => "own_address_unknown",
            TransportError::Unresolved => "unresolved",
            TransportError::Connection => "connection",
            TransportError::Tls(error) => error.into_str(),
            TransportError::Timeout => "timeout",
            TransportError::TooLarge => "too_large",
            TransportError::Protocol => "protocol",
        }
    }
}

/// Reason why a TLS handshake failed. Attempt logs and metrics use the variant names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr, VariantArray, thiserror::Error)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum TlsError {
    #[error("the certificate has expired")]
    CertificateExpired,
    #[error("the certificate is not valid yet")]
    CertificateNotYetValid,
    #[error("the certificate is self-signed or its issuer is unknown")]
    CertificateUntrusted,
    #[error("the certificate is for another host name")]
    CertificateWrongHost,
    /// The certificate is revoked, malformed, for another purpose, or has an invalid signature.
    #[error("the certificate is invalid")]
    CertificateInvalid,
    #[error("the peer supports neither TLS 1.2 nor TLS 1.3")]
    TlsVersion,
    #[error("the peer does not use TLS")]
    NotTls,
    #[error("the peer rejected our certificate, or there is no common cipher suite")]
    #[strum(serialize = "tls")]
    Handshake,
}

/// HTTP client for URLs of clients. The only production implementation refuses addresses that the address policy forbids.
#[async_trait]
pub trait Transport: Send + Sync {
    async fn post(&self, request: OutboundRequest) -> Result<OutboundResponse, TransportError>;

    /// Gets a JSON document of at most 32 KiB. Does not follow redirects.
    async fn get(&self, url: &CallbackUrl) -> Result<OutboundResponse, TransportError>;
}
