//! The hosted page of verifications: `/v/{token}`.
//!
//! `GET` and `HEAD` of the page change nothing, so link previews and repeated visits are safe. `/v/{token}/silent`
//! starts the silent check. If the verification has a redirect URL, the page opens `/v/{token}/silent` by itself, but
//! only once. In all other cases the user must submit a form of the page, because opening a link alone must not verify
//! anybody. The browser that starts the check gets a cookie, and only this browser may finish it
//! (decisions/0017-hosted-page.md). Paths contain the token and are never logged.

use std::{borrow::Cow, convert::Infallible, sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::{FromRequestParts, Request, State},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header, request::Parts};
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    lifecycle::CheckId,
    reverse_sms::Platform,
    tenancy::{Mode, Project},
    verification::{Locale, Method, UserEnd},
    web_url::{RESULT_PARAMETERS, WebOrigin},
};
use ringtrue_engine::{
    rate_limits::{PageVisitorKey, RateLimitClass, RateLimitState},
    silent::{BrowserKey, NextStep, RedirectError, RedirectOutcome, VerificationReturn},
    verifications::{PageFailure, PageFollower, PageState, PageView},
};
use ringtrue_verification_page::{
    self as page, Confirming, DisplayMode, EndMessage, Failure, LANGUAGE_PARAMETER, Language, Notice, Page, Question,
    QuestionSubject, RenderedPage, SmsToSend, detect_platform,
};
use ringtrue_web::{
    app::App,
    assets::HTML_CONTENT_TYPE,
    body::read_form,
    error_catalog::ProblemCode,
    parameters::PathParameters,
    problem::Problem,
    request_context::{HandlerState, RequestContext},
    routes::{Routes, get, post},
};
use strum::{EnumString, IntoStaticStr};
use tokio::time::{Instant, sleep, sleep_until};
use url::{Url, form_urlencoded};

use crate::{browser_cookie, redirect_response::redirect};

/// Delay before an event stream reads the state again after an error.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// How often an event stream checks whether the end time of the current state has passed.
const WAIT_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of heartbeats, which keep proxies from closing the connection and detect a closed one.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);
/// Field of an event stream that sets the browser's reconnection delay, in milliseconds.
const RETRY_FIELD: &str = "retry: 2000\n";
/// Time after the verification's expiry at which an event stream ends at the latest. Streams normally end when they
/// have sent the final state; this ends those that cannot read it.
const STREAM_GRACE: SignedDuration = SignedDuration::from_secs(30);
const STREAM_RETRY_AFTER: u32 = 5;
/// Query parameter with a permit to start the silent check. The browser gets the permit when it submits the page's
/// form.
const PERMIT_PARAMETER: &str = "go";
/// Query parameter that says why the silent check could not start: a [`StartHint`].
const START_PARAMETER: &str = "start";
/// Query parameter that says where the browser shows the page: `popup` or `frame`.
const DISPLAY_PARAMETER: &str = "display";
/// Maximum length of the page's query parameters. Longer ones are ignored, because the page copies some to its links.
const MAX_PARAMETER_BYTES: usize = 64;

const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Headers of prefetch requests, which browsers send before the user decides to visit: `Sec-Purpose` and its
/// predecessors.
const PREFETCH_HEADERS: [HeaderName; 3] =
    [HeaderName::from_static("sec-purpose"), HeaderName::from_static("purpose"), HeaderName::from_static("x-moz")];
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
/// Keeps the token in the URL from other sites. `no-referrer` would also remove the origin from submitted forms, which
/// [`require_same_origin`] needs.
const REFERRER_POLICY: HeaderValue = HeaderValue::from_static("same-origin");

/// Routes of the hosted page. They are not part of the API, so the OpenAPI document does not contain them.
pub fn routes() -> Routes {
    Routes::default()
        .get("/v/{token}", show)
        .route("/v/{token}/silent", get(leave).completes_after_disconnect())
        .route("/v/{token}/silent", post(start_silent).completes_after_disconnect())
        .route("/v/{token}/next", post(give_up_step).completes_after_disconnect())
        .route("/v/{token}/end", post(end).completes_after_disconnect())
        .get("/v/{token}/events", events)
        .get("/v/{token}/state", state)
}

