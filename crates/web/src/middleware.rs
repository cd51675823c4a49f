//! Processing common to all requests: request id, limits, timeout, rendering of problems, response headers and logging.

use std::{
    cell::RefCell,
    net::{IpAddr, SocketAddr},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::Request,
    response::{IntoResponse, Response},
};
use futures_util::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use jiff::Timestamp;
use ringtrue_callback_signature::format_date;
use tokio::time::{Instant, timeout};
use tower_service::Service;
use tracing::{Instrument, Span, field};

use crate::{
    app::{App, LoggedRequests},
    camara_error::X_CORRELATOR,
    problem::{Problem, ProblemAudience},
    rate_limit::write_rate_limit_headers,
    request_context::{RequestContext, RequestId, X_REQUEST_ID},
    request_limits::strip_enrichment_headers,
    routes::Routes,
};

const API_VERSION: HeaderValue = HeaderValue::from_static("1.0.0");
const X_PROJECT_MODE: HeaderName = HeaderName::from_static("x-project-mode");
const X_API_VERSION: HeaderName = HeaderName::from_static("x-api-version");
/// `Strict-Transport-Security` for one year, without `includeSubDomains`: subdomains may belong to other services.
const HSTS: HeaderValue = HeaderValue::from_static("max-age=31536000");
/// Route label in metrics for requests that could not be parsed.
const UNPARSED_ROUTE: &str = "unparsed";
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The router with the middleware around it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct HttpService {
    app: App,
    router: Router,
    /// Whether handlers see header enrichment headers, in which operators' gateways report a device's phone number.
    /// Other listeners remove these headers, because any client could send them.
    keeps_enrichment_headers: bool,
    /// Set by [`with_hsts`](HttpService::with_hsts) if the base URL is https.
    sends_hsts: bool,
}

impl HttpService {
    pub fn new(routes: Routes, app: App) -> Self {
        let router = routes.into_router(app.clone());
        HttpService { app, router, keeps_enrichment_headers: false, sends_hsts: false }
    }

    pub fn app(&self) -> &App {
        &self.app
    }

    /// Adds `Strict-Transport-Security` to responses if the base URL is https.
    #[must_use]
    pub fn with_hsts(self) -> Self {
        let sends_hsts = self.app.engine.base_url().starts_with("https://");
        HttpService { sends_hsts, ..self }
    }

    /// Passes header enrichment headers to handlers. Any client can send them, so handlers must verify the peer's
    /// address.
    #[must_use]
    pub fn keep_enrichment_headers(self) -> Self {
        HttpService { keeps_enrichment_headers: true, ..self }
    }

    /// Returns the response to a request that could not be parsed. The caller closes the connection afterwards.
    pub fn reject_unparsed(&self, problem: Problem) -> Response {
        let started = Instant::now();
        let request_id = RequestId::from_headers(&self.app, &HeaderMap::new(), self.app.engine.clock().now());
        let response = self.finish(problem.into_response(), &request_id, None);
        // The parser does not report the method of the invalid request, so metrics get a placeholder.
        let method = Method::from_bytes(b"UNPARSED").unwrap_or_default();
        let elapsed = started.elapsed();
        self.app.metrics.record_request(&method, UNPARSED_ROUTE, response.status(), elapsed);
        log(&self.app, &method, UNPARSED_ROUTE, &response, &request_id, elapsed);
        response
    }

    /// Handles one request on a connection from `peer`.
    pub async fn respond(&self, peer: SocketAddr, mut request: Request) -> Response {
        let app = &self.app;
        let started = Instant::now();
        let received_at = app.engine.clock().now();
        let method = request.method().clone();
        let client_ip = client_address(app, peer.ip(), request.headers());
        let request_id = RequestId::from_headers(app, request.headers(), received_at);
        let context = Arc::new(RequestContext::new(received_at, client_ip, peer, request_id));
        if !self.keeps_enrichment_headers {
            strip_enrichment_headers(request.headers_mut());
        }
        request.extensions_mut().insert(Arc::clone(&context));

        let span = span(app, &method, &context.request_id);
        let response = self.handle(request).instrument(span.clone()).await;
        let mut response = self.finish(response, &context.request_id, context.audience());
        write_rate_limit_headers(app, &context, response.headers_mut());
        if let Some(correlator) = context.correlator() {
            response.headers_mut().insert(X_CORRELATOR, correlator.clone());
        }
        if let Some(mode) = context.project_mode.get() {
            response.headers_mut().insert(X_PROJECT_MODE, HeaderValue::from_static(mode.into_str()));
        }

        let route = context.route().template;
        span.record("http.route", route).record("http.status", response.status().as_u16());
        let elapsed = started.elapsed();
        app.metrics.record_request(&method, route, response.status(), elapsed);
        log(app, &method, route, &response, &context.request_id, elapsed);
        context.submit_log_entry(app, &method, &response, elapsed);
        response
    }

