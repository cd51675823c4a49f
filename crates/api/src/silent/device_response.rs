//! Renders the response to a device at the end of the redirect chain. If the check has a redirect URL, the response is
//! a redirect to it. Otherwise it is JSON, or for browsers a page in the user's language with the project's brand.
//!
//! Some devices use minimal HTTP clients in apps, so responses have a `Content-Length` and an absolute `Location`, and
//! are smaller than 4 KiB. See decisions/0009-device-responses.md.

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use ringtrue_domain::lifecycle::{ErrorCode, Reference};
use ringtrue_engine::{
    Engine,
    silent::{RedirectFailure, RedirectOutcome},
};
use ringtrue_verification_page::{DevicePage, DeviceState, Language, RenderedPage};
use ringtrue_web::{
    assets::HTML_CONTENT_TYPE,
    error_catalog::ProblemCode,
    problem::{FALLBACK_HINT, Problem},
    response::json_response,
};
use serde::Serialize;

use crate::{
    redirect_response::{redirect, with_no_referrer},
    verification_page::brand_of,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectStep {
    First,
    Return,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseFormat {
    Json,
    Html(Language),
}

/// Fields of the response, serialized as JSON or appended to the query of the redirect URL.
#[derive(Serialize)]
struct DeviceResponseBody<'a> {
    check_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reference_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_description: Option<String>,
}

impl<'a> DeviceResponseBody<'a> {
    fn new(end: &'a RedirectOutcome) -> Self {
        let check_id = end.check.to_string();
        match &end.result {
            Ok(code) => DeviceResponseBody {
                check_id,
                code: Some(&code.0),
                reference_id: end.reference.as_ref().map(Reference::as_str),
                error: None,
                error_description: None,
            },
            Err(failure) => DeviceResponseBody {
                check_id,
                code: None,
                reference_id: None,
                error: Some(error_name(*failure)),
                error_description: Some(describe_failure(*failure, end.may_use_reverse_sms)),
            },
        }
    }

    /// Appends the fields to the query of the redirect URL.
    fn append_to(&self, url: &str) -> String {
        let members = [
            ("check_id", Some(self.check_id.as_str())),
            ("code", self.code),
            ("reference_id", self.reference_id),
            ("error", self.error),
            ("error_description", self.error_description.as_deref()),
        ];
        let mut location = url.to_owned();
        for (name, value) in members.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            let separator = match location.split_once('?') {
                None => "?",
                Some((_, query)) if query.is_empty() || query.ends_with('&') => "",
                Some(_) => "&",
            };
            // Some apps do not decode `+` as a space.
            let value = url::form_urlencoded::byte_serialize(value.as_bytes()).collect::<String>().replace('+', "%20");
            location.extend([separator, name, "=", &value]);
        }
        location
    }
}

impl ResponseFormat {
    /// Selects HTML for requests that a browser sends to open a page. HTTP clients in apps may also accept HTML, but
    /// they parse JSON.
    pub fn from_headers(headers: &HeaderMap) -> Self {
        let navigates = headers.get("sec-fetch-dest").is_some_and(|destination| destination == "document");
        let accept: Vec<&str> =
            headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
        if !navigates && !is_browser_accept(&accept.join(",")) {
            return ResponseFormat::Json;
        }
        let languages = headers.get(header::ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok());
        ResponseFormat::Html(Language::negotiate([], languages))
    }

    /// Returns the response, or renders the problem in this format.
    pub fn render(self, outcome: Result<Response, Problem>) -> Response {
        match (outcome, self) {
            (Ok(response), _) => response,
            (Err(problem), ResponseFormat::Json) => problem.into_response(),
            (Err(problem), ResponseFormat::Html(language)) => {
                let entry = problem.code.entry();
                let (state, error_code) = (state_of_problem(entry.status), Some(entry.code));
                let page = DevicePage { language, brand: None, state, error_code };
                problem_page(problem, &page)
            }
        }
    }

    /// Renders the outcome of the redirect chain. For JSON, a failure for which the API has an error code is returned
    /// as `Err`, because the middleware renders problems.
    pub fn render_outcome(
        self,
        engine: &Engine,
        end: &RedirectOutcome,
        step: RedirectStep,
    ) -> Result<Response, Problem> {
        let body = DeviceResponseBody::new(end);
        if let Some(url) = &end.redirect_url {
            return redirect(&body.append_to(url.as_str()));
        }
        let problem = end.result.as_ref().err().and_then(|failure| {
            let code = problem_code(*failure, step)?;
            Some(Problem::new(code, describe_failure(*failure, end.may_use_reverse_sms)).for_device(end.check))
        });
        let ResponseFormat::Html(language) = self else {
            return match problem {
                Some(problem) => Err(problem),
                None => Ok(with_no_referrer(json_response(StatusCode::OK, &body))),
            };
        };
        let project = engine.control_plane().project(end.project);
        let brand = project.as_deref().and_then(brand_of);
        let state = match &end.result {
            Ok(code) => DeviceState::Code(&code.0),
            Err(RedirectFailure::Expired) => DeviceState::Expired,
            Err(RedirectFailure::AlreadyCompleted) => DeviceState::Used,
            Err(RedirectFailure::Failed(ErrorCode::NotMobileIp)) => DeviceState::NotMobile,
            Err(RedirectFailure::Failed(_)) => DeviceState::Failed,
        };
        let page = DevicePage { language, brand, state, error_code: body.error };
        Ok(match problem {
            Some(problem) => problem_page(problem, &page),
            None => html_response(Response::default(), page.render()),
        })
    }
}

