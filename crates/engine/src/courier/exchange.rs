//! Request and response of a delivery attempt, as the attempt log stores them.

use serde::{Deserialize, Serialize};

/// Request and response of one attempt. Stored as encrypted JSON with these field names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    pub sent: SentRequest,
    /// `None`: there was no response. `AttemptRecord::failure` has the reason.
    pub received: Option<ReceivedResponse>,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, derive_more::Debug)]
// Masked: the URL may contain a token, and the body personal data.
#[debug("SentRequest({} bytes)", self.body.len())]
pub struct SentRequest {
    pub url: String,
    /// The value of the signature is redacted.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, derive_more::Debug)]
// Masked: the response may contain secrets of the receiver.
#[debug("ReceivedResponse({}, {} bytes)", self.status, self.body.len())]
pub struct ReceivedResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    /// Truncated to `MAX_BODY_BYTES`. U+FFFD replaces invalid UTF-8.
    pub body: String,
}

const MAX_BODY_BYTES: usize = 4 * 1_024;
const MAX_HEADER_BYTES: usize = 2 * 1_024;
/// Response headers that are never logged, because they contain credentials of the receiver.
const SECRET_HEADERS: [&str; 2] = ["set-cookie", "set-cookie2"];

impl ReceivedResponse {
    pub(super) fn truncated(status: u16, mut headers: Vec<(String, String)>, mut body: String) -> Self {
        let mut remaining = MAX_HEADER_BYTES;
        headers.retain(|(name, _)| !SECRET_HEADERS.iter().any(|secret| name.eq_ignore_ascii_case(secret)));
        let fitting = headers.iter().take_while(|(name, value)| {
            let rest = remaining.checked_sub(name.len() + value.len());
            remaining = rest.unwrap_or(0);
            rest.is_some()
        });
        let fitting = fitting.count();
        headers.truncate(fitting);
        body.truncate(body.floor_char_boundary(MAX_BODY_BYTES));
        ReceivedResponse { status, headers, body }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_truncated_and_cookies_are_dropped() {
        let header = |name: &str, length: usize| (name.to_owned(), "v".repeat(length));
        let headers = vec![
            header("Set-Cookie", 10),
            header("server", 1_000),
            header("set-cookie", 5_000),
            header("x-a", 1_000),
            header("x-b", 1_000),
            header("x-c", 1),
        ];
        let truncated = ReceivedResponse::truncated(200, headers, "é".repeat(3_000));
        let names: Vec<&str> = truncated.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["server", "x-a"]);
        assert_eq!(truncated.body.len(), MAX_BODY_BYTES);
        assert_eq!(
            ReceivedResponse::truncated(200, vec![], format!("a{}", "é".repeat(3_000))).body.len(),
            MAX_BODY_BYTES - 1
        );
    }
}
