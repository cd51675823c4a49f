//! Cookies, extractors for the session and the browser, and access to workspaces and projects.

use std::{convert::Infallible, net::IpAddr, sync::Arc};

use axum::extract::FromRequestParts;
use http::{HeaderMap, HeaderValue, Method, header, request::Parts, uri::PathAndQuery};
use jiff::SignedDuration;
use ringtrue_domain::{
    account::Permission,
    tenancy::{Project, ProjectId, Workspace, WorkspaceId},
};
use ringtrue_engine::{
    accounts::{AccessDenied, ClientInfo, ConsoleUser, RequestCause, SESSION_MAX_AGE, SessionToken},
    actor::{Administrator, ManagementActor},
    rate_limits::{RateLimitClass, RateLimitState},
    tenants::ManagementError,
};
use ringtrue_web::{
    app::App,
    error_catalog::ProblemCode,
    parameters::PathParameters,
    problem::Problem,
    request_context::{BACKGROUND_HEADER, HandlerState, RequestContext},
};

use crate::{
    page::{self, Layout, MenuSection, error::ConsoleError},
    session::{layout_source::LayoutSource, response_context::ResponseContext},
};

const SECOND_FACTOR_SETUP_PATH: &str = "/console/account/second-factor";
/// Maximum number of projects in the project switcher. The workspace's page lists all.
const MAX_SWITCHER_PROJECTS: usize = 15;

/// An authenticated session. Handlers can only access workspaces and projects through this extractor.
#[derive(Debug)]
pub struct ConsoleSession {
    pub user: Arc<ConsoleUser>,
    pub token: SessionToken,
    /// CSRF token for the forms on the page.
    pub csrf_token: Arc<str>,
    pub request_id: String,
    /// Rate limit that the request counts against. `None`: the limit for pages.
    pub rate_limit_class: Option<RateLimitClass>,
    /// The project that the browser has opened last. The user may have lost the access to it.
    last_project: Option<ProjectId>,
    response_context: ResponseContext,
}

/// A session that is also accepted while its user still has to set up a required second factor.
#[derive(Debug)]
pub struct SecondFactorSetupSession(pub ConsoleSession);

/// Extracts the IP address and user agent of the browser.
#[derive(Debug)]
pub struct BrowserClient(pub ClientInfo);

impl BrowserClient {
    pub fn from_headers(headers: &HeaderMap, address: IpAddr) -> Self {
        let user_agent = headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        BrowserClient(ClientInfo { address, user_agent: user_agent.to_owned() })
    }
}

/// Access to a workspace. `actor` is the signed-in user. The extractor requires [`Permission::View`].
#[derive(Debug)]
pub struct WorkspaceAccess {
    pub session: ConsoleSession,
    pub actor: ManagementActor,
    pub workspace: Arc<Workspace>,
    /// The first projects by name, for the project switcher.
    pub projects: Arc<[Arc<Project>]>,
    /// The workspace's project that the user has seen last. Its pages stay in the menu.
    last_project: Option<Arc<Project>>,
}

impl WorkspaceAccess {
    pub fn layout(&self, title: &str, section: MenuSection) -> Layout {
        self.layout_source().layout(title, section)
    }

    fn layout_source(&self) -> LayoutSource {
        LayoutSource {
            workspace: Some(Arc::clone(&self.workspace)),
            menu_project: self.last_project.clone(),
            projects: Arc::clone(&self.projects),
            ..self.session.layout_source()
        }
    }
}

/// Access to a project. `actor` is the signed-in user. The extractor requires [`Permission::View`].
#[derive(Debug)]
pub struct ProjectAccess {
    pub session: ConsoleSession,
    pub actor: ManagementActor,
    pub workspace: Arc<Workspace>,
    pub project: Arc<Project>,
    /// The first projects of the workspace by name, for the project switcher.
    pub projects: Arc<[Arc<Project>]>,
}

impl ProjectAccess {
    pub fn layout(&self, title: &str, section: MenuSection) -> Layout {
        self.layout_source().layout(title, section)
    }

    fn layout_source(&self) -> LayoutSource {
        LayoutSource {
            workspace: Some(Arc::clone(&self.workspace)),
            project: Some(Arc::clone(&self.project)),
            projects: Arc::clone(&self.projects),
            ..self.session.layout_source()
        }
    }

