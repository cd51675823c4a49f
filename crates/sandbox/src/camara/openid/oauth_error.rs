//! Errors of OAuth, OpenID Connect and CIBA.

use aws_lc_rs::error::Unspecified;
use http::{HeaderValue, StatusCode, header::WWW_AUTHENTICATE};
use serde_json::json;

use crate::camara::http::{HttpResponse, json_response_with_status};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::camara) enum OAuthErrorCode {
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

impl OAuthErrorCode {
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

/// OAuth error with its `error_description`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::camara) struct OAuthError {
    pub code: OAuthErrorCode,
    pub description: &'static str,
}

impl OAuthError {
    pub(in crate::camara) fn new(code: OAuthErrorCode, description: &'static str) -> Self {
        Self { code, description }
    }

    /// Response of the token and backchannel endpoints.
    pub(super) fn into_response(self) -> HttpResponse {
        let status = match self.code {
            OAuthErrorCode::InvalidClient => StatusCode::UNAUTHORIZED,
            OAuthErrorCode::ServerError => StatusCode::INTERNAL_SERVER_ERROR,
            OAuthErrorCode::TemporarilyUnavailable => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_REQUEST,
        };
        self.into_response_with(status)
    }

    fn into_response_with(self, status: StatusCode) -> HttpResponse {
        let body = json!({ "error": self.code.as_str(), "error_description": self.description });
        let mut response = json_response_with_status(status, &body);
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"operator\""));
        }
        response
    }
}

impl From<Unspecified> for OAuthError {
    fn from(Unspecified: Unspecified) -> Self {
        Self::new(OAuthErrorCode::ServerError, "random number generator or key failure")
    }
}

/// Response of a fault.
pub(in crate::camara) fn simulated_error_response(status: StatusCode) -> HttpResponse {
    let code = match status {
        StatusCode::UNAUTHORIZED => OAuthErrorCode::InvalidClient,
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS | StatusCode::GATEWAY_TIMEOUT => {
            OAuthErrorCode::TemporarilyUnavailable
        }
        status if status.is_client_error() => OAuthErrorCode::InvalidRequest,
        _ => OAuthErrorCode::ServerError,
    };
    OAuthError::new(code, "simulated failure").into_response_with(status)
}