    /// Runs the handler with a timeout and catches panics.
    async fn handle(&self, request: Request) -> Response {
        let handled = AssertUnwindSafe(self.router.clone().call(request)).catch_unwind();
        match timeout(self.app.http.request_timeout, handled).await {
            Ok(Ok(Ok(response))) => response,
            Ok(Err(_)) => Problem::internal(&"handler panicked").into_response(),
            Err(_) => Problem::unavailable("the request timed out").into_response(),
        }
    }

    /// Renders the problem, if the response has one, and adds the common headers.
    fn finish(&self, mut response: Response, request_id: &RequestId, audience: Option<ProblemAudience>) -> Response {
        // Responses with status 204 or 304 must not have a `Content-Length`, but the router has added one for the empty
        // body.
        if matches!(response.status(), StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
            response.headers_mut().remove(header::CONTENT_LENGTH);
        }
        if let Some(problem) = response.extensions().get::<Problem>() {
            let (content_type, body) = problem.render(self.app.engine.base_url(), audience);
            *response.body_mut() = Body::from(body);
            response.headers_mut().remove(header::CONTENT_LENGTH);
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        }
        let headers = response.headers_mut();
        headers.insert(X_API_VERSION, API_VERSION);
        if let Some(date) = date_header(self.app.engine.clock().now()) {
            headers.insert(header::DATE, date);
        }
        headers.insert(X_REQUEST_ID, request_id.to_header());
        headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        headers.entry(header::X_CONTENT_TYPE_OPTIONS).or_insert(HeaderValue::from_static("nosniff"));
        if self.sends_hsts {
            headers.insert(header::STRICT_TRANSPORT_SECURITY, HSTS);
        }
        response
    }
}

/// Creates the tracing span of a request. It records the route template, never the path.
fn span(app: &App, method: &Method, request_id: &RequestId) -> Span {
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

/// Returns the client's address. Starts at the peer and follows `X-Forwarded-For` from right to left, as long as the
/// address is a trusted proxy. Clients can forge the entries further left.
fn client_address(app: &App, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
    let mut address = peer.to_canonical();
    let forwarded = headers.get_all(X_FORWARDED_FOR).iter().rev();
    for hop in forwarded.flat_map(|value| value.as_bytes().rsplit(|byte| *byte == b',')) {
        if !app.trusts_proxy(address) {
            break;
        }
        match parse_hop(hop) {
            Some(hop) => address = hop.to_canonical(),
            // Entries to the left of an invalid one are not trustworthy either.
            None => break,
        }
    }
    address
}

/// Parses an entry of `X-Forwarded-For`: an address with an optional port.
fn parse_hop(hop: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(hop).ok()?.trim();
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|socket| socket.ip()))
}

/// Renders the `Date` header from the database time. Without this header, hyper would add one from this machine's
/// clock.
fn date_header(now: Timestamp) -> Option<HeaderValue> {
    thread_local! {
        /// The last rendered header, with the second that it shows. Requests within that second reuse it.
        static LAST_DATE: RefCell<Option<(i64, HeaderValue)>> = const { RefCell::new(None) };
    }
    let second = now.as_second();
    LAST_DATE.with_borrow_mut(|last| match last {
        Some((last_second, date)) if *last_second == second => Some(date.clone()),
        _ => {
            let date = HeaderValue::try_from(format_date(now)).ok()?;
            *last = Some((second, date.clone()));
            Some(date)
        }
    })
}

/// Logs a request with its route template, never its path: paths can contain phone numbers.
fn log(app: &App, method: &Method, route: &str, response: &Response, request_id: &RequestId, elapsed: Duration) {
    let status = response.status();
    let is_logged = match app.log_requests {
        LoggedRequests::Off => false,
        LoggedRequests::Errors => status.is_server_error(),
        LoggedRequests::All => true,
    };
    if is_logged {
        let error_code = response.extensions().get::<Problem>().map(Problem::error_code);
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
