//! The authorization endpoint (`/oauth2/authorize`), and the page where a user enters a number: `/signin/{token}`.
//!
//! The number is then verified by the hosted page of a verification, or by the operator, which both lead back to
//! `/signin/{token}/return`. Only the browser that sent the authorization request has the cookie with which a sign-in
//! continues. Paths contain the token and are never logged.

use std::{borrow::Cow, convert::Infallible, sync::Arc};

use axum::{
    body::Body,
    extract::{FromRequestParts, RawQuery, Request, State},
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header, request::Parts};
use ringtrue_domain::{
    phone::{Country, InvalidPhoneNumber},
    sign_in::{Parameters, SignInId},
    tenancy::Mode,
    verification::Locale,
};
use ringtrue_engine::{
    rate_limits::RateLimitClass,
    sign_in::{
        AuthorizeError, AuthorizeOutcome, AuthorizeRequest, BrowserVisit, EnteredNumber, FinishOutcome, NumberError,
        SignInState, SignInView,
    },
    silent::{BrowserKey, RedirectError},
};
use ringtrue_verification_page::{
    self as page, COUNTRY_FIELD, LANGUAGE_PARAMETER, Language, NUMBER_FIELD, NumberProblem, SignInEnd, SignInPage,
    detect_platform,
};
use ringtrue_web::{
    app::App,
    assets::HTML_CONTENT_TYPE,
    body::{Form, read_form},
    error_catalog::ProblemCode,
    parameters::PathParameters,
    problem::Problem,
    request_context::{HandlerState, RequestContext},
    routes::{Routes, get, post},
};
use url::form_urlencoded;

use crate::{browser_cookie, verification_page::require_same_origin};

const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
const SEC_PURPOSE: HeaderName = HeaderName::from_static("sec-purpose");
/// Keeps the token in the URL from other sites, but sends the origin with the page's own forms.
const REFERRER_POLICY: HeaderValue = HeaderValue::from_static("same-origin");
/// Maximum length of the page's query parameters. Longer ones are ignored, because the page copies some to its links.
const MAX_PARAMETER_BYTES: usize = 64;

/// Routes for browsers. They are not part of the API, so the OpenAPI document does not contain them.
pub fn routes() -> Routes {
    Routes::default()
        .route("/oauth2/authorize", get(authorize).completes_after_disconnect())
        .route("/oauth2/authorize", post(authorize_by_post).completes_after_disconnect())
        .get("/signin/{token}", show)
        .route("/signin/{token}/number", post(submit_number).completes_after_disconnect())
        .route("/signin/{token}/discover", post(discover).completes_after_disconnect())
        .route("/signin/{token}/cancel", post(cancel).completes_after_disconnect())
        .route("/signin/{token}/return", get(finish).completes_after_disconnect())
}

/// `GET /oauth2/authorize` (OpenID Connect Core, section 3.1.2.1)
async fn authorize(
    State(app): State<App>,
    visitor: Visitor,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes()).into_owned().collect();
    start(&app, &visitor, &headers, pairs, StatusCode::FOUND).await
}

/// `POST /oauth2/authorize`
async fn authorize_by_post(State(app): State<App>, visitor: Visitor, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let form = match read_form(&app, &parts.headers, body).await {
        Ok(form) => form,
        Err(problem) => return visitor.render_bad_request(&problem.detail),
    };
    let pairs = form_urlencoded::parse(&form).into_owned().collect();
    start(&app, &visitor, &parts.headers, pairs, StatusCode::SEE_OTHER).await
}