/// `GET /v/{token}`
async fn show(State(app): State<App>, visitor: PageVisitor) -> Response {
    let shown = async {
        let view = visitor.view(&app).await?;
        Ok(visitor.render_view(&app, &view))
    };
    visitor.respond(shown.await)
}

/// `GET /v/{token}/silent`
///
/// Starts the silent check and shows a page that sends the browser to the operator. Without a permit, it does so only
/// if the page opened this URL by itself (see [`starts_by_itself`]), and otherwise redirects back to the page.
async fn leave(State(app): State<App>, visitor: PageVisitor, headers: HeaderMap) -> Response {
    let left = async {
        let view = visitor.view_for_action(&app).await?;
        let Some(key) = visitor.permitted_key(&app, &view)? else {
            let hint = visitor.refused_start(&app, &view);
            return visitor.redirect("", hint.map(|hint| (START_PARAMETER, hint.into_str())));
        };
        let address = visitor.context.client_ip;
        let begun =
            app.engine.verifications.begin_silent(&visitor.token, &key, address, visitor.sim.as_deref()).await?;
        let mut response = match begun.ok_or(RedirectError::NotFound)? {
            NextStep::Redirect(location) => visitor.render(Some(&view), page::State::Leaving { location: &location }),
            // The silent check has failed before a redirect. The page shows the next method, or the end of the
            // verification.
            NextStep::Finish(_) => return visitor.redirect_to_page(),
        };
        visitor.set_browser_key(&app, &headers, view.verification, &key, &mut response);
        Ok(response)
    };
    visitor.respond(left.await)
}

/// `POST /v/{token}/silent`
///
/// Issues a permit to start the silent check and redirects to [`leave`]. The redirect keeps the form out of the
/// browser's history: browsers ask for a confirmation before they go back to a submitted form.
async fn start_silent(State(app): State<App>, visitor: PageVisitor, headers: HeaderMap) -> Response {
    let started = async {
        require_same_origin(&app, &headers)?;
        let view = visitor.view_for_action(&app).await?;
        if let PageState::Returned { code: Some(code), return_to: None } = &view.state {
            app.engine.verifications.page_redeem(&visitor.token, code).await?;
        }
        let key = visitor.own_or_new_key(&app, view.verification)?;
        let Some(permit) = app.engine.verifications.silent_start_token(&view, &key)? else {
            return visitor.redirect_to_page();
        };
        let mut response = visitor.redirect("/silent", Some((PERMIT_PARAMETER, &permit)))?;
        visitor.set_browser_key(&app, &headers, view.verification, &key, &mut response);
        Ok(response)
    };
    visitor.respond(started.await)
}

/// `POST /v/{token}/next`
///
/// Gives up the method that the page showed and continues with the next one. The form names the method, so submitting
/// it twice gives up only that method.
async fn give_up_step(State(app): State<App>, visitor: PageVisitor, request: Request) -> Response {
    let given_up = async {
        let method = read_own_form(&app, request, "method").await?;
        let method = method.and_then(|method| method.parse().ok());
        let method = method.ok_or_else(|| Problem::bad_request("the form names no method"))?;
        visitor.view_for_action(&app).await?;
        app.engine.verifications.page_give_up(&visitor.token, method).await?;
        visitor.redirect_to_page()
    };
    visitor.respond(given_up.await)
}

/// `POST /v/{token}/end`
///
/// Ends the verification at the end-user's request. The page has asked for confirmation before.
async fn end(State(app): State<App>, visitor: PageVisitor, request: Request) -> Response {
    let ended = async {
        let reason = read_own_form(&app, request, "reason").await?;
        let reason = reason.and_then(|reason| reason.parse().ok());
        let reason = reason.ok_or_else(|| Problem::bad_request("the form names no reason"))?;
        visitor.view_for_action(&app).await?;
        let end = match reason {
            QuestionSubject::GiveUp => UserEnd::GivenUp,
            QuestionSubject::WrongNumber => UserEnd::WrongNumber,
        };
        app.engine.verifications.end_by_user(&visitor.token, end).await?;
        visitor.redirect_to_page()
    };
    visitor.respond(ended.await)
}

