//! The errors of CAMARA.

use http::{HeaderValue, StatusCode, header::WWW_AUTHENTICATE};
use serde_json::json;

use crate::camara::http::{Answer, json_with_status};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::camara) enum Problem {
    /// With what is wrong.
    InvalidArgument(&'static str),
    OutOfRange(&'static str),
    Unauthenticated,
    PermissionDenied,
    NotAuthenticatedByNetwork,
    NotFound,
    IdentifierNotFound,
    MethodNotAllowed,
    UnsupportedMediaType,
    ServiceNotApplicable,
    MissingIdentifier,
    UnnecessaryIdentifier,
    Internal,
    Unavailable,
    Timeout,
    /// What a fault asks for.
    Simulated(StatusCode),
}

impl Problem {
    pub(super) fn into_answer(self) -> Answer {
        let (status, code, message) = self.told();
        let body = json!({ "status": status.as_u16(), "code": code, "message": message });
        let mut answer = json_with_status(status, &body);
        if status == StatusCode::UNAUTHORIZED {
            answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer error=\"invalid_token\""));
        }
        answer
    }

    fn told(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::InvalidArgument(why) => (StatusCode::BAD_REQUEST, "INVALID_ARGUMENT", why),
            Self::OutOfRange(why) => (StatusCode::BAD_REQUEST, "OUT_OF_RANGE", why),
            Self::Unauthenticated => (
                StatusCode::UNAUTHORIZED,
                "UNAUTHENTICATED",
                "There is no token, or it is unknown, expired or used up. Get a new one.",
            ),
            Self::PermissionDenied => {
                (StatusCode::FORBIDDEN, "PERMISSION_DENIED", "The token does not have the scope for this.")
            }
            Self::NotAuthenticatedByNetwork => (
                StatusCode::FORBIDDEN,
                "NUMBER_VERIFICATION.USER_NOT_AUTHENTICATED_BY_MOBILE_NETWORK",
                "The user was authenticated neither by the network nor by the SIM.",
            ),
            Self::NotFound => (StatusCode::NOT_FOUND, "NOT_FOUND", "There is nothing here."),
            Self::IdentifierNotFound => {
                (StatusCode::NOT_FOUND, "IDENTIFIER_NOT_FOUND", "There is no such number at this operator.")
            }
            Self::MethodNotAllowed => {
                (StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", "This is asked by another method.")
            }
            Self::UnsupportedMediaType => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "UNSUPPORTED_MEDIA_TYPE", "The body is application/json.")
            }
            Self::ServiceNotApplicable => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "SERVICE_NOT_APPLICABLE",
                "The subscription of this number does not have the service.",
            ),
            Self::MissingIdentifier => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "MISSING_IDENTIFIER",
                "Neither the token nor the body says which number is meant.",
            ),
            Self::UnnecessaryIdentifier => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "UNNECESSARY_IDENTIFIER",
                "The token says which number is meant, so the body must not.",
            ),
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", "The network has failed."),
            Self::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", "The network cannot be asked now."),
            Self::Timeout => (StatusCode::GATEWAY_TIMEOUT, "TIMEOUT", "The network took too long."),
            Self::Simulated(status) => (status, code_of(status), "A simulated failure."),
        }
    }
}

/// The most general code that goes with a status.
fn code_of(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        405 => "METHOD_NOT_ALLOWED",
        406 => "NOT_ACCEPTABLE",
        409 => "ABORTED",
        410 => "GONE",
        412 => "FAILED_PRECONDITION",
        415 => "UNSUPPORTED_MEDIA_TYPE",
        422 => "SERVICE_NOT_APPLICABLE",
        429 => "TOO_MANY_REQUESTS",
        400..=499 => "INVALID_ARGUMENT",
        501 => "NOT_IMPLEMENTED",
        502 => "BAD_GATEWAY",
        503 => "UNAVAILABLE",
        504 => "TIMEOUT",
        _ => "INTERNAL",
    }
}
