//! The edge: what happens to every request before its handler, and to every answer after it.

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
    admission::{admit, strip_enrichment},
    arrival::{Arrival, Context, RequestId, X_REQUEST_ID},
    caller::Meter,
    problem::{Audience, Problem},
    routes::Router,
    trail::{Answered, Trail},
    usual_case::usual_case,
};
use crate::config::RequestLog;

const API_VERSION: HeaderValue = HeaderValue::from_static("1.0.0");
const X_PROJECT_MODE: HeaderName = HeaderName::from_static("x-project-mode");
const X_API_VERSION: HeaderName = HeaderName::from_static("x-api-version");
/// A year. Subdomains of the host may not be ours to speak for.
const HSTS: HeaderValue = HeaderValue::from_static("max-age=31536000");
/// In place of a route, in metrics and logs.
const UNPARSED_ROUTE: &str = "unparsed";
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// A door: a router with the edge around it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Door {
    app: App,
    router: Arc<Router>,
    /// What answers to devices have.
    usual_case: Arc<Extensions>,
    /// Whether what an operator's gateway wrote into a request may be read behind this door.
    keeps_enrichment: bool,
    /// Whether browsers are told to use https only.
    sends_hsts: bool,
}

impl Door {
    pub fn new(routes: Routes, app: App) -> Self {
        Door {
            app,
            router: Arc::new(routes.into_router()),
            usual_case: Arc::new(usual_case()),
            keeps_enrichment: false,
            sends_hsts: false,
        }
    }

    /// Sends `Strict-Transport-Security` if this deployment is reached by https.
    #[must_use]
    pub fn with_hsts(self) -> Self {
        let sends_hsts = self.app.engine.base_url().starts_with("https://");
        Door { sends_hsts, ..self }
    }

    /// Leaves the headers in requests by which operators say whose they are. Anybody can write them, so whoever is
    /// behind this door must know who did.
    #[must_use]
    pub fn keeping_enrichment(self) -> Self {
        Door { keeps_enrichment: true, ..self }
    }

    /// The response to a request that could not be parsed. The connection closes after it.
    pub fn refuse(&self, problem: Problem) -> Response {
        let started = Instant::now();
        let request_id = RequestId::of(&self.app, &HeaderMap::new(), self.app.engine.clock().now());
        let response = self.finish(problem.into_response(), &request_id);
        // The method is lost with the rest of the head.
        let method = Method::from_bytes(b"UNPARSED").unwrap_or_default();
        let elapsed = started.elapsed();
        self.app.metrics.request(&method, UNPARSED_ROUTE, response.status(), elapsed);
        log(&self.app, &method, UNPARSED_ROUTE, &response, &request_id, elapsed);
        response
    }

    /// Answers one request that came over a connection with `peer`.
    pub async fn answer(&self, peer: SocketAddr, patience: &Patience, mut request: Request) -> Response {
        let Door { app, router, usual_case, keeps_enrichment, .. } = self;
        let started = Instant::now();
        let at = app.engine.clock().now();
        let method = request.method().clone();
        let arrival = Arc::new(Arrival {
            at,
            address: client_address(app, peer.ip(), request.headers()),
            peer,
            request_id: RequestId::of(app, request.headers(), at),
            meter: Meter::of(&method, request.uri().path()),
            project_mode: OnceLock::new(),
            trail: Trail::of(app, request.uri(), at),
            way: OnceLock::new(),
        });
        // Who shows credentials is a server. Whoever else may be a device.
        let is_a_server = request.headers().contains_key(header::AUTHORIZATION);

        let span = span(app, &method, &arrival.request_id);
        let audience = Audience::of(&request);
        let admitted = admit(app, &request);
        if !keeps_enrichment {
            strip_enrichment(request.headers_mut());
        }
        let context = Context { app: app.clone(), arrival: Arc::clone(&arrival) };
        let response = match admitted {
            // Wrapping a future moves it: not for a span that nobody collects.
            Ok(()) if span.is_none() => handle(router, request, context, audience, patience).await,
            Ok(()) => handle(router, request, context, audience, patience).instrument(span.clone()).await,
            Err(problem) => problem.for_audience(audience).into_response(),
        };
        let mut response = self.finish(response, &arrival.request_id);
        if let Some(meter) = &arrival.meter {
            meter.write(app, arrival.address, response.headers_mut());
        }
        if let Some(mode) = arrival.project_mode.get() {
            response.headers_mut().insert(X_PROJECT_MODE, HeaderValue::from_static(mode.as_str()));
        }
        if !is_a_server {
            response.extensions_mut().extend(Extensions::clone(usual_case));
        }

        let route = arrival.route();
        span.record("http.route", route).record("http.status", response.status().as_u16());
        let elapsed = started.elapsed();
        app.metrics.request(&method, route, response.status(), elapsed);
        log(app, &method, route, &response, &arrival.request_id, elapsed);
        if let Some(trail) = &arrival.trail {
            let request_id = &arrival.request_id;
            trail.end(app, &Answered { method: &method, route, request_id, response: &response, elapsed });
        }
        response
    }

