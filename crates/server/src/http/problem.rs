//! Error answers (RFC 9457).
//!
//! A handler gives a [`Problem`]; the edge writes it out, since only there the base URL and the request id are at hand.

use axum::{
    extract::Request,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use ringtrue_domain::lifecycle::CheckId;
use ringtrue_engine::{
    callback::ResendError,
    checks::{CreateError, ReadError},
    eligibility::EligibilityError,
    idempotency::IdempotencyError,
    management::{InvalidUrl, ManagementError},
    ports::StoreError,
    silent::{RedeemError, VisitError},
};
use serde::Serialize;

use super::catalogue::Code;

/// What went wrong with a request, for the caller.
#[derive(Clone, Debug)]
pub struct Problem {
    pub code: Code,
    pub detail: String,
    headers: Vec<(HeaderName, HeaderValue)>,
    audience: Audience,
}

/// Who reads a problem, and what it tells them besides.
#[derive(Clone, Copy, Debug)]
pub enum Audience {
    Caller,
    /// At a token endpoint: RFC 6749's fields too, and as what it asked for.
    OAuthClient {
        wants_plain_json: bool,
    },
    /// At the end of a check's redirect chain: what it would be told there without an error, too.
    Device(CheckId),
}

impl Audience {
    /// Who has sent a request, as far as its path tells.
    pub fn of(request: &Request) -> Self {
        if is_token_endpoint(request.uri().path()) {
            return Audience::OAuthClient { wants_plain_json: wants_plain_json(request.headers()) };
        }
        Audience::Caller
    }
}

/// Whether OAuth clients are answered at this path.
pub fn is_token_endpoint(path: &str) -> bool {
    path.starts_with("/oauth2/")
}

/// Seconds after which a caller may try again when the store was unavailable.
const RETRY_UNAVAILABLE: u32 = 2;
/// The same when a workspace has too many searches running.
const RETRY_SEARCH: u32 = 1;
/// The same when no source could tell a number's operator.
const RETRY_LOOKUP: u32 = 5;
/// Said of a silent check that failed, where there is another way.
pub const INSTEAD: &str = "; Reverse SMS is available for this user";

impl Problem {
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Problem { code, detail: detail.into(), headers: vec![], audience: Audience::Caller }
    }

    pub fn bad_request(detail: impl Into<String>) -> Self {
        Problem::new(Code::BadRequest, detail)
    }

    pub fn not_found() -> Self {
        Problem::new(Code::NotFound, "there is nothing at this path")
    }

    pub fn unavailable(detail: impl Into<String>) -> Self {
        Problem::new(Code::ServiceUnavailable, detail).retry_after(RETRY_UNAVAILABLE)
    }

    /// Logs the cause, and tells the caller nothing of it.
    pub fn internal(cause: &dyn std::fmt::Display) -> Self {
        tracing::error!(error = %cause, "a request failed on our side");
        Problem::new(Code::InternalError, "something went wrong on our side")
    }

    #[must_use]
    pub fn retry_after(self, seconds: u32) -> Self {
        self.with(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)))
    }

    #[must_use]
    pub fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// The connection cannot be used for another request.
    #[must_use]
    pub fn closing_connection(self) -> Self {
        self.with(header::CONNECTION, HeaderValue::from_static("close"))
    }

    #[must_use]
    pub fn for_audience(mut self, audience: Audience) -> Self {
        self.audience = audience;
        self
    }

    /// Answers a request with these headers at a token endpoint.
    #[must_use]
    pub fn for_oauth(self, headers: &HeaderMap) -> Self {
        self.for_audience(Audience::OAuthClient { wants_plain_json: wants_plain_json(headers) })
    }

    /// Ends the redirect chain of this check.
    #[must_use]
    pub fn for_device(self, check: CheckId) -> Self {
        self.for_audience(Audience::Device(check))
    }

    /// The body and its content type.
    pub fn render(&self, base_url: &str) -> (&'static str, Vec<u8>) {
        let entry = self.code.entry();
        let error = match self.audience {
            Audience::Caller => None,
            // Off-the-shelf OAuth clients read only the two, and know no `unauthorized`.
            Audience::OAuthClient { .. } if entry.code == "unauthorized" => Some("invalid_client"),
            Audience::OAuthClient { .. } | Audience::Device(_) => Some(entry.code),
        };
        let body = ProblemBody {
            r#type: format!("{base_url}/errors/{}", entry.code),
            title: entry.title,
            status: entry.status.as_u16(),
            detail: &self.detail,
            error_code: entry.code,
            check_id: if let Audience::Device(check) = self.audience { Some(check.to_string()) } else { None },
            error,
            error_description: error.is_some().then_some(&self.detail),
        };
        let content_type = match self.audience {
            Audience::OAuthClient { wants_plain_json: true } => "application/json",
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

/// Whether `Accept` names `application/json` and not problem+json. It is a list that may come in several headers.
fn wants_plain_json(headers: &HeaderMap) -> bool {
    let named = |media_type: &str| {
        let lists = headers.get_all(header::ACCEPT).iter().filter_map(|list| list.to_str().ok());
        let mut ranges = lists.flat_map(|list| list.split(',')).filter_map(|range| range.split(';').next());
        ranges.any(|range| range.trim().eq_ignore_ascii_case(media_type))
    };
    named("application/json") && !named("application/problem+json")
}

impl IntoResponse for Problem {
    /// Without a body: the edge writes it.
    fn into_response(self) -> Response {
        let mut response = self.code.entry().status.into_response();
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
                tracing::warn!(%error, "a request could not be served");
                Problem::unavailable("the service cannot reach its database at the moment")
            }
            StoreError::DeadlineExceeded(_) => {
                tracing::info!(%error, "query stopped at its deadline");
                Problem::unavailable(
                    "the query took too long and was stopped; make it narrower, for example by a range of `created_at`",
                )
            }
            StoreError::TooManySearches => {
                Problem::new(Code::TooManyRequests, error.to_string()).retry_after(RETRY_SEARCH)
            }
            StoreError::Refused(_) | StoreError::Inconsistent { .. } => Problem::internal(&error),
        }
    }
}