    /// Returns the path under which all pages of the project are.
    pub fn path(&self) -> String {
        page::project_path(&self.project)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cookie {
    /// Holds the session token.
    Session,
    /// Identifies a browser without a session, so that the CSRF tokens of its forms are bound to it.
    Visitor,
    /// Holds the result of a form for the page that follows it.
    Flash,
    /// Holds the state of the simulated handset.
    Handset,
    /// Identifies a sign-in that waits for the second factor.
    SecondFactor,
    /// Holds the state of a sign-in that waits for the OpenID provider.
    OpenIdConnect,
    /// Holds the state of a test sign-in that waits for the user.
    SignInTest,
    /// Holds the id of the project that the user has seen last.
    LastProject,
}

impl Cookie {
    /// Returns the cookie's name. The `__Host-` prefix makes browsers accept the cookie from this host only. It
    /// requires TLS.
    fn name(self, is_secure: bool) -> &'static str {
        match (self, is_secure) {
            (Cookie::Session, true) => "__Host-ringtrue-session",
            (Cookie::Session, false) => "ringtrue-session",
            (Cookie::Visitor, true) => "__Host-ringtrue-visitor",
            (Cookie::Visitor, false) => "ringtrue-visitor",
            (Cookie::Flash, true) => "__Host-ringtrue-flash",
            (Cookie::Flash, false) => "ringtrue-flash",
            (Cookie::Handset, true) => "__Host-ringtrue-handset",
            (Cookie::Handset, false) => "ringtrue-handset",
            (Cookie::SecondFactor, true) => "__Host-ringtrue-second-factor",
            (Cookie::SecondFactor, false) => "ringtrue-second-factor",
            (Cookie::OpenIdConnect, true) => "__Host-ringtrue-openid-connect",
            (Cookie::OpenIdConnect, false) => "ringtrue-openid-connect",
            (Cookie::SignInTest, true) => "__Host-ringtrue-sign-in-test",
            (Cookie::SignInTest, false) => "ringtrue-sign-in-test",
            (Cookie::LastProject, true) => "__Host-ringtrue-last-project",
            (Cookie::LastProject, false) => "ringtrue-last-project",
        }
    }

    pub fn read<'h>(self, app: &App, headers: &'h HeaderMap) -> Option<&'h str> {
        let name = self.name(is_secure(app));
        let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = all.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(given, _)| *given == name).map(|(_, value)| value).filter(|value| !value.is_empty())
    }

    /// Returns a header that sets the cookie until the browser is closed.
    pub fn set(self, app: &App, value: &str) -> HeaderValue {
        self.header(app, value, "")
    }

    /// Returns a header that sets the cookie for the maximum lifetime of a session, so that the cookie survives a
    /// restart of the browser.
    pub fn set_persistent(self, app: &App, value: &str) -> HeaderValue {
        self.set_for(app, value, SESSION_MAX_AGE)
    }

    /// Returns a header that sets the cookie for a limited time.
    pub fn set_for(self, app: &App, value: &str, lifetime: SignedDuration) -> HeaderValue {
        self.header(app, value, &format!("; Max-Age={}", lifetime.as_secs()))
    }

    pub fn clear(self, app: &App) -> HeaderValue {
        self.header(app, "", "; Max-Age=0")
    }

    fn header(self, app: &App, value: &str, more: &str) -> HeaderValue {
        let is_secure = is_secure(app);
        let secure = if is_secure { "; Secure" } else { "" };
        let name = self.name(is_secure);
        let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax{secure}{more}");
        HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""))
    }
}

impl FromRequestParts<HandlerState> for BrowserClient {
    type Rejection = Infallible;

    async fn from_request_parts(
        parts: &mut Parts,
        HandlerState { context, .. }: &HandlerState,
    ) -> Result<Self, Infallible> {
        Ok(BrowserClient::from_headers(&parts.headers, context.client_ip))
    }
}

impl ConsoleSession {
    /// Authenticates the session cookie. Returns `None` without a valid one. If the user still has to set up a second
    /// factor, the error redirects to the setup page, from which the user then continues to `next`.
    pub async fn authenticate(
        app: &App,
        headers: &HeaderMap,
        context: &RequestContext,
        next: Option<&str>,
    ) -> Result<Option<Self>, ConsoleError> {
        let session = Self::authenticate_for_setup(app, headers, context).await?;
        if session.as_ref().is_some_and(|session| session.user.needs_second_factor) {
            return Err(if expects_data(headers) {
                AccessDenied::NeedsSecondFactor.into()
            } else {
                ConsoleError::Redirect(page::path_with_query(SECOND_FACTOR_SETUP_PATH, &[("next", next)]))
            });
        }
        Ok(session)
    }

