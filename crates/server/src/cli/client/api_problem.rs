//! Error responses of the API.

use std::fmt;

use http::header::RETRY_AFTER;
use ringtrue_operators::client::ClientResponse;
use serde::Deserialize;
use url::Url;

use crate::cli::printer::escape_controls;

/// Problem details (RFC 9457).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct ApiProblem {
    pub status: u16,
    pub error_code: String,
    pub detail: String,
    /// URL of the error documentation.
    documentation_url: Option<String>,
    pub retry_after: Option<u64>,
}

#[derive(Deserialize)]
struct ProblemBody {
    r#type: String,
    detail: String,
    error_code: String,
}

impl ApiProblem {
    pub(super) fn from_response(response: &ClientResponse, base_url: &Url) -> Self {
        let header = response.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = header.and_then(|value| value.parse().ok());
        let status = response.status;
        match serde_json::from_slice::<ProblemBody>(&response.body) {
            Ok(body) => ApiProblem {
                status,
                error_code: body.error_code,
                detail: body.detail,
                documentation_url: Some(body.r#type),
                retry_after,
            },
            // Response of a proxy or another server.
            Err(_) => ApiProblem {
                status,
                error_code: format!("status {status}"),
                detail: format!("not a Ringtrue response; is Ringtrue running at {base_url}?"),
                documentation_url: None,
                retry_after,
            },
        }
    }

    /// Returns whether the request may succeed on retry.
    pub(in crate::cli) fn is_transient(&self) -> bool {
        self.status == 429 || self.status >= 500
    }

    pub(in crate::cli) fn is_unauthorized(&self) -> bool {
        self.status == 401
    }
}

impl fmt::Display for ApiProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", escape_controls(&self.detail), escape_controls(&self.error_code))?;
        if self.is_unauthorized() {
            f.write_str("\n  Sign in again with `ringtrue login`.")?;
        }
        if let Some(seconds) = self.retry_after {
            write!(f, "\n  Try again in {seconds} s.")?;
        }
        match &self.documentation_url {
            Some(url) => write!(f, "\n  See {}", escape_controls(url)),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ApiProblem {}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};

    use super::*;

    fn problem(status: u16, retry_after: Option<&'static str>, body: &'static str) -> ApiProblem {
        let mut headers = HeaderMap::new();
        headers.extend(retry_after.map(|value| (RETRY_AFTER, HeaderValue::from_static(value))));
        ApiProblem::from_response(
            &ClientResponse { status, headers, body: body.into() },
            &"http://127.0.0.1:1".parse().unwrap(),
        )
    }

    #[test]
    fn problems_display_retry_and_documentation() {
        let known = r#"{"type": "http://x/errors/too_many_requests", "title": "T", "status": 429, "detail": "too fast",
                        "error_code": "too_many_requests"}"#;
        for (problem, text, is_transient) in [
            (
                problem(429, Some("3"), known),
                "too fast (too_many_requests)\n  Try again in 3 s.\n  See http://x/errors/too_many_requests",
                true,
            ),
            (
                problem(404, None, "<html>"),
                "not a Ringtrue response; is Ringtrue running at http://127.0.0.1:1/? (status 404)",
                false,
            ),
            (
                problem(400, None, r#"{"type": "t", "detail": "\u001b[2J", "error_code": "bad_request"}"#),
                "\\u{1b}[2J (bad_request)\n  See t",
                false,
            ),
        ] {
            assert_eq!((problem.to_string().as_str(), problem.is_transient()), (text, is_transient));
        }
    }
}
