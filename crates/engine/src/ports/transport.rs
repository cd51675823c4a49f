//! Outbound HTTP to callback URLs.

use async_trait::async_trait;
use ringtrue_domain::web_url::CallbackUrl;
use strum::IntoStaticStr;

/// POST request to a callback URL.
#[derive(Clone, Debug)]
pub struct OutboundRequest {
    pub url: CallbackUrl,
    /// In wire order. The transport adds `host` and `content-length`.
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

/// HTTP response to an outbound POST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboundResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    /// May be truncated.
    pub body: Vec<u8>,
}

/// Reason why a request got no response. The name is the value in attempt logs and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr, thiserror::Error)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum TransportError {
    #[error("the host resolves to an address that is not allowed for callbacks")]
    BlockedAddress,
    #[error("the host name cannot be resolved")]
    Unresolved,
    #[error("the connection was refused or lost")]
    Connection,
    #[error("TLS handshake failed: invalid certificate for this host, or no common TLS version")]
    Tls,
    #[error("no response within the timeout")]
    Timeout,
    #[error("the response exceeds the size limit")]
    TooLarge,
    #[error("the response is not valid HTTP")]
    Protocol,
}

/// HTTP client for callback URLs. The only production implementation enforces the address policy.
#[async_trait]
pub trait Transport: Send + Sync {
    async fn post(&self, request: OutboundRequest) -> Result<OutboundResponse, TransportError>;
}