    /// Like [`authenticate`](Self::authenticate), but also accepts a user who still has to set up a second factor. Only
    /// for the setup itself and for sign-out.
    pub async fn authenticate_for_setup(
        app: &App,
        headers: &HeaderMap,
        context: &RequestContext,
    ) -> Result<Option<Self>, ConsoleError> {
        let token = Cookie::Session.read(app, headers).and_then(SessionToken::parse);
        let Some(token) = token else { return Ok(None) };
        let limiter = app.engine.rate_limiter();
        match limiter.limit_session_lookup(token.reveal(), context.client_ip, context.received_at) {
            Some(state) => require_within_rate_limit(state)?,
            None if limiter.limit_session(token.reveal(), context.received_at).admitted => {}
            None => return Err(ConsoleError::rate_limited("Your session")),
        }
        let user = app.engine.accounts.authenticate_session(&token, request_cause(headers)).await?;
        limiter.record_session_lookup(token.reveal(), user.is_some());
        let Some(user) = user else { return Ok(None) };
        let csrf_token = app.engine.accounts.csrf_token(token.reveal())?;
        let request_id = context.request_id.as_str().to_owned();
        Ok(Some(ConsoleSession {
            user: Arc::new(user),
            token,
            csrf_token: csrf_token.into(),
            request_id,
            rate_limit_class: None,
            last_project: Cookie::LastProject.read(app, headers).and_then(|id| id.parse().ok()).map(ProjectId),
            response_context: ResponseContext::default(),
        }))
    }

    pub fn layout(&self, title: &str) -> Layout {
        self.layout_source().layout(title, MenuSection::Home)
    }

    fn layout_source(&self) -> LayoutSource {
        LayoutSource {
            user: Arc::clone(&self.user),
            csrf_token: Arc::clone(&self.csrf_token),
            workspace: None,
            project: None,
            menu_project: None,
            projects: Arc::default(),
        }
    }

    pub fn require_admin(&self) -> Result<Administrator, ConsoleError> {
        Ok(self.user.authorize_admin(Some(self.request_id.clone()))?)
    }

    /// Checks the user's permission in the workspace that the path names.
    pub async fn authorize_workspace(
        self,
        app: &App,
        ids: &PathParameters,
        permission: Permission,
    ) -> Result<WorkspaceAccess, ConsoleError> {
        let id = ids.workspace_id()?;
        let actor = self.user.authorize(id, permission, Some(self.request_id.clone()))?;
        let class = self.rate_limit_class.filter(|_| permission != Permission::View);
        limit_workspace(app, id, class.unwrap_or(RateLimitClass::ConsolePage))?;
        let workspace = app.engine.management.workspace(&actor, id).await?;
        let projects = app.engine.control_plane().projects_of(workspace.id, MAX_SWITCHER_PROJECTS);
        let last_project = self.last_project.and_then(|id| app.engine.control_plane().project(id));
        let last_project = last_project.filter(|project| project.workspace == workspace.id);
        let access = WorkspaceAccess {
            session: self,
            actor,
            workspace: Arc::new(workspace),
            projects: projects.into(),
            last_project,
        };
        access.session.response_context.set_layout_source(access.layout_source());
        Ok(access)
    }

    /// Checks the user's permission in the project that the path names.
    pub async fn authorize_project(
        self,
        app: &App,
        ids: &PathParameters,
        permission: Permission,
    ) -> Result<ProjectAccess, ConsoleError> {
        let access = self.authorize_workspace(app, ids, permission).await?;
        let WorkspaceAccess { session, actor, workspace, projects, .. } = access;
        let project = app.engine.management.project(&actor, workspace.id, ids.project_id()?).await;
        let project = project.map_err(|error| match error {
            // The error must not reveal that the project exists in another workspace.
            ManagementError::OtherOwner(_) => ManagementError::ProjectNotFound,
            other => other,
        })?;
        let access = ProjectAccess { session, actor, workspace, project: Arc::new(project), projects };
        access.session.response_context.set_layout_source(access.layout_source());
        Ok(access)
    }
}

/// Counts a request against the workspace's rate limit. Pages have their own limit; a form counts like the API request
/// that does the same.
fn limit_workspace(app: &App, workspace: WorkspaceId, class: RateLimitClass) -> Result<(), ConsoleError> {
    let overrides = app.engine.control_plane().rate_limit_overrides(workspace);
    let state = app.engine.rate_limiter().limit_workspace(class, workspace, &overrides, app.engine.clock().now());
    if state.admitted { Ok(()) } else { Err(ConsoleError::rate_limited("The workspace")) }
}

