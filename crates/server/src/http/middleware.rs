//! Request processing common to all handlers: request id, limits, timeout, problems, response headers, logging.

use std::{
    cell::RefCell,
    future::poll_fn,
    net::{IpAddr, SocketAddr},
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    task::Poll,
    time::Duration,
};

use axum::{
    body::Body,
    extract::Request,
    response::{IntoResponse, Response},
};
use futures_util::FutureExt;
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, header};
use jiff::Timestamp;
use ringtrue_engine::callback::signature;
use tokio::time::{Instant, Sleep, sleep};
use tracing::{Instrument, Span, field};

use super::{
    App, Routes,
    caller::RequestRateLimit,
    header_case::title_case_extensions,
    problem::{Audience, Problem},
    request_context::{HandlerState, RequestContext, RequestId, X_REQUEST_ID},
    request_limits::{check_request, strip_enrichment_headers},
    request_log::{CompletedRequest, RequestLogDraft},
    routes::Router,
};
use crate::config::RequestLogLevel;

const API_VERSION: HeaderValue = HeaderValue::from_static("1.0.0");
const X_PROJECT_MODE: HeaderName = HeaderName::from_static("x-project-mode");
const X_API_VERSION: HeaderName = HeaderName::from_static("x-api-version");
/// One year, without `includeSubDomains`: subdomains may belong to other services.
const HSTS: HeaderValue = HeaderValue::from_static("max-age=31536000");
/// Route label of requests that could not be parsed.
const UNPARSED_ROUTE: &str = "unparsed";
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Router with middleware. Cheap to clone.
#[derive(Clone, Debug)]
pub struct HttpService {
    app: App,
    router: Arc<Router>,
    /// Response extensions that select title-case header names.
    device_header_case: Arc<Extensions>,
    /// Whether handlers see header enrichment, which only operators' gateways may set.
    keeps_enrichment_headers: bool,
    /// Whether responses carry `Strict-Transport-Security`.
    sends_hsts: bool,
}

impl HttpService {
    pub fn new(routes: Routes, app: App) -> Self {
        HttpService {
            app,
            router: Arc::new(routes.into_router()),
            device_header_case: Arc::new(title_case_extensions()),
            keeps_enrichment_headers: false,
            sends_hsts: false,
        }
    }

    /// Enables `Strict-Transport-Security` if the base URL is https.
    #[must_use]
    pub fn with_hsts(self) -> Self {
        let sends_hsts = self.app.engine.base_url().starts_with("https://");
        HttpService { sends_hsts, ..self }
    }

    /// Passes enrichment headers to handlers. Any client can send them, so handlers must verify the peer.
    #[must_use]
    pub fn with_enrichment_headers(self) -> Self {
        HttpService { keeps_enrichment_headers: true, ..self }
    }

    /// Responds to a request that could not be parsed. The connection closes afterwards.
    pub fn reject_unparsed(&self, problem: Problem) -> Response {
        let started = Instant::now();
        let request_id = RequestId::from_headers(&self.app, &HeaderMap::new(), self.app.engine.clock().now());
        let response = self.finish(problem.into_response(), &request_id);
        // The parser reports no method.
        let method = Method::from_bytes(b"UNPARSED").unwrap_or_default();
        let elapsed = started.elapsed();
        self.app.metrics.record_request(&method, UNPARSED_ROUTE, response.status(), elapsed);
        log(&self.app, &method, UNPARSED_ROUTE, &response, &request_id, elapsed);
        response
    }

    /// Handles one request on a connection from `peer`.
    pub async fn respond(&self, peer: SocketAddr, timer: &RequestTimer, mut request: Request) -> Response {
        let HttpService { app, router, device_header_case, keeps_enrichment_headers, .. } = self;
        let started = Instant::now();
        let at = app.engine.clock().now();
        let method = request.method().clone();
        let context = Arc::new(RequestContext {
            received_at: at,
            client_ip: client_address(app, peer.ip(), request.headers()),
            peer,
            request_id: RequestId::from_headers(app, request.headers(), at),
            rate_limit: RequestRateLimit::for_path(&method, request.uri().path()),
            project_mode: OnceLock::new(),
            log_draft: RequestLogDraft::for_request(app, request.uri(), at),
            matched_route: OnceLock::new(),
        });
        // Requests with credentials come from servers; others may come from devices.
        let has_credentials = request.headers().contains_key(header::AUTHORIZATION);

        let span = span(app, &method, &context.request_id);
        let audience = Audience::for_request(&request);
        let checked = check_request(app, &request);
        if !keeps_enrichment_headers {
            strip_enrichment_headers(request.headers_mut());
        }
        let state = HandlerState { app: app.clone(), context: Arc::clone(&context) };
        let response = match checked {
            // Instrumenting moves the future, so skip it without a span.
            Ok(()) if span.is_none() => handle(router, request, state, audience, timer).await,
            Ok(()) => handle(router, request, state, audience, timer).instrument(span.clone()).await,
            Err(problem) => problem.for_audience(audience).into_response(),
        };
        let mut response = self.finish(response, &context.request_id);
        if let Some(rate_limit) = &context.rate_limit {
            rate_limit.write_headers(app, context.client_ip, response.headers_mut());
        }
        if let Some(mode) = context.project_mode.get() {
            response.headers_mut().insert(X_PROJECT_MODE, HeaderValue::from_static(mode.as_str()));
        }
        if !has_credentials {
            response.extensions_mut().extend(Extensions::clone(device_header_case));
        }

        let route = context.route();
        span.record("http.route", route).record("http.status", response.status().as_u16());
        let elapsed = started.elapsed();
        app.metrics.record_request(&method, route, response.status(), elapsed);
        log(app, &method, route, &response, &context.request_id, elapsed);
        if let Some(log_draft) = &context.log_draft {
            let request_id = &context.request_id;
            log_draft
                .submit(app, &CompletedRequest { method: &method, route, request_id, response: &response, elapsed });
        }
        response
    }

