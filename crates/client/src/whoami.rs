//! The command `ringtrue whoami`, which prints a profile and what its credentials permit.

use http::Method;
use ringtrue_domain::{
    product::{Product, Scope},
    timestamp,
};
use serde_json::{Value, json};

use crate::{
    api::{ApiSession, checks_path, text_field},
    arguments::ProfileOption,
    context::ClientContext,
    error::CommandError,
    profile::resolve_profile,
};

const COLUMNS: [&str; 11] = [
    "profile",
    "base_url",
    "workspace_id",
    "workspace_name",
    "workspace_client_id",
    "project_id",
    "project_name",
    "project_mode",
    "project_client_id",
    "scopes",
    "tokens_expire_at",
];

/// Prints the profile. Asks the server, so it fails if a credential is no longer valid.
pub(crate) async fn whoami(context: &ClientContext, profile_option: &ProfileOption) -> Result<(), CommandError> {
    let name = resolve_profile(context, profile_option)?;
    let session = ApiSession::open(context, profile_option)?;
    let (workspace_name, project_name) = fetch_names(&session).await?;
    let mut scopes = vec![];
    for scope in Scope::of_access_tokens().filter(|scope| session.profile.credential(*scope).is_some()) {
        match session.token(scope).await {
            Ok(_) => scopes.push(scope),
            Err(CommandError::Api(problem)) if problem.error_code == "invalid_scope" => {}
            Err(other) => return Err(other),
        }
    }
    let project_mode = fetch_project_mode(&session, &scopes).await?;
    let mut expiries = vec![];
    for scope in &scopes {
        // Uses the cached token, which the requests above have replaced if the server rejected it.
        expiries.push(session.token(*scope).await?.expires_at);
    }
    let first_expiry = expiries.into_iter().min().and_then(|second| jiff::Timestamp::from_second(second).ok());
    let profile = &session.profile;
    let (workspace, project) = (profile.workspace.as_ref(), profile.project.as_ref());
    let values = [
        json!(name.to_string()),
        json!(profile.base_url.as_str().trim_end_matches('/')),
        json!(workspace.map(|workspace| &workspace.workspace_id)),
        workspace_name,
        json!(workspace.map(|workspace| &workspace.credential.client_id)),
        json!(project.and_then(|project| project.project_id.as_ref())),
        project_name,
        json!(project_mode),
        json!(project.map(|project| &project.credential.client_id)),
        scopes.iter().map(|scope| scope.into_str()).collect(),
        json!(first_expiry.map(timestamp::format)),
    ];
    let record: Value = COLUMNS.iter().map(|name| (*name).to_owned()).zip(values).collect();
    Ok(context.printer.print_object(&COLUMNS, &record)?)
}

/// Returns the names of the workspace and the project. They are null without a workspace credential, which is needed to
/// read them.
async fn fetch_names(session: &ApiSession) -> Result<(Value, Value), CommandError> {
    if session.profile.workspace.is_none() {
        return Ok((Value::Null, Value::Null));
    }
    let path = ["v1", "management", "workspaces", session.workspace_id()?];
    let workspace = session.get(Scope::Management, &path, &[]).await?;
    let project_id = session.profile.project.as_ref().and_then(|project| project.project_id.as_deref());
    let project = match project_id {
        Some(id) => match session.get(Scope::Management, &[path.as_slice(), &["projects", id]].concat(), &[]).await {
            Ok(project) => project,
            // The workspace credential was replaced by one of another workspace, which cannot read the project.
            Err(CommandError::Api(problem)) if matches!(problem.status, 403 | 404) => Value::Null,
            Err(other) => return Err(other),
        },
        None => Value::Null,
    };
    Ok((json!(text_field(&workspace, "name")), json!(text_field(&project, "name"))))
}

/// Returns the mode of the project, from a response header of a list of checks. `None`: no permitted product has
/// checks.
async fn fetch_project_mode(session: &ApiSession, scopes: &[Scope]) -> Result<Option<String>, CommandError> {
    let is_permitted = |product: &Product| scopes.contains(&Scope::Product(*product));
    let Some(product) = Product::WITH_CHECKS.iter().copied().find(is_permitted) else { return Ok(None) };
    let url = session.url(checks_path(product), &[("size", "1".to_owned())]);
    let response = session.send_json(Some(Scope::Product(product)), Method::GET, &url, None, None).await?;
    if response.status != 200 {
        return Err(session.problem(&response));
    }
    Ok(response.headers.get("x-project-mode").and_then(|mode| mode.to_str().ok()).map(str::to_owned))
}