/// Takes an authorization request. Responses to the client have this status.
async fn start(
    app: &App,
    visitor: &Visitor,
    headers: &HeaderMap,
    pairs: Vec<(String, String)>,
    status: StatusCode,
) -> Response {
    let now = app.engine.clock().now();
    let limit = app.engine.rate_limiter().limit_by_ip(RateLimitClass::Device, visitor.context.client_ip, now);
    if !limit.admitted {
        let problem = Problem::too_many_requests("too many sign-ins from this address", limit.reset_seconds);
        return visitor.render_problem(&problem);
    }
    let session_of = |project| browser_cookie::read_session(app, headers, project);
    let dest = headers.get(SEC_FETCH_DEST);
    let visit = BrowserVisit {
        session_of: &session_of,
        address: visitor.context.client_ip,
        sim: visitor.sim.as_deref(),
        is_navigation: dest.is_none_or(|dest| dest == "document") && !headers.contains_key(SEC_PURPOSE),
    };
    let request = AuthorizeRequest { parameters: Parameters::new(pairs), visit };
    match app.engine.sign_ins.authorize(request).await {
        Ok(AuthorizeOutcome::Return(location)) => redirect(&location, status),
        Ok(AuthorizeOutcome::Page(began)) => {
            let mut response = see_other(&format!("{}/signin/{}", app.engine.base_url(), began.page_token));
            set_browser_key(app, headers, &mut response, began.id, &began.browser_key);
            response
        }
        Ok(AuthorizeOutcome::Operator { location, browser }) => {
            let mut response = redirect(&location, status);
            if let Some((id, key)) = browser {
                set_browser_key(app, headers, &mut response, id, &key);
            }
            response
        }
        Err(AuthorizeError::NotRedirectable(detail)) => visitor.render_bad_request(&detail),
        Err(AuthorizeError::Store(error)) => visitor.render_problem(&error.into()),
    }
}

/// Gives the browser the key with which it can finish the sign-in.
fn set_browser_key(app: &App, headers: &HeaderMap, response: &mut Response, id: SignInId, key: &BrowserKey) {
    for cookie in browser_cookie::set_sign_in_key(app, headers, id, key) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
}

/// `GET /signin/{token}`
async fn show(State(app): State<App>, visitor: Visitor) -> Response {
    let shown = async {
        visitor.limit_visit(&app)?;
        let view = visitor.load_view(&app).await?;
        Ok(visitor.render_view(&view))
    };
    visitor.respond(shown.await)
}

/// `POST /signin/{token}/number`
async fn submit_number(State(app): State<App>, visitor: Visitor, request: Request) -> Response {
    let submitted = async {
        let (parts, body) = request.into_parts();
        require_same_origin(&app, &parts.headers)?;
        visitor.limit_action(&app)?;
        let form = read_form(&app, &parts.headers, body).await?;
        let form = Form::parse(&form)?;
        let number = form.get(NUMBER_FIELD).unwrap_or_default();
        let given = form.get(COUNTRY_FIELD);
        let country: Option<Country> = given.and_then(|code| code.parse().ok());
        let language = visitor.language(Some(&visitor.load_view(&app).await?));
        let locale = language.tag().parse().map_err(|_| Problem::internal(&"a language without a tag"))?;
        let user_agent = parts.headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok());
        let entered = EnteredNumber {
            number,
            country,
            locale,
            browser_keys: &visitor.browser_keys,
            platform: detect_platform(user_agent.unwrap_or_default()),
            address: visitor.context.client_ip,
        };
        let problem = match app.engine.sign_ins.submit_number(&visitor.token, entered).await {
            Ok(page_url) => return Ok(see_other(&format!("{page_url}{}", visitor.query))),
            Err(NumberError::Store(error)) => return Err(error.into()),
            // The sign-in has ended, or another browser began it. The page says so.
            Err(NumberError::NotFound) => return Ok(visitor.redirect_to_page()),
            Err(NumberError::Invalid(InvalidPhoneNumber::CountryMissing)) => NumberProblem::MissingCountry,
            Err(NumberError::Invalid(_)) => NumberProblem::Invalid,
            Err(NumberError::NotSupported) => NumberProblem::NotSupported,
            Err(NumberError::TooManyAttempts) => NumberProblem::TooManyAttempts,
            Err(NumberError::Unavailable) => NumberProblem::TryAgainLater,
        };
        let view = visitor.load_view(&app).await?;
        let SignInState::AskNumber { can_discover, .. } = view.state else { return Ok(visitor.redirect_to_page()) };
        let state = page::SignInState::AskNumber {
            typed: number,
            country: given,
            problem: Some(problem),
            can_discover,
            starts_discovery: false,
        };
        let mut response = visitor.render(Some(&view), state);
        *response.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
        Ok(response)
    };
    visitor.respond(submitted.await)
}