impl From<ManagementError> for Problem {
    fn from(error: ManagementError) -> Self {
        let detail = error.to_string();
        match error {
            ManagementError::WorkspaceNotFound => Problem::new(Code::WorkspaceNotFound, detail),
            ManagementError::ProjectNotFound => Problem::new(Code::ProjectNotFound, detail),
            ManagementError::CredentialNotFound => Problem::new(Code::CredentialNotFound, detail),
            ManagementError::NotYours(_) => Problem::new(Code::Forbidden, detail),
            ManagementError::ProjectNameTaken => Problem::new(Code::ProjectNameTaken, detail),
            ManagementError::InvalidUrl(InvalidUrl::Callback { .. }) => Problem::new(Code::CallbackUrlInvalid, detail),
            ManagementError::InvalidUrl(InvalidUrl::Redirect { .. }) => Problem::new(Code::RedirectUrlInvalid, detail),
            ManagementError::InvalidMember { member, problem } => {
                Problem::bad_request(format!("`{member}`: {problem}"))
            }
            ManagementError::SameNetwork { .. } | ManagementError::UnknownNetwork { .. } => {
                Problem::bad_request(detail)
            }
            ManagementError::LimitReached(_) => Problem::new(Code::LimitReached, detail),
            ManagementError::PreconditionFailed => Problem::new(Code::PreconditionFailed, detail),
            ManagementError::Contended => Problem::unavailable(detail),
            ManagementError::Store(cause) => cause.into(),
        }
    }
}

impl From<CreateError> for Problem {
    fn from(error: CreateError) -> Self {
        let detail = error.to_string();
        match error {
            CreateError::ProjectDisabled => Problem::new(Code::Unauthorized, detail),
            CreateError::CallbackUrl(_) => Problem::new(Code::CallbackUrlInvalid, detail),
            CreateError::RedirectUrl(_) => Problem::new(Code::RedirectUrlInvalid, detail),
            CreateError::Period(_) => Problem::new(Code::PeriodInvalid, detail),
            CreateError::DeviceIp => Problem::new(Code::IpInvalid, detail),
            CreateError::PhoneNumber(_) => Problem::new(Code::PhoneNumberInvalid, detail),
            CreateError::MnoNotSupported | CreateError::OnlyReverseSms => Problem::new(Code::MnoNotSupported, detail),
            CreateError::NetworkNotAllowed => Problem::new(Code::Forbidden, detail),
            CreateError::LookupUnavailable => Problem::new(Code::LookupUnavailable, detail).retry_after(RETRY_LOOKUP),
            CreateError::TooOften { retry_after } => {
                Problem::new(Code::TooManyRequests, detail).retry_after(retry_after)
            }
            CreateError::Store(cause) => cause.into(),
        }
    }
}

impl From<ReadError> for Problem {
    fn from(error: ReadError) -> Self {
        let detail = error.to_string();
        match error {
            ReadError::NotFound => Problem::new(Code::CheckNotFound, detail),
            ReadError::NotYours => Problem::new(Code::Forbidden, detail),
            ReadError::Store(cause) => cause.into(),
        }
    }
}

