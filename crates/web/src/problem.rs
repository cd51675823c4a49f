//! Error responses (RFC 9457).
//!
//! Handlers return a [`Problem`]. The middleware renders it, because it knows the base URL of the error pages.

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use ringtrue_domain::{
    lifecycle::{CheckId, CheckStatus},
    tenancy::SettingError,
};
use ringtrue_engine::{
    callbacks::ResendError,
    checks::{CreateError, ReadError},
    idempotency::IdempotencyError,
    lookups::eligibility::EligibilityError,
    ports::store::StoreError,
    silent::{RedeemError, RedirectError},
    tenants::ManagementError,
    verifications::GiveUpError,
};
use ringtrue_sandbox::{handsets::HandsetError, wallet::InvalidRequest};
use serde::Serialize;

use crate::{
    camara_error::{CamaraError, render_error},
    error_catalog::ProblemCode,
};

#[derive(Clone, Debug)]
pub struct Problem {
    pub code: ProblemCode,
    pub detail: String,
    headers: Vec<(HeaderName, HeaderValue)>,
    audience: ProblemAudience,
    camara_error: Option<CamaraError>,
}

/// Recipient of a problem. It determines additional fields and the content type.
#[derive(Clone, Copy, Debug)]
pub enum ProblemAudience {
    Caller,
    /// Client of a token endpoint. Adds the error fields of RFC 6749, and uses `application/json` if the client asks
    /// for it.
    OAuthClient {
        wants_plain_json: bool,
    },
    /// Device at the end of a silent check's redirects. Adds `check_id`, `error` and `error_description`, which the
    /// regular response to a device also has.
    Device(CheckId),
    /// Client of CAMARA's APIs, which have an error format of their own.
    CamaraClient,
}

impl ProblemAudience {
    /// Creates the audience for an OAuth client. The client gets plain JSON if its `Accept` header names
    /// `application/json` and not `application/problem+json`.
    pub fn oauth_client(headers: &HeaderMap) -> Self {
        let named = |media_type: &str| {
            let lists = headers.get_all(header::ACCEPT).iter().filter_map(|list| list.to_str().ok());
            let mut ranges = lists.flat_map(|list| list.split(',')).filter_map(|range| range.split(';').next());
            ranges.any(|range| range.trim().eq_ignore_ascii_case(media_type))
        };
        ProblemAudience::OAuthClient {
            wants_plain_json: named("application/json") && !named("application/problem+json"),
        }
    }
}

/// Value of `Retry-After` in seconds when the store is unavailable.
const UNAVAILABLE_RETRY_AFTER: u32 = 2;
/// Value of `Retry-After` in seconds when a workspace runs too many searches at once.
const SEARCH_RETRY_AFTER: u32 = 1;
/// Value of `Retry-After` in seconds when no number source (such as an HLR) responded to a lookup.
const LOOKUP_RETRY_AFTER: u32 = 5;
/// Value of `Retry-After` in seconds when too many simulated SMS wait for delivery. Equals the usual delivery time of a
/// simulated SMS.
const SMS_RETRY_AFTER: u32 = 5;
/// Text appended to the error of a silent check if the project can use Reverse SMS instead.
pub const FALLBACK_HINT: &str = "; use Reverse SMS instead";

impl Problem {
    pub fn new(code: ProblemCode, detail: impl Into<String>) -> Self {
        let (headers, audience) = (vec![], ProblemAudience::Caller);
        Problem { code, detail: detail.into(), headers, audience, camara_error: None }
    }

    pub fn bad_request(detail: impl Into<String>) -> Self {
        Problem::new(ProblemCode::BadRequest, detail)
    }

    pub fn not_found() -> Self {
        Problem::new(ProblemCode::NotFound, "no resource exists at this path")
    }

    pub fn unavailable(detail: impl Into<String>) -> Self {
        Problem::new(ProblemCode::ServiceUnavailable, detail).with_retry_after(UNAVAILABLE_RETRY_AFTER)
    }

    pub fn too_many_requests(detail: impl Into<String>, retry_after: u32) -> Self {
        Problem::new(ProblemCode::TooManyRequests, detail).with_retry_after(retry_after)
    }

    fn lookup_unavailable(detail: String) -> Self {
        Problem::new(ProblemCode::LookupUnavailable, detail).with_retry_after(LOOKUP_RETRY_AFTER)
    }

    /// Creates an internal error and logs its cause. The response does not contain the cause.
    pub fn internal(cause: &dyn std::fmt::Display) -> Self {
        tracing::error!(error = %cause, "request failed with an internal error");
        Problem::new(ProblemCode::InternalError, "internal error")
    }

