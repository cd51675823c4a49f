//! Overview of a project's activity: metrics, funnel stages and charts.

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use jiff::Timestamp;
use ringtrue_domain::{activity::ActivityCounts, network::NetworkId, product::Product};
use ringtrue_engine::{
    activity::{OverviewFilter, OverviewSpan, ProjectOverview},
    ports::{ActivityPeriod, WaitingCallbacks},
};

use super::{
    chart::{Chart, Plot, Series, Svg, Unit, share_bar},
    checks::PRODUCTS,
    error::ConsoleError,
    page::{self, Layout, MenuSection, SelectOption, Tab},
    session::ProjectAccess,
};
use crate::http::{app::App, parameters::Query, problem::Problem};

#[derive(Debug, Template)]
#[template(path = "console/overview.html")]
struct OverviewPage {
    layout: Layout,
    tabs: Vec<Tab>,
    span: &'static str,
    /// The span as an adverbial, such as "in the last hour".
    within: &'static str,
    products: Vec<SelectOption>,
    networks: Vec<SelectOption>,
    is_single_network: bool,
    has_checks: bool,
    check_metrics: Vec<Metric>,
    checks_chart: Chart,
    stages: Vec<FunnelStage>,
    incomplete_metrics: Vec<Metric>,
    /// `None`: no check has completed.
    latency_chart: Option<Chart>,
    callback_metrics: Vec<Metric>,
    /// `None`: no callback was sent.
    attempts_chart: Option<Chart>,
}

#[derive(Debug)]
pub struct Metric {
    pub name: &'static str,
    pub value: String,
    /// Share of all checks; may be empty.
    pub percent: String,
}

/// A stage that checks have reached.
#[derive(Debug)]
pub struct FunnelStage {
    pub name: &'static str,
    pub count: String,
    pub percent: String,
    pub bar: Svg,
}

/// `GET …/projects/{project_id}`
pub async fn redirect(State(_): State<App>, access: ProjectAccess) -> Response {
    page::see_other(&format!("{}/overview", access.path()))
}

/// `GET …/projects/{project_id}/overview`
pub async fn show(
    State(app): State<App>,
    access: ProjectAccess,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let filter = parse_filter(query.as_deref())?;
    let overview = app.engine.activity.project_overview(access.project.id, filter.clone()).await?;
    let layout = access.layout("Overview", MenuSection::Overview);
    let networks = network_options(&app, &filter, &overview.networks);
    Ok(page::render_ok(&OverviewPage::new(layout, &filter, networks, &overview)))
}

/// Empty parameters do not filter.
fn parse_filter(query: Option<&str>) -> Result<OverviewFilter, ConsoleError> {
    let query = Query::parse(query, &["span", "product", "network"])?;
    let parameter = |name: &str| query.get(name).filter(|value| !value.is_empty());
    let span = match parameter("span") {
        None => OverviewSpan::Hour,
        Some(name) => {
            let found = OverviewSpan::ALL.into_iter().find(|span| span_name(*span) == name);
            found.ok_or_else(|| Problem::bad_request("`span` must be `hour`, `day` or `month`"))?
        }
    };
    let product = match parameter("product") {
        None => None,
        Some(name) => {
            let found = PRODUCTS.into_iter().find(|product| product.as_str() == name);
            Some(found.ok_or_else(|| Problem::bad_request("`product` must be a product with checks"))?)
        }
    };
    let network = parameter("network").map(str::parse::<NetworkId>).transpose();
    let network = network.map_err(|error| Problem::bad_request(format!("`network`: {error}")))?;
    Ok(OverviewFilter { span, product, network })
}

fn span_name(span: OverviewSpan) -> &'static str {
    match span {
        OverviewSpan::Hour => "hour",
        OverviewSpan::Day => "day",
        OverviewSpan::Month => "month",
    }
}

