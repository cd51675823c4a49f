//! Errors of HTTP requests to operators.

use ringtrue_engine::ports::TransportError;

use crate::outbound::classify_error;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ClientError {
    #[error("invalid URL: expected http or https with a host")]
    InvalidUrl,
    #[error("host name could not be resolved")]
    Unresolved,
    #[error("connection refused")]
    Refused,
    #[error("connection timed out")]
    ConnectTimeout,
    #[error("TLS handshake failed: invalid server certificate, rejected client certificate, or no common version")]
    Tls,
    #[error("response timed out")]
    Timeout,
    #[error("connection lost before the response was complete")]
    Lost,
    #[error("response exceeds the size limit")]
    TooLarge,
    #[error("response is not valid HTTP")]
    Protocol,
}

impl ClientError {
    pub const ALL: [ClientError; 9] = [
        ClientError::InvalidUrl,
        ClientError::Unresolved,
        ClientError::Refused,
        ClientError::ConnectTimeout,
        ClientError::Tls,
        ClientError::Timeout,
        ClientError::Lost,
        ClientError::TooLarge,
        ClientError::Protocol,
    ];

    /// Value in logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            ClientError::InvalidUrl => "unusable_url",
            ClientError::Unresolved => "unresolved",
            ClientError::Refused => "refused",
            ClientError::ConnectTimeout => "connect_timeout",
            ClientError::Tls => "tls",
            ClientError::Timeout => "timeout",
            ClientError::Lost => "lost",
            ClientError::TooLarge => "too_large",
            ClientError::Protocol => "protocol",
        }
    }

    /// Whether an idempotent request is worth a retry. Response timeouts are not: a retry would double the wait.
    pub const fn is_transient(self) -> bool {
        match self {
            ClientError::Unresolved | ClientError::Refused | ClientError::ConnectTimeout | ClientError::Lost => true,
            ClientError::InvalidUrl
            | ClientError::Tls
            | ClientError::Timeout
            | ClientError::TooLarge
            | ClientError::Protocol => false,
        }
    }

    pub(super) fn from_connect(reason: TransportError) -> Self {
        match reason {
            TransportError::Timeout => ClientError::ConnectTimeout,
            TransportError::Tls => ClientError::Tls,
            TransportError::Unresolved => ClientError::Unresolved,
            TransportError::Connection | TransportError::BlockedAddress => ClientError::Refused,
            TransportError::TooLarge => ClientError::TooLarge,
            TransportError::Protocol => ClientError::Protocol,
        }
    }

    pub(super) fn from_hyper(error: &hyper::Error) -> Self {
        match classify_error(error) {
            TransportError::TooLarge => ClientError::TooLarge,
            TransportError::Protocol => ClientError::Protocol,
            _ => ClientError::Lost,
        }
    }
}