    #[must_use]
    pub fn with_retry_after(self, seconds: u32) -> Self {
        self.with_header(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)))
    }

    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Closes the connection after the response.
    #[must_use]
    pub fn with_connection_close(self) -> Self {
        self.with_header(header::CONNECTION, HeaderValue::from_static("close"))
    }

    /// Gives the problem an error of CAMARA's APIs, with its status.
    #[must_use]
    pub fn with_camara_error(mut self, error: CamaraError) -> Self {
        self.camara_error = Some(error);
        self
    }

    pub fn status(&self) -> StatusCode {
        self.camara_error.map_or(self.code.entry().status, CamaraError::status)
    }

    /// The code in the request log.
    pub fn error_code(&self) -> &'static str {
        self.camara_error.map_or(self.code.entry().code, CamaraError::code)
    }

    /// Formats the problem for the device at the end of a silent check's redirects.
    #[must_use]
    pub fn for_device(mut self, check: CheckId) -> Self {
        self.audience = ProblemAudience::Device(check);
        self
    }

    /// Renders the problem as content type and body. `audience` is set if the route determines the audience, and then
    /// takes precedence over the problem's own.
    pub fn render(&self, base_url: &str, audience: Option<ProblemAudience>) -> (&'static str, Vec<u8>) {
        let entry = self.code.entry();
        let audience = audience.unwrap_or(self.audience);
        if let ProblemAudience::CamaraClient = audience {
            return ("application/json", render_error(self.status(), self.camara_error, &self.detail));
        }
        let error = match audience {
            ProblemAudience::Caller | ProblemAudience::CamaraClient => None,
            // OAuth client libraries read only `error` and `error_description`, and do not know the code
            // `unauthorized`.
            ProblemAudience::OAuthClient { .. } if entry.code == "unauthorized" => Some("invalid_client"),
            ProblemAudience::OAuthClient { .. } | ProblemAudience::Device(_) => Some(entry.code),
        };
        let body = ProblemBody {
            r#type: format!("{base_url}/errors/{}", entry.code),
            title: entry.title,
            status: entry.status.as_u16(),
            detail: &self.detail,
            error_code: entry.code,
            check_id: if let ProblemAudience::Device(check) = audience { Some(check.to_string()) } else { None },
            error,
            error_description: error.is_some().then_some(&self.detail),
        };
        let content_type = match audience {
            ProblemAudience::OAuthClient { wants_plain_json: true } => "application/json",
            _ => "application/problem+json",
        };
        (content_type, serde_json::to_vec(&body).unwrap_or_default())
    }
}

#[derive(Serialize)]
struct ProblemBody<'a> {
    r#type: String,
    title: &'static str,
    status: u16,
    detail: &'a str,
    error_code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    check_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_description: Option<&'a String>,
}

impl IntoResponse for Problem {
    /// Returns a response without a body, with the problem attached. The middleware renders the body.
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        for (name, value) in &self.headers {
            response.headers_mut().append(name.clone(), value.clone());
        }
        response.extensions_mut().insert(self);
        response
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) => {
                tracing::warn!(%error, "store unavailable; request failed");
                Problem::unavailable("the service cannot reach its database")
            }
            StoreError::DeadlineExceeded(_) => {
                tracing::info!(%error, "query stopped at its deadline");
                Problem::unavailable("the query timed out; narrow it, for example with a range of `created_at`")
            }
            StoreError::TooManySearches => Problem::too_many_requests(error.to_string(), SEARCH_RETRY_AFTER),
            StoreError::Refused(_) | StoreError::CorruptRow { .. } | StoreError::Altered(_) => {
                Problem::internal(&error)
            }
        }
    }
}

