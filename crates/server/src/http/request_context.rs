//! Request metadata shared by the middleware and the handlers.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, OnceLock},
};

use axum::extract::FromRef;
use http::{HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;
use ringtrue_domain::{id::uuid_v7, tenancy::Mode};
use uuid::fmt::Hyphenated;

use super::{App, caller::RequestRateLimit, path::MatchedRoute, request_log::RequestLogDraft};

/// State passed to handlers and extractors.
#[derive(Clone, Debug)]
pub struct HandlerState {
    pub app: App,
    pub context: Arc<RequestContext>,
}

impl FromRef<HandlerState> for App {
    fn from_ref(state: &HandlerState) -> Self {
        state.app.clone()
    }
}

impl FromRef<HandlerState> for Arc<RequestContext> {
    fn from_ref(state: &HandlerState) -> Self {
        Arc::clone(&state.context)
    }
}

/// Metadata of a request. The middleware creates it; the router and the extractors complete it.
#[derive(Debug)]
pub struct RequestContext {
    pub received_at: Timestamp,
    /// Client address: the peer, or the address forwarded by a trusted proxy.
    pub client_ip: IpAddr,
    /// Remote end of the connection.
    pub peer: SocketAddr,
    pub request_id: RequestId,
    pub rate_limit: Option<RequestRateLimit>,
    /// Mode of the caller's project, set after authentication.
    pub project_mode: OnceLock<Mode>,
    /// Set for requests that may be recorded in the project's request log.
    pub log_draft: Option<RequestLogDraft>,
    /// Set by the router.
    pub matched_route: OnceLock<MatchedRoute>,
}

impl RequestContext {
    /// Path template for metrics and logs, which must not contain paths.
    pub fn route(&self) -> &'static str {
        self.matched_route.get().map_or("unmatched", |route| route.template)
    }
}

/// Identifies a request in logs, in the audit log and in its response.
#[derive(Clone, Debug)]
pub enum RequestId {
    /// From the `X-Request-Id` header.
    FromHeader(HeaderValue),
    /// Generated UUID, stored inline.
    Generated([u8; Hyphenated::LENGTH]),
}

pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

impl RequestId {
    /// Takes the id from the header if it is valid, otherwise generates one.
    pub fn from_headers(app: &App, headers: &HeaderMap, now: Timestamp) -> Self {
        let is_valid = |id: &&HeaderValue| {
            let id = id.as_bytes();
            (1..=128).contains(&id.len())
                && id.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
        };
        if let Some(given) = headers.get(X_REQUEST_ID).filter(is_valid) {
            return RequestId::FromHeader(given.clone());
        }
        let id = uuid_v7(now, app.engine.entropy().bytes());
        let mut text = [0; Hyphenated::LENGTH];
        id.hyphenated().encode_lower(&mut text);
        RequestId::Generated(text)
    }

    pub fn as_str(&self) -> &str {
        match self {
            RequestId::FromHeader(id) => id.to_str().unwrap_or_default(),
            RequestId::Generated(id) => std::str::from_utf8(id).unwrap_or_default(),
        }
    }

    pub fn to_header(&self) -> HeaderValue {
        match self {
            RequestId::FromHeader(id) => id.clone(),
            RequestId::Generated(id) => HeaderValue::from_bytes(id).unwrap_or(HeaderValue::from_static("none")),
        }
    }
}
