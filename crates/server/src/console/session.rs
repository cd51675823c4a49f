//! Extractors of the session and the browser, and access to workspaces and projects.

use std::{convert::Infallible, net::IpAddr};

use axum::extract::FromRequestParts;
use http::{HeaderMap, Method, header, request::Parts, uri::PathAndQuery};
use ringtrue_domain::{
    account::Permission,
    tenancy::{Project, Workspace, WorkspaceId},
};
use ringtrue_engine::{
    accounts::{Administrator, ClientInfo, ConsoleUser, SessionToken},
    management::{ManagementActor, ManagementError},
    rate_limit::{RateLimitClass, RateLimitState},
};

use super::{cookies::Cookie, error::ConsoleError};
use crate::http::{
    App,
    error_catalog::ProblemCode,
    path::PathParameters,
    problem::Problem,
    request_context::{HandlerState, RequestContext},
};

/// An authenticated session. Handlers can only access workspaces and projects through this extractor.
#[derive(Debug)]
pub struct ConsoleSession {
    pub user: ConsoleUser,
    pub token: SessionToken,
    /// For forms of the page.
    pub csrf_token: String,
    pub request_id: String,
    /// Rate limit that a form counts against. `None` for pages.
    pub rate_limit_class: Option<RateLimitClass>,
}

/// Extracts the address and user agent.
#[derive(Debug)]
pub struct Client(pub ClientInfo);

impl Client {
    pub fn from_headers(headers: &HeaderMap, address: IpAddr) -> Self {
        let user_agent = headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        Client(ClientInfo { address, user_agent: user_agent.to_owned() })
    }
}

impl FromRequestParts<HandlerState> for Client {
    type Rejection = Infallible;

    async fn from_request_parts(
        parts: &mut Parts,
        HandlerState { context, .. }: &HandlerState,
    ) -> Result<Self, Infallible> {
        Ok(Client::from_headers(&parts.headers, context.client_ip))
    }
}

/// A workspace, and the user as the actor of changes in it.
#[derive(Debug)]
pub struct WorkspaceAccess {
    pub manager: ManagementActor,
    pub workspace: Workspace,
}

/// A project, and the user as the actor of changes in it.
#[derive(Debug)]
pub struct ProjectAccess {
    pub manager: ManagementActor,
    pub workspace: Workspace,
    pub project: Project,
}

impl ConsoleSession {
    /// Returns `None` without a valid session cookie.
    pub async fn authenticate(
        app: &App,
        headers: &HeaderMap,
        context: &RequestContext,
    ) -> Result<Option<Self>, ConsoleError> {
        let token = Cookie::Session.read(app, headers).and_then(SessionToken::parse);
        let Some(token) = token else { return Ok(None) };
        let limiter = app.engine.rate_limiter();
        if let Some(state) = limiter.limit_session_lookup(token.reveal(), context.client_ip, context.received_at) {
            require_admitted(state)?;
        }
        let user = app.engine.authenticate_session(&token).await?;
        limiter.record_session_lookup(token.reveal(), user.is_some());
        let Some(user) = user else { return Ok(None) };
        let csrf_token = app.engine.csrf_token(token.reveal())?;
        let request_id = context.request_id.as_str().to_owned();
        Ok(Some(ConsoleSession { user, token, csrf_token, request_id, rate_limit_class: None }))
    }

    pub fn require_admin(&self) -> Result<Administrator, ConsoleError> {
        Ok(self.user.authorize_admin(Some(self.request_id.clone()))?)
    }

    /// Checks the permission in the workspace of the path.
    pub async fn authorize_workspace(
        &self,
        app: &App,
        ids: &PathParameters,
        permission: Permission,
    ) -> Result<WorkspaceAccess, ConsoleError> {
        let id = ids.workspace()?;
        let manager = self.user.authorize(id, permission, Some(self.request_id.clone()))?;
        if permission != Permission::View {
            self.limit_workspace(app, id)?;
        }
        let workspace = app.engine.workspace(&manager, id).await.map_err(Problem::from)?;
        Ok(WorkspaceAccess { manager, workspace })
    }

    /// Checks the permission in the project of the path.
    pub async fn authorize_project(
        &self,
        app: &App,
        ids: &PathParameters,
        permission: Permission,
    ) -> Result<ProjectAccess, ConsoleError> {
        let WorkspaceAccess { manager, workspace } = self.authorize_workspace(app, ids, permission).await?;
        let found = app.engine.project(&manager, workspace.id, ids.project()?).await;
        let project = found.map_err(|error| match error {
            // Does not reveal projects of other workspaces.
            ManagementError::OtherOwner(_) => Problem::from(ManagementError::ProjectNotFound),
            other => other.into(),
        })?;
        Ok(ProjectAccess { manager, workspace, project })
    }

    /// Counts a form against the workspace's rate limit, as the same API request.
    fn limit_workspace(&self, app: &App, workspace: WorkspaceId) -> Result<(), ConsoleError> {
        let Some(class) = self.rate_limit_class else { return Ok(()) };
        let overrides = app.engine.control_plane().rate_limit_overrides(workspace);
        let state = app.engine.rate_limiter().limit_workspace(class, workspace, &overrides, app.engine.clock().now());
        if state.admitted { Ok(()) } else { Err(ConsoleError::rate_limited()) }
    }
}

/// Limits lookups of link tokens by client address.
pub fn limit_link_lookup(app: &App, address: IpAddr) -> Result<(), ConsoleError> {
    require_admitted(app.engine.rate_limiter().limit_by_ip(RateLimitClass::Console, address, app.engine.clock().now()))
}

fn require_admitted(state: RateLimitState) -> Result<(), ConsoleError> {
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
        if let Some(session) = ConsoleSession::authenticate(app, &parts.headers, context).await? {
            return Ok(session);
        }
        // Only pages are opened again after sign-in; forms are not resubmitted.
        let requested =
            if parts.method == Method::GET { parts.uri.path_and_query().map(PathAndQuery::as_str) } else { None };
        Err(ConsoleError::Redirect(match requested.filter(|path| *path != "/console") {
            Some(path) => {
                let next = url::form_urlencoded::Serializer::new(String::new()).append_pair("next", path).finish();
                format!("/console/sign-in?{next}")
            }
            None => "/console/sign-in".to_owned(),
        }))
    }
}
