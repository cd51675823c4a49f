//! CAMARA error responses.

use http::{HeaderValue, StatusCode, header::WWW_AUTHENTICATE};
use serde_json::json;

use crate::camara::http::{HttpResponse, json_response_with_status};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::camara) enum CamaraError {
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
    /// Set by a fault.
    Simulated(StatusCode),
}

impl CamaraError {
    pub(super) fn into_response(self) -> HttpResponse {
        let (status, code, message) = self.parts();
        let body = json!({ "status": status.as_u16(), "code": code, "message": message });
        let mut response = json_response_with_status(status, &body);
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer error=\"invalid_token\""));
        }
        response
    }

    fn parts(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::InvalidArgument(detail) => (StatusCode::BAD_REQUEST, "INVALID_ARGUMENT", detail),
            Self::OutOfRange(detail) => (StatusCode::BAD_REQUEST, "OUT_OF_RANGE", detail),
            Self::Unauthenticated => (
                StatusCode::UNAUTHORIZED,
                "UNAUTHENTICATED",
                "The access token is missing, invalid, expired or already used. Request a new one.",
            ),
            Self::PermissionDenied => {
                (StatusCode::FORBIDDEN, "PERMISSION_DENIED", "The access token does not have the required scope.")
            }
            Self::NotAuthenticatedByNetwork => (
                StatusCode::FORBIDDEN,
                "NUMBER_VERIFICATION.USER_NOT_AUTHENTICATED_BY_MOBILE_NETWORK",
                "The user was not authenticated by the mobile network or the SIM.",
            ),
            Self::NotFound => (StatusCode::NOT_FOUND, "NOT_FOUND", "The resource does not exist."),
            Self::IdentifierNotFound => {
                (StatusCode::NOT_FOUND, "IDENTIFIER_NOT_FOUND", "The phone number is not known to this operator.")
            }
            Self::MethodNotAllowed => (
                StatusCode::METHOD_NOT_ALLOWED,
                "METHOD_NOT_ALLOWED",
                "The HTTP method is not allowed for this resource.",
            ),
            Self::UnsupportedMediaType => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "UNSUPPORTED_MEDIA_TYPE",
                "The content type must be application/json.",
            ),
            Self::ServiceNotApplicable => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "SERVICE_NOT_APPLICABLE",
                "The service is not available for this phone number.",
            ),
            Self::MissingIdentifier => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "MISSING_IDENTIFIER",
                "The phone number is missing in the access token and in the request body.",
            ),
            Self::UnnecessaryIdentifier => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "UNNECESSARY_IDENTIFIER",
                "The access token identifies the phone number; remove it from the request body.",
            ),
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", "Internal error of the network."),
            Self::Unavailable => {
                (StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", "The network is temporarily unavailable.")
            }
            Self::Timeout => (StatusCode::GATEWAY_TIMEOUT, "TIMEOUT", "The network did not respond in time."),
            Self::Simulated(status) => (status, default_code(status), "Simulated failure."),
        }
    }
}

/// The generic code of a status.
fn default_code(status: StatusCode) -> &'static str {
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
