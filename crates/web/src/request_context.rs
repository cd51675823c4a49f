//! Metadata of a request that the middleware, the router and the handlers share.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, OnceLock},
    time::Duration,
};

use axum::{extract::FromRef, response::Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, uri::PathAndQuery};
use jiff::Timestamp;
use ringtrue_domain::{
    id::uuid_v7,
    lifecycle::CheckId,
    tenancy::{Credential, Mode},
};
use ringtrue_engine::{
    ports::request_log::{Rejection, RequestLogEntry},
    rate_limits::{RateLimitClass, RateLimitState},
    request_log::redaction,
};
use uuid::fmt::Hyphenated;

use crate::{
    app::App,
    camara_error::correlator,
    problem::{Problem, ProblemAudience},
};

/// Header that marks requests which a program repeats without an action of its user, such as `ringtrue tail`. Successful
/// ones are not in the request log, where they would hide the others.
pub const BACKGROUND_HEADER: HeaderName = HeaderName::from_static("x-background-request");

/// axum state that is passed to handlers and extractors.
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

/// Properties that a route declares and that apply to all of its requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoutePolicy {
    /// Rate limit that requests count against. If set, responses have `X-RateLimit-*` headers.
    pub rate_limit: Option<RateLimitClass>,
    /// Whether requests are recorded in the project's request log.
    pub is_logged: bool,
    /// Whether the route supports `Idempotency-Key`.
    pub is_idempotent: bool,
    pub on_disconnect: OnDisconnect,
    pub client: ClientKind,
}

/// Which clients call a route. It determines the format of errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientKind {
    #[default]
    Api,
    /// OAuth clients, which expect the error fields of RFC 6749.
    OAuth,
    /// Clients of CAMARA's APIs.
    Camara,
}

/// What happens to a running handler when its client disconnects or its request times out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDisconnect {
    #[default]
    Cancel,
    Complete,
}

/// The route that a request matched.
#[derive(Clone, Copy, Debug)]
pub struct MatchedRoute {
    /// Path template, for metrics and logs. The path itself can contain phone numbers and must not appear in them.
    pub template: &'static str,
    pub policy: RoutePolicy,
}

impl MatchedRoute {
    /// Creates a match for a request that no handler serves. The policy still applies. Metrics show `unmatched` instead
    /// of a path template.
    pub fn unmatched(policy: RoutePolicy) -> Self {
        MatchedRoute { template: "unmatched", policy }
    }
}

/// Context of one request. The middleware creates it; the router and the extractors complete it.
#[derive(Debug)]
pub struct RequestContext {
    pub received_at: Timestamp,
    /// Address of the client: the peer's, or the one forwarded by a trusted proxy.
    pub client_ip: IpAddr,
    /// Address of the other end of the connection: the client or a proxy.
    pub peer: SocketAddr,
    pub request_id: RequestId,
    /// Mode of the caller's project, set after authentication.
    pub project_mode: OnceLock<Mode>,
    /// State of the rate limit after this request was counted. Unset until then.
    pub limit_state: OnceLock<RateLimitState>,
    route: OnceLock<MatchedRoute>,
    audience: OnceLock<ProblemAudience>,
    correlator: OnceLock<HeaderValue>,
    log_draft: OnceLock<RequestLogDraft>,
}

impl RequestContext {
    pub fn new(received_at: Timestamp, client_ip: IpAddr, peer: SocketAddr, request_id: RequestId) -> Self {
        RequestContext {
            received_at,
            client_ip,
            peer,
            request_id,
            project_mode: OnceLock::new(),
            limit_state: OnceLock::new(),
            route: OnceLock::new(),
            audience: OnceLock::new(),
            correlator: OnceLock::new(),
            log_draft: OnceLock::new(),
        }
    }

    /// Assigns the request to a route and applies the route's policy.
    pub fn enter_route(&self, app: &App, route: MatchedRoute, uri: &Uri, headers: &HeaderMap) {
        let _ = self.route.set(route);
        match route.policy.client {
            ClientKind::Api => {}
            ClientKind::OAuth => {
                let _ = self.audience.set(ProblemAudience::oauth_client(headers));
            }
            ClientKind::Camara => {
                let _ = self.audience.set(ProblemAudience::CamaraClient);
                if let Some(correlator) = correlator(headers) {
                    let _ = self.correlator.set(correlator);
                }
            }
        }
        if route.policy.is_logged && app.engine.request_log.is_enabled() {
            let target = uri.query().and(uri.path_and_query()).cloned();
            let is_background = headers.contains_key(BACKGROUND_HEADER);
            let _ = self.log_draft.set(RequestLogDraft { target, is_background, ..RequestLogDraft::default() });
        }
    }