/// Reads a field of a submitted form. Rejects forms of other sites.
async fn read_own_form(app: &App, request: Request, field: &str) -> Result<Option<String>, Problem> {
    let (parts, body) = request.into_parts();
    require_same_origin(app, &parts.headers)?;
    let form = read_form(app, &parts.headers, body).await?;
    let value = form_urlencoded::parse(&form).find_map(|(name, value)| (name == field).then_some(value));
    Ok(value.map(Cow::into_owned))
}

/// `GET /v/{token}/events`
///
/// Sends the name of the page's state whenever it changes. The stream ends when the verification ends.
async fn events(State(app): State<App>, visitor: PageVisitor) -> Response {
    let opened = async {
        let view = visitor.view(&app).await?;
        let follower = app.engine.verifications.follow_page(&view);
        let follower = follower.map_err(|error| Problem::too_many_requests(error.to_string(), STREAM_RETRY_AFTER))?;
        let stream = EventStream {
            follower,
            // The server closes connections that are idle for `idle_timeout`, so heartbeats must be more frequent.
            heartbeat: HEARTBEAT_INTERVAL.min(app.http.idle_timeout / 2),
            wrote_at: Instant::now(),
            ends_at: view.expires_at.saturating_add(STREAM_GRACE).unwrap_or(Timestamp::MAX),
            token: visitor.token.clone(),
            browser_keys: visitor.browser_keys.clone(),
            first_view: Some(view),
            last_state: None,
            waits_until: None,
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
        // Asks proxies not to buffer the response, which would delay the events.
        headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
        Ok(response)
    };
    visitor.respond(opened.await)
}

/// `GET /v/{token}/state`
///
/// Responds with the name of the page's state. For browsers whose proxy holds back the events.
async fn state(State(app): State<App>, visitor: PageVisitor) -> Response {
    let read = async {
        let view = visitor.view(&app).await?;
        let mut response = Response::new(Body::from(page_state(&view, Platform::Unknown).name()));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        Ok(response)
    };
    visitor.respond(read.await)
}

/// Responds to a browser that returns from its operator, if the hosted page started the silent check.
pub async fn finish_at_page(
    app: &App,
    context: &Arc<RequestContext>,
    headers: &HeaderMap,
    end: &RedirectOutcome,
    verification: &VerificationReturn,
) -> Result<Response, Problem> {
    let token = &verification.page_token;
    let is_popup = browser_cookie::began_in_popup(app, headers, verification.id);
    if let Ok(code) = &end.result {
        if let Some(url) = app.engine.verifications.page_return_url(token, &code.0).await? {
            let visitor = PageVisitor::new(app, Arc::clone(context), token.clone(), None, headers);
            match visitor.display {
                DisplayMode::Handset => {
                    let view = app.engine.verifications.page(token, &[]).await?.ok_or_else(Problem::not_found)?;
                    return Ok(visitor.render(Some(&view), page::State::Confirming(Confirming::Return(&url))));
                }
                // A pop-up window shows the page, which passes the code to the window that opened it.
                _ if is_popup => {}
                _ => return redirect(&url),
            }
        } else {
            app.engine.verifications.page_redeem(token, &code.0).await?;
        }
    }
    let query = if is_popup { display_query(DisplayMode::Popup) } else { String::new() };
    redirect(&format!("{}{}{query}", app.engine.base_url(), page_path(token)))
}

/// A request for the hosted page or one of its actions.
#[derive(derive_more::Debug)]
#[debug("PageVisitor(…)")]
struct PageVisitor {
    context: Arc<RequestContext>,
    now: Timestamp,
    token: String,
    path: String,
    /// Query that is appended to all links on the page. Empty, or starts with `?`.
    query: String,
    /// Permit to start the silent check, from the query.
    permit: Option<String>,
    /// Why an earlier request of this browser could not start the silent check, from the query.
    start_hint: Option<StartHint>,
    /// Confirmation to ask the user for, from the query. `None`: the page shows its regular content.
    question: Option<QuestionSubject>,
    /// Phone number of the simulated SIM, from the query.
    sim: Option<String>,
    requested_language: Option<String>,
    accept_language: Option<String>,
    platform: Platform,
    browser_keys: Vec<BrowserKey>,
    navigation: Navigation,
    display: DisplayMode,
}

/// Reason why a browser could not start the silent check. It determines what the page shows next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
enum StartHint {
    /// The check cannot start by itself. The page shows a button.
    Tap,
    /// The browser did not keep the cookie with its key. The page asks the user to allow cookies.
    Cookies,
}

/// How a browser came to a URL, derived from its `Sec-Fetch` headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Navigation {
    /// One of our own pages sent the tab or frame to this URL.
    OwnPage,
    /// A link on another site, an image, a script, a prefetch or a `HEAD` request.
    Other,
    /// The client sends no `Sec-Fetch` headers.
    Unknown,
}

