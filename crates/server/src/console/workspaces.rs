//! Workspaces of the user, and the projects and usage of a workspace.

use std::collections::BTreeMap;

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::StatusCode;
use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::CheckStatus,
    page::PageRequest,
    product::Product,
    tenancy::{Name, Project, ProjectId, Workspace},
};
use ringtrue_engine::{
    management::UsageRequest,
    ports::{UsageGrouping, UsageRow},
};

use super::{
    error::ConsoleError,
    forms::{SessionForm, form_error},
    page::{self, Layout, MenuSection, Pagination, ShortId, Tab, UtcTime},
    session::{ConsoleSession, WorkspaceAccess},
};
use crate::http::{app::App, parameters::Query};

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
    id: ShortId,
    role: &'static str,
    created_at: UtcTime,
}

#[derive(Debug, Template)]
#[template(path = "console/workspace.html")]
struct WorkspacePage {
    layout: Layout,
    workspace_id: ShortId,
    projects: Vec<Project>,
    pagination: Pagination,
}

#[derive(Debug, Template)]
#[template(path = "console/usage.html")]
struct UsagePage {
    layout: Layout,
    tabs: Vec<Tab>,
    lines: Vec<UsageLine>,
}

/// Created checks and their outcomes.
#[derive(Debug, Default)]
struct UsageLine {
    period: String,
    project: String,
    product: &'static str,
    created: i64,
    open: i64,
    matched: i64,
    not_matched: i64,
    expired: i64,
    failed: i64,
}

impl UsageLine {
    fn add(&mut self, row: &UsageRow) {
        self.created += row.count;
        let counter = match (row.status, row.matched) {
            (CheckStatus::Accepted | CheckStatus::Pending, _) => &mut self.open,
            (CheckStatus::Completed, Some(false)) => &mut self.not_matched,
            (CheckStatus::Completed, _) => &mut self.matched,
            (CheckStatus::Expired, _) => &mut self.expired,
            (CheckStatus::Error, _) => &mut self.failed,
        };
        *counter += row.count;
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
        role: session.user.role_in(workspace.id).map_or("", |role| role.as_str()),
        created_at: UtcTime(workspace.created_at),
    };
    let workspaces = found.items.iter().map(row).collect();
    let layout = session.layout("Workspaces");
    Ok(page::render(status, &HomePage { layout, workspaces, is_admin, pagination, name, error }))
}

/// `GET /console/workspaces/{workspace_id}`
pub async fn show_workspace(
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

/// `GET /console/workspaces/{workspace_id}/usage`
pub async fn show_usage(
    State(app): State<App>,
    access: WorkspaceAccess,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let by_month = Query::parse(query.as_deref(), &["by"])?.get("by") == Some("month");
    let (grouping, pattern) = if by_month { (UsageGrouping::Month, "%Y-%m") } else { (UsageGrouping::Day, "%Y-%m-%d") };
    let request = UsageRequest { from: None, to: None, grouping, project: None };
    let report = app.engine.management.usage_report(&access.actor, access.workspace.id, request).await?;

    let mut lines: BTreeMap<(Timestamp, ProjectId, Product), UsageLine> = BTreeMap::new();
    for row in &report.rows {
        let line = lines.entry((row.period_start, row.project, row.product)).or_insert_with(|| UsageLine {
            period: row.period_start.strftime(pattern).to_string(),
            project: app
                .engine
                .control_plane()
                .project(row.project)
                .map_or_else(String::new, |project| project.name.to_string()),
            product: row.product.title(),
            ..UsageLine::default()
        });
        line.add(row);
    }
    let layout = access.layout("Usage", MenuSection::Usage);
    let tab = |title, by: &str, is_current| Tab {
        path: format!("{}/usage?by={by}", layout.workspace_path()),
        title,
        is_current,
    };
    let tabs = vec![tab("Last 30 days", "day", !by_month), tab("Last 12 months", "month", by_month)];
    Ok(page::render_ok(&UsagePage { tabs, lines: lines.into_values().rev().collect(), layout }))
}
