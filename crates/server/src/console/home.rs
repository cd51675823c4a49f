//! The first pages: a person's workspaces, and a workspace's projects.

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::{
    account::Power,
    page::PageRequest,
    tenancy::{Name, Workspace},
};

use super::{
    forms::{SignedForm, invalid},
    page::{self, Frame, Moment, Section},
    refusal::Refusal,
    visitor::{InWorkspace, SignedIn},
};
use crate::http::{App, path::PathIds, problem::Problem, query::Query};

#[derive(Debug, Template)]
#[template(path = "console/home.html")]
struct HomePage {
    frame: Frame,
    workspaces: Vec<WorkspaceRow>,
    is_admin: bool,
    pages: Pages,
    name: String,
    error: Option<String>,
}

#[derive(Debug)]
struct WorkspaceRow {
    path: String,
    name: String,
    role: &'static str,
    created_at: Moment,
}

#[derive(Debug, Template)]
#[template(path = "console/workspace.html")]
struct WorkspacePage {
    frame: Frame,
    workspace_id: String,
    projects: Vec<ProjectRow>,
    pages: Pages,
}

#[derive(Debug)]
struct ProjectRow {
    path: String,
    name: String,
    mode: &'static str,
    disabled: bool,
    products: Vec<&'static str>,
    created_at: Moment,
}

/// Where a list goes on.
#[derive(Clone, Debug)]
pub struct Pages {
    pub number: u32,
    pub of: u64,
    pub total: u64,
    pub previous: Option<String>,
    pub next: Option<String>,
}

impl Pages {
    /// Of nothing.
    pub fn none() -> Self {
        Pages { number: 1, of: 0, total: 0, previous: None, next: None }
    }

    /// `link` makes the address of a page.
    pub fn of<T>(page: &ringtrue_domain::page::Page<T>, link: impl Fn(u32) -> String) -> Self {
        let (number, of) = (page.request.number(), page.total_pages());
        Pages {
            number,
            of,
            total: page.total_items,
            previous: (number > 1).then(|| link(number - 1)),
            next: (u64::from(number) < of).then(|| link(number + 1)),
        }
    }
}

/// `GET /console`
pub async fn home(State(app): State<App>, who: SignedIn, RawQuery(query): RawQuery) -> Result<Response, Refusal> {
    let request = Query::parse(query.as_deref(), &["page"])?.page_of(page::ROWS)?;
    home_page(&app, &who, request, (StatusCode::OK, None), String::new()).await
}

/// `POST /console/new-workspace`
pub async fn create_workspace(State(app): State<App>, form: SignedForm) -> Result<Response, Refusal> {
    let SignedForm { who, fields } = form;
    let administrator = who.administrator()?;
    let typed = fields.get("name").unwrap_or_default();
    match typed.parse::<Name>() {
        Ok(name) => {
            let workspace = app.engine.create_empty_workspace(&administrator, name).await?;
            Ok(page::see_other(&format!("/console/workspaces/{}", workspace.id)))
        }
        Err(error) => {
            let first = PageRequest::new(page::ROWS, 1).unwrap_or_default();
            home_page(&app, &who, first, invalid(error), typed.to_owned()).await
        }
    }
}

async fn home_page(
    app: &App,
    who: &SignedIn,
    request: PageRequest,
    (status, error): (StatusCode, Option<String>),
    name: String,
) -> Result<Response, Refusal> {
    let is_admin = who.person.account.is_admin;
    let found = app.engine.workspaces_of(&who.person, request).await?;
    if let ([only], false) = (found.items.as_slice(), is_admin) {
        return Ok(page::see_other(&format!("/console/workspaces/{}", only.id)));
    }
    let pages = Pages::of(&found, |number| format!("/console?page={number}"));
    let row = |workspace: &Workspace| WorkspaceRow {
        path: format!("/console/workspaces/{}", workspace.id),
        name: workspace.name.to_string(),
        role: who.person.role_in(workspace.id).map_or("", |role| role.as_str()),
        created_at: Moment(workspace.created_at),
    };
    let workspaces = found.items.iter().map(row).collect();
    let frame = Frame::of(who, "Workspaces");
    Ok(page::html(status, &HomePage { frame, workspaces, is_admin, pages, name, error }))
}

/// `GET /console/workspaces/{workspace_id}`
pub async fn workspace(
    State(app): State<App>,
    who: SignedIn,
    ids: PathIds,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let InWorkspace { manager, workspace } = who.workspace(&app, &ids, Power::Look).await?;
    let request = Query::parse(query.as_deref(), &["page"])?.page_of(page::ROWS)?;
    let found = app.engine.projects(&manager, workspace.id, request, None).await.map_err(Problem::from)?;
    let frame = Frame::of(&who, "Projects").in_workspace(&who, &workspace, Section::Projects);
    let pages = Pages::of(&found, |number| format!("{}?page={number}", frame.workspace_path()));
    let projects = found.items.iter().map(|project| ProjectRow {
        path: format!("{}/projects/{}", frame.workspace_path(), project.id),
        name: project.name.to_string(),
        mode: project.mode.as_str(),
        disabled: project.disabled,
        products: project.products.iter().map(|product| product.title()).collect(),
        created_at: Moment(project.created_at),
    });
    let projects = projects.collect();
    Ok(page::ok(&WorkspacePage { frame, workspace_id: workspace.id.to_string(), projects, pages }))
}