    /// Renders the problem, if any, and adds the common headers.
    fn finish(&self, response: Response, request_id: &RequestId) -> Response {
        let mut response = match response.extensions().get::<Problem>() {
            Some(problem) => {
                let (content_type, body) = problem.render(self.app.engine.base_url());
                let (mut parts, _) = response.into_parts();
                parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
                Response::from_parts(parts, Body::from(body))
            }
            None => response,
        };
        let headers = response.headers_mut();
        headers.insert(X_API_VERSION, API_VERSION);
        headers.insert(header::DATE, date_header(self.app.engine.clock().now()));
        headers.insert(X_REQUEST_ID, request_id.to_header());
        headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        headers.entry(header::X_CONTENT_TYPE_OPTIONS).or_insert(HeaderValue::from_static("nosniff"));
        if self.sends_hsts {
            headers.insert(header::STRICT_TRANSPORT_SECURITY, HSTS);
        }
        response
    }
}

/// Tracing span of the request. It records the route, never the path.
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

/// Timeout timer of a connection, reset for each request: cheaper than a new timer for each.
#[derive(Debug, Default)]
pub struct RequestTimer(Mutex<Option<Pin<Box<Sleep>>>>);

impl RequestTimer {
    /// Takes the timer until it is released.
    fn start(&self, timeout: Duration) -> Pin<Box<Sleep>> {
        match self.lock().take() {
            Some(mut timer) => {
                timer.as_mut().reset(Instant::now() + timeout);
                timer
            }
            None => Box::pin(sleep(timeout)),
        }
    }

    fn release(&self, timer: Option<Pin<Box<Sleep>>>) {
        if timer.is_some() {
            *self.lock() = timer;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Pin<Box<Sleep>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs the handler with a timeout and catches panics.
async fn handle(
    router: &Router,
    request: Request,
    state: HandlerState,
    audience: Audience,
    timer: &RequestTimer,
) -> Response {
    let timeout = state.app.request_timeout;
    let mut handled = AssertUnwindSafe(router.call(request, state)).catch_unwind();
    let mut deadline = None;
    let outcome = poll_fn(|cx| {
        if let Poll::Ready(outcome) = handled.poll_unpin(cx) {
            return Poll::Ready(Some(outcome));
        }
        // Most handlers finish on the first poll and need no timer.
        deadline.get_or_insert_with(|| timer.start(timeout)).as_mut().poll(cx).map(|()| None)
    })
    .await;
    timer.release(deadline);
    let problem = match outcome {
        Some(Ok(response)) => return response,
        Some(Err(_)) => Problem::internal(&"handler panicked"),
        None => Problem::unavailable("the request timed out"),
    };
    problem.for_audience(audience).into_response()
}

/// The right-most address that was not added by a trusted proxy. Clients can forge everything to the left of it.
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
        match parse_hop(hop) {
            Some(hop) => address = hop.to_canonical(),
            // Entries further left are not trustworthy either.
            None => break,
        }
    }
    address
}

/// Parses an address with an optional port.
fn parse_hop(hop: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(hop).ok()?.trim();
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|socket| socket.ip()))
}

/// `Date` header from the database time; hyper would use the machine's clock.
fn date_header(now: Timestamp) -> HeaderValue {
    thread_local! {
        /// Header of the last second, reused within a second.
        static LAST_DATE: RefCell<(i64, HeaderValue)> =
            const { RefCell::new((i64::MIN, HeaderValue::from_static(""))) };
    }
    LAST_DATE.with_borrow_mut(|(second, value)| {
        if *second != now.as_second()
            && let Ok(date) = HeaderValue::try_from(signature::format_date(now))
        {
            (*second, *value) = (now.as_second(), date);
        }
        value.clone()
    })
}

/// Logs the route, never the path: paths can contain phone numbers.
fn log(app: &App, method: &Method, route: &str, response: &Response, request_id: &RequestId, elapsed: Duration) {
    let status = response.status();
    let is_logged = match app.request_log {
        RequestLogLevel::Off => false,
        RequestLogLevel::Errors => status.is_server_error(),
        RequestLogLevel::All => true,
    };
    if is_logged {
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

#[cfg(test)]
mod tests {
    use futures_util::poll;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn each_request_of_a_connection_gets_the_full_timeout() {
        let request_timer = RequestTimer::default();
        for idle in [0, 3, 30] {
            tokio::time::sleep(Duration::from_secs(idle)).await;
            let mut timer = request_timer.start(TIMEOUT);
            tokio::time::sleep(Duration::from_secs(9)).await;
            assert!(poll!(&mut timer).is_pending(), "after {idle} s without a request");
            request_timer.release(Some(timer));
        }
        let started = Instant::now();
        request_timer.start(TIMEOUT).await;
        assert_eq!(started.elapsed(), TIMEOUT);
    }
}
