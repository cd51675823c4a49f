//! What is remembered of an attempt: what was sent, and what came back.

use serde::{Deserialize, Serialize};

/// One attempt, as its log shows it. Kept sealed: URL and body are the caller's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    pub sent: Sent,
    /// Nothing came back when there is none; the attempt's log says why.
    pub received: Option<Received>,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    pub url: String,
    /// The value of the signature is left out.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Received {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    /// The beginning of the body. What is not UTF-8 is shown as U+FFFD.
    pub body: String,
}

/// How much of an answer's body is kept.
pub(super) const KEPT_BODY: usize = 8 * 1_024;
/// How much of an answer's headers is kept.
pub(super) const KEPT_HEADERS: usize = 8 * 1_024;

/// The headers that fit into [`KEPT_HEADERS`].
pub(super) fn beginning_of(headers: Vec<(String, String)>) -> Vec<(String, String)> {
    let mut left = KEPT_HEADERS;
    let fits = |(name, value): &(String, String)| {
        let rest = left.checked_sub(name.len() + value.len());
        left = rest.unwrap_or(0);
        rest.is_some()
    };
    headers.into_iter().take_while(fits).collect()
}

/// Masked: a URL may carry a token, a body personal data.
impl std::fmt::Debug for Sent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sent({} bytes)", self.body.len())
    }
}

/// Masked: whatever the receiver said is its own.
impl std::fmt::Debug for Received {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Received({}, {} bytes)", self.status, self.body.len())
    }
}
