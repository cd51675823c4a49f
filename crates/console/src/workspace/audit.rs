//! Pages with audit logs: a workspace's log for its owners, and the log of the whole deployment for administrators.

use std::collections::HashMap;

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use ringtrue_domain::{
    account::{AccountId, Email, Permission},
    audit::{Action, Actor, AuditEvent},
    page::{Page, PageRequest},
};
use ringtrue_engine::ports::audit::AuditFilter;
use ringtrue_web::{
    app::App,
    parameters::{PathParameters, Query},
    problem::Problem,
    routes::Routes,
};
use strum::VariantArray as _;

use crate::{
    page::{self, Layout, MenuSection, Pagination, SelectOption, UtcTime, error::ConsoleError},
    session::console_session::ConsoleSession,
};

const DEPLOYMENT_LOG_PATH: &str = "/console/deployment/audit";

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/workspaces/{workspace_id}/audit", show_workspace_log)
        .get("/console/deployment/audit", show_deployment_log)
}

#[derive(Debug, Template)]
#[template(path = "workspace/audit.html")]
struct AuditPage {
    layout: Layout,
    is_deployment_log: bool,
    actions: Vec<SelectOption>,
    actor: String,
    is_filtered: bool,
    events: Vec<EventRow>,
    pagination: Pagination,
}

#[derive(Debug)]
struct EventRow {
    at: UtcTime,
    actor: ActorView,
    action: &'static str,
    target_type: &'static str,
    target: String,
    /// Whether the target is an id, which is shown shortened.
    is_id: bool,
    changes: String,
    request_id: String,
    /// Path and name of the event's workspace. `None` for events that concern the whole deployment.
    workspace: Option<(String, String)>,
}

#[derive(Debug)]
struct ActorView {
    text: String,
    is_code: bool,
}

struct AuditQuery {
    action: Option<Action>,
    /// Actor to filter by, as the user entered it.
    actor: String,
    /// Filter for the log. `None`: the entered actor does not exist, so no event matches.
    filter: Option<AuditFilter>,
    page: PageRequest,
}

/// `GET /console/workspaces/{workspace_id}/audit`
async fn show_workspace_log(
    State(app): State<App>,
    session: ConsoleSession,
    ids: PathParameters,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let access = session.authorize_workspace(&app, &ids, Permission::ManageAccess).await?;
    let query = AuditQuery::parse(&app, query.as_deref()).await?;
    let found = match &query.filter {
        Some(filter) => {
            let (actor, workspace) = (&access.actor, access.workspace.id);
            app.engine.management.list_audit_events(actor, workspace, filter, query.page).await?
        }
        None => empty_page(query.page),
    };
    let layout = access.layout("Audit log", MenuSection::AuditLog);
    let path = format!("{}/audit", layout.workspace_path());
    render_log(&app, layout, &path, &query, &found).await
}

/// `GET /console/deployment/audit`
async fn show_deployment_log(
    State(app): State<App>,
    session: ConsoleSession,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let administrator = session.require_admin()?;
    let query = AuditQuery::parse(&app, query.as_deref()).await?;
    let found = match &query.filter {
        Some(filter) => app.engine.management.list_all_audit_events(&administrator, filter, query.page).await?,
        None => empty_page(query.page),
    };
    let layout = session.layout("Audit log").in_deployment(MenuSection::DeploymentAudit);
    render_log(&app, layout, DEPLOYMENT_LOG_PATH, &query, &found).await
}

impl AuditQuery {
    async fn parse(app: &App, query: Option<&str>) -> Result<Self, ConsoleError> {
        let query = Query::parse(query, &["action", "who", "page"])?;
        let name = query.get("action").unwrap_or_default();
        let action = name.parse::<Action>().ok();
        if action.is_none() && !name.is_empty() {
            return Err(Problem::bad_request("`action` must be a known audit action").into());
        }
        let actor = query.get("who").unwrap_or_default().trim().to_owned();
        let resolved = if actor.is_empty() { None } else { app.engine.management.find_actor(&actor).await? };
        let is_unknown_actor = resolved.is_none() && !actor.is_empty();
        Ok(AuditQuery {
            action,
            filter: (!is_unknown_actor).then_some(AuditFilter { action, actor: resolved }),
            actor,
            page: query.page_with_default_size(page::PAGE_SIZE)?,
        })
    }
}

fn empty_page(request: PageRequest) -> Page<AuditEvent> {
    Page { items: vec![], request, total_items: 0 }
}

async fn render_log(
    app: &App,
    layout: Layout,
    path: &str,
    query: &AuditQuery,
    found: &Page<AuditEvent>,
) -> Result<Response, ConsoleError> {
    let emails = app.engine.management.emails_in_events(&found.items).await?;
    let action = query.action.map(|action| action.into_str());
    let actor = Some(query.actor.as_str()).filter(|actor| !actor.is_empty());
    let options = Action::VARIANTS.iter().map(|action| (action.into_str(), action.into_str()));
    Ok(page::render_ok(&AuditPage {
        is_deployment_log: path == DEPLOYMENT_LOG_PATH,
        actions: page::select_options(options, action),
        is_filtered: action.is_some() || actor.is_some(),
        actor: query.actor.clone(),
        events: found.items.iter().map(|event| event_row(app, event, &emails)).collect(),
        pagination: Pagination::new(found, path, &[("action", action), ("who", actor)]),
        layout,
    }))
}

fn event_row(app: &App, event: &AuditEvent, emails: &HashMap<AccountId, Email>) -> EventRow {
    let email = |account: AccountId| emails.get(&account).map(ToString::to_string);
    let actor = match &event.actor {
        Actor::Credential(client) => ActorView { text: client.to_string(), is_code: true },
        Actor::Account(account) => {
            ActorView { text: email(*account).unwrap_or_else(|| account.to_string()), is_code: false }
        }
        Actor::Operator => ActorView { text: "operator".to_owned(), is_code: false },
        Actor::System => ActorView { text: "system".to_owned(), is_code: false },
    };
    let target_type = event.action.target_type();
    let account = event.target.parse().ok().filter(|_| target_type == "account").and_then(email);
    let workspace = event.workspace.map(|id| {
        let name = app.engine.control_plane().workspace(id).map(|workspace| workspace.name.to_string());
        (format!("/console/workspaces/{id}"), name.unwrap_or_else(|| id.to_string()))
    });
    EventRow {
        at: UtcTime(event.at),
        actor,
        action: event.action.into_str(),
        target_type,
        is_id: account.is_none() && !event.target.contains(['@', ' ']),
        target: account.unwrap_or_else(|| event.target.clone()),
        changes: event.changes.join(", "),
        request_id: event.request_id.clone().unwrap_or_default(),
        workspace,
    }
}
