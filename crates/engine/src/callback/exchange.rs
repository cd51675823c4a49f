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
const MAX_BODY_BYTES: usize = 4 * 1_024;
/// How much of an answer's headers is kept.
const MAX_HEADER_BYTES: usize = 2 * 1_024;
/// Headers that are never kept: they would let whoever reads the log act in the receiver's name.
const SECRET_HEADERS: [&str; 2] = ["set-cookie", "set-cookie2"];

impl Received {
    /// As much of an answer as is kept.
    pub(super) fn bounded(status: u16, mut headers: Vec<(String, String)>, mut body: String) -> Self {
        let mut left = MAX_HEADER_BYTES;
        headers.retain(|(name, _)| !SECRET_HEADERS.iter().any(|secret| name.eq_ignore_ascii_case(secret)));
        let fitting = headers.iter().take_while(|(name, value)| {
            let rest = left.checked_sub(name.len() + value.len());
            left = rest.unwrap_or(0);
            rest.is_some()
        });
        let fitting = fitting.count();
        headers.truncate(fitting);
        body.truncate(body.floor_char_boundary(MAX_BODY_BYTES));
        Received { status, headers, body }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_bounded_and_cookies_are_never_kept() {
        let header = |name: &str, length: usize| (name.to_owned(), "v".repeat(length));
        let headers = vec![
            header("Set-Cookie", 10),
            header("server", 1_000),
            header("set-cookie", 5_000),
            header("x-a", 1_000),
            header("x-b", 1_000),
            header("x-c", 1),
        ];
        let kept = Received::bounded(200, headers, "é".repeat(3_000));
        let names: Vec<&str> = kept.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["server", "x-a"]);
        assert_eq!(kept.body.len(), MAX_BODY_BYTES);
        assert_eq!(Received::bounded(200, vec![], format!("a{}", "é".repeat(3_000))).body.len(), MAX_BODY_BYTES - 1);
    }
}