/// `POST /signin/{token}/discover`
///
/// Asks the operator for the number, and shows a page that sends the browser there.
async fn discover(State(app): State<App>, visitor: Visitor, headers: HeaderMap) -> Response {
    let begun = async {
        require_same_origin(&app, &headers)?;
        visitor.limit_action(&app)?;
        let view = visitor.load_view(&app).await?;
        let (keys, address) = (&visitor.browser_keys, visitor.context.client_ip);
        let begun = app.engine.sign_ins.begin_discovery(&visitor.token, keys, address, visitor.sim.as_deref()).await;
        match begun {
            Ok(Some(location)) => Ok(visitor.render(Some(&view), page::SignInState::Leaving { location: &location })),
            Ok(None) | Err(RedirectError::NotFound) => Ok(visitor.redirect_to_page()),
            Err(error) => Err(error.into()),
        }
    };
    visitor.respond(begun.await)
}

/// `POST /signin/{token}/cancel`
async fn cancel(State(app): State<App>, visitor: Visitor, headers: HeaderMap) -> Response {
    let cancelled = async {
        require_same_origin(&app, &headers)?;
        visitor.limit_action(&app)?;
        let location = app.engine.sign_ins.cancel(&visitor.token, &visitor.browser_keys).await?;
        Ok(location.map_or_else(|| visitor.redirect_to_page(), |location| see_other(&location)))
    };
    visitor.respond(cancelled.await)
}

/// `GET /signin/{token}/return`
///
/// The browser returns from the hosted page, or from the operator, with a code or an error.
async fn finish(State(app): State<App>, visitor: Visitor, RawQuery(query): RawQuery) -> Response {
    let finished = async {
        visitor.limit_visit(&app)?;
        let query = query.unwrap_or_default();
        let code = form_urlencoded::parse(query.as_bytes()).find_map(|(name, value)| (name == "code").then_some(value));
        let keys = &visitor.browser_keys;
        match app.engine.sign_ins.finish(&visitor.token, keys, code.as_deref()).await? {
            FinishOutcome::Page => Ok(visitor.redirect_to_page()),
            FinishOutcome::Return { location, session } => {
                let mut response = redirect(&location, StatusCode::FOUND);
                let cookie = session.and_then(|(project, token, lifetime)| {
                    browser_cookie::set_session(&app, project, &token, lifetime)
                });
                if let Some(cookie) = cookie {
                    response.headers_mut().append(header::SET_COOKIE, cookie);
                }
                Ok(response)
            }
        }
    };
    visitor.respond(finished.await)
}

/// A request of a browser.
#[derive(derive_more::Debug)]
#[debug("Visitor(…)")]
struct Visitor {
    context: Arc<RequestContext>,
    /// Token in the URL of the page. Empty at the authorization endpoint.
    token: String,
    /// Query that is appended to all links on the page. Empty, or starts with `?`.
    query: String,
    /// Phone number of the simulated SIM, from the query.
    sim: Option<String>,
    /// Whether the user wants to enter a number instead of waiting for the operator.
    asks_number: bool,
    requested_language: Option<String>,
    accept_language: Option<String>,
    browser_keys: Vec<BrowserKey>,
}