/// Counts a request without a valid session against a limit for its IP address, because it causes a lookup, such as
/// that of a link token.
pub fn limit_link_lookup(app: &App, address: IpAddr) -> Result<(), ConsoleError> {
    require_within_rate_limit(app.engine.rate_limiter().limit_by_ip(
        RateLimitClass::Console,
        address,
        app.engine.clock().now(),
    ))
}

fn require_within_rate_limit(state: RateLimitState) -> Result<(), ConsoleError> {
    if state.admitted {
        return Ok(());
    }
    let detail = "too many requests with unknown sessions or links from your address; try again in a second";
    Err(Problem::new(ProblemCode::TooManyRequests, detail).into())
}

impl FromRequestParts<HandlerState> for ConsoleSession {
    type Rejection = ConsoleError;

    async fn from_request_parts(
        parts: &mut Parts,
        HandlerState { app, context }: &HandlerState,
    ) -> Result<Self, ConsoleError> {
        let next = path_to_open_again(parts);
        let session = ConsoleSession::authenticate(app, &parts.headers, context, next).await?;
        let mut session = session.ok_or_else(|| redirect_to_sign_in(next))?;
        if let Some(response_context) = parts.extensions.get::<ResponseContext>() {
            session.response_context = response_context.clone();
            response_context.set_layout_source(session.layout_source());
        }
        Ok(session)
    }
}

impl FromRequestParts<HandlerState> for SecondFactorSetupSession {
    type Rejection = ConsoleError;

    async fn from_request_parts(
        parts: &mut Parts,
        HandlerState { app, context }: &HandlerState,
    ) -> Result<Self, ConsoleError> {
        let session = ConsoleSession::authenticate_for_setup(app, &parts.headers, context).await?;
        session.map(SecondFactorSetupSession).ok_or_else(|| redirect_to_sign_in(path_to_open_again(parts)))
    }
}

impl FromRequestParts<HandlerState> for WorkspaceAccess {
    type Rejection = ConsoleError;

    async fn from_request_parts(parts: &mut Parts, state: &HandlerState) -> Result<Self, ConsoleError> {
        let session = ConsoleSession::from_request_parts(parts, state).await?;
        let Ok(ids) = PathParameters::from_request_parts(parts, state).await;
        session.authorize_workspace(&state.app, &ids, Permission::View).await
    }
}

impl FromRequestParts<HandlerState> for ProjectAccess {
    type Rejection = ConsoleError;

    async fn from_request_parts(parts: &mut Parts, state: &HandlerState) -> Result<Self, ConsoleError> {
        let session = ConsoleSession::from_request_parts(parts, state).await?;
        let Ok(ids) = PathParameters::from_request_parts(parts, state).await;
        let access = session.authorize_project(&state.app, &ids, Permission::View).await?;
        if access.session.last_project != Some(access.project.id) {
            access
                .session
                .response_context
                .set_cookie(Cookie::LastProject.set(&state.app, &access.project.id.to_string()));
        }
        Ok(access)
    }
}

/// Returns the path to open after sign-in. `None` for the start page, which is the default, and for forms, which must
/// not be submitted again.
fn path_to_open_again(parts: &Parts) -> Option<&str> {
    let requested = parts.uri.path_and_query().map(PathAndQuery::as_str);
    requested.filter(|path| parts.method == Method::GET && *path != "/console")
}

fn redirect_to_sign_in(next: Option<&str>) -> ConsoleError {
    ConsoleError::Redirect(page::path_with_query("/console/sign-in", &[("next", next)]))
}

/// Determines whether the user or a script caused the request. Over TLS and on localhost, browsers send
/// `Sec-Fetch-Dest`, which is `document` only when the user opens a page. For other deployments, the pages' scripts
/// mark their requests with [`BACKGROUND_HEADER`], and event streams are recognised by their `Accept` header.
fn request_cause(headers: &HeaderMap) -> RequestCause {
    let is_navigation = headers.get("sec-fetch-dest").is_none_or(|destination| destination == "document");
    let is_prefetch = headers.contains_key("sec-purpose");
    let is_background =
        !is_navigation || is_prefetch || expects_data(headers) || headers.contains_key(BACKGROUND_HEADER);
    if is_background { RequestCause::Background } else { RequestCause::User }
}

/// Returns whether a script sent the request. A script cannot use an HTML page, so redirecting it to one is pointless.
fn expects_data(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepted.starts_with("text/event-stream") || accepted.starts_with("application/json")
}

/// Returns whether the deployment's public URL uses TLS.
fn is_secure(app: &App) -> bool {
    app.engine.base_url().starts_with("https://")
}
