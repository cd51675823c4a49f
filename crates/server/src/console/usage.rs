//! What a workspace has used: the counters of the Management API, a line for each period, project and product.

use std::collections::BTreeMap;

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use jiff::Timestamp;
use ringtrue_domain::{account::Power, lifecycle::Status, product::Product, tenancy::ProjectId};
use ringtrue_engine::{
    management::UsageRequest,
    ports::{UsageGrouping, UsageRow},
};

use super::{
    checks::Tab,
    page::{self, Frame, Section},
    refusal::Refusal,
    visitor::{InWorkspace, SignedIn},
};
use crate::http::{App, path::PathIds, problem::Problem, query::Query};

#[derive(Debug, Template)]
#[template(path = "console/usage.html")]
struct UsagePage {
    frame: Frame,
    tabs: Vec<Tab>,
    lines: Vec<Line>,
}

/// What was made of a product, and how it has ended so far.
#[derive(Debug, Default)]
struct Line {
    period: String,
    project: String,
    product: &'static str,
    made: i64,
    open: i64,
    matched: i64,
    not_matched: i64,
    expired: i64,
    failed: i64,
}

impl Line {
    fn add(&mut self, row: &UsageRow) {
        self.made += row.count;
        let counter = match (row.status, row.matched) {
            (Status::Accepted | Status::Pending, _) => &mut self.open,
            (Status::Completed, Some(false)) => &mut self.not_matched,
            (Status::Completed, _) => &mut self.matched,
            (Status::Expired, _) => &mut self.expired,
            (Status::Error, _) => &mut self.failed,
        };
        *counter += row.count;
    }
}

/// `GET /console/workspaces/{workspace_id}/usage`
pub async fn show(
    State(app): State<App>,
    who: SignedIn,
    ids: PathIds,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let InWorkspace { manager, workspace } = who.workspace(&app, &ids, Power::Look).await?;
    let by_month = Query::parse(query.as_deref(), &["by"])?.get("by") == Some("month");
    let (grouping, pattern) = if by_month { (UsageGrouping::Month, "%Y-%m") } else { (UsageGrouping::Day, "%Y-%m-%d") };
    let request = UsageRequest { from: None, to: None, grouping, project: None };
    let report = app.engine.usage(&manager, workspace.id, request).await.map_err(Problem::from)?;

    let mut lines: BTreeMap<(Timestamp, ProjectId, Product), Line> = BTreeMap::new();
    for row in &report.rows {
        let line = lines.entry((row.period_start, row.project, row.product)).or_insert_with(|| Line {
            period: row.period_start.strftime(pattern).to_string(),
            project: app.engine.control_plane().project(row.project).map_or_else(String::new, |of| of.name.to_string()),
            product: row.product.title(),
            ..Line::default()
        });
        line.add(row);
    }
    let frame = Frame::of(&who, "Usage").in_workspace(&who, &workspace, Section::Projects);
    let tab = |title, by: &str, is_current| Tab {
        path: format!("{}/usage?by={by}", frame.workspace_path()),
        title,
        is_current,
    };
    let tabs = vec![tab("Last 30 days", "day", !by_month), tab("Last 12 months", "month", by_month)];
    Ok(page::ok(&UsagePage { tabs, lines: lines.into_values().rev().collect(), frame }))
}
