//! The errors of OAuth, OpenID Connect and CIBA.

use aws_lc_rs::error::Unspecified;
use http::{HeaderValue, StatusCode, header::WWW_AUTHENTICATE};
use serde_json::json;

use crate::camara::http::{Answer, json_with_status};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::camara) enum ErrorCode {
    AuthorizationPending,
    ExpiredToken,
    InteractionRequired,
    InvalidClient,
    InvalidGrant,
    InvalidRequest,
    InvalidRequestObject,
    InvalidScope,
    LoginRequired,
    RequestUriNotSupported,
    ServerError,
    SlowDown,
    TemporarilyUnavailable,
    UnknownUserId,
    UnsupportedGrantType,
    UnsupportedResponseType,
}

impl ErrorCode {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::AuthorizationPending => "authorization_pending",
            Self::ExpiredToken => "expired_token",
            Self::InteractionRequired => "interaction_required",
            Self::InvalidClient => "invalid_client",
            Self::InvalidGrant => "invalid_grant",
            Self::InvalidRequest => "invalid_request",
            Self::InvalidRequestObject => "invalid_request_object",
            Self::InvalidScope => "invalid_scope",
            Self::LoginRequired => "login_required",
            Self::RequestUriNotSupported => "request_uri_not_supported",
            Self::ServerError => "server_error",
            Self::SlowDown => "slow_down",
            Self::TemporarilyUnavailable => "temporarily_unavailable",
            Self::UnknownUserId => "unknown_user_id",
            Self::UnsupportedGrantType => "unsupported_grant_type",
            Self::UnsupportedResponseType => "unsupported_response_type",
        }
    }
}

/// An error, and for people why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::camara) struct Refusal {
    pub code: ErrorCode,
    pub why: &'static str,
}

impl Refusal {
    pub(in crate::camara) fn new(code: ErrorCode, why: &'static str) -> Self {
        Self { code, why }
    }

    /// As clients see it that ask directly.
    pub(super) fn into_answer(self) -> Answer {
        let status = match self.code {
            ErrorCode::InvalidClient => StatusCode::UNAUTHORIZED,
            ErrorCode::ServerError => StatusCode::INTERNAL_SERVER_ERROR,
            ErrorCode::TemporarilyUnavailable => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_REQUEST,
        };
        self.into_answer_with(status)
    }

    fn into_answer_with(self, status: StatusCode) -> Answer {
        let body = json!({ "error": self.code.as_str(), "error_description": self.why });
        let mut answer = json_with_status(status, &body);
        if status == StatusCode::UNAUTHORIZED {
            answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"operator\""));
        }
        answer
    }
}

impl From<Unspecified> for Refusal {
    fn from(Unspecified: Unspecified) -> Self {
        Self::new(ErrorCode::ServerError, "there is no randomness, or no key")
    }
}

/// An answer that a fault asks for.
pub(in crate::camara) fn simulated_failure(status: StatusCode) -> Answer {
    let code = match status {
        StatusCode::UNAUTHORIZED => ErrorCode::InvalidClient,
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS | StatusCode::GATEWAY_TIMEOUT => {
            ErrorCode::TemporarilyUnavailable
        }
        status if status.is_client_error() => ErrorCode::InvalidRequest,
        _ => ErrorCode::ServerError,
    };
    Refusal::new(code, "a simulated failure").into_answer_with(status)
}
