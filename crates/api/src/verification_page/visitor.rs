//! A visit of the hosted page: which browser came, by which link, and the response to it.

use std::{borrow::Cow, convert::Infallible, net::IpAddr, sync::Arc};

use axum::{
    body::Body,
    extract::FromRequestParts,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header, request::Parts};
use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::CheckId,
    reverse_sms::Platform,
    tenancy::Mode,
    verification::{Locale, Method},
    web_url::WebOrigin,
};
use ringtrue_engine::{
    rate_limits::{PageVisitorKey, RateLimitClass, RateLimitState},
    silent::BrowserKey,
    verifications::{PageState, PageView},
};
use ringtrue_verification_page::{
    self as page, DISPLAY_PARAMETER, DisplayMode, LANGUAGE_PARAMETER, Language, Notice, Page, Question,
    QuestionSubject, RenderedPage, detect_platform,
};
use ringtrue_web::{
    app::App,
    assets::HTML_CONTENT_TYPE,
    parameters::PathParameters,
    problem::Problem,
    request_context::{HandlerState, RequestContext},
};
use strum::{EnumString, IntoStaticStr};
use url::form_urlencoded;

use crate::{
    browser_cookie,
    verification_page::{
        SEC_FETCH_SITE,
        page_state::{EndResult, brand, page_state, seconds_until, starts_by_itself},
    },
};

/// Query parameter with a permit to start the silent check. The browser gets the permit when it submits the page's
/// form.
pub const PERMIT_PARAMETER: &str = "go";
/// Query parameter that says why the silent check could not start: a [`StartRefusal`].
pub const START_REFUSAL_PARAMETER: &str = "start";
/// Query parameter that says that the browser can ask the phone's wallet.
const WALLET_PARAMETER: &str = "wallet";
/// Maximum length of the page's query parameters. Longer ones are ignored, because the page copies some to its links.
const MAX_PARAMETER_BYTES: usize = 64;

const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
/// Headers of prefetch requests, which browsers send before the user decides to visit: `Sec-Purpose` and its
/// predecessors.
const PREFETCH_HEADERS: [HeaderName; 3] =
    [HeaderName::from_static("sec-purpose"), HeaderName::from_static("purpose"), HeaderName::from_static("x-moz")];
/// Keeps the token in the URL from other sites. `no-referrer` would also remove the origin from submitted forms, which
/// `forms::require_same_origin` needs.
const REFERRER_POLICY: HeaderValue = HeaderValue::from_static("same-origin");

/// A request for the hosted page or one of its actions.
#[derive(derive_more::Debug)]
#[debug("PageVisitor(…)")]
pub struct PageVisitor {
    pub context: Arc<RequestContext>,
    now: Timestamp,
    pub token: String,
    path: String,
    /// Query that is appended to all links on the page. Empty, or starts with `?`.
    query: String,
    /// Permit to start the silent check, from the query.
    permit: Option<String>,
    /// Why an earlier request of this browser could not start the silent check, from the query.
    start_refusal: Option<StartRefusal>,
    /// Confirmation to ask the user for, from the query. `None`: the page shows its regular content.
    question: Option<QuestionSubject>,
    /// Phone number of the simulated SIM, from the query.
    pub sim: Option<String>,
    /// Address of the simulated device, from the query.
    simulated_ip: Option<IpAddr>,
    /// Whether the page's script has found out that the browser can ask the phone's wallet, from the query.
    pub has_wallet: bool,
    requested_language: Option<String>,
    accept_language: Option<String>,
    pub platform: Platform,
    pub browser_keys: Vec<BrowserKey>,
    navigation: Navigation,
    pub display: DisplayMode,
}

/// Reason why a browser could not start the silent check. It determines what the page shows next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum StartRefusal {
    /// The check cannot start by itself. The page shows a button.
    Tap,
    /// The browser did not keep the cookie with its key. The page asks the user to allow cookies.
    Cookies,
    /// The redirect has failed, and the phone's wallet is left.
    Wallet,
}

