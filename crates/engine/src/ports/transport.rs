//! The way out: posting to URLs that callers gave us.

use async_trait::async_trait;
use ringtrue_domain::web_url::CallbackUrl;

/// A request to a caller's URL. `host` and `content-length` are the transport's to write, from the URL and the body;
/// everything else is here, in the order in which it goes out.
#[derive(Clone, Debug)]
pub struct Outgoing {
    pub url: CallbackUrl,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

/// What came back, as far as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    /// The beginning of the body.
    pub body: Vec<u8>,
}

/// Why nothing came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Undelivered {
    #[error("the host leads to an address that callbacks must not be sent to")]
    BlockedAddress,
    #[error("the host's name has no address")]
    Unresolved,
    #[error("the connection was refused or lost")]
    Connection,
    #[error("TLS failed: the certificate is not valid for this host, or no version is shared")]
    Tls,
    #[error("no answer in time")]
    Timeout,
    #[error("the answer is larger than what is read of one")]
    TooLarge,
    #[error("the answer is not HTTP")]
    Protocol,
}

impl Undelivered {
    /// The word in logs of attempts and in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Undelivered::BlockedAddress => "blocked_address",
            Undelivered::Unresolved => "unresolved",
            Undelivered::Connection => "connection",
            Undelivered::Tls => "tls",
            Undelivered::Timeout => "timeout",
            Undelivered::TooLarge => "too_large",
            Undelivered::Protocol => "protocol",
        }
    }
}

/// Opens URLs that callers gave us. There is one in a deployment: the one that looks at addresses first.
#[async_trait]
pub trait Transport: Send + Sync {
    async fn post(&self, request: Outgoing) -> Result<Answer, Undelivered>;
}