impl From<ManagementError> for Problem {
    fn from(error: ManagementError) -> Self {
        let detail = error.to_string();
        let code = match error {
            ManagementError::WorkspaceNotFound => ProblemCode::WorkspaceNotFound,
            ManagementError::ProjectNotFound => ProblemCode::ProjectNotFound,
            ManagementError::CredentialNotFound => ProblemCode::CredentialNotFound,
            ManagementError::OtherOwner(_) => ProblemCode::Forbidden,
            ManagementError::ProjectNameTaken => ProblemCode::ProjectNameTaken,
            ManagementError::NotReadyForLive(_) => ProblemCode::ProjectNotReady,
            ManagementError::InvalidSetting(invalid) => match invalid.cause {
                SettingError::CallbackUrl(_) => ProblemCode::CallbackUrlInvalid,
                SettingError::RedirectUrl(_) => ProblemCode::RedirectUrlInvalid,
                SettingError::Other(_) => ProblemCode::BadRequest,
            },
            ManagementError::InvalidMember { member, problem } => {
                return Problem::bad_request(format!("`{member}`: {problem}"));
            }
            ManagementError::DuplicateNetwork { .. } | ManagementError::UnknownNetwork { .. } => {
                ProblemCode::BadRequest
            }
            ManagementError::LimitReached(_) => ProblemCode::LimitReached,
            ManagementError::LastCredential => ProblemCode::LastCredential,
            ManagementError::PreconditionFailed => ProblemCode::PreconditionFailed,
            ManagementError::ConcurrentUpdates => return Problem::unavailable(detail),
            ManagementError::Store(cause) => return cause.into(),
        };
        Problem::new(code, detail)
    }
}

impl From<CreateError> for Problem {
    fn from(error: CreateError) -> Self {
        let detail = error.to_string();
        let code = match error {
            CreateError::ProjectDisabled => ProblemCode::Unauthorized,
            CreateError::CallbackUrl(_) => ProblemCode::CallbackUrlInvalid,
            CreateError::RedirectUrl(_) => ProblemCode::RedirectUrlInvalid,
            CreateError::Period(_) => ProblemCode::PeriodInvalid,
            CreateError::DeviceIp => ProblemCode::IpInvalid,
            CreateError::PhoneNumber(_) => ProblemCode::PhoneNumberInvalid,
            CreateError::MnoNotSupported | CreateError::OnlyReverseSms => ProblemCode::MnoNotSupported,
            CreateError::NetworkNotAllowed => ProblemCode::Forbidden,
            CreateError::LookupUnavailable => return Problem::lookup_unavailable(detail),
            CreateError::TooManyChecks { retry_after } => return Problem::too_many_requests(detail, retry_after),
            CreateError::Store(cause) => return cause.into(),
        };
        Problem::new(code, detail)
    }
}

impl From<ReadError> for Problem {
    fn from(error: ReadError) -> Self {
        let detail = error.to_string();
        match error {
            ReadError::NotFound => Problem::new(ProblemCode::CheckNotFound, detail),
            ReadError::OtherProject => Problem::new(ProblemCode::Forbidden, detail),
            ReadError::Store(cause) => cause.into(),
        }
    }
}

impl From<ResendError> for Problem {
    fn from(error: ResendError) -> Self {
        let detail = error.to_string();
        let code = match error {
            ResendError::Read(cause) => return cause.into(),
            ResendError::StillOpen => ProblemCode::CheckStillOpen,
            ResendError::NoCallback => ProblemCode::CallbackMissing,
            ResendError::StillWaiting => ProblemCode::CallbackInProgress,
            ResendError::Erased => ProblemCode::CallbackErased,
            ResendError::LimitReached => ProblemCode::LimitReached,
        };
        Problem::new(code, detail)
    }
}

impl From<EligibilityError> for Problem {
    fn from(error: EligibilityError) -> Self {
        let detail = error.to_string();
        let code = match error {
            EligibilityError::ProjectDisabled => ProblemCode::Unauthorized,
            EligibilityError::PhoneNumber(_) => ProblemCode::PhoneNumberInvalid,
            EligibilityError::Address => ProblemCode::IpInvalid,
            EligibilityError::NoSubscriber => ProblemCode::SubscriberNotFound,
            EligibilityError::NoNetwork => ProblemCode::NetworkNotFound,
            EligibilityError::NotMobile => ProblemCode::NotMobileIp,
            EligibilityError::LookupUnavailable => return Problem::lookup_unavailable(detail),
        };
        Problem::new(code, detail)
    }
}

impl From<RedeemError> for Problem {
    fn from(error: RedeemError) -> Self {
        let detail = error.to_string();
        match error {
            RedeemError::WrongCode { remaining_attempts } => {
                let rest = match remaining_attempts {
                    0 => "no attempts remain, and the check has failed".to_owned(),
                    1 => "1 attempt remains".to_owned(),
                    several => format!("{several} attempts remain"),
                };
                Problem::new(ProblemCode::CodeInvalid, format!("{detail}; {rest}"))
            }
            RedeemError::WrongCompletionCode => Problem::new(ProblemCode::CodeInvalid, detail),
            RedeemError::NotReady | RedeemError::SupersededCredential | RedeemError::NotSecureSna => {
                Problem::new(ProblemCode::CheckNotReady, detail)
            }
            RedeemError::AlreadyCompleted { error_code, may_use_reverse_sms } => {
                let how = error_code.map(|code| format!(", with the error `{code}`")).unwrap_or_default();
                let instead = if may_use_reverse_sms { FALLBACK_HINT } else { "" };
                Problem::new(ProblemCode::CheckAlreadyCompleted, format!("{detail}{how}{instead}"))
            }
            RedeemError::Expired => Problem::new(ProblemCode::CheckExpired, detail),
            RedeemError::InvalidCredential(_) | RedeemError::UsedCredential => {
                Problem::new(ProblemCode::DigitalCredentialInvalid, detail)
            }
            RedeemError::Read(error) => error.into(),
        }
    }
}