impl Navigation {
    fn from_headers(method: &http::Method, headers: &HeaderMap) -> Self {
        let is = |name: HeaderName, allowed: &[&str]| {
            headers.get(name).is_some_and(|value| allowed.iter().any(|allowed| value == allowed))
        };
        if *method == http::Method::HEAD || PREFETCH_HEADERS.iter().any(|name| headers.contains_key(name)) {
            Navigation::Other
        } else if !headers.contains_key(SEC_FETCH_SITE) {
            Navigation::Unknown
        } else if is(SEC_FETCH_SITE, &["same-origin"])
            && is(SEC_FETCH_MODE, &["navigate"])
            // Frames in pages of other sites never get here: `FromRequestParts` treats them as `Other`.
            && is(SEC_FETCH_DEST, &["document", "iframe"])
        {
            Navigation::OwnPage
        } else {
            Navigation::Other
        }
    }
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
        let language = parameter(LANGUAGE_PARAMETER);
        // `sim` is the phone number of a simulated SIM. An unescaped `+` in it has been decoded to a space.
        let sim = parameter("sim").map(|sim| sim.replace(' ', "+"));
        let context = Arc::clone(&state.context);
        let visitor = PageVisitor::new(&state.app, context, token, language.clone(), &parts.headers);
        let display = requested_display(parameter(DISPLAY_PARAMETER).as_deref(), &parts.headers);
        let display_value = display.as_ref().map(DisplayMode::into_str);
        let display = display.unwrap_or(visitor.display);
        Ok(PageVisitor {
            query: carried_query(&[
                (LANGUAGE_PARAMETER, language.as_deref()),
                ("sim", sim.as_deref()),
                (DISPLAY_PARAMETER, display_value),
            ]),
            display,
            sim,
            permit: parameter(PERMIT_PARAMETER),
            start_hint: parameter(START_PARAMETER).and_then(|hint| hint.parse().ok()),
            question: parameter("ask").and_then(|subject| subject.parse().ok()),
            navigation: match (display, parts.headers.get(SEC_FETCH_DEST)) {
                // A silent check cannot start in a frame. Without `Sec-Fetch-Dest`, the page may have moved from the
                // frame to a tab.
                (DisplayMode::Frame, Some(_)) => Navigation::Other,
                _ => Navigation::from_headers(&parts.method, &parts.headers),
            },
            ..visitor
        })
    }
}

impl PageVisitor {
    fn new(
        app: &App,
        context: Arc<RequestContext>,
        token: String,
        requested_language: Option<String>,
        headers: &HeaderMap,
    ) -> Self {
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        PageVisitor {
            now: app.engine.clock().now(),
            path: page_path(&token),
            query: String::new(),
            permit: None,
            question: None,
            sim: None,
            requested_language,
            accept_language: text(header::ACCEPT_LANGUAGE).map(str::to_owned),
            platform: detect_platform(text(header::USER_AGENT).unwrap_or_default()),
            browser_keys: browser_cookie::read_keys(app, headers),
            start_hint: None,
            navigation: Navigation::Other,
            display: if is_framed(headers) { DisplayMode::Handset } else { DisplayMode::Tab },
            context,
            token,
        }
    }