    /// Writes problems out, and adds what every answer has.
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

/// The request in a trace, when traces are collected: its route, never its path.
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

/// How long the requests of a connection may take: a timer that is put off for each of them. To make and to end one for
/// each would cost more.
#[derive(Debug, Default)]
pub struct Patience(Mutex<Option<Pin<Box<Sleep>>>>);

impl Patience {
    /// The timer, which nobody else has until it is given back.
    fn begin(&self, patience: Duration) -> Pin<Box<Sleep>> {
        match self.spare().take() {
            Some(mut timer) => {
                timer.as_mut().reset(Instant::now() + patience);
                timer
            }
            None => Box::pin(sleep(patience)),
        }
    }

    fn give_back(&self, timer: Option<Pin<Box<Sleep>>>) {
        if timer.is_some() {
            *self.spare() = timer;
        }
    }

    fn spare(&self) -> MutexGuard<'_, Option<Pin<Box<Sleep>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs the handler: not for ever, and not into a panic.
async fn handle(
    router: &Router,
    request: Request,
    context: Context,
    audience: Audience,
    patience: &Patience,
) -> Response {
    let longest = context.app.request_timeout;
    let mut handled = AssertUnwindSafe(router.call(request, context)).catch_unwind();
    let mut too_long = None;
    let answered = poll_fn(|cx| {
        if let Poll::Ready(answered) = handled.poll_unpin(cx) {
            return Poll::Ready(Some(answered));
        }
        // Most are answered from memory, and need no timer.
        too_long.get_or_insert_with(|| patience.begin(longest)).as_mut().poll(cx).map(|()| None)
    })
    .await;
    patience.give_back(too_long);
    let problem = match answered {
        Some(Ok(response)) => return response,
        Some(Err(_)) => Problem::internal(&"a handler panicked"),
        None => Problem::unavailable("the request took too long"),
    };
    problem.for_audience(audience).into_response()
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

/// The `Date` of an answer. hyper would write the machine's time.
fn date_header(now: Timestamp) -> HeaderValue {
    thread_local! {
        /// The header of one second: most answers of a thread need the same as the one before.
        static LAST: RefCell<(i64, HeaderValue)> =
            const { RefCell::new((i64::MIN, HeaderValue::from_static(""))) };
    }
    LAST.with_borrow_mut(|(second, value)| {
        if *second != now.as_second()
            && let Ok(date) = HeaderValue::try_from(signature::date(now))
        {
            (*second, *value) = (now.as_second(), date);
        }
        value.clone()
    })
}

/// Routes, never paths: a path can hold a phone number.
fn log(app: &App, method: &Method, route: &str, response: &Response, request_id: &RequestId, elapsed: Duration) {
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

#[cfg(test)]
mod tests {
    use futures_util::poll;

    use super::*;

    const LONGEST: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn each_request_of_a_connection_has_the_whole_time() {
        let patience = Patience::default();
        for idle in [0, 3, 30] {
            tokio::time::sleep(Duration::from_secs(idle)).await;
            let mut timer = patience.begin(LONGEST);
            tokio::time::sleep(Duration::from_secs(9)).await;
            assert!(poll!(&mut timer).is_pending(), "after {idle} s without a request");
            patience.give_back(Some(timer));
        }
        let begun = Instant::now();
        patience.begin(LONGEST).await;
        assert_eq!(begun.elapsed(), LONGEST);
    }
}