/// How a browser came to a URL, derived from its `Sec-Fetch` headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Navigation {
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
        let (simulated_ip, wallet) = (parameter("ip"), parameter(WALLET_PARAMETER));
        let start_refusal: Option<StartRefusal> =
            parameter(START_REFUSAL_PARAMETER).and_then(|refusal| refusal.parse().ok());
        // The other refusals are about one attempt. The wallet is left in every language, and after a question.
        let carried_refusal = start_refusal.filter(|refusal| *refusal == StartRefusal::Wallet);
        let context = Arc::clone(&state.context);
        let visitor = PageVisitor::new(&state.app, context, token, language.clone(), &parts.headers);
        let display = requested_display(parameter(DISPLAY_PARAMETER).as_deref(), &parts.headers);
        let display_value = display.as_ref().map(DisplayMode::into_str);
        let display = display.unwrap_or(visitor.display);
        Ok(PageVisitor {
            query: carried_query(&[
                (LANGUAGE_PARAMETER, language.as_deref()),
                ("sim", sim.as_deref()),
                ("ip", simulated_ip.as_deref()),
                (WALLET_PARAMETER, wallet.as_deref()),
                (START_REFUSAL_PARAMETER, carried_refusal.map(|refusal| refusal.into_str())),
                (DISPLAY_PARAMETER, display_value),
            ]),
            display,
            sim,
            simulated_ip: simulated_ip.and_then(|ip| ip.parse().ok()),
            has_wallet: wallet.is_some(),
            permit: parameter(PERMIT_PARAMETER),
            start_refusal,
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
    pub fn new(
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
            simulated_ip: None,
            has_wallet: false,
            requested_language,
            accept_language: text(header::ACCEPT_LANGUAGE).map(str::to_owned),
            platform: detect_platform(text(header::USER_AGENT).unwrap_or_default()),
            browser_keys: browser_cookie::read_keys(app, headers),
            start_refusal: None,
            navigation: Navigation::Other,
            display: if is_framed(headers) { DisplayMode::Handset } else { DisplayMode::Tab },
            context,
            token,
        }
    }

    /// Reads the verification and counts the visit. A visit with a valid token counts against the limit for this
    /// visitor of the verification, a visit with an invalid token against the limit for the IP address.
    pub async fn load_view_for_visit(&self, app: &App) -> Result<PageView, Problem> {
        let (verification, visitor) = self.identify(app)?;
        require_within_rate_limit(app.engine.rate_limiter().limit_page_visit(
            verification.0,
            visitor,
            app.engine.clock().now(),
        ))?;
        self.load_view(app).await
    }

    /// Reads the verification for a request that starts or ends something. Such requests have their own rate limit, so
    /// that page views cannot use it up.
    pub async fn load_view_for_action(&self, app: &App) -> Result<PageView, Problem> {
        let (verification, visitor) = self.identify(app)?;
        require_within_rate_limit(app.engine.rate_limiter().limit_page_action(
            verification.0,
            visitor,
            app.engine.clock().now(),
        ))?;
        self.load_view(app).await
    }

    async fn load_view(&self, app: &App) -> Result<PageView, Problem> {
        let view = app.engine.verifications.page(&self.token, &self.browser_keys).await?;
        view.ok_or_else(Problem::not_found)
    }

    fn identify(&self, app: &App) -> Result<(CheckId, PageVisitorKey), Problem> {
        let (limiter, address) = (app.engine.rate_limiter(), self.context.client_ip);
        let Some(verification) = app.engine.verifications.verification_of_token(&self.token) else {
            require_within_rate_limit(limiter.limit_by_ip(RateLimitClass::Device, address, app.engine.clock().now()))?;
            return Err(Problem::not_found());
        };
        let key = self.own_key(app, verification);
        Ok((verification, limiter.page_visitor(key.map(BrowserKey::as_str), address)))
    }

    /// Finds this browser's key for a verification among its cookies.
    fn own_key(&self, app: &App, verification: CheckId) -> Option<&BrowserKey> {
        self.browser_keys.iter().find(|key| app.engine.verifications.is_authentic_browser_key(verification, key))
    }

    pub fn own_or_new_key(&self, app: &App, verification: CheckId) -> Result<BrowserKey, Problem> {
        match self.own_key(app, verification) {
            Some(key) => Ok(key.clone()),
            None => Ok(app.engine.verifications.new_browser_key(verification)?),
        }
    }

    /// Returns the key with which this browser may start the silent check now. `None`: it may not start.
    pub fn permitted_key(&self, app: &App, view: &PageView) -> Result<Option<BrowserKey>, Problem> {
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
    /// that starts the check by itself would come back to `leave_for_operator` again and again.
    pub fn start_refusal(&self, app: &App, view: &PageView) -> Option<StartRefusal> {
        let is_own = self.navigation != Navigation::Other;
        match view.state {
            // The form set a key in a cookie, but the browser did not keep the cookie.
            PageState::Silent { .. }
                if self.permit.is_some() && is_own && self.own_key(app, view.verification).is_none() =>
            {
                Some(StartRefusal::Cookies)
            }
            _ if starts_by_itself(view) => Some(StartRefusal::Tap),
            _ => None,
        }
    }

    /// Returns the path and query of the page.
    pub fn page_url(&self) -> String {
        format!("{}{}", self.path, self.query)
    }

    pub fn redirect_to_page(&self) -> Result<Response, Problem> {
        self.redirect_to_action("", None)
    }

    /// Redirects to the page, or to one of its actions. The parameter replaces the one with its name in the query.
    pub fn redirect_to_action(&self, action: &str, parameter: Option<(&str, &str)>) -> Result<Response, Problem> {
        let query = match parameter {
            Some((name, value)) => &query_with(&self.query, name, value),
            None => &self.query,
        };
        let location = format!("{}{action}{query}", self.path);
        let location = HeaderValue::try_from(location)
            .map_err(|_| Problem::internal(&"path of a page is not a valid header value"))?;
        let mut response = Response::default();
        *response.status_mut() = StatusCode::SEE_OTHER;
        response.headers_mut().insert(header::LOCATION, location);
        response.headers_mut().insert(header::REFERRER_POLICY, REFERRER_POLICY);
        Ok(response)
    }

    /// Returns the device's address: in a sandbox project, the simulated one if the query names one.
    pub fn device_address(&self, view: &PageView) -> IpAddr {
        self.simulated_ip.filter(|_| view.mode == Mode::Sandbox).unwrap_or(self.context.client_ip)
    }

    /// Returns when the page asks the phone's wallet. `None`: never. Only Android's wallets have operator tokens, a
    /// computer's browser would ask the wallet of another phone, and a frame in another site may not ask.
    pub fn wallet_timing(&self, app: &App, view: &PageView) -> Option<page::WalletTiming> {
        let PageState::Silent { takes_wallet: true, waits_until: None, has_begun, expires_at, .. } = view.state else {
            return None;
        };
        let is_phone = match self.display {
            DisplayMode::Handset => true,
            DisplayMode::Tab | DisplayMode::Popup => self.platform == Platform::Android,
            DisplayMode::Frame => false,
        };
        if !is_phone || self.question.is_some() {
            return None;
        }
        let has_failed = has_begun || self.start_refusal == Some(StartRefusal::Wallet);
        let may_use_mobile_data = app.engine.verifications.may_use_mobile_data(view, self.device_address(view));
        let starts = starts_by_itself(view) && self.start_refusal.is_none() && self.navigation != Navigation::Unknown;
        Some(if has_failed || !may_use_mobile_data {
            page::WalletTiming::Offered { starts, seconds_left: seconds_until(expires_at, self.now) }
        } else {
            page::WalletTiming::Fallback
        })
    }

    pub fn render_view(&self, app: &App, view: &PageView) -> Response {
        let own_url = format!("{}{}{}", app.engine.base_url(), self.path, self.query);
        let wallet = self.wallet_timing(app, view);
        let state = match page_state(view, self.platform) {
            // The page waits for a tap on its button for the wallet.
            page::State::Silent if matches!(wallet, Some(page::WalletTiming::Offered { .. })) => {
                page::State::Start { own_url: None }
            }
            // The page shows a button instead of starting the check by itself where `leave_for_operator` would refuse
            // to start it: without `Sec-Fetch` headers, after an earlier refusal (`start_refusal`), and in a frame.
            page::State::Silent
                if self.navigation == Navigation::Unknown
                    || self.start_refusal.is_some()
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
        self.render_with(Some(view), self.replace_with_question(state, view), wallet)
    }

    /// Replaces the state with the confirmation question that the query names, if the question fits the state.
    fn replace_with_question<'v>(&self, state: page::State<'v>, view: &PageView) -> page::State<'v> {
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

    pub fn set_browser_key(
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

    pub fn render(&self, view: Option<&PageView>, state: page::State<'_>) -> Response {
        self.render_with(view, state, None)
    }

    pub fn render_with(
        &self,
        view: Option<&PageView>,
        state: page::State<'_>,
        wallet: Option<page::WalletTiming>,
    ) -> Response {
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
            wallet,
            notice: match self.start_refusal {
                Some(StartRefusal::Cookies) => Some(Notice::AllowCookies),
                Some(StartRefusal::Tap | StartRefusal::Wallet) | None => None,
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
    pub fn respond(&self, outcome: Result<Response, Problem>) -> Response {
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

pub fn page_path(token: &str) -> String {
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
        // The script of the page in the handset's frame.
        Some(DisplayMode::Handset) if headers.get(SEC_FETCH_DEST).is_some_and(|value| value == "empty") => requested,
        _ if is_framed(headers) => {
            let is_own = headers.get(SEC_FETCH_SITE).is_some_and(|site| site == "same-origin");
            (!is_own).then_some(DisplayMode::Frame)
        }
        Some(DisplayMode::Popup) => requested,
        _ => None,
    }
}

pub fn is_framed(headers: &HeaderMap) -> bool {
    headers.get(SEC_FETCH_DEST).is_some_and(|destination| destination == "iframe")
}

pub fn display_query(display: DisplayMode) -> String {
    carried_query(&[(DISPLAY_PARAMETER, Some(display.into_str()))])
}

/// Builds a query from the parameters that have a value. Empty, or starts with `?`.
fn carried_query(parameters: &[(&str, Option<&str>)]) -> String {
    let given = parameters.iter().filter_map(|(name, value)| Some((*name, (*value)?)));
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(given).finish();
    if query.is_empty() { query } else { format!("?{query}") }
}

/// Returns a query with this parameter, in place of those with the same name.
fn query_with(query: &str, name: &str, value: &str) -> String {
    let kept = form_urlencoded::parse(query.trim_start_matches('?').as_bytes()).filter(|(kept, _)| kept != name);
    form_urlencoded::Serializer::for_suffix("?".to_owned(), 1).extend_pairs(kept).append_pair(name, value).finish()
}

fn require_within_rate_limit(limit: RateLimitState) -> Result<(), Problem> {
    if limit.admitted { Ok(()) } else { Err(Problem::too_many_requests("too many visits", limit.reset_seconds)) }
}
