//! Requests, responses and OAuth errors of the simulated operator's endpoints.

use std::collections::{BTreeMap, btree_map::Entry};

use aws_lc_rs::error::Unspecified;
use bytes::Bytes;
use http::{
    HeaderName, HeaderValue, Response, StatusCode,
    header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, LOCATION, WWW_AUTHENTICATE},
    request::Parts,
};
use http_body_util::Full;
use serde::Serialize;
use serde_json::{Value, json};
use strum::IntoStaticStr;
use url::form_urlencoded;

use super::jose::Claims;

#[derive(Debug)]
pub(super) struct Request {
    pub head: Parts,
    pub body: Bytes,
}

impl Request {
    /// Returns the value of a header. An invalid value becomes U+FFFD, which matches nothing.
    pub(super) fn header(&self, name: &HeaderName) -> Option<&str> {
        self.head.headers.get(name).map(|value| value.to_str().unwrap_or("\u{fffd}"))
    }

    /// Returns the credentials in `Authorization`, if they have this scheme.
    pub(super) fn credentials(&self, scheme: &str) -> Option<&str> {
        let (found, credentials) = self.header(&AUTHORIZATION)?.split_once(' ')?;
        found.eq_ignore_ascii_case(scheme).then(|| credentials.trim())
    }

    pub(super) fn has_media_type(&self, media_type: &str) -> bool {
        let found = self.header(&CONTENT_TYPE).and_then(|value| value.split(';').next());
        found.is_some_and(|found| found.trim().eq_ignore_ascii_case(media_type))
    }

    pub(super) fn query(&self) -> OAuthParameters {
        OAuthParameters::parse(self.head.uri.query().unwrap_or_default().as_bytes())
    }

    pub(super) fn form(&self) -> Option<OAuthParameters> {
        self.has_media_type("application/x-www-form-urlencoded").then(|| OAuthParameters::parse(&self.body))
    }
}

/// OAuth parameters. Empty values are treated as missing (RFC 6749, 3.1).
#[derive(Default)]
pub(super) struct OAuthParameters {
    values: BTreeMap<String, String>,
    repeated: bool,
}

impl OAuthParameters {
    fn parse(encoded: &[u8]) -> Self {
        let mut parameters = Self::default();
        for (name, value) in form_urlencoded::parse(encoded).filter(|(_, value)| !value.is_empty()) {
            match parameters.values.entry(name.into_owned()) {
                Entry::Vacant(entry) => drop(entry.insert(value.into_owned())),
                Entry::Occupied(_) => parameters.repeated = true,
            }
        }
        parameters
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Whether a parameter is repeated, which is not allowed (RFC 6749, 3.1).
    pub(super) fn has_repeated(&self) -> bool {
        self.repeated
    }
}

/// Parameters of a request object. Numbers become text.
impl From<Claims> for OAuthParameters {
    fn from(claims: Claims) -> Self {
        let text = |value| match value {
            Value::String(text) => Some(text),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let values = claims.into_iter().filter_map(|(name, value)| Some((name, text(value)?)));
        Self { values: values.collect(), repeated: false }
    }
}

pub(super) type HttpResponse = Response<Full<Bytes>>;

pub(super) fn json_response(body: &impl Serialize) -> HttpResponse {
    json_response_with_status(StatusCode::OK, body)
}

/// Builds a JSON response with `Cache-Control: no-store`, because nearly every response is secret or personal.
pub(super) fn json_response_with_status(status: StatusCode, body: &impl Serialize) -> HttpResponse {
    match serde_json::to_vec(body) {
        Ok(body) => build_response(status, "application/json", body),
        Err(_) => text_response(StatusCode::INTERNAL_SERVER_ERROR, "the response cannot be serialized"),
    }
}

/// Builds a plain-text response, for browsers.
pub(super) fn text_response(status: StatusCode, text: &'static str) -> HttpResponse {
    build_response(status, "text/plain; charset=utf-8", text)
}

pub(super) fn redirect_response(location: &str) -> HttpResponse {
    let Ok(location) = HeaderValue::from_str(location) else {
        return text_response(StatusCode::BAD_REQUEST, "the redirect location is not a valid header value");
    };
    let mut response = text_response(StatusCode::FOUND, "");
    response.headers_mut().insert(LOCATION, location);
    response
}

fn build_response(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> HttpResponse {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(super) enum OAuthErrorCode {
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
    pub(super) fn with_description(self, description: &'static str) -> OAuthError {
        OAuthError { code: self, description }
    }
}

/// OAuth error with its `error_description`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OAuthError {
    pub code: OAuthErrorCode,
    pub description: &'static str,
}

impl OAuthError {
    /// Builds the error response of the token and backchannel endpoints.
    pub(super) fn into_response(self) -> HttpResponse {
        let status = match self.code {
            OAuthErrorCode::InvalidClient => StatusCode::UNAUTHORIZED,
            OAuthErrorCode::ServerError => StatusCode::INTERNAL_SERVER_ERROR,
            OAuthErrorCode::TemporarilyUnavailable => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_REQUEST,
        };
        self.into_response_with(status)
    }

    pub(super) fn into_response_with(self, status: StatusCode) -> HttpResponse {
        let body = json!({ "error": self.code.into_str(), "error_description": self.description });
        let mut response = json_response_with_status(status, &body);
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"operator\""));
        }
        response
    }
}

impl From<Unspecified> for OAuthError {
    fn from(Unspecified: Unspecified) -> Self {
        OAuthErrorCode::ServerError.with_description("random number generator or key failure")
    }
}