impl From<GiveUpError> for Problem {
    fn from(error: GiveUpError) -> Self {
        let detail = error.to_string();
        match error {
            GiveUpError::Concluded(CheckStatus::Expired) => {
                Problem::new(ProblemCode::CheckExpired, "the verification has expired")
            }
            GiveUpError::Concluded(_) => Problem::new(ProblemCode::CheckAlreadyCompleted, detail),
            GiveUpError::Read(error) => error.into(),
        }
    }
}

impl From<RedirectError> for Problem {
    fn from(error: RedirectError) -> Self {
        let detail = error.to_string();
        let code = match error {
            RedirectError::NotFound => ProblemCode::CheckNotFound,
            RedirectError::Sim(_) => ProblemCode::PhoneNumberInvalid,
            RedirectError::InvalidState => ProblemCode::BadRequest,
            RedirectError::OtherBrowser => ProblemCode::Forbidden,
            RedirectError::TooManyReplays { retry_after } => return Problem::too_many_requests(detail, retry_after),
            RedirectError::Store(cause) => return cause.into(),
        };
        Problem::new(code, detail)
    }
}

impl From<IdempotencyError> for Problem {
    fn from(error: IdempotencyError) -> Self {
        let detail = error.to_string();
        match error {
            IdempotencyError::InProgress => Problem::new(ProblemCode::IdempotencyInProgress, detail),
            IdempotencyError::Reused => Problem::new(ProblemCode::IdempotencyKeyReused, detail),
            IdempotencyError::Store(cause) => cause.into(),
        }
    }
}

impl From<HandsetError> for Problem {
    fn from(error: HandsetError) -> Self {
        let detail = error.to_string();
        match error {
            HandsetError::NoOperator | HandsetError::Busy => Problem::unavailable(detail),
            HandsetError::TooMany => Problem::too_many_requests(detail, SMS_RETRY_AFTER),
            HandsetError::TooLong => Problem::bad_request(format!("`/body`: {detail}")),
            HandsetError::InvalidCredentialRequest(InvalidRequest { pointer, problem }) => {
                Problem::bad_request(format!("`/request{pointer}`: {problem}"))
            }
            HandsetError::SimNotEligible | HandsetError::NoAnswer => Problem::bad_request(format!("`/sim`: {detail}")),
            HandsetError::WalletFailed => Problem::internal(&error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timed_out_query_returns_503_with_retry_after() {
        let problem = Problem::from(StoreError::DeadlineExceeded(std::time::Duration::from_secs(2)));
        assert_eq!(problem.code.entry().code, "service_unavailable");
        let response = problem.into_response();
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()[header::RETRY_AFTER], "2");
    }

    #[test]
    fn token_errors_are_plain_json_only_on_request() {
        for (accept, plain) in [
            (&["application/json"][..], true),
            (&["application/json, text/plain;q=0.5"], true),
            (&["Application/JSON; q=0.9"], true),
            (&["text/html", "application/json"], true),
            (&["application/problem+json"], false),
            (&["application/json, application/problem+json"], false),
            (&["application/json", "application/problem+json"], false),
            (&["*/*"], false),
            (&["text/html"], false),
            (&[], false),
        ] {
            let accepted = accept.iter().map(|list| (header::ACCEPT, HeaderValue::from_static(list)));
            let mut headers = HeaderMap::new();
            headers.extend(accepted);
            let (content_type, body) = Problem::new(ProblemCode::Unauthorized, "no")
                .render("https://eu.example.com", Some(ProblemAudience::oauth_client(&headers)));
            assert_eq!(content_type == "application/json", plain, "{accept:?}");
            let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(body["error"], "invalid_client");
            assert_eq!(body["error_code"], "unauthorized");
            assert_eq!(body["type"], "https://eu.example.com/errors/unauthorized");
        }
    }
}
