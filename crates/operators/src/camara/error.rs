//! Operator errors, and the table that maps the cause of an error to its effects.
//!
//! A row maps a cause to the error code of the check, and to the outcome that the circuit breaker counts. Errors that
//! arrive through the device can be forged by its user: they may conclude that device's check, but never affect the
//! breaker.

use std::fmt;

use jiff::SignedDuration;
use ringtrue_domain::lifecycle::ErrorCode::{
    self, InternalError, MnoNoDataAvailable, MnoNotSupported, MnoResponseError, MnoServerError, MnoTimeout,
    MnoUserNotFound, NotMobileIp,
};
use ringtrue_engine::ports::transport::TlsError;

use crate::{
    breaker::CallOutcome,
    client::ClientError,
    oauth::{self, OAuthCause, OAuthError, Rejection, Stage},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCause<'a> {
    /// An `error` of OAuth or OpenID Connect.
    OAuth(&'a str),
    /// A `code` of CAMARA, without its API prefix.
    Camara(&'a str),
    /// HTTP status of a response without a known error name.
    Status(u16),
    /// First digit of the HTTP status, for statuses that have no row of their own in [`ERROR_TABLE`].
    StatusClass(u16),
    NoResponse(ClientError),
    InvalidResponse(InvalidResponse),
    /// The operator has no SIM history of the number, or may not disclose it.
    NoHistory,
    /// Failure on our side.
    Internal,
}

/// Why a response is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidResponse {
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
    /// Invalid ID token, or one for another request.
    IdToken,
    Number,
    /// Invalid or implausible date.
    Date,
    /// CIBA is configured, but the server has no backchannel endpoint.
    NoBackchannel,
}

impl From<oauth::InvalidResponse> for InvalidResponse {
    fn from(reason: oauth::InvalidResponse) -> Self {
        match reason {
            oauth::InvalidResponse::Body => InvalidResponse::Body,
            oauth::InvalidResponse::UnknownError => InvalidResponse::UnknownError,
            oauth::InvalidResponse::RepeatedParameter => InvalidResponse::RepeatedParameter,
            oauth::InvalidResponse::NoCode => InvalidResponse::NoCode,
            oauth::InvalidResponse::IssuerMismatch => InvalidResponse::IssuerMismatch,
            oauth::InvalidResponse::ResponseIssuerMismatch => InvalidResponse::ResponseIssuerMismatch,
            oauth::InvalidResponse::TokenType => InvalidResponse::TokenType,
        }
    }
}

#[derive(Debug)]
pub struct ErrorMapping {
    pub cause: ErrorCause<'static>,
    pub error_code: ErrorCode,
    pub call_outcome: CallOutcome,
}

const fn mapping(cause: ErrorCause<'static>, error_code: ErrorCode, call_outcome: CallOutcome) -> ErrorMapping {
    ErrorMapping { cause, error_code, call_outcome }
}

use CallOutcome::{Failure, Inconclusive, Rejected, Success, Throttled, Timeout};
use ErrorCause::{Camara, Internal, NoHistory, NoResponse, OAuth, Status, StatusClass};

pub const ERROR_TABLE: &[ErrorMapping] = &[
    // The operator cannot identify the subscriber: the device uses Wi-Fi, a VPN or another operator's SIM.
    mapping(OAuth("login_required"), MnoUserNotFound, Success),
    mapping(OAuth("interaction_required"), MnoUserNotFound, Success),
    mapping(OAuth("account_selection_required"), MnoUserNotFound, Success),
    mapping(OAuth("access_denied"), MnoUserNotFound, Success),
    mapping(OAuth("unknown_user_id"), MnoUserNotFound, Success),
    mapping(OAuth("consent_required"), MnoNoDataAvailable, Success),
    // CIBA: the operator has made no decision before our deadline.
    mapping(OAuth("authorization_pending"), MnoTimeout, Success),
    mapping(OAuth("slow_down"), MnoTimeout, Success),
    mapping(OAuth("expired_token"), MnoTimeout, Success),
    mapping(OAuth("transaction_failed"), MnoServerError, Failure),
    mapping(OAuth("server_error"), MnoServerError, Failure),
    mapping(OAuth("temporarily_unavailable"), MnoTimeout, Timeout),
    // The operator rejects our client configuration.
    mapping(OAuth("invalid_client"), MnoServerError, Rejected),
    mapping(OAuth("unauthorized_client"), MnoServerError, Rejected),
    mapping(OAuth("invalid_scope"), MnoServerError, Rejected),
    mapping(OAuth("invalid_request_object"), MnoServerError, Rejected),
    mapping(OAuth("invalid_request_uri"), MnoServerError, Rejected),
    mapping(OAuth("request_not_supported"), MnoServerError, Rejected),
    mapping(OAuth("request_uri_not_supported"), MnoServerError, Rejected),
    mapping(OAuth("registration_not_supported"), MnoServerError, Rejected),
    mapping(OAuth("unsupported_response_type"), MnoServerError, Rejected),
    mapping(OAuth("unsupported_grant_type"), MnoServerError, Rejected),
    mapping(OAuth("invalid_dpop_proof"), MnoServerError, Rejected),
    // `invalid_request` and `invalid_grant` may concern the code, which the device delivered and could have forged. One
    // occurrence therefore does not open the breaker.
    mapping(OAuth("invalid_request"), MnoServerError, Failure),
    mapping(OAuth("invalid_grant"), MnoResponseError, Success),
    mapping(OAuth("invalid_token"), MnoResponseError, Inconclusive),
    mapping(OAuth("insufficient_scope"), MnoServerError, Rejected),
    mapping(OAuth("invalid_binding_message"), MnoServerError, Rejected),
    mapping(OAuth("missing_user_code"), MnoServerError, Rejected),
    mapping(OAuth("invalid_user_code"), MnoServerError, Rejected),
    mapping(OAuth("expired_login_hint_token"), MnoResponseError, Inconclusive),
    // Number Verification and common CAMARA codes.
    mapping(Camara("USER_NOT_AUTHENTICATED_BY_MOBILE_NETWORK"), NotMobileIp, Success),
    mapping(Camara("IDENTIFIER_NOT_FOUND"), MnoUserNotFound, Success),
    mapping(Camara("NOT_FOUND"), MnoUserNotFound, Inconclusive),
    mapping(Camara("SERVICE_NOT_APPLICABLE"), MnoNotSupported, Success),
    mapping(Camara("PERMISSION_DENIED"), MnoServerError, Rejected),
    mapping(Camara("UNAUTHENTICATED"), MnoResponseError, Inconclusive),
    mapping(Camara("AUTHENTICATION_REQUIRED"), MnoResponseError, Inconclusive),
    mapping(Camara("INVALID_TOKEN_CONTEXT"), MnoResponseError, Inconclusive),
    mapping(Camara("MISSING_IDENTIFIER"), MnoResponseError, Inconclusive),
    mapping(Camara("UNNECESSARY_IDENTIFIER"), MnoResponseError, Inconclusive),
    mapping(Camara("UNSUPPORTED_IDENTIFIER"), MnoResponseError, Inconclusive),
    mapping(Camara("INVALID_ARGUMENT"), MnoResponseError, Inconclusive),
    mapping(Camara("OUT_OF_RANGE"), MnoResponseError, Inconclusive),
    mapping(Camara("ABORTED"), MnoResponseError, Inconclusive),
    mapping(Camara("ALREADY_EXISTS"), MnoResponseError, Inconclusive),
    mapping(Camara("CONFLICT"), MnoResponseError, Inconclusive),
    mapping(Camara("INCOMPATIBLE_STATE"), MnoResponseError, Inconclusive),
    mapping(Camara("GONE"), MnoResponseError, Inconclusive),
    mapping(Camara("FAILED_PRECONDITION"), MnoResponseError, Inconclusive),
    mapping(Camara("METHOD_NOT_ALLOWED"), MnoServerError, Failure),
    mapping(Camara("NOT_ACCEPTABLE"), MnoServerError, Failure),
    mapping(Camara("UNSUPPORTED_MEDIA_TYPE"), MnoServerError, Failure),
    mapping(Camara("QUOTA_EXCEEDED"), MnoServerError, Throttled),
    mapping(Camara("TOO_MANY_REQUESTS"), MnoServerError, Throttled),
    mapping(Camara("INTERNAL"), MnoServerError, Failure),
    mapping(Camara("NOT_IMPLEMENTED"), MnoServerError, Failure),
    mapping(Camara("BAD_GATEWAY"), MnoServerError, Failure),
    mapping(Camara("UNAVAILABLE"), MnoTimeout, Timeout),
    mapping(Camara("TIMEOUT"), MnoTimeout, Timeout),
    // Responses without a known code. A 404 is most likely a wrong path setting.
    mapping(Status(401), MnoResponseError, Inconclusive),
    mapping(Status(403), MnoServerError, Failure),
    mapping(Status(404), MnoServerError, Failure),
    mapping(Status(405), MnoServerError, Failure),
    mapping(Status(406), MnoServerError, Failure),
    mapping(Status(408), MnoTimeout, Timeout),
    mapping(Status(415), MnoServerError, Failure),
    mapping(Status(429), MnoServerError, Throttled),
    mapping(Status(503), MnoTimeout, Timeout),
    mapping(Status(504), MnoTimeout, Timeout),
    mapping(StatusClass(5), MnoServerError, Failure),
    mapping(StatusClass(4), MnoResponseError, Inconclusive),
    mapping(StatusClass(3), MnoResponseError, Failure),
    mapping(StatusClass(2), MnoResponseError, Failure),
    mapping(StatusClass(1), MnoResponseError, Failure),
    // No response, or an invalid one.
    mapping(NoResponse(ClientError::Timeout), MnoTimeout, Timeout),
    mapping(NoResponse(ClientError::ConnectTimeout), MnoTimeout, Timeout),
    mapping(NoResponse(ClientError::InvalidUrl), MnoServerError, Rejected),
    mapping(NoResponse(ClientError::Unresolved), MnoServerError, Failure),
    mapping(NoResponse(ClientError::Refused), MnoServerError, Failure),
    mapping(NoResponse(ClientError::Lost), MnoServerError, Failure),
    mapping(NoResponse(ClientError::Tls(TlsError::CertificateExpired)), MnoServerError, Failure),
    mapping(NoResponse(ClientError::Tls(TlsError::CertificateNotYetValid)), MnoServerError, Failure),
    mapping(NoResponse(ClientError::Tls(TlsError::CertificateUntrusted)), MnoServerError, Failure),
    mapping(NoResponse(ClientError::Tls(TlsError::CertificateWrongHost)), MnoServerError, Failure),
    mapping(NoResponse(ClientError::Tls(TlsError::CertificateInvalid)), MnoServerError, Failure),
    mapping(NoResponse(ClientError::Tls(TlsError::TlsVersion)), MnoServerError, Failure),
    mapping(NoResponse(ClientError::Tls(TlsError::NotTls)), MnoServerError, Failure),
    mapping(NoResponse(ClientError::Tls(TlsError::Handshake)), MnoServerError, Failure),
    mapping(NoResponse(ClientError::TooLarge), MnoResponseError, Failure),
    mapping(NoResponse(ClientError::Protocol), MnoResponseError, Failure),
    mapping(ErrorCause::InvalidResponse(InvalidResponse::Body), MnoResponseError, Failure),
    mapping(ErrorCause::InvalidResponse(InvalidResponse::UnknownError), MnoResponseError, Inconclusive),
    mapping(ErrorCause::InvalidResponse(InvalidResponse::RepeatedParameter), MnoResponseError, Inconclusive),
    mapping(ErrorCause::InvalidResponse(InvalidResponse::NoCode), MnoResponseError, Inconclusive),
    mapping(ErrorCause::InvalidResponse(InvalidResponse::IssuerMismatch), MnoResponseError, Rejected),
    mapping(ErrorCause::InvalidResponse(InvalidResponse::ResponseIssuerMismatch), MnoResponseError, Inconclusive),
    mapping(ErrorCause::InvalidResponse(InvalidResponse::TokenType), MnoResponseError, Failure),
    mapping(ErrorCause::InvalidResponse(InvalidResponse::IdToken), MnoResponseError, Failure),
    mapping(ErrorCause::InvalidResponse(InvalidResponse::Number), MnoResponseError, Inconclusive),
    mapping(ErrorCause::InvalidResponse(InvalidResponse::Date), MnoResponseError, Inconclusive),
    mapping(ErrorCause::InvalidResponse(InvalidResponse::NoBackchannel), MnoServerError, Rejected),
    mapping(NoHistory, MnoNoDataAvailable, Success),
    INTERNAL_ERROR,
];

const INTERNAL_ERROR: ErrorMapping = mapping(Internal, InternalError, Inconclusive);

fn find(cause: ErrorCause<'_>) -> Option<&'static ErrorMapping> {
    ERROR_TABLE.iter().find(|row| row.cause == cause)
}

/// Error of a CAMARA connector: the step in which it occurred, and its row of [`ERROR_TABLE`].
#[derive(Clone, Copy, Debug)]
pub struct CamaraConnectorError {
    pub stage: Stage,
    row: &'static ErrorMapping,
    pub status: Option<u16>,
    /// Pause that the operator requests with `Retry-After`.
    pub retry_after: Option<SignedDuration>,
    is_counted: bool,
}

impl CamaraConnectorError {
    pub fn new(stage: Stage, cause: ErrorCause<'_>) -> Self {
        let row = find(cause).unwrap_or(&INTERNAL_ERROR);
        CamaraConnectorError { stage, row, status: None, retry_after: None, is_counted: false }
    }

    pub fn invalid_response(stage: Stage, reason: InvalidResponse) -> Self {
        CamaraConnectorError::new(stage, ErrorCause::InvalidResponse(reason))
    }

    /// Looks up the `error` of an authorization response in the table.
    fn from_redirect(error: &str) -> Self {
        let row = find(OAuth(error));
        let unknown = || CamaraConnectorError::invalid_response(Stage::Redirect, InvalidResponse::UnknownError);
        row.map_or_else(unknown, |row| CamaraConnectorError::new(Stage::Redirect, row.cause))
    }

    /// Looks up the cause of an HTTP error response in the table. Error names take precedence over the status.
    fn from_response(stage: Stage, status: u16, error: Option<&str>, code: Option<&str>) -> Self {
        let by_error = error.and_then(|error| find(OAuth(error)));
        let by_code = || code.and_then(|code| find(Camara(code.rsplit('.').next().unwrap_or(code))));
        let by_status = || find(Status(status)).or_else(|| find(StatusClass(status / 100)));
        let row = by_error.or_else(by_code).or_else(by_status).unwrap_or(&INTERNAL_ERROR);
        CamaraConnectorError { status: Some(status), ..CamaraConnectorError::new(stage, row.cause) }
    }

    /// Prevents the circuit breaker from counting the error, for example because it was already counted for another
    /// caller that shared the request.
    pub fn without_counting(self) -> Self {
        CamaraConnectorError { is_counted: true, ..self }
    }

    /// Prevents the breaker from counting the error if a device can cause it. A device can forge the authorization
    /// code, and it can change an authorization request that is not signed.
    pub fn without_counting_device_errors(self, request_was_signed: bool) -> Self {
        let concerns_code = matches!(self.row.cause, OAuth("invalid_grant" | "invalid_request"));
        let concerns_request = matches!(
            self.row.cause,
            OAuth("insufficient_scope" | "invalid_scope")
                | Camara("PERMISSION_DENIED")
                | ErrorCause::InvalidResponse(InvalidResponse::IdToken)
        );
        if concerns_code || (concerns_request && !request_was_signed) { self.without_counting() } else { self }
    }

    pub fn code(&self) -> ErrorCode {
        self.row.error_code
    }

    pub fn call_outcome(&self) -> CallOutcome {
        let is_from_device = self.stage == Stage::Redirect;
        if is_from_device || self.is_counted { CallOutcome::Inconclusive } else { self.row.call_outcome }
    }

    /// Whether the operator rejects our configuration, so that somebody has to correct it.
    pub fn is_misconfiguration(&self) -> bool {
        self.row.call_outcome == CallOutcome::Rejected
    }

    /// Whether the error concerns only the subscriber or the device. Such errors occur in normal operation.
    pub fn is_subscriber_error(&self) -> bool {
        self.row.call_outcome == CallOutcome::Success
    }

    /// Returns the cause. It is safe to log, because it contains no text from the operator.
    pub fn cause(&self) -> ErrorCause<'static> {
        self.row.cause
    }
}

impl From<OAuthError> for CamaraConnectorError {
    fn from(OAuthError { stage, cause, is_shared }: OAuthError) -> Self {
        let error = match cause {
            OAuthCause::Rejected(Rejection { status, error, code, retry_after }) => CamaraConnectorError {
                retry_after,
                ..CamaraConnectorError::from_response(stage, status, error, code.as_deref())
            },
            OAuthCause::Denied(error) => CamaraConnectorError::from_redirect(error),
            OAuthCause::NoResponse(error) => CamaraConnectorError::new(stage, NoResponse(error)),
            OAuthCause::InvalidResponse(reason) => CamaraConnectorError::invalid_response(stage, reason.into()),
            OAuthCause::Internal => CamaraConnectorError::new(stage, Internal),
        };
        if is_shared { error.without_counting() } else { error }
    }
}

/// Omits text from the operator, which may contain personal data.
impl fmt::Display for CamaraConnectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.row.cause {
            OAuth(error) => write!(f, "error `{error}`")?,
            Camara(code) => write!(f, "code `{code}`")?,
            Status(_) | StatusClass(_) => f.write_str("unexpected status")?,
            NoResponse(error) => write!(f, "{error}")?,
            ErrorCause::InvalidResponse(_) => f.write_str("invalid response")?,
            NoHistory => f.write_str("no SIM history")?,
            Internal => f.write_str("internal error")?,
        }
        write!(f, " {}", self.stage.location())?;
        self.status.map_or(Ok(()), |status| write!(f, " (status {status})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oauth::find_error_name;

    #[test]
    fn oauth_errors_of_the_table_are_known() {
        for row in ERROR_TABLE {
            if let OAuth(name) = row.cause {
                assert_eq!(find_error_name(name), Some(name));
            }
        }
    }
}