    pub fn route(&self) -> MatchedRoute {
        self.route.get().copied().unwrap_or_else(|| MatchedRoute::unmatched(RoutePolicy::default()))
    }

    /// Returns the audience that the route sets for all of its problems. `None`: each problem has its own.
    pub fn audience(&self) -> Option<ProblemAudience> {
        self.audience.get().copied()
    }

    /// Returns the correlator that a response of CAMARA's APIs repeats. `None`: the request has no valid one.
    pub fn correlator(&self) -> Option<&HeaderValue> {
        self.correlator.get()
    }

    /// Sets the authenticated client in the request log entry. Later calls have no effect.
    pub fn log_client(&self, credential: Arc<Credential>) {
        if let Some(draft) = self.log_draft.get() {
            let _ = draft.client.set(LoggedClient { credential, authenticated: true });
        }
    }

    /// Sets the client in the request log entry of a request that failed to authenticate: the credential that it names.
    pub fn log_claimed_client(&self, credential: impl FnOnce() -> Option<Arc<Credential>>) {
        if let Some(draft) = self.log_draft.get()
            && let Some(credential) = credential()
        {
            let _ = draft.client.set(LoggedClient { credential, authenticated: false });
        }
    }

    /// Sets the body in the request log entry. The log records only its structure, and only for rejected requests.
    pub fn log_body(&self, body: &Bytes) {
        if let Some(draft) = self.log_draft.get() {
            let _ = draft.body.set(body.clone());
        }
    }

    /// Sets the check in the request log entry: the one that the request creates or names.
    pub fn log_check(&self, id: impl FnOnce() -> Option<CheckId>) {
        if let Some(draft) = self.log_draft.get()
            && let Some(id) = id()
        {
            let _ = draft.check.set(id);
        }
    }

    /// Writes the entry to the request log if its project is known and the log's sampler, which selects a few requests
    /// per second, admits it.
    pub fn submit_log_entry(&self, app: &App, method: &Method, response: &Response, elapsed: Duration) {
        let Some(RequestLogDraft { client, body, check, target, is_background }) = self.log_draft.get() else { return };
        if *is_background && *method == Method::GET && response.status().is_success() {
            return;
        }
        let Some(LoggedClient { credential, authenticated }) = client.get() else { return };
        let Some(project) = credential.owner.project() else { return };
        let (at, status, log) = (self.received_at, response.status().as_u16(), &app.engine.request_log);
        let Some(skipped) = log.sample(project, *authenticated, status, at) else { return };
        let problem = response.extensions().get::<Problem>();
        log.enqueue(RequestLogEntry {
            id: uuid_v7(at, app.engine.entropy().bytes()),
            project,
            at,
            request_id: self.request_id.as_str().to_owned(),
            method: method.as_str().to_owned(),
            route: self.route().template.to_owned(),
            // 403 and 404 mean that the check does not exist or belongs to another project, so the entry must not link
            // to it.
            check: check.get().copied().filter(|_| !matches!(status, 403 | 404)),
            status,
            rejection: problem.map(|problem| Rejection {
                error_code: problem.error_code().to_owned(),
                detail: redaction::redact_error_detail(&problem.detail),
            }),
            client: credential.client_id.clone(),
            authenticated: *authenticated,
            duration_micros: u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX),
            query: target.as_ref().and_then(PathAndQuery::query).map(redaction::redact_query),
            body: body.get().filter(|_| problem.is_some()).map(|body| redaction::redact_body(body)),
            skipped,
        });
    }
}

/// Data from which a request log entry is built. Holds shared references instead of copies, because most requests of a
/// busy project are not logged.
#[derive(Default, derive_more::Debug)]
#[debug("RequestLogDraft(…)")]
struct RequestLogDraft {
    client: OnceLock<LoggedClient>,
    body: OnceLock<Bytes>,
    check: OnceLock<CheckId>,
    /// Path and query of the request. The log records only the redacted query. `None` if the request has no query.
    target: Option<PathAndQuery>,
    is_background: bool,
}

struct LoggedClient {
    credential: Arc<Credential>,
    /// Whether the client's secret or token was verified.
    authenticated: bool,
}

/// Identifies a request in logs, in the audit log and in its response.
#[derive(Clone, Debug)]
pub enum RequestId {
    /// Taken from the `X-Request-Id` header.
    FromHeader(HeaderValue),
    /// A generated UUID as text, stored without allocation.
    Generated([u8; Hyphenated::LENGTH]),
}

pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

impl RequestId {
    /// Takes the id from the `X-Request-Id` header if it is valid, otherwise generates one.
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
