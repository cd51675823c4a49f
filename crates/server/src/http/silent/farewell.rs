//! What a device is told at the end of its way: by a redirect when its check has a URL for it, else as JSON to a
//! program and as a page to a person.
//!
//! The other end is a small HTTP client in an app: every answer has a length, an absolute `Location` where it has one,
//! and less than 4 KiB. See decisions/0009-what-devices-are-told.md.

use axum::{body::Body, response::Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use ringtrue_domain::lifecycle::{ErrorCode, Reference};
use ringtrue_engine::silent::{ChainEnd, ChainFault};
use serde::Serialize;

use super::super::{
    catalogue::Code,
    json,
    problem::{INSTEAD, Problem},
};
use crate::pages::{CONTENT_SECURITY_POLICY, HTML, device_page::DevicePage};

const NO_REFERRER: HeaderValue = HeaderValue::from_static("no-referrer");

/// Where on its way a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hop {
    First,
    Return,
}

/// Who looks at an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    Program,
    Person,
}

/// The end of the chain, under the names that it has in JSON and in the query of a redirect URL.
#[derive(Serialize)]
struct Farewell<'a> {
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

impl<'a> Farewell<'a> {
    fn new(end: &'a ChainEnd) -> Self {
        let check_id = end.check.to_string();
        match &end.result {
            Ok(code) => Farewell {
                check_id,
                code: Some(&code.0),
                reference_id: end.reference.as_ref().map(Reference::as_str),
                error: None,
                error_description: None,
            },
            Err(fault) => Farewell {
                check_id,
                code: None,
                reference_id: None,
                error: Some(name(*fault)),
                error_description: Some(description(*fault, end.falls_back)),
            },
        }
    }

    /// The URL with all this in its query, after what is in it already.
    fn added_to(&self, url: &str) -> String {
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
            // Not every app takes a `+` for a space.
            let value = url::form_urlencoded::byte_serialize(value.as_bytes()).collect::<String>().replace('+', "%20");
            location.extend([separator, name, "=", &value]);
        }
        location
    }
}

impl Reader {
    /// A page is for a browser that navigates. HTTP clients of apps ask for HTML too, but read JSON.
    pub fn of(headers: &HeaderMap) -> Self {
        let navigates = headers.get("sec-fetch-dest").is_some_and(|destination| destination == "document");
        let accept: Vec<&str> =
            headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
        if navigates || is_browser_accept(&accept.join(",")) { Reader::Person } else { Reader::Program }
    }

    /// The answer, whatever became of it.
    pub fn told(self, outcome: Result<Response, Problem>) -> Response {
        match (outcome, self) {
            (Ok(response), _) => response,
            (Err(problem), Reader::Program) => axum::response::IntoResponse::into_response(problem),
            (Err(problem), Reader::Person) => {
                let entry = problem.code.entry();
                let page = DevicePage { title: entry.title, text: &problem.detail, code: None }.render();
                let mut response = axum::response::IntoResponse::into_response(problem);
                // What the edge would write in its place.
                response.extensions_mut().remove::<Problem>();
                as_page(response, page)
            }
        }
    }

    /// The end of the chain. An error only where a status of its own says more than 200 does.
    pub fn farewell(self, end: &ChainEnd, hop: Hop) -> Result<Response, Problem> {
        let farewell = Farewell::new(end);
        if let Some(url) = &end.redirect_url {
            return found(&farewell.added_to(url.as_str()));
        }
        if let Err(fault) = end.result
            && let Some(code) = status(fault, hop)
        {
            return Err(Problem::new(code, description(fault, end.falls_back)).for_device(end.check));
        }
        Ok(match self {
            Reader::Program => not_referred(json(StatusCode::OK, &farewell)),
            Reader::Person => {
                let page = match (&farewell.error_description, farewell.code) {
                    (Some(text), _) => DevicePage { title: "This did not work", text, code: None },
                    (None, code) => DevicePage { title: "Nearly done", text: GIVE_THE_CODE, code },
                };
                as_page(Response::default(), page.render())
            }
        })
    }
}

const GIVE_THE_CODE: &str = "Give this code to the app or the site that sent you here. It can be used once, and soon.";

/// Whether an `Accept` is one that browsers send with a navigation: it names XHTML, and ranks HTML above `*/*`.
fn is_browser_accept(accept: &str) -> bool {
    let html = quality(accept, "text/html");
    quality(accept, "application/xhtml+xml") > 0 && html > 0 && html > quality(accept, "*/*")
}

/// The quality of a media range, in thousandths; 0 when it is not named.
fn quality(accept: &str, wanted: &str) -> u16 {
    let qualities = accept.split(',').filter_map(|range| {
        let mut parts = range.split(';').map(str::trim);
        parts.next().filter(|name| name.eq_ignore_ascii_case(wanted))?;
        let quality = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        let quality = quality.map_or(1.0, |quality| quality.parse::<f32>().unwrap_or(0.0)).clamp(0.0, 1.0);
        Some(thousandths(quality))
    });
    qualities.max().unwrap_or(0)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 1")]
fn thousandths(quality: f32) -> u16 {
    (quality * 1000.0) as u16
}

/// `302`, without a body.
pub fn found(location: &str) -> Result<Response, Problem> {
    let location = HeaderValue::from_str(location).map_err(|_| Problem::internal(&"a location is no header value"))?;
    let mut response = not_referred(Response::default());
    *response.status_mut() = StatusCode::FOUND;
    response.headers_mut().insert(header::LOCATION, location);
    response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(0));
    Ok(response)
}

