//! HTTP client for lookup sources; converts failures to [`SourceError`].

use std::sync::Arc;

use http::{
    HeaderMap, HeaderValue, Method,
    header::{ACCEPT, CONTENT_TYPE},
};
use ringtrue_engine::ports::{Clock, LookupError};
use serde_json::Value;
use url::Url;

use super::guard::SourceError;
use crate::{
    breaker::CallOutcome,
    camara::parse_retry_after,
    client::{Client, ClientError, ClientResponse},
};

/// Gateway statuses that are worth a retry.
const TRANSIENT_STATUSES: [u16; 3] = [502, 503, 504];

/// No `Debug`: it contains a number and credentials.
#[derive(Clone)]
pub struct LookupRequest {
    pub method: Method,
    pub url: Url,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl LookupRequest {
    pub fn get(url: Url) -> Self {
        LookupRequest { method: Method::GET, url, headers: HeaderMap::new(), body: Vec::new() }
    }

    pub fn post_json(url: Url, body: &Value) -> Self {
        let json = HeaderValue::from_static("application/json");
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, json)]);
        LookupRequest { method: Method::POST, url, headers, body: body.to_string().into_bytes() }
    }
}

pub struct LookupResponse {
    pub status: u16,
    pub json: Value,
}

pub struct LookupClient {
    pub client: Arc<Client>,
    pub clock: Arc<dyn Clock>,
}

impl LookupClient {
    /// Retries once after transient errors: lookups are idempotent. `accepted_statuses` are returned besides 200.
    pub async fn send(&self, request: LookupRequest, accepted_statuses: &[u16]) -> Result<LookupResponse, SourceError> {
        let first = self.request(request.clone()).await;
        let response = match &first {
            Err(error) if error.is_transient() => self.request(request).await,
            Ok(response) if TRANSIENT_STATUSES.contains(&response.status) => self.request(request).await,
            _ => first,
        };
        self.parse_response(response, accepted_statuses)
    }

    /// For requests that must not be repeated.
    pub async fn send_once(
        &self,
        request: LookupRequest,
        accepted_statuses: &[u16],
    ) -> Result<LookupResponse, SourceError> {
        let response = self.request(request).await;
        self.parse_response(response, accepted_statuses)
    }

    fn parse_response(
        &self,
        response: Result<ClientResponse, ClientError>,
        accepted_statuses: &[u16],
    ) -> Result<LookupResponse, SourceError> {
        let response = response.map_err(transport_error)?;
        if response.status != 200 && !accepted_statuses.contains(&response.status) {
            return Err(self.status_error(&response));
        }
        // Other statuses may come without a body.
        let json = serde_json::from_slice(&response.body);
        let json =
            if response.status == 200 { json.map_err(|_| invalid_response())? } else { json.unwrap_or_default() };
        Ok(LookupResponse { status: response.status, json })
    }

    async fn request(&self, request: LookupRequest) -> Result<ClientResponse, ClientError> {
        let LookupRequest { method, url, mut headers, body } = request;
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static("application/json"));
        self.client.request(method, &url, headers, body).await
    }

    fn status_error(&self, response: &ClientResponse) -> SourceError {
        let (kind, outcome) = match response.status {
            401 | 402 | 403 | 407 => (LookupError::Refused, CallOutcome::Rejected),
            429 => (LookupError::Refused, CallOutcome::Throttled),
            408 | 504 => (LookupError::Timeout, CallOutcome::Timeout),
            500.. => (LookupError::Refused, CallOutcome::Failure),
            400.. => (LookupError::Refused, CallOutcome::Inconclusive),
            _ => (LookupError::InvalidResponse, CallOutcome::Failure),
        };
        let pause = parse_retry_after(&response.headers, self.clock.now());
        SourceError { status: Some(response.status), retry_after: pause, ..SourceError::new(kind, outcome) }
    }
}

fn transport_error(error: ClientError) -> SourceError {
    let (kind, outcome) = match error {
        ClientError::Timeout | ClientError::ConnectTimeout => (LookupError::Timeout, CallOutcome::Timeout),
        ClientError::Unresolved | ClientError::Refused | ClientError::Tls | ClientError::Lost => {
            (LookupError::Unreachable, CallOutcome::Failure)
        }
        ClientError::TooLarge | ClientError::Protocol => (LookupError::InvalidResponse, CallOutcome::Failure),
        ClientError::InvalidUrl => (LookupError::Unreachable, CallOutcome::Rejected),
    };
    SourceError::new(kind, outcome)
}

pub fn invalid_response() -> SourceError {
    SourceError::from_response(LookupError::InvalidResponse)
}

/// Text of a JSON scalar; `None` for blank strings, null, arrays and objects.
pub fn scalar_text(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) if !text.trim().is_empty() => Some(text.trim().to_owned()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(fact) => Some(fact.to_string()),
        _ => None,
    }
}

pub fn is_http_url(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https") && url.has_host()
}

/// Appends a path to a base URL.
pub fn join_path(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}{path}", base.path().trim_end_matches('/')));
    url
}
