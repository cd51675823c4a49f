//! The hosted page of verifications: `/v/{token}`.
//!
//! `GET` and `HEAD` of the page change nothing, so link previews and repeated visits are safe. The silent check starts
//! at `/v/{token}/silent`: by itself if the verification has a redirect URL, because its code then returns to the session
//! at the company; otherwise only by a form of the page itself, because a link alone must not verify anybody who opens
//! it. Paths contain the token and are never logged.

use std::{borrow::Cow, convert::Infallible, sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::{FromRequestParts, Request, State},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request::Parts};
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    reverse_sms::Platform,
    tenancy::{Mode, Name, Project},
    verification::{Brand, BrandName, LogoUrl},
};
use ringtrue_engine::{
    rate_limit::{RateLimitClass, RateLimitState},
    silent::{NextStep, RedirectError, RedirectOutcome, VerificationReturn},
    verifications::{PageFollower, PageState, PageView},
};
use ringtrue_verification_page::{self as page, Language, Page, RenderedPage, SmsToSend, detect_platform};
use tokio::time::{Instant, sleep, sleep_until};
use url::form_urlencoded;

use super::{
    app::App,
    body::read_form,
    error_catalog::ProblemCode,
    parameters::PathParameters,
    problem::Problem,
    request_context::{HandlerState, RequestContext},
    routes::{Routes, get, post},
    silent::redirect,
};
use crate::pages::HTML_CONTENT_TYPE;

/// Delay before the state is read again after an error.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of heartbeats, which keep proxies from closing the connection and detect a closed one.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);
/// Reconnection delay of the browser in milliseconds.
const RETRY_FIELD: &str = "retry: 2000\n";
/// Streams end with the verification. This bounds those that cannot read its end.
const STREAM_GRACE: SignedDuration = SignedDuration::from_secs(30);
const STREAM_RETRY_AFTER: u32 = 5;
/// Longest value of a query parameter that links of the page carry on.
const MAX_PARAMETER_BYTES: usize = 64;

const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Requests that browsers send before the user has decided to visit: `Sec-Purpose` and its predecessors.
const PREFETCH_HEADERS: [HeaderName; 3] =
    [HeaderName::from_static("sec-purpose"), HeaderName::from_static("purpose"), HeaderName::from_static("x-moz")];
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
/// The token must not reach other sites. `no-referrer` would also hide the origin of our own forms from us.
const REFERRER_POLICY: HeaderValue = HeaderValue::from_static("same-origin");

/// Not part of the API: the OpenAPI document does not contain these routes.
pub fn routes() -> Routes {
    Routes::default()
        .get("/v/{token}", show)
        .route("/v/{token}/silent", get(continue_silent).completes_after_disconnect())
        .route("/v/{token}/silent", post(start_silent).completes_after_disconnect())
        .route("/v/{token}/next", post(give_up).completes_after_disconnect())
        .get("/v/{token}/events", events)
}

/// `GET /v/{token}`
async fn show(State(app): State<App>, visitor: PageVisitor) -> Response {
    let shown = async {
        let view = visitor.view(&app).await?;
        Ok(visitor.render_view(&view))
    };
    visitor.respond(shown.await)
}

/// `GET /v/{token}/silent`
async fn continue_silent(State(app): State<App>, visitor: PageVisitor) -> Response {
    let continued = async {
        let view = visitor.view(&app).await?;
        if !view.has_redirect_url || !is_waiting_for_device(&view) || visitor.only_looks_ahead {
            return visitor.redirect_to_page();
        }
        match visitor.begin_silent(&app, &view).await? {
            NextStep::Redirect(location) => redirect(&location),
            // It has failed, and the page shows what follows.
            NextStep::Finish(_) => visitor.redirect_to_page(),
        }
    };
    visitor.respond(continued.await)
}

/// `POST /v/{token}/silent`
async fn start_silent(State(app): State<App>, visitor: PageVisitor, headers: HeaderMap) -> Response {
    let started = async {
        require_same_origin(&app, &headers)?;
        let view = visitor.view(&app).await?;
        if !is_waiting_for_device(&view) {
            return visitor.redirect_to_page();
        }
        match visitor.begin_silent(&app, &view).await? {
            NextStep::Redirect(location) => {
                Ok(visitor.render(Some(&view), page::State::Leaving { location: &location }))
            }
            NextStep::Finish(_) => visitor.redirect_to_page(),
        }
    };
    visitor.respond(started.await)
}

