//! Pages that list the user's workspaces, and the projects of a workspace.

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::{
    page::PageRequest,
    tenancy::{Name, Project, Workspace},
};
use ringtrue_web::{app::App, parameters::Query, routes::Routes};

use crate::{
    page::{self, Layout, MenuSection, Pagination, ShortId, UtcTime, error::ConsoleError},
    session::{
        console_session::{ConsoleSession, WorkspaceAccess},
        forms::{SessionForm, form_error},
    },
};

pub fn routes() -> Routes {
    Routes::default()
        .get("/console", show)
        .post("/console/new-workspace", create_workspace)
        .get("/console/workspaces/{workspace_id}", show_workspace)
}

#[derive(Debug, Template)]
#[template(path = "workspace/home.html")]
struct HomePage {
    layout: Layout,
    workspaces: Vec<WorkspaceRow>,
    is_admin: bool,
    pagination: Pagination,
    name: String,
    error: Option<String>,
}

#[derive(Debug)]
struct WorkspaceRow {
    path: String,
    name: String,
    id: ShortId,
    role: &'static str,
    created_at: UtcTime,
}

#[derive(Debug, Template)]
#[template(path = "workspace/workspace.html")]
struct WorkspacePage {
    layout: Layout,
    workspace_id: ShortId,
    projects: Vec<Project>,
    pagination: Pagination,
}

/// `GET /console`
async fn show(
    State(app): State<App>,
    session: ConsoleSession,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let request = Query::parse(query.as_deref(), &["page"])?.page_with_default_size(page::PAGE_SIZE)?;
    home_page(&app, &session, request, (StatusCode::OK, None), String::new()).await
}

/// `POST /console/new-workspace`
async fn create_workspace(State(app): State<App>, form: SessionForm) -> Result<Response, ConsoleError> {
    let SessionForm { session, fields } = form;
    let administrator = session.require_admin()?;
    let name = fields.get("name").unwrap_or_default();
    match name.parse::<Name>() {
        Ok(parsed) => {
            let workspace = app.engine.management.create_workspace_without_credential(&administrator, parsed).await?;
            Ok(page::see_other(&format!("/console/workspaces/{}", workspace.id)))
        }
        Err(error) => {
            let first = PageRequest::new(page::PAGE_SIZE, 1).unwrap_or_default();
            home_page(&app, &session, first, form_error(error), name.to_owned()).await
        }
    }
}

async fn home_page(
    app: &App,
    session: &ConsoleSession,
    request: PageRequest,
    (status, error): (StatusCode, Option<String>),
    name: String,
) -> Result<Response, ConsoleError> {
    let is_admin = session.user.account.is_admin;
    let found = app.engine.accounts.list_user_workspaces(&session.user, request).await?;
    if let ([only], false) = (found.items.as_slice(), is_admin) {
        return Ok(page::see_other(&format!("/console/workspaces/{}", only.id)));
    }
    let pagination = Pagination::new(&found, "/console", &[]);
    let row = |workspace: &Workspace| WorkspaceRow {
        path: format!("/console/workspaces/{}", workspace.id),
        name: workspace.name.to_string(),
        id: ShortId::new(workspace.id.to_string()),
        role: session.user.role_in(workspace.id).map_or("", |role| role.into_str()),
        created_at: UtcTime(workspace.created_at),
    };
    let workspaces = found.items.iter().map(row).collect();
    let layout = session.layout("Workspaces");
    Ok(page::render(status, &HomePage { layout, workspaces, is_admin, pagination, name, error }))
}

/// `GET /console/workspaces/{workspace_id}`
async fn show_workspace(
    State(app): State<App>,
    access: WorkspaceAccess,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let request = Query::parse(query.as_deref(), &["page"])?.page_with_default_size(page::PAGE_SIZE)?;
    let found = app.engine.management.list_projects(&access.actor, access.workspace.id, request, None).await?;
    let layout = access.layout("Projects", MenuSection::Projects);
    let pagination = Pagination::new(&found, layout.workspace_path(), &[]);
    let (workspace_id, projects) = (ShortId::new(access.workspace.id.to_string()), found.items);
    Ok(page::render_ok(&WorkspacePage { layout, workspace_id, projects, pagination }))
}
