//! The edge: what happens to every request before its handler, and to every answer after it.

use std::{
    net::{IpAddr, SocketAddr},
    panic::AssertUnwindSafe,
    sync::{Arc, OnceLock},
};

use axum::{
    Router,
    body::Body,
    extract::Request,
    response::{IntoResponse, Response},
};
use futures_util::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use jiff::Timestamp;
use ringtrue_domain::id::time_ordered;
use ringtrue_engine::rate_limit::Standing;
use tokio::time::Instant;
use tower::Service;
use tracing::{Instrument, Span, field};
use uuid::fmt::Hyphenated;

use super::{
    App, Routes,
    admission::{admit, strip_enrichment},
    caller::Meter,
    catalogue::Code,
    problem::Problem,
    trail::{Answered, Trail},
};
use crate::config::RequestLog;

const API_VERSION: HeaderValue = HeaderValue::from_static("1.0.0");
const X_API_VERSION: HeaderName = HeaderName::from_static("x-api-version");
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What the edge knows of a request and handlers ask for.
#[derive(Clone, Debug)]
pub struct Arrival {
    pub at: Timestamp,
    /// Where it comes from: the peer, or whom a trusted proxy names.
    pub address: IpAddr,
    /// Who opened the connection.
    pub peer: SocketAddr,
    pub request_id: RequestId,
    pub meter: Option<Meter>,
    /// For requests that may get into their project's log.
    pub trail: Option<Trail>,
    pub learned: Arc<Learned>,
}

/// What the edge learns of a request from those whom it is handed to.
#[derive(Debug, Default)]
pub struct Learned {
    pub standing: OnceLock<Standing>,
    route: OnceLock<&'static str>,
}

impl Learned {
    /// Says which route was taken, by its template.
    pub fn reached(&self, route: &'static str) {
        let _ = self.route.set(route);
    }

    /// For metrics and logs, which must not see paths.
    fn route(&self) -> &'static str {
        self.route.get().copied().unwrap_or("unmatched")
    }
}

/// Names a request in logs, in the audit log and in its answer.
#[derive(Clone, Debug)]
pub enum RequestId {
    /// As the caller gave it.
    Given(HeaderValue),
    /// A UUID of ours, in place: it is copied more often than it is written out.
    Made([u8; Hyphenated::LENGTH]),
}

impl RequestId {
    pub fn as_str(&self) -> &str {
        match self {
            RequestId::Given(id) => id.to_str().unwrap_or_default(),
            RequestId::Made(id) => std::str::from_utf8(id).unwrap_or_default(),
        }
    }

    fn to_header(&self) -> HeaderValue {
        match self {
            RequestId::Given(id) => id.clone(),
            RequestId::Made(id) => HeaderValue::from_bytes(id).unwrap_or(HeaderValue::from_static("none")),
        }
    }
}

/// A door: a router with the edge around it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Door {
    app: App,
    router: Router,
    /// Whether what an operator's gateway wrote into a request may be read behind this door.
    keeps_enrichment: bool,
}

impl Door {
    pub fn new(routes: Routes, app: App) -> Self {
        let inside = routes
            .into_router()
            .fallback(|| async { Problem::not_found() })
            .method_not_allowed_fallback(|| async {
                Problem::new(Code::MethodNotAllowed, "the `Allow` header lists the methods of this path")
            })
            .with_state(app.clone());
        Door { app, router: inside, keeps_enrichment: false }
    }

    /// Leaves the headers in requests by which operators say whose they are. Anybody can write them, so whoever is
    /// behind this door must know who did.
    #[must_use]
    pub fn keeping_enrichment(self) -> Self {
        Door { keeps_enrichment: true, ..self }
    }

    /// Answers one request that came over a connection with `peer`.
    pub async fn answer(&self, peer: SocketAddr, mut request: Request) -> Response {
        let Door { app, router, keeps_enrichment } = self;
        let started = Instant::now();
        let at = app.engine.clock().now();
        let request_id = request_id(app, request.headers(), at);
        let method = request.method().clone();
        let accept = accept(request.headers());
        let address = client_address(app, peer.ip(), request.headers());
        let learned = Arc::<Learned>::default();
        let meter = Meter::of(&method, request.uri().path(), &learned);
        let trail = Trail::of(app, request.uri(), at);
        let arrival = Arrival {
            at,
            address,
            peer,
            request_id: request_id.clone(),
            meter: meter.clone(),
            trail: trail.clone(),
            learned: Arc::clone(&learned),
        };
        request.extensions_mut().insert(arrival);

        let span = span(app, &method, &request_id);
        let admitted = admit(app, &request);
        if !keeps_enrichment {
            strip_enrichment(request.headers_mut());
        }
        let response = match admitted {
            // The future is large, and wrapping it moves it: not for a span that nobody collects.
            Ok(()) if span.is_none() => handle(app, router, request).await,
            Ok(()) => handle(app, router, request).instrument(span.clone()).await,
            Err(problem) => problem.into_response(),
        };
        let mut response = finish(app, response, &request_id, accept.as_ref());
        if let Some(meter) = meter {
            meter.write(app, address, response.headers_mut());
        }

        let route = learned.route();
        span.record("http.route", route).record("http.status", response.status().as_u16());
        let elapsed = started.elapsed();
        app.metrics.request(&method, route, response.status(), elapsed);
        log(app, &method, route, &response, &request_id, elapsed);
        if let Some(trail) = trail {
            trail.end(app, &Answered { method: &method, route, request_id: &request_id, response: &response, elapsed });
        }
        response
    }
}