    /// Reads the verification and counts the visit. A visit with a valid token counts against the limit for this
    /// visitor of the verification, a visit with an invalid token against the limit for the IP address.
    async fn view(&self, app: &App) -> Result<PageView, Problem> {
        let (verification, visitor) = self.identify(app)?;
        require_admitted(app.engine.rate_limiter().limit_page_visit(verification, visitor, app.engine.clock().now()))?;
        self.load_view(app).await
    }

    /// Reads the verification for a request that starts or ends something. Such requests have their own rate limit, so
    /// that page views cannot use it up.
    async fn view_for_action(&self, app: &App) -> Result<PageView, Problem> {
        let (verification, visitor) = self.identify(app)?;
        require_admitted(app.engine.rate_limiter().limit_page_action(verification, visitor, app.engine.clock().now()))?;
        self.load_view(app).await
    }

    async fn load_view(&self, app: &App) -> Result<PageView, Problem> {
        let view = app.engine.verifications.page(&self.token, &self.browser_keys).await?;
        view.ok_or_else(Problem::not_found)
    }

    fn identify(&self, app: &App) -> Result<(CheckId, PageVisitorKey), Problem> {
        let (limiter, address) = (app.engine.rate_limiter(), self.context.client_ip);
        let Some(verification) = app.engine.verifications.verification_of_token(&self.token) else {
            require_admitted(limiter.limit_by_ip(RateLimitClass::Device, address, app.engine.clock().now()))?;
            return Err(Problem::not_found());
        };
        let key = self.own_key(app, verification);
        Ok((verification, limiter.page_visitor(key.map(BrowserKey::as_str), address)))
    }

    /// Finds this browser's key for a verification among its cookies.
    fn own_key(&self, app: &App, verification: CheckId) -> Option<&BrowserKey> {
        self.browser_keys.iter().find(|key| app.engine.verifications.is_browser_key(verification, key))
    }

    fn own_or_new_key(&self, app: &App, verification: CheckId) -> Result<BrowserKey, Problem> {
        match self.own_key(app, verification) {
            Some(key) => Ok(key.clone()),
            None => Ok(app.engine.verifications.new_browser_key(verification)?),
        }
    }

    /// Returns the key with which this browser may start the silent check now. `None`: it may not start.
    fn permitted_key(&self, app: &App, view: &PageView) -> Result<Option<BrowserKey>, Problem> {
        match (&self.permit, self.navigation) {
            // The form of the page issued the permit and gave this browser its key.
            (Some(permit), Navigation::OwnPage | Navigation::Unknown) => {
                let key = app.engine.verifications.permitted_browser(view, permit, &self.browser_keys)?;
                Ok(key.cloned())
            }
            (None, Navigation::OwnPage) if starts_by_itself(view) => {
                self.own_or_new_key(app, view.verification).map(Some)
            }
            (_, Navigation::Other) | (None, Navigation::OwnPage | Navigation::Unknown) => Ok(None),
        }
    }

    /// Returns the reason why the silent check did not start, for the redirect back to the page. Without it, a page
    /// that starts the check by itself would come back to [`leave`] again and again.
    fn refused_start(&self, app: &App, view: &PageView) -> Option<StartHint> {
        let is_own = self.navigation != Navigation::Other;
        match view.state {
            // The form set a key in a cookie, but the browser did not keep the cookie.
            PageState::Silent { .. }
                if self.permit.is_some() && is_own && self.own_key(app, view.verification).is_none() =>
            {
                Some(StartHint::Cookies)
            }
            _ if starts_by_itself(view) => Some(StartHint::Tap),
            _ => None,
        }
    }

    fn redirect_to_page(&self) -> Result<Response, Problem> {
        self.redirect("", None)
    }

    /// Redirects to the page, or to one of its actions.
    fn redirect(&self, action: &str, parameter: Option<(&str, &str)>) -> Result<Response, Problem> {
        let separator = if self.query.is_empty() { '?' } else { '&' };
        let parameter = parameter.map(|(name, value)| format!("{separator}{name}={value}")).unwrap_or_default();
        let location = format!("{}{action}{}{parameter}", self.path, self.query);
        let location = HeaderValue::try_from(location)
            .map_err(|_| Problem::internal(&"path of a page is not a valid header value"))?;
        let mut response = Response::default();
        *response.status_mut() = StatusCode::SEE_OTHER;
        response.headers_mut().insert(header::LOCATION, location);
        response.headers_mut().insert(header::REFERRER_POLICY, REFERRER_POLICY);
        Ok(response)
    }