impl FromRequestParts<HandlerState> for Visitor {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &HandlerState) -> Result<Self, Infallible> {
        let parameters = PathParameters::from_request_parts(parts, state).await?;
        let query = parts.uri.query().unwrap_or_default();
        let parameter = |wanted: &str| {
            let value =
                form_urlencoded::parse(query.as_bytes()).find_map(|(name, value)| (name == wanted).then_some(value));
            value.filter(|value| value.len() <= MAX_PARAMETER_BYTES).map(Cow::into_owned)
        };
        let requested_language = parameter(LANGUAGE_PARAMETER);
        let sim = parameter("sim").map(|sim| sim.replace(' ', "+"));
        let mut carried = form_urlencoded::Serializer::new(String::new());
        for (name, value) in [(LANGUAGE_PARAMETER, &requested_language), ("sim", &sim)] {
            if let Some(value) = value {
                carried.append_pair(name, value);
            }
        }
        let carried = carried.finish();
        let accept_language = parts.headers.get(header::ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok());
        Ok(Visitor {
            context: Arc::clone(&state.context),
            token: parameters.get("token").unwrap_or_default().to_owned(),
            query: if carried.is_empty() { carried } else { format!("?{carried}") },
            sim,
            asks_number: parameter(page::ASK_PARAMETER).is_some_and(|value| value == page::ASK_NUMBER),
            requested_language,
            accept_language: accept_language.map(str::to_owned),
            browser_keys: browser_cookie::read_keys(&state.app, &parts.headers),
        })
    }
}

impl Visitor {
    fn path(&self) -> String {
        // Valid tokens need no encoding, but an invalid one may contain any character.
        format!("/signin/{}", form_urlencoded::byte_serialize(self.token.as_bytes()).collect::<String>())
    }

    /// Counts a visit: against this visitor of the sign-in if the token is right, otherwise against the address.
    fn limit_visit(&self, app: &App) -> Result<(), Problem> {
        let (limiter, now, address) = (app.engine.rate_limiter(), app.engine.clock().now(), self.context.client_ip);
        let limit = match app.engine.sign_ins.sign_in_of_token(&self.token) {
            Some(id) => limiter.limit_page_visit(id.0, limiter.page_visitor(None, address), now),
            None => limiter.limit_by_ip(RateLimitClass::Device, address, now),
        };
        require_within_rate_limit(limit.admitted, limit.reset_seconds)
    }

    /// Counts a request that starts or ends something.
    fn limit_action(&self, app: &App) -> Result<(), Problem> {
        let (limiter, now, address) = (app.engine.rate_limiter(), app.engine.clock().now(), self.context.client_ip);
        let Some(id) = app.engine.sign_ins.sign_in_of_token(&self.token) else { return self.limit_visit(app) };
        let limit = limiter.limit_page_action(id.0, limiter.page_visitor(None, address), now);
        require_within_rate_limit(limit.admitted, limit.reset_seconds)
    }

    async fn load_view(&self, app: &App) -> Result<SignInView, Problem> {
        let (keys, address) = (&self.browser_keys, self.context.client_ip);
        let view = app.engine.sign_ins.page(&self.token, keys, address, self.sim.as_deref()).await?;
        view.ok_or_else(Problem::not_found)
    }

    fn redirect_to_page(&self) -> Response {
        see_other(&format!("{}{}", self.path(), self.query))
    }

    fn render_view(&self, view: &SignInView) -> Response {
        let hinted;
        let code;
        let state = match &view.state {
            SignInState::Ended { return_to } => return see_other(return_to),
            SignInState::Verifying { page_url } if !self.asks_number => {
                return see_other(&format!("{page_url}{}", self.query));
            }
            SignInState::Discovering if !self.asks_number => page::SignInState::Stalled,
            SignInState::AskNumber { hinted_number, country, can_discover, starts_discovery } => {
                hinted = hinted_number.clone().unwrap_or_default();
                code = country.map(|country| country.to_string()).or_else(|| self.country_of_language());
                page::SignInState::AskNumber {
                    typed: &hinted,
                    country: code.as_deref(),
                    problem: None,
                    can_discover: *can_discover,
                    starts_discovery: *starts_discovery && !self.asks_number,
                }
            }
            SignInState::Verifying { .. } | SignInState::Discovering => {
                code = self.country_of_language();
                page::SignInState::AskNumber {
                    typed: "",
                    country: code.as_deref(),
                    problem: None,
                    can_discover: false,
                    starts_discovery: false,
                }
            }
            SignInState::OtherBrowser { has_ended } => page::SignInState::OtherBrowser { has_ended: *has_ended },
            SignInState::Used => page::SignInState::Ended { reason: SignInEnd::Used, return_to: None },
            SignInState::Expired => page::SignInState::Ended { reason: SignInEnd::Expired, return_to: None },
        };
        self.render(Some(view), state)
    }