/// The request in a trace, when traces are collected: its route, never its path.
fn span(app: &App, method: &http::Method, request_id: &RequestId) -> Span {
    if !app.traces {
        return Span::none();
    }
    tracing::info_span!(
        "request",
        http.method = %method,
        http.route = field::Empty,
        http.status = field::Empty,
        request.id = request_id.as_str(),
    )
}

/// Runs the handler: not for ever, and not into a panic.
async fn handle(app: &App, router: &Router, request: Request) -> Response {
    // A router is always ready, and can be called without being asked.
    let handled = async { router.clone().call(request).await };
    let mut handled = std::pin::pin!(AssertUnwindSafe(handled).catch_unwind());
    // Most are answered from memory, and need no timer.
    let answered = match handled.as_mut().now_or_never() {
        Some(answered) => Ok(answered),
        None => tokio::time::timeout(app.request_timeout, handled).await,
    };
    match answered {
        Ok(Ok(Ok(response))) => response,
        Ok(Ok(Err(never))) => match never {},
        Ok(Err(_)) => Problem::internal(&"a handler panicked").into_response(),
        Err(_) => Problem::unavailable("the request took too long").into_response(),
    }
}

/// The right-most address that no trusted proxy has added: what stands left of it anyone can have written.
fn client_address(app: &App, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
    let is_trusted = |address: IpAddr| app.trusted_proxies.iter().any(|proxies| proxies.contains(&address));
    let mut address = peer.to_canonical();
    if !is_trusted(address) {
        return address;
    }
    let forwarded = headers.get_all(X_FORWARDED_FOR).iter().rev();
    for hop in forwarded.flat_map(|value| value.as_bytes().rsplit(|byte| *byte == b',')) {
        if !is_trusted(address) {
            break;
        }
        match hop_address(hop) {
            Some(hop) => address = hop.to_canonical(),
            // What stands further left is no better than this.
            None => break,
        }
    }
    address
}

/// An address, which some proxies write with its port.
fn hop_address(hop: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(hop).ok()?.trim();
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|socket| socket.ip()))
}

/// What the caller would like to be answered with. A list may come in several headers.
fn accept(headers: &HeaderMap) -> Option<HeaderValue> {
    let mut values = headers.get_all(header::ACCEPT).iter();
    let first = values.next()?.clone();
    values.try_fold(first, |list, more| {
        HeaderValue::from_bytes(&[list.as_bytes(), more.as_bytes()].join(&b", "[..])).ok()
    })
}

fn request_id(app: &App, headers: &HeaderMap, arrived: Timestamp) -> RequestId {
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

/// Writes problems out, and adds what every answer has.
fn finish(app: &App, response: Response, request_id: &RequestId, accept: Option<&HeaderValue>) -> Response {
    let mut response = match response.extensions().get::<Problem>() {
        Some(problem) => {
            let accept = accept.and_then(|accept| accept.to_str().ok());
            let (content_type, body) = problem.render(app.engine.base_url(), accept);
            let (mut parts, _) = response.into_parts();
            parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
            parts.headers.remove(header::CONTENT_LENGTH);
            Response::from_parts(parts, Body::from(body))
        }
        None => response,
    };
    let headers = response.headers_mut();
    headers.insert(X_API_VERSION, API_VERSION);
    headers.insert(X_REQUEST_ID, request_id.to_header());
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.entry(header::X_CONTENT_TYPE_OPTIONS).or_insert(HeaderValue::from_static("nosniff"));
    response
}

/// Routes, never paths: a path can hold a phone number.
fn log(
    app: &App,
    method: &http::Method,
    route: &str,
    response: &Response,
    request_id: &RequestId,
    elapsed: std::time::Duration,
) {
    let status = response.status();
    let wanted = match app.request_log {
        RequestLog::Off => false,
        RequestLog::Errors => status.is_server_error(),
        RequestLog::All => true,
    };
    if wanted {
        let error_code = response.extensions().get::<Problem>().map(|problem| problem.code.entry().code);
        tracing::info!(
            http.method = %method,
            http.route = route,
            http.status = status.as_u16(),
            request.id = request_id.as_str(),
            request.micros = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX),
            error.code = error_code,
            "request"
        );
    }
}