    fn render_view(&self, app: &App, view: &PageView) -> Response {
        let own_url = format!("{}{}{}", app.engine.base_url(), self.path, self.query);
        let state = match page_state(view, self.platform) {
            // The page shows a button instead of starting the check by itself where `leave` would refuse to start it:
            // without `Sec-Fetch` headers, after an earlier refusal (`start_hint`), and in a frame.
            page::State::Silent
                if self.navigation == Navigation::Unknown
                    || self.start_hint.is_some()
                    || self.display == DisplayMode::Frame =>
            {
                page::State::Start { own_url: None }
            }
            // A phone needs no code for another phone.
            page::State::Start { .. } if !view.has_redirect_url && self.platform == Platform::Unknown => {
                page::State::Start { own_url: Some(&own_url) }
            }
            state => state,
        };
        self.render(Some(view), self.ask_in(state, view))
    }

    /// Replaces the state with the confirmation question that the query names, if the question fits the state.
    fn ask_in<'v>(&self, state: page::State<'v>, view: &PageView) -> page::State<'v> {
        let Some(subject) = self.question else { return state };
        let method = match state {
            page::State::Start { .. } | page::State::Silent | page::State::Stalled => Method::SecureSna,
            page::State::SendSms(_) => Method::ReverseSms,
            _ => return state,
        };
        let fits = match (subject, method) {
            // If another method is left, the user can give up the silent check without a confirmation.
            (QuestionSubject::GiveUp, Method::SecureSna) => !view.has_other_method,
            (QuestionSubject::GiveUp, Method::ReverseSms) | (QuestionSubject::WrongNumber, _) => true,
        };
        if fits { page::State::Ask(Question { subject, method, asked_in: state.name() }) } else { state }
    }

    /// Selects the language: the one in the link's query, otherwise the one in the API request, otherwise the
    /// browser's.
    fn language(&self, view: Option<&PageView>) -> Language {
        let locale = view.and_then(|view| view.locale.as_ref()).map(Locale::as_str);
        let requested = self.requested_language.as_deref().into_iter().chain(locale);
        Language::negotiate(requested, self.accept_language.as_deref())
    }

    fn set_browser_key(
        &self,
        app: &App,
        headers: &HeaderMap,
        verification: CheckId,
        key: &BrowserKey,
        response: &mut Response,
    ) {
        for cookie in browser_cookie::set_key(app, headers, verification, key, self.display) {
            response.headers_mut().append(header::SET_COOKIE, cookie);
        }
    }

    fn render(&self, view: Option<&PageView>, state: page::State<'_>) -> Response {
        let frame_origins = view.map_or(&[][..], |view| &view.frame_origins);
        let frame_origins: Vec<_> = frame_origins.iter().map(WebOrigin::as_str).collect();
        let end = view.and_then(EndResult::of);
        let RenderedPage { html, content_security_policy } = Page {
            language: self.language(view),
            brand: view.and_then(brand),
            number_ending: view.and_then(|view| view.number_ending.as_deref()),
            is_sandbox: view.is_some_and(|view| view.mode == Mode::Sandbox),
            seconds_left: view.map(|view| seconds_until(view.expires_at, self.now)),
            path: &self.path,
            query: &self.query,
            display: self.display,
            frame_origins: &frame_origins,
            end_message: end.as_ref().map(EndResult::message),
            has_redirect_url: view.is_some_and(|view| view.has_redirect_url),
            has_other_method: view.is_some_and(|view| view.has_other_method),
            notice: match self.start_hint {
                Some(StartHint::Cookies) => Some(Notice::AllowCookies),
                Some(StartHint::Tap) | None => None,
            },
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

    /// Returns the response, or renders a problem as a page.
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
        // If the problem stayed attached to the response, the middleware would replace the page with a problem
        // document.
        response.extensions_mut().remove::<Problem>();
        response.headers_mut().remove(header::CONTENT_LENGTH);
        response.headers_mut().extend(page.headers);
        *response.body_mut() = body;
        response
    }
}

