//! Errors from an authorization server.

use std::fmt;

use jiff::SignedDuration;
use strum::IntoStaticStr;

use crate::client::ClientError;

/// Step of an OAuth flow in which an error occurred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Stage {
    Discovery,
    Keys,
    /// Authorization response, delivered by the device.
    Redirect,
    /// CIBA authentication request.
    Backchannel,
    Token,
    IdToken,
    /// A protected resource, such as userinfo.
    Api,
}

impl Stage {
    pub(crate) fn location(self) -> &'static str {
        match self {
            Stage::Discovery => "from the discovery document",
            Stage::Keys => "from the JWKS endpoint",
            Stage::Redirect => "in the authorization response",
            Stage::Backchannel => "from the backchannel endpoint",
            Stage::Token => "from the token endpoint",
            Stage::IdToken => "in the ID token",
            Stage::Api => "from the API",
        }
    }
}

/// Why a response is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InvalidResponse {
    /// Not JSON, or required members are missing.
    Body,
    UnknownError,
    RepeatedParameter,
    /// The authorization response contains neither an error nor a valid code.
    NoCode,
    /// The discovery document names another issuer than the configured one.
    IssuerMismatch,
    /// `iss` of the authorization response is missing or wrong (RFC 9207).
    ResponseIssuerMismatch,
    /// The token is not a bearer token.
    TokenType,
}

/// Values of `error` in OAuth, OpenID Connect and CIBA.
const ERROR_NAMES: [&str; 31] = [
    "login_required",
    "interaction_required",
    "account_selection_required",
    "access_denied",
    "unknown_user_id",
    "consent_required",
    "authorization_pending",
    "slow_down",
    "expired_token",
    "transaction_failed",
    "server_error",
    "temporarily_unavailable",
    "invalid_client",
    "unauthorized_client",
    "invalid_scope",
    "invalid_request_object",
    "invalid_request_uri",
    "request_not_supported",
    "request_uri_not_supported",
    "registration_not_supported",
    "unsupported_response_type",
    "unsupported_grant_type",
    "invalid_dpop_proof",
    "invalid_request",
    "invalid_grant",
    "invalid_token",
    "insufficient_scope",
    "invalid_binding_message",
    "missing_user_code",
    "invalid_user_code",
    "expired_login_hint_token",
];

/// Returns the name of a known error. Other text from a server is dropped, so that it is never logged.
pub(crate) fn find_error_name(text: &str) -> Option<&'static str> {
    ERROR_NAMES.into_iter().find(|name| *name == text)
}

/// A failed exchange with an authorization server, or with a resource that it protects.
#[derive(Clone, Debug)]
pub(crate) struct OAuthError {
    pub stage: Stage,
    pub cause: OAuthCause,
    /// Whether another caller has already received this error. If so, the circuit breaker must not count it again.
    pub is_shared: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum OAuthCause {
    Rejected(Rejection),
    /// The authorization response contains this known `error`.
    Denied(&'static str),
    NoResponse(ClientError),
    InvalidResponse(InvalidResponse),
    /// Failure on our side.
    Internal,
}

/// A response with a status other than 200.
#[derive(Clone, derive_more::Debug)]
pub(crate) struct Rejection {
    pub status: u16,
    /// Member `error` of the body, if its value is known.
    pub error: Option<&'static str>,
    /// Member `code` of the body, in which CAMARA APIs report errors. `Debug` omits this text from the server.
    #[debug(skip)]
    pub code: Option<String>,
    /// Pause that the server requests with `Retry-After`.
    pub retry_after: Option<SignedDuration>,
}

impl OAuthError {
    pub(crate) fn new(stage: Stage, cause: OAuthCause) -> Self {
        OAuthError { stage, cause, is_shared: false }
    }

    pub(crate) fn invalid_response(stage: Stage, reason: InvalidResponse) -> Self {
        OAuthError::new(stage, OAuthCause::InvalidResponse(reason))
    }

    /// Returns the same error, marked as shared, for another caller.
    pub(crate) fn to_shared(&self) -> Self {
        OAuthError { is_shared: true, ..self.clone() }
    }
}

/// Omits text from the server, which may contain personal data.
impl fmt::Display for OAuthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let location = self.stage.location();
        match &self.cause {
            OAuthCause::Rejected(Rejection { status, error, .. }) => match error {
                Some(error) => write!(f, "error `{error}` {location} (status {status})"),
                None => write!(f, "unexpected status {location} (status {status})"),
            },
            OAuthCause::Denied(error) => write!(f, "error `{error}` {location}"),
            OAuthCause::NoResponse(error) => write!(f, "{error} {location}"),
            OAuthCause::InvalidResponse(_) => write!(f, "invalid response {location}"),
            OAuthCause::Internal => write!(f, "internal error {location}"),
        }
    }
}