/// The answer to `HEAD`, as programs send it that only look where a link leads: nothing is begun and nothing ended.
pub fn only_looked() -> Response {
    let mut response = not_referred(Response::default());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn not_referred(mut response: Response) -> Response {
    response.headers_mut().insert(header::REFERRER_POLICY, NO_REFERRER);
    response
}

fn as_page(response: Response, page: String) -> Response {
    let (parts, _) = response.into_parts();
    let mut response = not_referred(Response::from_parts(parts, Body::from(page)));
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(HTML));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_SECURITY_POLICY));
    response
}

fn status(fault: ChainFault, hop: Hop) -> Option<Code> {
    match (fault, hop) {
        (ChainFault::Expired, _) => Some(Code::CheckExpired),
        (ChainFault::AlreadyCompleted, _) => Some(Code::CheckAlreadyCompleted),
        (ChainFault::Failed(code), Hop::First) => match code {
            ErrorCode::NotMobileIp => Some(Code::NotMobileIp),
            ErrorCode::IpMismatch => Some(Code::IpMismatch),
            ErrorCode::IpMsisdnMismatch => Some(Code::IpMsisdnMismatch),
            ErrorCode::MnoNotSupported => Some(Code::MnoNotSupported),
            ErrorCode::MnoRedirectUnsupported => Some(Code::MnoRedirectUnsupported),
            ErrorCode::InternalError
            | ErrorCode::MnoTimeout
            | ErrorCode::MnoUserNotFound
            | ErrorCode::MnoResponseError
            | ErrorCode::MnoServerError
            | ErrorCode::MnoNoDataAvailable
            | ErrorCode::CodeAttemptsExceeded => None,
        },
        (ChainFault::Failed(_), Hop::Return) => None,
    }
}

fn name(fault: ChainFault) -> &'static str {
    match fault {
        ChainFault::Failed(code) => code.as_str(),
        ChainFault::Expired => Code::CheckExpired.entry().code,
        ChainFault::AlreadyCompleted => Code::CheckAlreadyCompleted.entry().code,
    }
}

fn description(fault: ChainFault, falls_back: bool) -> String {
    let what = match fault {
        ChainFault::Expired => "the check's time is up",
        ChainFault::AlreadyCompleted => "the check has ended already, or has given out its code",
        ChainFault::Failed(code) => match code {
            ErrorCode::InternalError => "something went wrong on our side",
            ErrorCode::NotMobileIp => "the device is not on a mobile network",
            ErrorCode::IpMismatch => "the device comes from another address than the one that was announced",
            ErrorCode::IpMsisdnMismatch => "the device is on another network than the number's",
            ErrorCode::MnoNotSupported => "no supported operator serves the device",
            ErrorCode::MnoRedirectUnsupported => "the device's operator cannot be asked about it",
            ErrorCode::MnoTimeout => "the operator did not answer in time",
            ErrorCode::MnoUserNotFound => "the operator cannot tell whose the device is",
            ErrorCode::MnoResponseError => "the operator's answer makes no sense",
            ErrorCode::MnoServerError => "the operator failed, or did not let us ask",
            ErrorCode::MnoNoDataAvailable => "the operator has, or may give, no data",
            ErrorCode::CodeAttemptsExceeded => "too many wrong codes were submitted",
        },
    };
    format!("{what}{}", if falls_back { INSTEAD } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_browsers_navigation_gets_a_page() {
        const ANDROID_SDK: &str = "text/html,application/xhtml+xml,application/xml,*/*";
        const JAVA: &str = "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2";
        const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        let headers = |accept: &'static str, destination: Option<&'static str>| {
            let accept = (header::ACCEPT, HeaderValue::from_static(accept));
            let destination = destination.map(HeaderValue::from_static);
            let destination = destination.map(|value| (header::HeaderName::from_static("sec-fetch-dest"), value));
            [accept].into_iter().chain(destination).collect::<HeaderMap>()
        };
        for (accept, destination, reader) in [
            (BROWSER, None, Reader::Person),
            ("TEXT/HTML, Application/XHTML+XML, */*;Q=0.1", None, Reader::Person),
            ("text/html,application/xhtml+xml", None, Reader::Person),
            ("*/*", Some("document"), Reader::Person),
            (ANDROID_SDK, Some("document"), Reader::Person),
            (ANDROID_SDK, None, Reader::Program),
            (JAVA, None, Reader::Program),
            ("*/*", Some("empty"), Reader::Program),
            ("text/html", None, Reader::Program),
            ("text/html, application/xml, */*;q=0.1", None, Reader::Program),
            ("text/html,application/xhtml+xml;q=0,*/*;q=0.8", None, Reader::Program),
            ("text/html;q=0,application/xhtml+xml", None, Reader::Program),
            ("text/html;q=0.5,application/xhtml+xml,*/*;q=0.8", None, Reader::Program),
            ("text/html;q=x,application/xhtml+xml", None, Reader::Program),
            ("*/*", None, Reader::Program),
            ("application/json", None, Reader::Program),
            ("", None, Reader::Program),
            ("html, /, ;;, text/", None, Reader::Program),
        ] {
            assert_eq!(Reader::of(&headers(accept, destination)), reader, "{accept} {destination:?}");
        }
        assert_eq!(Reader::of(&HeaderMap::new()), Reader::Program);
    }

    #[test]
    fn a_redirect_url_keeps_its_own_query() {
        let farewell = Farewell {
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
            assert_eq!(farewell.added_to(url), format!("{location}{added}"));
        }
    }
}