/// The result of a verification, as the page reports it to the company's page that opened it.
struct EndResult {
    parameters: String,
    return_origin: Option<String>,
}

impl EndResult {
    /// `None`: the verification has no result yet, or the result is for another browser.
    fn of(view: &PageView) -> Option<Self> {
        let mut query = form_urlencoded::Serializer::new(String::new());
        let return_to = view.state.return_to().and_then(|url| Url::parse(url).ok());
        match &return_to {
            // The company's own redirect URL has none of these parameters, so they all belong to the result.
            Some(url) => {
                query.extend_pairs(url.query_pairs().filter(|(name, _)| RESULT_PARAMETERS.contains(&name.as_ref())))
            }
            None if page_state(view, Platform::Unknown).is_final() => query
                .append_pair("verification_id", &view.verification.to_string())
                .extend_pairs(view.state.return_error().map(|error| ("error", error)))
                .extend_pairs(view.reference.as_ref().map(|reference| ("reference_id", reference.as_str()))),
            None => return None,
        };
        let return_origin = return_to.map(|url| url.origin().ascii_serialization());
        Some(EndResult { parameters: query.finish(), return_origin })
    }

    fn message(&self) -> EndMessage<'_> {
        EndMessage { result: &self.parameters, return_origin: self.return_origin.as_deref() }
    }
}

/// Derives the page's state from the state of the verification.
fn page_state(view: &PageView, platform: Platform) -> page::State<'_> {
    match &view.state {
        PageState::Silent { waits_until: Some(_), .. } => page::State::Elsewhere,
        PageState::Silent { has_begun: true, .. } => page::State::Stalled,
        PageState::Silent { .. } if starts_by_itself(view) => page::State::Silent,
        PageState::Silent { .. } => page::State::Start { own_url: None },
        PageState::Returned { code: None, .. } => page::State::Confirming(Confirming::Elsewhere),
        PageState::Returned { return_to: Some(url), .. } => page::State::Confirming(Confirming::Return(url)),
        PageState::Returned { return_to: None, .. } => page::State::Confirming(Confirming::Finish),
        PageState::SendSms { receiver, sms_body: body, has_arrived, came_from_other_number } => {
            let (has_arrived, came_from_other_number) = (*has_arrived, *came_from_other_number);
            page::State::SendSms(SmsToSend { receiver, body, platform, has_arrived, came_from_other_number })
        }
        PageState::SimSwap => page::State::SimSwap,
        PageState::Done { matched: true, return_to, .. } => page::State::Done { return_to: return_to.as_deref() },
        PageState::Done { matched: false, return_to, method } => page::State::NotMatched {
            is_phone: *method == Some(Method::SecureSna) && platform != Platform::Unknown,
            return_to: return_to.as_deref(),
        },
        PageState::Failed { reason, return_to } => {
            let reason = match reason {
                PageFailure::MethodsExhausted | PageFailure::InternalError => Failure::Exhausted,
                PageFailure::GivenUp => Failure::GivenUp,
                PageFailure::WrongNumber => Failure::WrongNumber,
                PageFailure::Cancelled => Failure::Cancelled,
            };
            page::State::Failed { reason, return_to: return_to.as_deref() }
        }
        PageState::Expired { return_to } => page::State::Expired { return_to: return_to.as_deref() },
    }
}

/// Returns whether the page starts the silent check without a tap. This requires a redirect URL, so that the code
/// returns to the user's session at the company. The page does it only once: it must not send a browser again and again
/// to an operator that does not answer.
fn starts_by_itself(view: &PageView) -> bool {
    view.has_redirect_url && matches!(view.state, PageState::Silent { has_begun: false, .. })
}

/// Returns the brand to show: the configured one, with the project's name as the default. `None` without any name.
fn brand(view: &PageView) -> Option<page::Brand<'_>> {
    page::Brand::from_settings(&view.brand, view.project_name.as_ref())
}