/// Networks with activity, and the selected one.
fn network_options(app: &App, filter: &OverviewFilter, active: &[NetworkId]) -> Vec<SelectOption> {
    let directory = app.engine.networks().directory();
    let mut ids: Vec<&NetworkId> = active.iter().chain(&filter.network).collect();
    ids.sort_unstable();
    ids.dedup();
    let option = |id: &NetworkId| SelectOption {
        value: id.to_string(),
        title: directory
            .find_by_any_id(id)
            .map_or_else(|| id.to_string(), |network| format!("{} ({id})", network.name)),
        is_selected: filter.network.as_ref() == Some(id),
    };
    ids.into_iter().map(option).collect()
}

impl OverviewPage {
    fn new(layout: Layout, filter: &OverviewFilter, networks: Vec<SelectOption>, overview: &ProjectOverview) -> Self {
        let OverviewFilter { span, product, network } = filter;
        let total = &overview.total;
        let tab = |other: OverviewSpan| {
            let query = [
                ("span", Some(span_name(other))),
                ("product", product.map(Product::as_str)),
                ("network", network.as_ref().map(NetworkId::as_str)),
            ];
            Tab {
                path: page::link(&format!("{}/overview", layout.project_path()), &query),
                title: match other {
                    OverviewSpan::Hour => "Last hour",
                    OverviewSpan::Day => "Last day",
                    OverviewSpan::Month => "Last 30 days",
                },
                is_current: other == *span,
            }
        };
        OverviewPage {
            tabs: OverviewSpan::ALL.into_iter().map(tab).collect(),
            span: span_name(*span),
            within: match span {
                OverviewSpan::Hour => "in the last hour",
                OverviewSpan::Day => "in the last day",
                OverviewSpan::Month => "in the last 30 days",
            },
            products: page::select_options(
                PRODUCTS.iter().map(|product| (product.as_str(), product.title())),
                product.map(Product::as_str),
            ),
            networks,
            is_single_network: network.is_some(),
            has_checks: total.created > 0,
            check_metrics: check_metrics(total),
            checks_chart: checks_chart(*span, &overview.periods),
            stages: funnel_stages(total),
            incomplete_metrics: incomplete_metrics(total),
            latency_chart: (total.completed > 0).then(|| latency_chart(*span, &overview.periods)),
            callback_metrics: callback_metrics(total, overview.waiting),
            attempts_chart: (total.attempts_delivered + total.attempts_failed > 0)
                .then(|| attempts_chart(*span, &overview.periods)),
            layout,
        }
    }
}

fn metric(name: &'static str, value: i64) -> Metric {
    Metric { name, value: Unit::Count.format(value.max(0)), percent: String::new() }
}

fn format_percent(part: i64, whole: i64) -> String {
    if whole > 0 { format!("{} %", part.max(0) * 100 / whole) } else { "–".to_owned() }
}

pub fn check_metrics(total: &ActivityCounts) -> Vec<Metric> {
    let latency = |name, percent| Metric {
        name,
        value: total.latency_percentile(percent).map_or_else(|| "–".to_owned(), |millis| Unit::Millis.format(millis)),
        percent: String::new(),
    };
    vec![
        metric("Checks", total.created),
        Metric { percent: format_percent(total.completed, total.created), ..metric("Completed", total.completed) },
        latency("Median completion time", 50),
        latency("95th percentile", 95),
    ]
}

/// Stages from creation to a match. Each is a subset of the previous one.
pub fn funnel_stages(total: &ActivityCounts) -> Vec<FunnelStage> {
    let stages = [
        ("Created", total.created),
        ("SMS received or URL opened", total.seen),
        ("Completed", total.completed),
        ("Matched", total.matched),
    ];
    let stage = |(name, count): (&'static str, i64)| FunnelStage {
        name,
        count: Unit::Count.format(count.max(0)),
        percent: format_percent(count, total.created),
        bar: share_bar(count.max(0) * 1_000 / total.created.max(1)),
    };
    stages.map(stage).into()
}

/// Checks that did not complete.
pub fn incomplete_metrics(total: &ActivityCounts) -> Vec<Metric> {
    let with_percent = |name, count| Metric { percent: format_percent(count, total.created), ..metric(name, count) };
    vec![
        with_percent("Open", total.open_checks()),
        with_percent("Expired", total.expired),
        with_percent("Failed", total.failed),
    ]
}