/// `POST /v/{token}/next`
///
/// Gives up the step that the page showed. A form that is submitted twice gives up one step.
async fn give_up(State(app): State<App>, visitor: PageVisitor, request: Request) -> Response {
    let given_up = async {
        let (parts, body) = request.into_parts();
        require_same_origin(&app, &parts.headers)?;
        let form = read_form(&app, &parts.headers, body).await?;
        let method = form_urlencoded::parse(&form).find_map(|(name, value)| (name == "method").then_some(value));
        let method = method.and_then(|method| method.parse().ok());
        let method = method.ok_or_else(|| Problem::bad_request("the form names no method"))?;
        visitor.view(&app).await?;
        app.engine.verifications.page_give_up(&visitor.token, method).await?;
        visitor.redirect_to_page()
    };
    visitor.respond(given_up.await)
}

/// `GET /v/{token}/events`
///
/// Sends the name of the state whenever it changes, and ends with the verification.
async fn events(State(app): State<App>, visitor: PageVisitor) -> Response {
    let opened = async {
        let view = visitor.view(&app).await?;
        let follower = app.engine.verifications.follow_page(&view);
        let follower = follower.map_err(|error| Problem::too_many_requests(error.to_string(), STREAM_RETRY_AFTER))?;
        let stream = EventStream {
            follower,
            // Idle connections are closed after `idle_timeout`.
            heartbeat: HEARTBEAT_INTERVAL.min(app.http.idle_timeout / 2),
            wrote_at: Instant::now(),
            ends_at: view.expires_at.saturating_add(STREAM_GRACE).unwrap_or(Timestamp::MAX),
            token: visitor.token.clone(),
            first_view: Some(view),
            last_state: None,
            must_retry: false,
            is_over: false,
            app: app.clone(),
        };
        let events = stream::unfold(stream, async |mut stream| {
            let event = stream.next().await?;
            Some((Ok::<_, Infallible>(Bytes::from(event)), stream))
        });
        let mut response = Response::new(Body::from_stream(events));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        // Buffering proxies would delay the events.
        headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
        Ok(response)
    };
    visitor.respond(opened.await)
}

/// Response to a device that comes back from its operator to the page at which its redirects began.
pub async fn finish_at_page(
    app: &App,
    context: &Arc<RequestContext>,
    headers: &HeaderMap,
    end: &RedirectOutcome,
    verification: &VerificationReturn,
) -> Result<Response, Problem> {
    let token = &verification.page_token;
    if let Ok(code) = &end.result {
        if let Some(url) = app.engine.verifications.page_return_url(token, &code.0).await? {
            let visitor = PageVisitor::new(Arc::clone(context), token.clone(), None, headers);
            if !visitor.is_framed {
                return redirect(&url);
            }
            let view = app.engine.verifications.page(token).await?.ok_or_else(Problem::not_found)?;
            return Ok(visitor.render(Some(&view), page::State::Confirming { return_to: Some(&url) }));
        }
        app.engine.verifications.page_redeem(token, &code.0).await?;
    }
    redirect(&format!("{}{}", app.engine.base_url(), page_path(token)))
}

/// A request for the page of a verification.
#[derive(derive_more::Debug)]
#[debug("PageVisitor(…)")]
struct PageVisitor {
    context: Arc<RequestContext>,
    token: String,
    path: String,
    /// Query that links of the page carry on: empty, or with its `?`.
    query: String,
    /// Number of the SIM in a simulated device.
    sim: Option<String>,
    language: Language,
    platform: Platform,
    /// `HEAD` requests and prefetches must not start anything.
    only_looks_ahead: bool,
    /// The console's handset shows the page.
    is_framed: bool,
}

impl FromRequestParts<HandlerState> for PageVisitor {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &HandlerState) -> Result<Self, Infallible> {
        let parameters = PathParameters::from_request_parts(parts, state).await?;
        let token = parameters.get("token").unwrap_or_default().to_owned();
        let query = parts.uri.query().unwrap_or_default();
        let parameter = |wanted: &str| {
            let value =
                form_urlencoded::parse(query.as_bytes()).find_map(|(name, value)| (name == wanted).then_some(value));
            value.filter(|value| value.len() <= MAX_PARAMETER_BYTES).map(Cow::into_owned)
        };
        let language = parameter("lang");
        // A raw `+` in a query decodes to a space.
        let sim = parameter("sim").map(|sim| sim.replace(' ', "+"));
        Ok(PageVisitor {
            query: carried_query(&[("lang", language.as_deref()), ("sim", sim.as_deref())]),
            sim,
            only_looks_ahead: parts.method == Method::HEAD
                || PREFETCH_HEADERS.iter().any(|name| parts.headers.contains_key(name)),
            ..PageVisitor::new(Arc::clone(&state.context), token, language.as_deref(), &parts.headers)
        })
    }
}