/// Selects the page for a problem that occurred before the redirect chain had an outcome, such as an unknown check.
fn state_of_problem(status: StatusCode) -> DeviceState<'static> {
    match status {
        StatusCode::TOO_MANY_REQUESTS => DeviceState::Busy,
        StatusCode::GONE => DeviceState::Expired,
        StatusCode::CONFLICT => DeviceState::Used,
        StatusCode::FORBIDDEN => DeviceState::OtherBrowser,
        status if status.is_client_error() => DeviceState::Unknown,
        _ => DeviceState::Unavailable,
    }
}

fn problem_page(problem: Problem, page: &DevicePage<'_>) -> Response {
    let mut response = problem.into_response();
    // If the problem stayed attached to the response, the middleware would replace the page with a problem document.
    response.extensions_mut().remove::<Problem>();
    html_response(response, page.render())
}

/// Returns whether an `Accept` header is one that browsers send to open a page: it names XHTML and ranks HTML above
/// `*/*`.
fn is_browser_accept(accept: &str) -> bool {
    let html = accept_quality(accept, "text/html");
    accept_quality(accept, "application/xhtml+xml") > 0.0 && html > 0.0 && html > accept_quality(accept, "*/*")
}

/// Returns the quality (`q`) of a media range, or 0 if it is not listed.
pub fn accept_quality(accept: &str, media_range: &str) -> f32 {
    let qualities = accept.split(',').filter_map(|range| {
        let mut parts = range.split(';').map(str::trim);
        parts.next().filter(|name| name.eq_ignore_ascii_case(media_range))?;
        let quality = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        Some(quality.map_or(1.0, |quality| quality.parse::<f32>().unwrap_or(0.0).clamp(0.0, 1.0)))
    });
    qualities.fold(0.0, f32::max)
}

/// Response to `HEAD`, which link scanners send. Such a request neither starts nor concludes a check.
pub fn head_response() -> Response {
    let mut response = with_no_referrer(Response::default());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn html_response(response: Response, page: RenderedPage) -> Response {
    let RenderedPage { html, content_security_policy } = page;
    let (parts, _) = response.into_parts();
    let mut response = with_no_referrer(Response::from_parts(parts, Body::from(html)));
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(HTML_CONTENT_TYPE));
    if let Ok(policy) = HeaderValue::try_from(content_security_policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}

fn problem_code(failure: RedirectFailure, step: RedirectStep) -> Option<ProblemCode> {
    match (failure, step) {
        (RedirectFailure::Expired, _) => Some(ProblemCode::CheckExpired),
        (RedirectFailure::AlreadyCompleted, _) => Some(ProblemCode::CheckAlreadyCompleted),
        (RedirectFailure::Failed(code), RedirectStep::First) => match code {
            ErrorCode::NotMobileIp => Some(ProblemCode::NotMobileIp),
            ErrorCode::IpMismatch => Some(ProblemCode::IpMismatch),
            ErrorCode::IpMsisdnMismatch => Some(ProblemCode::IpMsisdnMismatch),
            ErrorCode::MnoNotSupported => Some(ProblemCode::MnoNotSupported),
            ErrorCode::MnoRedirectUnsupported => Some(ProblemCode::MnoRedirectUnsupported),
            ErrorCode::InternalError
            | ErrorCode::MnoTimeout
            | ErrorCode::MnoUserNotFound
            | ErrorCode::MnoResponseError
            | ErrorCode::MnoServerError
            | ErrorCode::MnoNoDataAvailable
            | ErrorCode::CodeAttemptsExceeded
            | ErrorCode::MethodsExhausted
            | ErrorCode::GivenUp
            | ErrorCode::WrongNumber
            | ErrorCode::Cancelled
            | ErrorCode::TooManyRequests => None,
        },
        (RedirectFailure::Failed(_), RedirectStep::Return) => None,
    }
}

fn error_name(failure: RedirectFailure) -> &'static str {
    match failure {
        RedirectFailure::Failed(code) => code.into_str(),
        RedirectFailure::Expired => ProblemCode::CheckExpired.entry().code,
        RedirectFailure::AlreadyCompleted => ProblemCode::CheckAlreadyCompleted.entry().code,
    }
}

