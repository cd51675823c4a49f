//! Usage of a workspace by period, project and product.

use std::collections::BTreeMap;

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use jiff::Timestamp;
use ringtrue_domain::{account::Permission, lifecycle::CheckStatus, product::Product, tenancy::ProjectId};
use ringtrue_engine::{
    management::UsageRequest,
    ports::{UsageGrouping, UsageRow},
};

use super::{
    checks::Tab,
    error::ConsoleError,
    page::{self, Layout, Section},
    session::{ConsoleSession, WorkspaceAccess},
};
use crate::http::{App, path::PathParameters, problem::Problem, query::Query};

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

/// `GET /console/workspaces/{workspace_id}/usage`
pub async fn show(
    State(app): State<App>,
    session: ConsoleSession,
    ids: PathParameters,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let WorkspaceAccess { manager, workspace } = session.authorize_workspace(&app, &ids, Permission::View).await?;
    let by_month = Query::parse(query.as_deref(), &["by"])?.get("by") == Some("month");
    let (grouping, pattern) = if by_month { (UsageGrouping::Month, "%Y-%m") } else { (UsageGrouping::Day, "%Y-%m-%d") };
    let request = UsageRequest { from: None, to: None, grouping, project: None };
    let report = app.engine.usage_report(&manager, workspace.id, request).await.map_err(Problem::from)?;

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
    let layout = Layout::for_session(&session, "Usage").in_workspace(&session, &workspace, Section::Projects);
    let tab = |title, by: &str, is_current| Tab {
        path: format!("{}/usage?by={by}", layout.workspace_path()),
        title,
        is_current,
    };
    let tabs = vec![tab("Last 30 days", "day", !by_month), tab("Last 12 months", "month", by_month)];
    Ok(page::render_ok(&UsagePage { tabs, lines: lines.into_values().rev().collect(), layout }))
}