impl From<ResendError> for Problem {
    fn from(error: ResendError) -> Self {
        let detail = error.to_string();
        match error {
            ResendError::Read(cause) => cause.into(),
            ResendError::StillOpen => Problem::new(Code::CheckStillOpen, detail),
            ResendError::NoCallback => Problem::new(Code::CallbackMissing, detail),
            ResendError::StillWaiting => Problem::new(Code::CallbackInProgress, detail),
            ResendError::Erased => Problem::new(Code::CallbackErased, detail),
            ResendError::LimitReached => Problem::new(Code::LimitReached, detail),
        }
    }
}

impl From<EligibilityError> for Problem {
    fn from(error: EligibilityError) -> Self {
        let detail = error.to_string();
        match error {
            EligibilityError::ProjectDisabled => Problem::new(Code::Unauthorized, detail),
            EligibilityError::PhoneNumber(_) => Problem::new(Code::PhoneNumberInvalid, detail),
            EligibilityError::Address => Problem::new(Code::IpInvalid, detail),
            EligibilityError::NoSubscriber => Problem::new(Code::SubscriberNotFound, detail),
            EligibilityError::NoNetwork => Problem::new(Code::NetworkNotFound, detail),
            EligibilityError::NotMobile => Problem::new(Code::NotMobileIp, detail),
            EligibilityError::LookupUnavailable => {
                Problem::new(Code::LookupUnavailable, detail).retry_after(RETRY_LOOKUP)
            }
        }
    }
}

impl From<RedeemError> for Problem {
    fn from(error: RedeemError) -> Self {
        let detail = error.to_string();
        match error {
            RedeemError::WrongCode { left: 0 } => {
                Problem::new(Code::CodeInvalid, format!("{detail}; it was the last try, and the check has ended"))
            }
            RedeemError::WrongCode { left: 1 } => Problem::new(Code::CodeInvalid, format!("{detail}; 1 try is left")),
            RedeemError::WrongCode { left } => {
                Problem::new(Code::CodeInvalid, format!("{detail}; {left} tries are left"))
            }
            RedeemError::NotReady => Problem::new(Code::CheckNotReady, detail),
            RedeemError::AlreadyCompleted { error_code, falls_back } => {
                let how = error_code.map(|code| format!(", with the error `{code}`")).unwrap_or_default();
                let instead = if falls_back { INSTEAD } else { "" };
                Problem::new(Code::CheckAlreadyCompleted, format!("{detail}{how}{instead}"))
            }
            RedeemError::Expired => Problem::new(Code::CheckExpired, detail),
            RedeemError::Read(error) => error.into(),
        }
    }
}

impl From<VisitError> for Problem {
    fn from(error: VisitError) -> Self {
        let detail = error.to_string();
        match error {
            VisitError::NotFound => Problem::new(Code::CheckNotFound, detail),
            VisitError::Sim(_) => Problem::new(Code::PhoneNumberInvalid, detail),
            VisitError::Ticket => Problem::bad_request(detail),
            VisitError::TooManyReplays { retry_after } => {
                Problem::new(Code::TooManyRequests, detail).retry_after(retry_after)
            }
            VisitError::Store(cause) => cause.into(),
        }
    }
}

impl From<IdempotencyError> for Problem {
    fn from(error: IdempotencyError) -> Self {
        let detail = error.to_string();
        match error {
            IdempotencyError::InProgress => Problem::new(Code::IdempotencyInProgress, detail),
            IdempotencyError::Reused => Problem::new(Code::IdempotencyKeyReused, detail),
            IdempotencyError::Store(cause) => cause.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_that_was_stopped_may_be_repeated() {
        let problem = Problem::from(StoreError::DeadlineExceeded(std::time::Duration::from_secs(2)));
        assert_eq!(problem.code.entry().code, "service_unavailable");
        let response = problem.into_response();
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()[header::RETRY_AFTER], "2");
    }

    #[test]
    fn token_errors_are_plain_json_only_for_those_who_ask_for_it() {
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
            let (content_type, body) =
                Problem::new(Code::Unauthorized, "no").for_oauth(&headers).render("https://eu.example.com");
            assert_eq!(content_type == "application/json", plain, "{accept:?}");
            let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(body["error"], "invalid_client");
            assert_eq!(body["error_code"], "unauthorized");
            assert_eq!(body["type"], "https://eu.example.com/errors/unauthorized");
        }
    }
}
