//! How a request arrived: what the edge knows of it and handlers ask for.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, OnceLock},
};

use axum::extract::FromRef;
use http::{HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;
use ringtrue_domain::{id::time_ordered, tenancy::Mode};
use uuid::fmt::Hyphenated;

use super::{App, caller::Meter, path::Way, trail::Trail};

/// What handlers have besides the request.
#[derive(Clone, Debug)]
pub struct Context {
    pub app: App,
    pub arrival: Arc<Arrival>,
}

impl FromRef<Context> for App {
    fn from_ref(context: &Context) -> Self {
        context.app.clone()
    }
}

impl FromRef<Context> for Arc<Arrival> {
    fn from_ref(context: &Context) -> Self {
        Arc::clone(&context.arrival)
    }
}

/// What the edge knows of a request, and what it learns from those whom it is handed to.
#[derive(Debug)]
pub struct Arrival {
    pub at: Timestamp,
    /// Where it comes from: the peer, or whom a trusted proxy names.
    pub address: IpAddr,
    /// Who opened the connection.
    pub peer: SocketAddr,
    pub request_id: RequestId,
    pub meter: Option<Meter>,
    /// The mode of the caller's project, once the caller is authenticated.
    pub project_mode: OnceLock<Mode>,
    /// For requests that may get into their project's log.
    pub trail: Option<Trail>,
    /// Told by the router.
    pub way: OnceLock<Way>,
}

impl Arrival {
    /// The template of the path, for metrics and logs, which must not see paths.
    pub fn route(&self) -> &'static str {
        self.way.get().map_or("unmatched", |way| way.template)
    }
}

/// Names a request in logs, in the audit log and in its answer.
#[derive(Clone, Debug)]
pub enum RequestId {
    /// As the caller gave it.
    Given(HeaderValue),
    /// A UUID of ours, in place.
    Made([u8; Hyphenated::LENGTH]),
}

pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

impl RequestId {
    /// The one that the caller gave, if it is sane.
    pub fn of(app: &App, headers: &HeaderMap, arrived: Timestamp) -> Self {
        let is_sane = |id: &&HeaderValue| {
            let id = id.as_bytes();
            (1..=128).contains(&id.len())
                && id.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
        };
        if let Some(given) = headers.get(X_REQUEST_ID).filter(is_sane) {
            return RequestId::Given(given.clone());
        }
        let id = time_ordered(arrived, app.engine.entropy().bytes());
        let mut text = [0; Hyphenated::LENGTH];
        id.hyphenated().encode_lower(&mut text);
        RequestId::Made(text)
    }

    pub fn as_str(&self) -> &str {
        match self {
            RequestId::Given(id) => id.to_str().unwrap_or_default(),
            RequestId::Made(id) => std::str::from_utf8(id).unwrap_or_default(),
        }
    }

    pub fn to_header(&self) -> HeaderValue {
        match self {
            RequestId::Given(id) => id.clone(),
            RequestId::Made(id) => HeaderValue::from_bytes(id).unwrap_or(HeaderValue::from_static("none")),
        }
    }
}
