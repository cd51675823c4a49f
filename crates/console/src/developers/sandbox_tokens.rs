//! Issues access tokens for sandbox projects to the API reference at `/docs`, so that readers can send requests from
//! it.
//!
//! The reference is a public page and contains no data of its reader. Its script calls these endpoints to list the
//! signed-in user's projects, and to get a token when the user wants one.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    account::Permission,
    page::PageRequest,
    product::{Product, Scope},
    tenancy::{Credential, CredentialOwner, Mode, Project},
};
use ringtrue_engine::tokens::MintError;
use ringtrue_web::{
    app::App, parameters::PathParameters, request_context::RequestContext, response::json_response, routes::Routes,
};
use serde::Serialize;

use crate::{
    page::{
        self,
        error::{ConsoleError, to_sentence},
    },
    session::{console_session::ConsoleSession, forms::SessionForm},
};

/// Lifetime of these tokens. Shorter than that of other tokens, because a web page holds them.
const TOKEN_LIFETIME: SignedDuration = SignedDuration::from_mins(15);

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/sandbox-projects", list_projects)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/sandbox-token", issue)
}

#[derive(Serialize)]
struct SandboxProjects {
    /// CSRF token of the session. `None` without a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    form_token: Option<String>,
    projects: Vec<SandboxProject>,
}

#[derive(Serialize)]
struct SandboxProject {
    name: String,
    /// Path to which the script posts to get a token.
    path: String,
    scopes: Vec<&'static str>,
}

#[derive(Serialize)]
struct SandboxToken {
    access_token: String,
    expires_in: i64,
    scope: &'static str,
}

/// `GET /console/sandbox-projects`. The list is empty for visitors without a session.
async fn list_projects(
    State(app): State<App>,
    State(context): State<Arc<RequestContext>>,
    request: Request,
) -> Result<Response, ConsoleError> {
    let Some(session) = ConsoleSession::authenticate(&app, request.headers(), &context, None).await? else {
        return Ok(json_response(StatusCode::OK, &SandboxProjects { form_token: None, projects: vec![] }));
    };
    let first = PageRequest::new(page::PAGE_SIZE, 1).unwrap_or_default();
    let workspaces = app.engine.accounts.list_user_workspaces(&session.user, first).await?;
    let mut projects = vec![];
    for workspace in workspaces.items {
        let Ok(actor) = session.user.authorize(workspace.id, Permission::Develop, None) else { continue };
        let found = app.engine.management.list_projects(&actor, workspace.id, first, None).await?;
        projects.extend(found.items.iter().filter(|project| allows_sandbox_tokens(project)).map(SandboxProject::from));
    }
    let form_token = Some(session.csrf_token.to_string());
    Ok(json_response(StatusCode::OK, &SandboxProjects { form_token, projects }))
}

/// `POST …/projects/{project_id}/sandbox-token`
async fn issue(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let (access, fields) = form.authorize_project(&app, &ids, Permission::Develop).await?;
    if !allows_sandbox_tokens(&access.project) {
        return Err(refused("Tokens are issued here for enabled sandbox projects only."));
    }
    let Some(product) = fields.get("scope").and_then(|scope| scope.parse::<Product>().ok()) else {
        return Err(refused("The scope is not that of a product."));
    };
    let (scope, now) = (Scope::Product(product), app.engine.clock().now());
    let owner = CredentialOwner::Project(access.workspace.id, access.project.id);
    let all = PageRequest::new(PageRequest::MAX_SIZE, 1).unwrap_or_default();
    let found = app.engine.management.list_credentials(&access.actor, owner, all).await?;
    let usable = |credential: &Credential| credential.is_active(now) && credential.scopes.contains(&scope);
    let Some(credential) = found.items.into_iter().find(usable) else {
        return Err(refused("The project has no credential with this scope. Create one on its page Credentials."));
    };
    let token = app.engine.tokens.mint_token(&with_limited_expiry(credential, now), scope, now);
    let token = token.map_err(|error| match error {
        MintError::Scope(error) => refused(&to_sentence(&error.to_string())),
        MintError::NoKey => ConsoleError::new(StatusCode::SERVICE_UNAVAILABLE, "No token", "There is no token key."),
    })?;
    let body = SandboxToken { access_token: token.token, expires_in: token.expires_in, scope: scope.into_str() };
    Ok(json_response(StatusCode::OK, &body))
}

/// Returns the credential with an expiry of at most [`TOKEN_LIFETIME`] from now. A token never outlives its credential,
/// so this limits the lifetime of the token.
fn with_limited_expiry(credential: Credential, now: Timestamp) -> Credential {
    let end = now + TOKEN_LIFETIME;
    Credential { expires_at: Some(credential.expires_at.map_or(end, |at| at.min(end))), ..credential }
}

fn allows_sandbox_tokens(project: &Project) -> bool {
    project.mode == Mode::Sandbox && !project.disabled
}

fn refused(text: &str) -> ConsoleError {
    ConsoleError::new(StatusCode::CONFLICT, "No token", text)
}

impl From<&Project> for SandboxProject {
    fn from(project: &Project) -> Self {
        SandboxProject {
            name: project.name.to_string(),
            path: format!("{}/sandbox-token", page::project_path(project)),
            scopes: project.products.iter().map(Product::into_str).collect(),
        }
    }
}