pub fn callback_metrics(total: &ActivityCounts, waiting: WaitingCallbacks) -> Vec<Metric> {
    let count = Unit::Count.format(i64::try_from(waiting.count).unwrap_or(i64::MAX));
    let count = if waiting.is_truncated { format!("at least {count}") } else { count };
    vec![
        metric("Delivered", total.attempts_delivered),
        metric("Failed attempts", total.attempts_failed),
        metric("Undeliverable", total.given_up),
        Metric { name: "Pending now", value: count, percent: String::new() },
    ]
}

/// Checks by creation time and outcome.
pub fn checks_chart(span: OverviewSpan, periods: &[ActivityPeriod]) -> Chart {
    let series = [
        series("Completed", "good", periods, |counts| Some(counts.completed)),
        series("Open", "open", periods, |counts| Some(counts.open_checks())),
        series("Expired", "late", periods, |counts| Some(counts.expired)),
        series("Failed", "bad", periods, |counts| Some(counts.failed)),
    ];
    plot("Checks", span, periods, series.into(), Unit::Count).bars()
}

/// Completion time of checks.
pub fn latency_chart(span: OverviewSpan, periods: &[ActivityPeriod]) -> Chart {
    let series = [
        series("95th percentile", "late", periods, |counts| counts.latency_percentile(95)),
        series("Median", "good", periods, |counts| counts.latency_percentile(50)),
    ];
    plot("Time to completion", span, periods, series.into(), Unit::Millis).lines()
}

/// Callback attempts by end time.
pub fn attempts_chart(span: OverviewSpan, periods: &[ActivityPeriod]) -> Chart {
    let series = [
        series("Delivered", "good", periods, |counts| Some(counts.attempts_delivered)),
        series("Failed", "bad", periods, |counts| Some(counts.attempts_failed)),
    ];
    plot("Callback attempts", span, periods, series.into(), Unit::Count).bars()
}

fn series(
    name: &'static str,
    css_class: &'static str,
    periods: &[ActivityPeriod],
    value_of: impl Fn(&ActivityCounts) -> Option<i64>,
) -> Series {
    let value = |period: &ActivityPeriod| value_of(&period.counts).map(|value| value.max(0));
    Series { name, css_class, values: periods.iter().map(value).collect() }
}

fn plot(subject: &str, span: OverviewSpan, periods: &[ActivityPeriod], series: Vec<Series>, unit: Unit) -> Plot {
    let (period, per, format) = match span {
        OverviewSpan::Hour => ("Minute", "minute", "%H:%M"),
        OverviewSpan::Day => ("15 minutes from", "15 minutes", "%H:%M"),
        OverviewSpan::Month => ("Day", "day", "%b %-d"),
    };
    let label = |start: Timestamp| start.strftime(format).to_string();
    Plot {
        title: format!("{subject} per {per}"),
        period,
        labels: periods.iter().map(|period| label(period.start)).collect(),
        series,
        unit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_percentages_of_created_checks() {
        let total = ActivityCounts { created: 8, seen: 6, completed: 4, matched: 3, ..ActivityCounts::default() };
        let stages = funnel_stages(&total);
        let shown: Vec<_> = stages.iter().map(|stage| (stage.count.as_str(), stage.percent.as_str())).collect();
        assert_eq!(shown, [("8", "100 %"), ("6", "75 %"), ("4", "50 %"), ("3", "37 %")]);
        assert!(stages[3].bar.to_string().contains("width=\"375\""));
    }

    #[test]
    fn percentages_of_zero_checks_are_omitted() {
        let nothing = ActivityCounts::default();
        assert!(funnel_stages(&nothing).iter().all(|stage| stage.percent == "–"));
        assert_eq!(check_metrics(&nothing)[2].value, "–");
    }

    #[test]
    fn truncated_callback_count_is_a_minimum() {
        for (is_truncated, shown) in [(false, "3"), (true, "at least 3")] {
            let metrics = callback_metrics(&ActivityCounts::default(), WaitingCallbacks { count: 3, is_truncated });
            assert_eq!(metrics[3].value, shown);
        }
    }
}
