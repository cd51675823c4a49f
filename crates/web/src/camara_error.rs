//! Errors of CAMARA's APIs (CAMARA Commonalities, API Design Guide, section 3).

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::Serialize;

pub const X_CORRELATOR: HeaderName = HeaderName::from_static("x-correlator");
const MAX_CORRELATOR_BYTES: usize = 256;

/// Errors that have a code of their own. Others have the code of their status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CamaraError {
    OutOfRange,
    IdentifierNotFound,
    MissingIdentifier,
    UnnecessaryIdentifier,
    ServiceNotApplicable,
    NotAuthenticatedByNetwork,
    Timeout,
}

impl CamaraError {
    pub const fn status(self) -> StatusCode {
        match self {
            CamaraError::OutOfRange => StatusCode::BAD_REQUEST,
            CamaraError::NotAuthenticatedByNetwork => StatusCode::FORBIDDEN,
            CamaraError::IdentifierNotFound => StatusCode::NOT_FOUND,
            CamaraError::MissingIdentifier | CamaraError::UnnecessaryIdentifier | CamaraError::ServiceNotApplicable => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            CamaraError::Timeout => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    pub const fn code(self) -> &'static str {
        match self {
            CamaraError::OutOfRange => "OUT_OF_RANGE",
            CamaraError::IdentifierNotFound => "IDENTIFIER_NOT_FOUND",
            CamaraError::MissingIdentifier => "MISSING_IDENTIFIER",
            CamaraError::UnnecessaryIdentifier => "UNNECESSARY_IDENTIFIER",
            CamaraError::ServiceNotApplicable => "SERVICE_NOT_APPLICABLE",
            CamaraError::NotAuthenticatedByNetwork => "NUMBER_VERIFICATION.USER_NOT_AUTHENTICATED_BY_MOBILE_NETWORK",
            CamaraError::Timeout => "TIMEOUT",
        }
    }
}

#[derive(Serialize)]
struct CamaraErrorBody {
    status: u16,
    code: &'static str,
    message: String,
}

/// Renders the body of an error. `error` is the specific error, if there is one.
pub(crate) fn render_error(status: StatusCode, error: Option<CamaraError>, detail: &str) -> Vec<u8> {
    let code = error.map_or_else(|| code_of_status(status), CamaraError::code);
    serde_json::to_vec(&CamaraErrorBody { status: status.as_u16(), code, message: sentence(detail) })
        .unwrap_or_default()
}

fn code_of_status(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "UNAUTHENTICATED",
        StatusCode::FORBIDDEN => "PERMISSION_DENIED",
        StatusCode::NOT_FOUND => "NOT_FOUND",
        StatusCode::METHOD_NOT_ALLOWED => "METHOD_NOT_ALLOWED",
        StatusCode::UNSUPPORTED_MEDIA_TYPE => "UNSUPPORTED_MEDIA_TYPE",
        StatusCode::TOO_MANY_REQUESTS => "TOO_MANY_REQUESTS",
        StatusCode::NOT_IMPLEMENTED => "NOT_IMPLEMENTED",
        StatusCode::SERVICE_UNAVAILABLE => "UNAVAILABLE",
        status if status.is_server_error() => "INTERNAL",
        _ => "INVALID_ARGUMENT",
    }
}

/// Clients may show the message to people.
fn sentence(detail: &str) -> String {
    let mut chars = detail.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let end = if detail.ends_with('.') { "" } else { "." };
    format!("{first}{}{end}", chars.as_str())
}

/// Returns the correlator of a request. `None`: the request has none, or an invalid one.
pub fn correlator(headers: &HeaderMap) -> Option<HeaderValue> {
    let value = headers.get(X_CORRELATOR)?;
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_:;./<>{}".contains(byte);
    let is_valid = value.len() <= MAX_CORRELATOR_BYTES && value.as_bytes().iter().all(is_allowed);
    is_valid.then(|| value.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_code_of_their_status_or_their_own() {
        for (status, error, expected) in [
            (StatusCode::UNAUTHORIZED, None, "UNAUTHENTICATED"),
            (StatusCode::PAYLOAD_TOO_LARGE, None, "INVALID_ARGUMENT"),
            (StatusCode::INTERNAL_SERVER_ERROR, None, "INTERNAL"),
            (StatusCode::BAD_REQUEST, Some(CamaraError::OutOfRange), "OUT_OF_RANGE"),
        ] {
            let body: serde_json::Value = serde_json::from_slice(&render_error(status, error, "no number")).unwrap();
            let expected = serde_json::json!({"status": status.as_u16(), "code": expected, "message": "No number."});
            assert_eq!(body, expected);
        }
        assert_eq!(sentence(""), ".");
    }

    #[test]
    fn correlators_have_the_characters_of_the_specification() {
        for (text, is_valid) in [
            ("b4333c46-49c0-4f62-80d7-f0ef930f1c46", true),
            ("<a>{b};c:d./_", true),
            ("", true),
            ("a b", false),
            ("a,b", false),
            (&"a".repeat(256), true),
            (&"a".repeat(257), false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(X_CORRELATOR, HeaderValue::from_str(text).unwrap());
            assert_eq!(correlator(&headers).is_some(), is_valid, "{text}");
        }
    }
}