/// Returns the brand that pages for end-users show for a project.
pub fn brand_of(project: &Project) -> Option<page::Brand<'_>> {
    page::Brand::from_settings(&project.configuration.verification.brand, Some(&project.name))
}

fn seconds_until(end: Timestamp, now: Timestamp) -> u32 {
    u32::try_from(end.duration_since(now).as_secs()).unwrap_or_default()
}

fn page_path(token: &str) -> String {
    // Valid tokens need no encoding, but an invalid one may contain any character.
    format!("/v/{}", form_urlencoded::byte_serialize(token.as_bytes()).collect::<String>())
}

/// Determines from the query parameter and the `Sec-Fetch` headers how the browser shows the page. `None`: in a tab or
/// in the console's simulated handset.
///
/// The first request of a frame is recognised because it comes from another site. Later requests of the page in that
/// frame have the parameter.
fn requested_display(parameter: Option<&str>, headers: &HeaderMap) -> Option<DisplayMode> {
    let requested = parameter.and_then(|display| display.parse().ok());
    match requested {
        Some(DisplayMode::Frame) if !headers.contains_key(SEC_FETCH_DEST) || is_framed(headers) => requested,
        _ if is_framed(headers) => {
            let is_own = headers.get(SEC_FETCH_SITE).is_some_and(|site| site == "same-origin");
            (!is_own).then_some(DisplayMode::Frame)
        }
        Some(DisplayMode::Popup) => requested,
        _ => None,
    }
}

fn is_framed(headers: &HeaderMap) -> bool {
    headers.get(SEC_FETCH_DEST).is_some_and(|destination| destination == "iframe")
}

fn display_query(display: DisplayMode) -> String {
    carried_query(&[(DISPLAY_PARAMETER, Some(display.into_str()))])
}

/// Builds a query from the parameters that have a value. Empty, or starts with `?`.
fn carried_query(parameters: &[(&str, Option<&str>)]) -> String {
    let given = parameters.iter().filter_map(|(name, value)| Some((*name, (*value)?)));
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(given).finish();
    if query.is_empty() { query } else { format!("?{query}") }
}

fn require_admitted(limit: RateLimitState) -> Result<(), Problem> {
    if limit.admitted { Ok(()) } else { Err(Problem::too_many_requests("too many visits", limit.reset_seconds)) }
}

/// Rejects forms submitted from other sites, which could otherwise verify their visitors' numbers. Browsers that do not
/// send `Sec-Fetch-Site` send the form's origin instead.
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
    Url::parse(base_url).is_ok_and(|url| url.origin().ascii_serialization() == origin)
}

/// Stream of server-sent events for one verification.
struct EventStream {
    app: App,
    token: String,
    browser_keys: Vec<BrowserKey>,
    follower: PageFollower,
    heartbeat: Duration,
    wrote_at: Instant,
    ends_at: Timestamp,
    /// View of the verification at the start of the stream, from which the first event is rendered. `None` after that.
    first_view: Option<PageView>,
    /// Name of the state that was sent last.
    last_state: Option<&'static str>,
    /// Time at which the current state ends although the verification does not change. `None`: it has no such time.
    waits_until: Option<Timestamp>,
    /// The last attempt to read the state failed.
    must_retry: bool,
    is_over: bool,
}

impl EventStream {
    /// Waits for the next event. `None`: the stream has ended.
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
                () = sleep(WAIT_INTERVAL), if self.waits_until.is_some() => {
                    if self.waits_until.is_some_and(|until| self.app.engine.clock().now() < until) {
                        continue;
                    }
                }
                () = sleep_until(self.wrote_at + self.heartbeat) => return Some(self.write(":\n\n".to_owned())),
            }
            match self.app.engine.verifications.page(&self.token, &self.browser_keys).await {
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

    /// Renders the event for a state. `None`: the state is the same as in the last event.
    fn describe(&mut self, view: &PageView) -> Option<String> {
        let state = page_state(view, Platform::Unknown);
        self.waits_until = match view.state {
            PageState::Silent { waits_until, .. } => waits_until,
            _ => None,
        };
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