    /// Returns the country of the browser's first language that names one, such as `de-AT`.
    fn country_of_language(&self) -> Option<String> {
        let ranges = self.accept_language.as_deref()?.split(',').map(|range| range.split(';').next().unwrap_or(range));
        let mut countries = ranges.filter_map(|range| range.trim().rsplit_once('-')?.1.parse::<Country>().ok());
        countries.next().map(|country| country.to_string())
    }

    fn language(&self, view: Option<&SignInView>) -> Language {
        let locales = view.into_iter().flat_map(|view| &view.locales).map(Locale::as_str);
        let requested = self.requested_language.as_deref().into_iter().chain(locales);
        Language::negotiate(requested, self.accept_language.as_deref())
    }

    fn render(&self, view: Option<&SignInView>, state: page::SignInState<'_>) -> Response {
        let path = self.path();
        let rendered = SignInPage {
            language: self.language(view),
            brand: view.and_then(|view| page::Brand::from_settings(&view.brand, view.project_name.as_ref())),
            is_sandbox: view.is_some_and(|view| view.mode == Mode::Sandbox),
            path: &path,
            query: &self.query,
            redirect_uri: view.map(|view| view.redirect_uri.as_str()),
            state,
        }
        .render();
        let mut response = Response::new(Body::from(rendered.html));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(HTML_CONTENT_TYPE));
        headers.insert(header::REFERRER_POLICY, REFERRER_POLICY);
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        if let Ok(policy) = HeaderValue::try_from(rendered.content_security_policy) {
            headers.insert(header::CONTENT_SECURITY_POLICY, policy);
        }
        response
    }

    fn render_bad_request(&self, detail: &str) -> Response {
        let mut response = self.render(None, page::SignInState::BadRequest { detail });
        *response.status_mut() = StatusCode::BAD_REQUEST;
        response
    }

    fn respond(&self, outcome: Result<Response, Problem>) -> Response {
        outcome.unwrap_or_else(|problem| self.render_problem(&problem))
    }

    /// Shows an error as a page, because a person reads it.
    fn render_problem(&self, problem: &Problem) -> Response {
        let state = match problem.code {
            ProblemCode::NotFound | ProblemCode::CheckNotFound => page::SignInState::Unknown,
            ProblemCode::TooManyRequests => page::SignInState::Busy,
            ProblemCode::Forbidden => page::SignInState::Refused,
            ProblemCode::InvalidRequest | ProblemCode::BadRequest | ProblemCode::PhoneNumberInvalid => {
                return self.render_bad_request(&problem.detail);
            }
            _ => page::SignInState::Unavailable,
        };
        let (page, body) = self.render(None, state).into_parts();
        let mut response = problem.clone().into_response();
        // If the problem stayed attached to the response, the middleware would replace the page with a problem
        // document.
        response.extensions_mut().remove::<Problem>();
        response.headers_mut().remove(header::CONTENT_LENGTH);
        response.headers_mut().extend(page.headers);
        *response.body_mut() = body;
        response
    }
}

fn require_within_rate_limit(admitted: bool, reset_seconds: u32) -> Result<(), Problem> {
    if admitted { Ok(()) } else { Err(Problem::too_many_requests("too many requests for this page", reset_seconds)) }
}

/// Redirects with 303, so that a browser never sends a form with a number on to the client (RFC 9700, section 4.12).
fn see_other(location: &str) -> Response {
    redirect(location, StatusCode::SEE_OTHER)
}

fn redirect(location: &str, status: StatusCode) -> Response {
    let mut response = Response::default();
    match HeaderValue::try_from(location) {
        Ok(location) => {
            *response.status_mut() = status;
            response.headers_mut().insert(header::LOCATION, location);
            response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response.headers_mut().insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        }
        Err(_) => *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR,
    }
    response
}