impl PageVisitor {
    fn new(context: Arc<RequestContext>, token: String, language: Option<&str>, headers: &HeaderMap) -> Self {
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        PageVisitor {
            path: page_path(&token),
            query: String::new(),
            sim: None,
            language: Language::negotiate(language, text(header::ACCEPT_LANGUAGE)),
            platform: detect_platform(text(header::USER_AGENT).unwrap_or_default()),
            only_looks_ahead: false,
            is_framed: text(SEC_FETCH_DEST) == Some("iframe"),
            context,
            token,
        }
    }

    /// The verification. Visits with a valid token are limited by verification, others by address.
    async fn view(&self, app: &App) -> Result<PageView, Problem> {
        let (limiter, now) = (app.engine.rate_limiter(), app.engine.clock().now());
        let Some(verification) = app.engine.verifications.verification_of_token(&self.token)? else {
            require_admitted(limiter.limit_by_ip(RateLimitClass::Device, self.context.client_ip, now))?;
            return Err(Problem::not_found());
        };
        require_admitted(limiter.limit_page_visit(verification, now))?;
        app.engine.verifications.page(&self.token).await?.ok_or_else(Problem::not_found)
    }

    async fn begin_silent(&self, app: &App, view: &PageView) -> Result<NextStep, Problem> {
        let now = app.engine.clock().now();
        require_admitted(app.engine.rate_limiter().limit_device_visit(view.verification, now))?;
        let address = self.context.client_ip;
        let next = app.engine.verifications.begin_silent(&self.token, address, self.sim.as_deref()).await?;
        Ok(next.ok_or(RedirectError::NotFound)?)
    }

    fn redirect_to_page(&self) -> Result<Response, Problem> {
        let location = HeaderValue::try_from(format!("{}{}", self.path, self.query))
            .map_err(|_| Problem::internal(&"path of a page is not a valid header value"))?;
        let mut response = Response::default();
        *response.status_mut() = StatusCode::SEE_OTHER;
        response.headers_mut().insert(header::LOCATION, location);
        response.headers_mut().insert(header::REFERRER_POLICY, REFERRER_POLICY);
        Ok(response)
    }

    fn render_view(&self, view: &PageView) -> Response {
        self.render(Some(view), page_state(view, self.platform))
    }

    fn render(&self, view: Option<&PageView>, state: page::State<'_>) -> Response {
        let RenderedPage { html, content_security_policy } = Page {
            language: self.language,
            brand: view.and_then(brand),
            number_tail: view.and_then(|view| view.number_tail),
            is_sandbox: view.is_some_and(|view| view.mode == Mode::Sandbox),
            path: &self.path,
            query: &self.query,
            is_framed: self.is_framed,
            state,
        }
        .render();
        let mut response = Response::new(Body::from(html));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(HTML_CONTENT_TYPE));
        headers.insert(header::REFERRER_POLICY, REFERRER_POLICY);
        if let Ok(policy) = HeaderValue::try_from(content_security_policy) {
            headers.insert(header::CONTENT_SECURITY_POLICY, policy);
        }
        response
    }

    /// Renders problems as pages.
    fn respond(&self, outcome: Result<Response, Problem>) -> Response {
        let problem = match outcome {
            Ok(response) => return response,
            Err(problem) => problem,
        };
        let state = match problem.code.entry().status {
            StatusCode::NOT_FOUND => page::State::Unknown,
            StatusCode::TOO_MANY_REQUESTS => page::State::Busy,
            StatusCode::FORBIDDEN => page::State::Refused,
            _ => page::State::Unavailable,
        };
        let (page, body) = self.render(None, state).into_parts();
        let mut response = problem.into_response();
        // Prevents the middleware from replacing the page.
        response.extensions_mut().remove::<Problem>();
        response.headers_mut().remove(header::CONTENT_LENGTH);
        response.headers_mut().extend(page.headers);
        *response.body_mut() = body;
        response
    }
}

/// What the page shows.
fn page_state(view: &PageView, platform: Platform) -> page::State<'_> {
    match &view.state {
        PageState::Silent { is_verdict_known: true } => page::State::Confirming { return_to: None },
        PageState::Silent { is_verdict_known: false } if view.has_redirect_url => page::State::Silent,
        PageState::Silent { is_verdict_known: false } => page::State::Start,
        PageState::SendSms { receiver, sms_body, has_arrived } => {
            page::State::SendSms(SmsToSend { receiver, body: sms_body, platform, has_arrived: *has_arrived })
        }
        PageState::SimSwap => page::State::SimSwap,
        PageState::Done { matched: true, return_to } => page::State::Done { return_to: return_to.as_deref() },
        PageState::Done { matched: false, return_to } => page::State::NotMatched { return_to: return_to.as_deref() },
        PageState::Failed { return_to } => page::State::Failed { return_to: return_to.as_deref() },
        PageState::Expired { return_to } => page::State::Expired { return_to: return_to.as_deref() },
    }
}

