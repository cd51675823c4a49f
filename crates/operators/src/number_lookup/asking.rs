//! How sources are asked by HTTP, and what is made of answers that are none.

use std::sync::Arc;

use http::{
    HeaderMap, HeaderValue, Method,
    header::{ACCEPT, CONTENT_TYPE},
};
use ringtrue_engine::ports::{Clock, SourceFault};
use serde_json::Value;
use url::Url;

use super::guard::Fault;
use crate::{
    breaker::Effect,
    camara::retry_after,
    client::{Answer, Client, ClientError},
};

/// Statuses of gateways before a server that is not there for a moment.
const PASSING: [u16; 3] = [502, 503, 504];

/// A question on its way. It has no `Debug`: it holds a number and our credentials.
#[derive(Clone)]
pub struct Request {
    pub method: Method,
    pub url: Url,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Request {
    pub fn get(url: Url) -> Self {
        Request { method: Method::GET, url, headers: HeaderMap::new(), body: Vec::new() }
    }

    pub fn post_json(url: Url, body: &Value) -> Self {
        let json = HeaderValue::from_static("application/json");
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, json)]);
        Request { method: Method::POST, url, headers, body: body.to_string().into_bytes() }
    }
}

/// JSON, and the status that it came with.
pub struct Told {
    pub status: u16,
    pub json: Value,
}

pub struct Asking {
    pub client: Arc<Client>,
    pub clock: Arc<dyn Clock>,
}

impl Asking {
    /// Looking a number up changes nothing: where that may help, it is done once more. `reads` are the statuses whose
    /// bodies say something of the number.
    pub async fn put(&self, request: Request, reads: &[u16]) -> Result<Told, Fault> {
        let first = self.once(request.clone()).await;
        let answer = match &first {
            Err(error) if error.may_pass() => self.once(request).await,
            Ok(answer) if PASSING.contains(&answer.status) => self.once(request).await,
            _ => first,
        };
        self.told(answer, reads)
    }

    /// For what may be sent once.
    pub async fn put_once(&self, request: Request, reads: &[u16]) -> Result<Told, Fault> {
        let answer = self.once(request).await;
        self.told(answer, reads)
    }

    fn told(&self, answer: Result<Answer, ClientError>, reads: &[u16]) -> Result<Told, Fault> {
        let answer = answer.map_err(of_silence)?;
        if answer.status != 200 && !reads.contains(&answer.status) {
            return Err(self.of_status(&answer));
        }
        // Some say it by the status alone.
        let json = serde_json::from_slice(&answer.body);
        let json = if answer.status == 200 { json.map_err(|_| nonsense())? } else { json.unwrap_or_default() };
        Ok(Told { status: answer.status, json })
    }

    async fn once(&self, request: Request) -> Result<Answer, ClientError> {
        let Request { method, url, mut headers, body } = request;
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static("application/json"));
        self.client.request(method, &url, headers, body).await
    }

    fn of_status(&self, answer: &Answer) -> Fault {
        let (kind, effect) = match answer.status {
            401 | 402 | 403 | 407 => (SourceFault::Refused, Effect::Misconfigured),
            429 => (SourceFault::Refused, Effect::Throttled),
            408 | 504 => (SourceFault::Timeout, Effect::TimesOut),
            500.. => (SourceFault::Refused, Effect::Fails),
            400.. => (SourceFault::Refused, Effect::Nothing),
            _ => (SourceFault::Nonsense, Effect::Fails),
        };
        let retry_after = retry_after(&answer.headers, self.clock.now());
        Fault { status: Some(answer.status), retry_after, ..Fault::new(kind, effect) }
    }
}

fn of_silence(error: ClientError) -> Fault {
    let (kind, effect) = match error {
        ClientError::Timeout | ClientError::ConnectTimeout => (SourceFault::Timeout, Effect::TimesOut),
        ClientError::Unresolved | ClientError::Refused | ClientError::Tls | ClientError::Lost => {
            (SourceFault::Unreachable, Effect::Fails)
        }
        ClientError::TooLarge | ClientError::Protocol => (SourceFault::Nonsense, Effect::Fails),
        ClientError::Unusable => (SourceFault::Unreachable, Effect::Misconfigured),
    };
    Fault::new(kind, effect)
}

pub fn nonsense() -> Fault {
    Fault::of_answer(SourceFault::Nonsense)
}

/// What somebody wrote as text or as a number.
pub fn text(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) if !text.trim().is_empty() => Some(text.trim().to_owned()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(fact) => Some(fact.to_string()),
        _ => None,
    }
}

/// Whether something can be asked there.
pub fn is_web(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https") && url.has_host()
}

/// A place under another.
pub fn under(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}{path}", base.path().trim_end_matches('/')));
    url
}
