//! What a server says when it does not do what it was asked to.

use std::fmt;

use http::header::RETRY_AFTER;
use ringtrue_operators::client::Answer;
use serde::Deserialize;
use url::Url;

use crate::cli::printer::harmless;

/// RFC 9457, as this service uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Problem {
    pub status: u16,
    pub error_code: String,
    pub detail: String,
    /// The address of a page about it.
    page: Option<String>,
    pub retry_after: Option<u64>,
}

#[derive(Deserialize)]
struct ProblemBody {
    r#type: String,
    detail: String,
    error_code: String,
}

impl Problem {
    /// What an answer says that is no success.
    pub(super) fn of(answer: &Answer, base_url: &Url) -> Self {
        let header = answer.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = header.and_then(|value| value.parse().ok());
        let status = answer.status;
        match serde_json::from_slice::<ProblemBody>(&answer.body) {
            Ok(body) => Problem {
                status,
                error_code: body.error_code,
                detail: body.detail,
                page: Some(body.r#type),
                retry_after,
            },
            // A proxy's own page, or another server altogether.
            Err(_) => Problem {
                status,
                error_code: format!("status {status}"),
                detail: format!("this is not how Ringtrue answers; is it what is at {base_url}?"),
                page: None,
                retry_after,
            },
        }
    }

    /// Whether the same may go well a little later.
    pub(in crate::cli) fn may_pass(&self) -> bool {
        self.status == 429 || self.status >= 500
    }

    pub(in crate::cli) fn is_about_credentials(&self) -> bool {
        self.status == 401
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", harmless(&self.detail), harmless(&self.error_code))?;
        if self.is_about_credentials() {
            f.write_str("\n  Sign in again with `ringtrue login`.")?;
        }
        if let Some(seconds) = self.retry_after {
            write!(f, "\n  Try again in {seconds} s.")?;
        }
        match &self.page {
            Some(page) => write!(f, "\n  More about this: {}", harmless(page)),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Problem {}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};

    use super::*;

    fn problem(status: u16, retry_after: Option<&'static str>, body: &'static str) -> Problem {
        let mut headers = HeaderMap::new();
        headers.extend(retry_after.map(|value| (RETRY_AFTER, HeaderValue::from_static(value))));
        Problem::of(&Answer { status, headers, body: body.into() }, &"http://127.0.0.1:1".parse().unwrap())
    }

    #[test]
    fn problems_say_what_to_do() {
        let known = r#"{"type": "http://x/errors/too_many_requests", "title": "T", "status": 429, "detail": "too fast",
                        "error_code": "too_many_requests"}"#;
        for (problem, text, may_pass) in [
            (
                problem(429, Some("3"), known),
                "too fast (too_many_requests)\n  Try again in 3 s.\n  More about this: http://x/errors/too_many_requests",
                true,
            ),
            (
                problem(404, None, "<html>"),
                "this is not how Ringtrue answers; is it what is at http://127.0.0.1:1/? (status 404)",
                false,
            ),
            (
                problem(400, None, r#"{"type": "t", "detail": "\u001b[2J", "error_code": "bad_request"}"#),
                "\\u{1b}[2J (bad_request)\n  More about this: t",
                false,
            ),
        ] {
            assert_eq!((problem.to_string().as_str(), problem.may_pass()), (text, may_pass));
        }
    }
}
