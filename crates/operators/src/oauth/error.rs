//! Errors of an authorization server.

use std::fmt;

use jiff::SignedDuration;
use strum::IntoStaticStr;

use crate::client::ClientError;

/// Step of the exchange in which an error occurred.
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
    /// Neither an error nor a code.
    NoCode,
    /// Metadata of another issuer.
    IssuerMismatch,
    /// `iss` of the authorization response is missing or wrong (RFC 9207).
    ResponseIssuerMismatch,
    /// Not a bearer token.
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

/// The name of a known error: other text of a server is not logged.
pub(crate) fn find_error_name(text: &str) -> Option<&'static str> {
    ERROR_NAMES.into_iter().find(|name| *name == text)
}

/// A failed exchange with an authorization server, or with a resource that it protects.
#[derive(Clone, Debug)]
pub(crate) struct OAuthError {
    pub stage: Stage,
    pub cause: OAuthCause,
    /// Another caller has already had the same error.
    pub is_shared: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum OAuthCause {
    Rejected(Rejection),
    /// Known `error` of an authorization response.
    Denied(&'static str),
    NoResponse(ClientError),
    InvalidResponse(InvalidResponse),
    /// Failure on our side.
    Internal,
}

/// A response with another status than 200.
#[derive(Clone, derive_more::Debug)]
pub(crate) struct Rejection {
    pub status: u16,
    /// `error`, if it is known.
    pub error: Option<&'static str>,
    /// `code` of APIs that have errors of their own. Masked: text of the server.
    #[debug(skip)]
    pub code: Option<String>,
    /// Pause that the server requests.
    pub retry_after: Option<SignedDuration>,
}

impl OAuthError {
    pub(crate) fn new(stage: Stage, cause: OAuthCause) -> Self {
        OAuthError { stage, cause, is_shared: false }
    }

    pub(crate) fn invalid_response(stage: Stage, reason: InvalidResponse) -> Self {
        OAuthError::new(stage, OAuthCause::InvalidResponse(reason))
    }

    /// The same error for another caller.
    pub(crate) fn shared(&self) -> Self {
        OAuthError { is_shared: true, ..self.clone() }
    }
}

/// Shows no text of the server, which may contain personal data.
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