fn describe_failure(failure: RedirectFailure, may_use_reverse_sms: bool) -> String {
    let what = match failure {
        RedirectFailure::Expired => "the check has expired",
        RedirectFailure::AlreadyCompleted => "the check is already completed, or its code was already issued",
        RedirectFailure::Failed(code) => match code {
            ErrorCode::InternalError => "internal error",
            ErrorCode::NotMobileIp => "the device is not on a mobile network",
            ErrorCode::IpMismatch => "the device address differs from `device_ip`",
            ErrorCode::IpMsisdnMismatch => "the device is connected to a different network than the number",
            ErrorCode::MnoNotSupported => "no supported operator serves the device",
            ErrorCode::MnoRedirectUnsupported => "the device's operator does not support redirects",
            ErrorCode::MnoTimeout => "the operator did not respond in time",
            ErrorCode::MnoUserNotFound => "the operator could not identify the device",
            ErrorCode::MnoResponseError => "the operator sent an invalid response",
            ErrorCode::MnoServerError => "the operator returned an error or rejected our request",
            ErrorCode::MnoNoDataAvailable => "the operator has no data or may not disclose it",
            ErrorCode::CodeAttemptsExceeded => "too many wrong codes",
            ErrorCode::MethodsExhausted => "no method is left",
            ErrorCode::GivenUp => "this step was given up",
            ErrorCode::WrongNumber => "the number is not the user's",
            ErrorCode::Cancelled => "the verification was cancelled",
            ErrorCode::TooManyRequests => "too many checks of this number",
        },
    };
    format!("{what}{}", if may_use_reverse_sms { FALLBACK_HINT } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_browser_navigation_gets_html() {
        const HTML: ResponseFormat = ResponseFormat::Html(Language::English);
        const ANDROID_SDK: &str = "text/html,application/xhtml+xml,application/xml,*/*";
        const JAVA: &str = "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2";
        const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        let headers = |accept: &'static str, destination: Option<&'static str>| {
            let accept = (header::ACCEPT, HeaderValue::from_static(accept));
            let destination = destination.map(HeaderValue::from_static);
            let destination = destination.map(|value| (header::HeaderName::from_static("sec-fetch-dest"), value));
            [accept].into_iter().chain(destination).collect::<HeaderMap>()
        };
        for (accept, destination, format) in [
            (BROWSER, None, HTML),
            ("TEXT/HTML, Application/XHTML+XML, */*;Q=0.1", None, HTML),
            ("text/html,application/xhtml+xml", None, HTML),
            ("*/*", Some("document"), HTML),
            (ANDROID_SDK, Some("document"), HTML),
            (ANDROID_SDK, None, ResponseFormat::Json),
            (JAVA, None, ResponseFormat::Json),
            ("*/*", Some("empty"), ResponseFormat::Json),
            ("text/html", None, ResponseFormat::Json),
            ("text/html, application/xml, */*;q=0.1", None, ResponseFormat::Json),
            ("text/html,application/xhtml+xml;q=0,*/*;q=0.8", None, ResponseFormat::Json),
            ("text/html;q=0,application/xhtml+xml", None, ResponseFormat::Json),
            ("text/html;q=0.5,application/xhtml+xml,*/*;q=0.8", None, ResponseFormat::Json),
            ("text/html;q=x,application/xhtml+xml", None, ResponseFormat::Json),
            ("*/*", None, ResponseFormat::Json),
            ("application/json", None, ResponseFormat::Json),
            ("", None, ResponseFormat::Json),
            ("html, /, ;;, text/", None, ResponseFormat::Json),
        ] {
            assert_eq!(ResponseFormat::from_headers(&headers(accept, destination)), format, "{accept} {destination:?}");
        }
        assert_eq!(ResponseFormat::from_headers(&HeaderMap::new()), ResponseFormat::Json);
    }

    #[test]
    fn redirect_url_keeps_its_query() {
        let body = DeviceResponseBody {
            check_id: "7".to_owned(),
            code: Some("a-_b"),
            reference_id: Some("ü & =+"),
            error: None,
            error_description: None,
        };
        let added = "check_id=7&code=a-_b&reference_id=%C3%BC%20%26%20%3D%2B";
        for (url, location) in [
            ("https://app.example/", "https://app.example/?"),
            ("https://app.example/x?", "https://app.example/x?"),
            ("https://app.example/x?a=b%20c", "https://app.example/x?a=b%20c&"),
            ("https://app.example/x?a=b&", "https://app.example/x?a=b&"),
        ] {
            assert_eq!(body.append_to(url), format!("{location}{added}"));
        }
    }
}
