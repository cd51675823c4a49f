//! Why an operator gave no answer.

use ringtrue_engine::ports::Undelivered;

use crate::outbound::undelivered;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ClientError {
    #[error("the URL cannot be opened: it names no host, or neither http nor https")]
    Unusable,
    #[error("the host's name has no address")]
    Unresolved,
    #[error("the connection was refused")]
    Refused,
    #[error("no connection in time")]
    ConnectTimeout,
    #[error("TLS failed: the certificate is not valid for this host, ours was refused, or no version is shared")]
    Tls,
    #[error("no answer in time")]
    Timeout,
    #[error("the connection was lost before the answer was whole")]
    Lost,
    #[error("the answer is larger than what is read of one")]
    TooLarge,
    #[error("the answer is not HTTP")]
    Protocol,
}

impl ClientError {
    pub const ALL: [ClientError; 9] = [
        ClientError::Unusable,
        ClientError::Unresolved,
        ClientError::Refused,
        ClientError::ConnectTimeout,
        ClientError::Tls,
        ClientError::Timeout,
        ClientError::Lost,
        ClientError::TooLarge,
        ClientError::Protocol,
    ];

    /// The word in logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            ClientError::Unusable => "unusable_url",
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

    /// Whether another try may go better, of a request that may be repeated. Who was slow once is not asked to be slow
    /// again, unless no connection came about.
    pub const fn may_pass(self) -> bool {
        match self {
            ClientError::Unresolved | ClientError::Refused | ClientError::ConnectTimeout | ClientError::Lost => true,
            ClientError::Unusable
            | ClientError::Tls
            | ClientError::Timeout
            | ClientError::TooLarge
            | ClientError::Protocol => false,
        }
    }

    pub(super) fn of_opening(reason: Undelivered) -> Self {
        match reason {
            Undelivered::Timeout => ClientError::ConnectTimeout,
            Undelivered::Tls => ClientError::Tls,
            Undelivered::Unresolved => ClientError::Unresolved,
            Undelivered::Connection | Undelivered::BlockedAddress => ClientError::Refused,
            Undelivered::TooLarge => ClientError::TooLarge,
            Undelivered::Protocol => ClientError::Protocol,
        }
    }

    pub(super) fn of_exchange(error: &hyper::Error) -> Self {
        match undelivered(error) {
            Undelivered::TooLarge => ClientError::TooLarge,
            Undelivered::Protocol => ClientError::Protocol,
            _ => ClientError::Lost,
        }
    }
}
