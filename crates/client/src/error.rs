//! Errors of commands with their exit codes, and error responses of the API.

use std::{error::Error, fmt, io, time::Duration};

use http::header::RETRY_AFTER;
use serde::Deserialize;
use url::Url;

use crate::{http::HttpResponse, printer::escape_controls};

/// Exit code if the program that reads the output has closed the pipe. The same as of a process that SIGPIPE has ended.
const CLOSED_PIPE_EXIT_CODE: u8 = 128 + 13;

#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
    #[error("{message}\n  {hint}")]
    Rejected { message: String, hint: String },
    /// An invalid command line that the argument parser cannot detect.
    #[error("{message}\n  {hint}")]
    Usage { message: String, hint: String },
    /// The server returned an error response.
    #[error(transparent)]
    Api(ApiProblem),
    #[error("{message}\n  {hint}")]
    Unreachable { message: String, hint: &'static str },
    #[error("{message}\n  {hint}")]
    NotSignedIn { message: String, hint: String },
    /// A device was redirected to its operator, but the operator did not redirect it back.
    #[error("the operator did not answer\n  The check expires when its ttl ends.")]
    OperatorSilent,
    /// The command has already printed its error, so only the exit code is left to set.
    #[error("")]
    AlreadyReported,
    #[error("{0}")]
    Other(Box<dyn Error + Send + Sync>),
}

impl CommandError {
    pub fn failed(message: impl Into<String>, hint: impl Into<String>) -> Self {
        CommandError::Rejected { message: message.into(), hint: hint.into() }
    }

    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        CommandError::Usage { message: message.into(), hint: hint.into() }
    }

    pub(crate) fn other(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        CommandError::Other(error.into())
    }

    /// Whether the error may disappear if the request is repeated.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            CommandError::Unreachable { .. } => true,
            CommandError::Api(problem) => problem.is_transient(),
            _ => false,
        }
    }

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            CommandError::Api(problem) => problem.retry_after.map(Duration::from_secs),
            _ => None,
        }
    }

    /// Whether the reader of the output has closed the pipe, as `head` does.
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, CommandError::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    pub fn exit_code(&self) -> u8 {
        match self {
            CommandError::Usage { .. } => 2,
            CommandError::Unreachable { .. } => 5,
            CommandError::NotSignedIn { .. } => 6,
            CommandError::Api(problem) if problem.is_unauthorized() => 6,
            CommandError::Api(problem) if problem.is_transient() => 5,
            CommandError::Output(_) if self.is_closed_pipe() => CLOSED_PIPE_EXIT_CODE,
            CommandError::Api(_)
            | CommandError::Output(_)
            | CommandError::Rejected { .. }
            | CommandError::OperatorSilent
            | CommandError::AlreadyReported
            | CommandError::Other(_) => 1,
        }
    }
}

/// An error response of the API, as problem details (RFC 9457).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiProblem {
    pub(crate) status: u16,
    pub(crate) error_code: String,
    pub(crate) detail: String,
    /// URL of the documentation for this error.
    documentation_url: Option<String>,
    retry_after: Option<u64>,
}

#[derive(Deserialize)]
struct ProblemBody {
    r#type: String,
    detail: String,
    error_code: String,
}

impl ApiProblem {
    pub(crate) fn from_response(response: &HttpResponse, base_url: &Url) -> Self {
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
            // The response is no problem document, so it comes from a proxy or another kind of server.
            Err(_) => ApiProblem {
                status,
                error_code: format!("status {status}"),
                detail: format!("not a Ringtrue response; is Ringtrue running at {base_url}?"),
                documentation_url: None,
                retry_after,
            },
        }
    }

    /// Whether the error may disappear if the request is repeated.
    fn is_transient(&self) -> bool {
        self.status == 429 || self.status >= 500
    }

    pub(crate) fn is_unauthorized(&self) -> bool {
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

impl Error for ApiProblem {}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};

    use super::*;

    fn problem(status: u16, retry_after: Option<&'static str>, body: &'static str) -> ApiProblem {
        let mut headers = HeaderMap::new();
        headers.extend(retry_after.map(|value| (RETRY_AFTER, HeaderValue::from_static(value))));
        let response = HttpResponse { status, headers, body: body.into() };
        ApiProblem::from_response(&response, &"http://127.0.0.1:1".parse().unwrap())
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
