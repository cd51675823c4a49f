//! Page that shows a workspace's usage by day or month, as a chart, a table and a CSV file.

use std::collections::BTreeMap;

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use jiff::{Span, Timestamp, tz::TimeZone};
use ringtrue_domain::{lifecycle::CheckStatus, product::Product, tenancy::ProjectId};
use ringtrue_engine::{
    ports::activity::{UsagePeriod, UsageRow},
    tenants::{UsageReport, UsageRequest},
};
use ringtrue_web::{app::App, parameters::Query, routes::Routes};

use crate::{
    page::{
        self, Layout, MenuSection, Tab,
        chart::{Chart, Plot, Series, Unit},
        csv::CsvFile,
        error::ConsoleError,
    },
    session::console_session::WorkspaceAccess,
};

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/workspaces/{workspace_id}/usage", show)
        .get("/console/workspaces/{workspace_id}/usage.csv", export)
}

#[derive(Debug, Template)]
#[template(path = "workspace/usage.html")]
struct UsagePage {
    layout: Layout,
    tabs: Vec<Tab>,
    /// Chart of the created checks. `None`: there are none.
    chart: Option<Chart>,
    csv_path: String,
    lines: Vec<UsageLine>,
}

/// Number of created checks, in total and by outcome.
#[derive(Clone, Copy, Debug, Default)]
struct UsageCounts {
    created: i64,
    open: i64,
    matched: i64,
    not_matched: i64,
    expired: i64,
    failed: i64,
}

impl UsageCounts {
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

#[derive(Debug)]
struct UsageLine {
    period: String,
    project_id: ProjectId,
    project: String,
    product: Product,
    counts: UsageCounts,
}

/// The requested usage report, and how to show it.
struct UsageView {
    report: UsageReport,
    by_month: bool,
}

impl UsageView {
    async fn load(app: &App, access: &WorkspaceAccess, query: Option<&str>) -> Result<Self, ConsoleError> {
        let by_month = Query::parse(query, &["by"])?.get("by") == Some("month");
        let period = if by_month { UsagePeriod::Month } else { UsagePeriod::Day };
        let request = UsageRequest { from: None, to: None, period, project: None };
        let report = app.engine.management.usage_report(&access.actor, access.workspace.id, request).await?;
        Ok(UsageView { report, by_month })
    }

    fn format_period(&self, start: Timestamp) -> String {
        start.strftime(if self.by_month { "%Y-%m" } else { "%Y-%m-%d" }).to_string()
    }

    /// Returns the lines of the table, with the newest period first.
    fn lines(&self, app: &App) -> Vec<UsageLine> {
        let mut lines: BTreeMap<(Timestamp, ProjectId, Product), UsageCounts> = BTreeMap::new();
        for row in &self.report.rows {
            lines.entry((row.period_start, row.project, row.product)).or_default().add(row);
        }
        let project_name = |id| app.engine.control_plane().project(id).map(|project| project.name.to_string());
        let line = |((start, project, product), counts)| UsageLine {
            period: self.format_period(start),
            project_id: project,
            project: project_name(project).unwrap_or_default(),
            product,
            counts,
        };
        lines.into_iter().rev().map(line).collect()
    }

    /// Draws the usage of all projects and products together.
    fn chart(&self) -> Option<Chart> {
        if self.report.rows.is_empty() {
            return None;
        }
        let mut periods: BTreeMap<Timestamp, UsageCounts> =
            self.period_starts().into_iter().map(|at| (at, UsageCounts::default())).collect();
        for row in &self.report.rows {
            periods.entry(row.period_start).or_default().add(row);
        }
        let series = |name, css_class, value: fn(&UsageCounts) -> i64| Series {
            name,
            css_class,
            values: periods.values().map(|counts| Some(value(counts).max(0))).collect(),
        };
        let (title, period) = if self.by_month { ("Checks per month", "Month") } else { ("Checks per day", "Day") };
        let plot = Plot {
            title: title.to_owned(),
            period,
            labels: periods.keys().map(|at| self.format_period(*at)).collect(),
            series: vec![
                series("Match", "match", |counts| counts.matched),
                series("No match", "no-match", |counts| counts.not_matched),
                series("Open", "open", |counts| counts.open),
                series("Expired", "expired", |counts| counts.expired),
                series("Error", "failed", |counts| counts.failed),
            ],
            unit: Unit::Count,
        };
        Some(plot.into_bar_chart())
    }

    /// Returns the start of each period in the report, including periods without checks.
    fn period_starts(&self) -> Vec<Timestamp> {
        let step = if self.by_month { Span::new().months(1) } else { Span::new().days(1) };
        let first = self.report.from.to_zoned(TimeZone::UTC).date();
        let first = if self.by_month { first.first_of_month() } else { first };
        let start = |date: jiff::civil::Date| date.to_zoned(TimeZone::UTC).ok().map(|start| start.timestamp());
        let dates = std::iter::successors(Some(first), |date| date.checked_add(step).ok());
        dates.map_while(start).take_while(|at| *at < self.report.to).collect()
    }
}

/// `GET /console/workspaces/{workspace_id}/usage`
async fn show(
    State(app): State<App>,
    access: WorkspaceAccess,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let usage = UsageView::load(&app, &access, query.as_deref()).await?;
    let layout = access.layout("Usage", MenuSection::Usage);
    let tab = |title, by: &str, is_current| Tab {
        path: format!("{}/usage?by={by}", layout.workspace_path()),
        title,
        is_current,
    };
    let by_month = usage.by_month;
    Ok(page::render_ok(&UsagePage {
        tabs: vec![tab("Last 30 days", "day", !by_month), tab("Last 12 months", "month", by_month)],
        chart: usage.chart(),
        csv_path: format!("{}/usage.csv?by={}", layout.workspace_path(), if by_month { "month" } else { "day" }),
        lines: usage.lines(&app),
        layout,
    }))
}

/// `GET /console/workspaces/{workspace_id}/usage.csv`
async fn export(
    State(app): State<App>,
    access: WorkspaceAccess,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let usage = UsageView::load(&app, &access, query.as_deref()).await?;
    let header =
        ["period", "project_id", "project", "product", "created", "match", "no_match", "expired", "error", "open"];
    let mut file = CsvFile::new(&header);
    for UsageLine { period, project_id, project, product, counts } in usage.lines(&app) {
        let UsageCounts { created, open, matched, not_matched, expired, failed } = counts;
        let counts = [created, matched, not_matched, expired, failed, open].map(|count| count.to_string());
        let names = [period, project_id.to_string(), project, product.into_str().to_owned()];
        file.push_row(&names.into_iter().chain(counts).collect::<Vec<_>>());
    }
    Ok(file.into_response("usage"))
}
