//! List of the user's workspaces and of a workspace's projects.

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::{
    account::Permission,
    page::PageRequest,
    tenancy::{Name, Workspace},
};

use super::{
    error::ConsoleError,
    forms::{SessionForm, form_error},
    page::{self, Layout, Section, UtcTime},
    session::{ConsoleSession, WorkspaceAccess},
};
use crate::http::{App, path::PathParameters, problem::Problem, query::Query};

#[derive(Debug, Template)]
#[template(path = "console/home.html")]
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
    role: &'static str,
    created_at: UtcTime,
}

#[derive(Debug, Template)]
#[template(path = "console/workspace.html")]
struct WorkspacePage {
    layout: Layout,
    workspace_id: String,
    projects: Vec<ProjectRow>,
    pagination: Pagination,
}

#[derive(Debug)]
struct ProjectRow {
    path: String,
    name: String,
    mode: &'static str,
    disabled: bool,
    products: Vec<&'static str>,
    created_at: UtcTime,
}

/// Position in a list and links to the adjacent pages.
#[derive(Clone, Debug)]
pub struct Pagination {
    pub number: u32,
    pub total_pages: u64,
    pub total_items: u64,
    pub previous: Option<String>,
    pub next: Option<String>,
}

impl Pagination {
    pub fn empty() -> Self {
        Pagination { number: 1, total_pages: 0, total_items: 0, previous: None, next: None }
    }

    /// `link` returns the URL of a page.
    pub fn new<T>(page: &ringtrue_domain::page::Page<T>, link: impl Fn(u32) -> String) -> Self {
        let (number, total_pages) = (page.request.number(), page.total_pages());
        Pagination {
            number,
            total_pages,
            total_items: page.total_items,
            previous: (number > 1).then(|| link(number - 1)),
            next: (u64::from(number) < total_pages).then(|| link(number + 1)),
        }
    }
}

/// `GET /console`
pub async fn show(
    State(app): State<App>,
    session: ConsoleSession,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let request = Query::parse(query.as_deref(), &["page"])?.page_with_default_size(page::PAGE_SIZE)?;
    home_page(&app, &session, request, (StatusCode::OK, None), String::new()).await
}

/// `POST /console/new-workspace`
pub async fn create_workspace(State(app): State<App>, form: SessionForm) -> Result<Response, ConsoleError> {
    let SessionForm { session, fields } = form;
    let administrator = session.require_admin()?;
    let name = fields.get("name").unwrap_or_default();
    match name.parse::<Name>() {
        Ok(parsed) => {
            let workspace = app.engine.create_workspace_without_credential(&administrator, parsed).await?;
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
    let found = app.engine.list_user_workspaces(&session.user, request).await?;
    if let ([only], false) = (found.items.as_slice(), is_admin) {
        return Ok(page::see_other(&format!("/console/workspaces/{}", only.id)));
    }
    let pagination = Pagination::new(&found, |number| format!("/console?page={number}"));
    let row = |workspace: &Workspace| WorkspaceRow {
        path: format!("/console/workspaces/{}", workspace.id),
        name: workspace.name.to_string(),
        role: session.user.role_in(workspace.id).map_or("", |role| role.as_str()),
        created_at: UtcTime(workspace.created_at),
    };
    let workspaces = found.items.iter().map(row).collect();
    let layout = Layout::for_session(session, "Workspaces");
    Ok(page::render(status, &HomePage { layout, workspaces, is_admin, pagination, name, error }))
}

/// `GET /console/workspaces/{workspace_id}`
pub async fn show_workspace(
    State(app): State<App>,
    session: ConsoleSession,
    ids: PathParameters,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let WorkspaceAccess { manager, workspace } = session.authorize_workspace(&app, &ids, Permission::View).await?;
    let request = Query::parse(query.as_deref(), &["page"])?.page_with_default_size(page::PAGE_SIZE)?;
    let found = app.engine.list_projects(&manager, workspace.id, request, None).await.map_err(Problem::from)?;
    let layout = Layout::for_session(&session, "Projects").in_workspace(&session, &workspace, Section::Projects);
    let pagination = Pagination::new(&found, |number| format!("{}?page={number}", layout.workspace_path()));
    let projects = found.items.iter().map(|project| ProjectRow {
        path: format!("{}/projects/{}", layout.workspace_path(), project.id),
        name: project.name.to_string(),
        mode: project.mode.as_str(),
        disabled: project.disabled,
        products: project.products.iter().map(|product| product.title()).collect(),
        created_at: UtcTime(project.created_at),
    });
    let projects = projects.collect();
    Ok(page::render_ok(&WorkspacePage { layout, workspace_id: workspace.id.to_string(), projects, pagination }))
}