/// `None` if the project has been deleted.
fn brand(view: &PageView) -> Option<page::Brand<'_>> {
    render_brand(&view.brand, view.project_name.as_ref())
}

/// How pages for end-users present a project.
pub fn brand_of(project: &Project) -> Option<page::Brand<'_>> {
    render_brand(&project.configuration.verification.brand, Some(&project.name))
}

fn render_brand<'a>(brand: &'a Brand, project_name: Option<&'a Name>) -> Option<page::Brand<'a>> {
    let Brand { name, logo_url, colour } = brand;
    Some(page::Brand {
        name: name.as_ref().map(BrandName::as_str).or_else(|| project_name.map(Name::as_str))?,
        logo_url: logo_url.as_ref().map(LogoUrl::as_str),
        colour: colour.as_ref().and_then(|colour| page::Colour::parse(colour.as_str())),
    })
}

fn is_waiting_for_device(view: &PageView) -> bool {
    matches!(view.state, PageState::Silent { is_verdict_known: false })
}

fn page_path(token: &str) -> String {
    // Valid tokens contain no characters that must be encoded.
    format!("/v/{}", form_urlencoded::byte_serialize(token.as_bytes()).collect::<String>())
}

/// Query of the parameters that have a value: empty, or with its `?`.
fn carried_query(parameters: &[(&str, Option<&str>)]) -> String {
    let given = parameters.iter().filter_map(|(name, value)| Some((*name, (*value)?)));
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(given).finish();
    if query.is_empty() { query } else { format!("?{query}") }
}

fn require_admitted(limit: RateLimitState) -> Result<(), Problem> {
    if limit.admitted { Ok(()) } else { Err(Problem::too_many_requests("too many visits", limit.reset_seconds)) }
}

/// Rejects forms of other sites, which could otherwise verify their visitors' numbers. Browsers without
/// `Sec-Fetch-Site` send the origin of the form.
fn require_same_origin(app: &App, headers: &HeaderMap) -> Result<(), Problem> {
    let is_same = match headers.get(SEC_FETCH_SITE) {
        Some(site) => site == "same-origin",
        None => headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok()).is_some_and(|origin| {
            let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
            let origin_host = origin.split_once("://").map(|(_, host)| host);
            origin_host.is_some() && (origin_host == host || is_origin_of(app.engine.base_url(), origin))
        }),
    };
    if is_same {
        Ok(())
    } else {
        Err(Problem::new(ProblemCode::Forbidden, "the form was not submitted by the page itself"))
    }
}

fn is_origin_of(base_url: &str, origin: &str) -> bool {
    url::Url::parse(base_url).is_ok_and(|url| url.origin().ascii_serialization() == origin)
}

/// Events of one verification.
struct EventStream {
    app: App,
    token: String,
    follower: PageFollower,
    heartbeat: Duration,
    wrote_at: Instant,
    ends_at: Timestamp,
    /// Not sent yet.
    first_view: Option<PageView>,
    /// Name of the state that was sent last.
    last_state: Option<&'static str>,
    /// The state could not be read.
    must_retry: bool,
    is_over: bool,
}

impl EventStream {
    /// The next event. `None`: the stream has ended.
    async fn next(&mut self) -> Option<String> {
        let shutdown = self.app.shutdown.clone();
        if let Some(view) = self.first_view.take() {
            return self.describe(&view);
        }
        while !self.is_over && self.app.engine.clock().now() < self.ends_at {
            tokio::select! {
                () = shutdown.cancelled() => return None,
                () = self.follower.changed() => {}
                () = sleep(RETRY_INTERVAL), if self.must_retry => {}
                () = sleep_until(self.wrote_at + self.heartbeat) => return Some(self.write(":\n\n".to_owned())),
            }
            match self.app.engine.verifications.page(&self.token).await {
                Ok(Some(view)) => {
                    self.must_retry = false;
                    if let Some(event) = self.describe(&view) {
                        return Some(event);
                    }
                }
                Ok(None) => return None,
                Err(error) => {
                    tracing::debug!(%error, "failed to read a verification for its event stream");
                    self.must_retry = true;
                }
            }
        }
        None
    }

    /// `None`: the state was sent already.
    fn describe(&mut self, view: &PageView) -> Option<String> {
        let state = page_state(view, Platform::Unknown);
        let retry = if self.last_state.is_none() { RETRY_FIELD } else { "" };
        if self.last_state.replace(state.name()) == Some(state.name()) {
            return None;
        }
        self.is_over = state.is_final();
        Some(self.write(format!("{retry}event: state\ndata: {}\n\n", state.name())))
    }

    fn write(&mut self, event: String) -> String {
        self.wrote_at = Instant::now();
        event
    }
}
