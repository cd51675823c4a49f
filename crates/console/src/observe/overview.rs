//! Overview of a project's activity: metrics, funnel stages and charts.

use std::collections::BTreeMap;

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use jiff::{SignedDuration, Timestamp, civil::DateTime, tz::TimeZone};
use ringtrue_domain::{activity::ActivityCounts, network::NetworkId, product::Product, tenancy::Mode};
use ringtrue_engine::{
    activity::{CompletionPercentiles, OverviewFilter, OverviewPeriods, OverviewSpan, ProjectOverview},
    ports::activity::{NetworkActivity, PeriodActivity, WaitingCallbacks},
};
use ringtrue_web::{app::App, parameters::Query, problem::Problem, routes::Routes};

use crate::{
    page::{
        self, BadgeKind, Layout, MenuSection, SelectOption, Tab,
        chart::{Chart, Plot, Series, Svg, Unit, share_bar, stacked_bar},
        error::ConsoleError,
    },
    session::console_session::ProjectAccess,
};

/// Format of values of `<input type="datetime-local">`.
const DATE_TIME_FORMAT: &str = "%Y-%m-%dT%H:%M";

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/workspaces/{workspace_id}/projects/{project_id}", redirect)
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/overview", show)
}

#[derive(Debug, Template)]
#[template(path = "observe/overview.html")]
struct OverviewPage {
    layout: Layout,
    tabs: Vec<Tab>,
    span: &'static str,
    /// The time span as part of a sentence, such as "in the last hour".
    within: String,
    custom: CustomSpan,
    /// Interval at which the page refreshes itself. `None`: the span has ended, so its counts do not change.
    refresh_seconds: Option<u32>,
    products: Vec<SelectOption>,
    networks: Vec<SelectOption>,
    product: &'static str,
    network: String,
    is_single_network: bool,
    has_checks: bool,
    created: String,
    outcomes: Vec<Outcome>,
    outcome_bar: Svg,
    completion_metrics: Vec<Metric>,
    is_estimated: bool,
    checks_chart: Chart,
    stages: Vec<FunnelStage>,
    /// Tables of outcomes: one by network, one by connector.
    breakdowns: Vec<Breakdown>,
    /// `None`: no check has completed.
    latency_chart: Option<Chart>,
    callback_metrics: Vec<Metric>,
    /// `None`: no callback was sent.
    attempts_chart: Option<Chart>,
}

/// Fields of the form for a custom time span.
#[derive(Debug)]
struct CustomSpan {
    from: String,
    to: String,
    is_current: bool,
}

#[derive(Debug)]
pub struct Metric {
    pub name: &'static str,
    pub value: String,
}

/// Number of checks with one outcome.
#[derive(Debug)]
pub struct Outcome {
    pub name: &'static str,
    pub css_class: &'static str,
    pub count: String,
    /// Percentage of all checks.
    pub percent: String,
}

/// A stage of the funnel, and the number of checks that have reached it.
#[derive(Debug)]
pub struct FunnelStage {
    pub name: &'static str,
    pub count: String,
    pub percent: String,
    pub bar: Svg,
}

/// Table of outcomes by network or by connector.
#[derive(Debug)]
struct Breakdown {
    id: &'static str,
    title: &'static str,
    column: &'static str,
    note: &'static str,
    rows: Vec<BreakdownRow>,
}

#[derive(Debug)]
struct BreakdownRow {
    name: String,
    created: String,
    outcomes: Vec<Outcome>,
    bar: Svg,
    /// Percentage of matches among the checks that are no longer open.
    success: String,
}

/// `GET …/projects/{project_id}`: redirects to the overview.
async fn redirect(State(_): State<App>, access: ProjectAccess) -> Response {
    page::see_other(&format!("{}/overview", access.path()))
}

/// `GET …/projects/{project_id}/overview`
async fn show(
    State(app): State<App>,
    access: ProjectAccess,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let filter = parse_filter(query.as_deref())?;
    let overview = app.engine.activity.project_overview(access.project.id, filter.clone()).await?;
    let layout = access.layout("Overview", MenuSection::Overview);
    let networks = network_options(&app, &filter, &overview.networks);
    let breakdowns = breakdowns(&app, access.project.mode, &filter, &overview.by_network);
    let now = app.engine.clock().now();
    Ok(page::render_ok(&OverviewPage::new(layout, &filter, networks, breakdowns, &overview, now)))
}

/// Parses the filter. An empty parameter counts as absent.
fn parse_filter(query: Option<&str>) -> Result<OverviewFilter, ConsoleError> {
    let query = Query::parse(query, &["span", "from", "to", "product", "network"])?;
    let parameter = |name: &str| query.get(name).filter(|value| !value.is_empty());
    let span = match parameter("span") {
        None => OverviewSpan::Hour,
        Some("custom") => {
            let instant = |name| {
                parse_date_time(parameter(name).unwrap_or_default())
                    .ok_or_else(|| Problem::bad_request(format!("`{name}` must be a date and time in UTC")))
            };
            let (from, to) = (instant("from")?, instant("to")?);
            if to <= from {
                return Err(Problem::bad_request("`to` must be later than `from`").into());
            }
            OverviewSpan::Custom { from, to }
        }
        Some(name) => {
            let found = OverviewSpan::CURRENT.into_iter().find(|span| span_name(*span) == name);
            let problem = "`span` must be `hour`, `day`, `week`, `month` or `custom`";
            found.ok_or_else(|| Problem::bad_request(problem))?
        }
    };
    let product = match parameter("product") {
        None => None,
        Some(name) => {
            let found = Product::WITH_CHECKS.iter().copied().find(|product| product.into_str() == name);
            Some(found.ok_or_else(|| Problem::bad_request("`product` must be a product with checks"))?)
        }
    };
    let network = parameter("network").map(str::parse::<NetworkId>).transpose();
    let network = network.map_err(|error| Problem::bad_request(format!("`network`: {error}")))?;
    Ok(OverviewFilter { span, product, network })
}

/// Parses the value of `<input type="datetime-local">` as UTC.
fn parse_date_time(text: &str) -> Option<Timestamp> {
    let local = DateTime::strptime(DATE_TIME_FORMAT, text).ok()?;
    Some(local.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

fn span_name(span: OverviewSpan) -> &'static str {
    match span {
        OverviewSpan::Hour => "hour",
        OverviewSpan::Day => "day",
        OverviewSpan::Week => "week",
        OverviewSpan::Month => "month",
        OverviewSpan::Custom { .. } => "custom",
    }
}

/// Returns the options of the network filter: the networks with activity, and the selected one.
fn network_options(app: &App, filter: &OverviewFilter, active: &[NetworkId]) -> Vec<SelectOption> {
    let mut ids: Vec<&NetworkId> = active.iter().chain(&filter.network).collect();
    ids.sort_unstable();
    ids.dedup();
    let option = |id: &NetworkId| SelectOption {
        value: id.to_string(),
        title: network_name(app, id),
        is_selected: filter.network.as_ref() == Some(id),
    };
    ids.into_iter().map(option).collect()
}

fn network_name(app: &App, id: &NetworkId) -> String {
    let directory = app.engine.networks().directory();
    directory.find_by_any_id(id).map_or_else(|| id.to_string(), |network| format!("{} ({id})", network.name))
}

/// Builds the tables of outcomes by network and by connector. If all products are shown, the tables omit verifications,
/// because the checks of their steps are already counted.
fn breakdowns(app: &App, mode: Mode, filter: &OverviewFilter, by_network: &[NetworkActivity]) -> Vec<Breakdown> {
    let is_counted = |row: &&NetworkActivity| row.product != Product::Verification || filter.product.is_some();
    let note = if by_network.iter().all(|row| is_counted(&row)) { "" } else { "Verifications count by their steps." };
    let (mut networks, mut connectors) = (BTreeMap::<_, ActivityCounts>::new(), BTreeMap::<_, ActivityCounts>::new());
    for row in by_network.iter().filter(is_counted).filter(|row| row.counts.created != 0) {
        let network = row.network.as_ref().map_or_else(|| "No network".to_owned(), |id| network_name(app, id));
        *networks.entry(network).or_default() += &row.counts;
        if let Some(connector) = connector_name(app, mode, row) {
            *connectors.entry(connector).or_default() += &row.counts;
        }
    }
    let rows = |counts: BTreeMap<String, ActivityCounts>| -> Vec<BreakdownRow> {
        counts.into_iter().map(|(name, counts)| breakdown_row(name, &counts)).collect()
    };
    let tables = [
        Breakdown { id: "by-network", title: "By network", column: "Network", note, rows: rows(networks) },
        Breakdown {
            id: "by-connector",
            title: "By connector",
            column: "Connector",
            note: "The connectors that serve these networks now.",
            rows: rows(connectors),
        },
    ];
    tables.into_iter().filter(|table| !table.rows.is_empty()).collect()
}

/// Returns the names of the connectors that now serve the network and product of an activity row. `None` for
/// verifications, because only the checks of their steps use connectors.
fn connector_name(app: &App, mode: Mode, row: &NetworkActivity) -> Option<String> {
    if row.product == Product::Verification {
        return None;
    }
    if mode == Mode::Sandbox {
        return Some("Sandbox".to_owned());
    }
    let names = row.network.as_ref().map(|id| app.engine.networks().connector_names(id, row.product));
    let names = names.unwrap_or_default().join(", ");
    Some(if names.is_empty() { "No connector".to_owned() } else { names })
}

fn breakdown_row(name: String, counts: &ActivityCounts) -> BreakdownRow {
    let concluded = counts.created - counts.open_checks();
    BreakdownRow {
        name,
        created: Unit::Count.format(counts.created.max(0)),
        outcomes: outcomes(counts),
        bar: outcome_bar(counts),
        success: format_percent(counts.matched, concluded),
    }
}

impl OverviewPage {
    fn new(
        layout: Layout,
        filter: &OverviewFilter,
        networks: Vec<SelectOption>,
        breakdowns: Vec<Breakdown>,
        overview: &ProjectOverview,
        now: Timestamp,
    ) -> Self {
        let OverviewFilter { span, product, network } = filter;
        let (total, periods) = (&overview.total, overview.span);
        let tab = |other: OverviewSpan| {
            let query = [
                ("span", Some(span_name(other))),
                ("product", product.map(|product| product.into_str())),
                ("network", network.as_ref().map(NetworkId::as_str)),
            ];
            Tab {
                path: page::link(&format!("{}/overview", layout.project_path()), &query),
                title: match other {
                    OverviewSpan::Hour => "Last hour",
                    OverviewSpan::Day => "24 hours",
                    OverviewSpan::Week => "7 days",
                    OverviewSpan::Month => "30 days",
                    OverviewSpan::Custom { .. } => "Custom",
                },
                is_current: other == *span,
            }
        };
        let date_time = |at: Timestamp| at.strftime(DATE_TIME_FORMAT).to_string();
        let is_custom = matches!(span, OverviewSpan::Custom { .. });
        OverviewPage {
            tabs: OverviewSpan::CURRENT.into_iter().map(tab).collect(),
            span: span_name(*span),
            within: describe_span(*span, periods),
            custom: CustomSpan {
                from: date_time(periods.from),
                to: date_time(if is_custom { periods.to } else { now }),
                is_current: is_custom,
            },
            refresh_seconds: refresh_seconds(*span, periods, now),
            products: page::select_options(
                Product::WITH_CHECKS.iter().map(|product| (product.into_str(), product.title())),
                product.map(|product| product.into_str()),
            ),
            networks,
            product: product.map_or("", |product| product.into_str()),
            network: network.as_ref().map(ToString::to_string).unwrap_or_default(),
            is_single_network: network.is_some(),
            has_checks: total.created > 0,
            created: Unit::Count.format(total.created.max(0)),
            outcomes: outcomes(total),
            outcome_bar: outcome_bar(total),
            completion_metrics: completion_metrics(overview.completion),
            is_estimated: overview.completion.is_some_and(|completion| !completion.is_exact),
            checks_chart: checks_chart(periods, &overview.periods),
            stages: funnel_stages(total),
            breakdowns,
            latency_chart: (total.completed > 0).then(|| latency_chart(periods, &overview.periods)),
            callback_metrics: callback_metrics(total, overview.waiting),
            attempts_chart: (total.attempts_delivered + total.attempts_failed > 0)
                .then(|| attempts_chart(periods, &overview.periods)),
            layout,
        }
    }
}

fn describe_span(span: OverviewSpan, periods: OverviewPeriods) -> String {
    match span {
        OverviewSpan::Hour => "in the last hour".to_owned(),
        OverviewSpan::Day => "in the last 24 hours".to_owned(),
        OverviewSpan::Week => "in the last 7 days".to_owned(),
        OverviewSpan::Month => "in the last 30 days".to_owned(),
        OverviewSpan::Custom { .. } => {
            let format = |at: Timestamp| at.strftime("%Y-%m-%d %H:%M").to_string();
            format!("from {} to {} UTC", format(periods.from), format(periods.to))
        }
    }
}

/// Returns the interval at which the page refreshes itself. It is longer for long periods, whose counts change slowly
/// and cost more to read.
fn refresh_seconds(span: OverviewSpan, periods: OverviewPeriods, now: Timestamp) -> Option<u32> {
    let is_over = matches!(span, OverviewSpan::Custom { to, .. } if to <= now);
    let is_short = periods.length < SignedDuration::from_hours(1);
    (!is_over).then_some(if is_short { 5 } else { 30 })
}

fn metric(name: &'static str, value: i64) -> Metric {
    Metric { name, value: Unit::Count.format(value.max(0)) }
}

fn format_percent(part: i64, whole: i64) -> String {
    if whole > 0 { format!("{} %", part.max(0) * 100 / whole) } else { "–".to_owned() }
}

/// Returns name, colour and number of checks for each outcome.
fn outcome_counts(counts: &ActivityCounts) -> [(&'static str, BadgeKind, i64); 5] {
    [
        ("Match", BadgeKind::Match, counts.matched.max(0)),
        ("No match", BadgeKind::NoMatch, counts.unmatched()),
        ("Expired", BadgeKind::Expired, counts.expired.max(0)),
        ("Failed", BadgeKind::Failed, counts.failed.max(0)),
        ("Open", BadgeKind::Open, counts.open_checks()),
    ]
}

pub fn outcomes(counts: &ActivityCounts) -> Vec<Outcome> {
    let outcomes = outcome_counts(counts);
    let percentages = percentages(outcomes.map(|(.., count)| count));
    let outcome = |((name, kind, count), percent): ((&'static str, BadgeKind, i64), Option<i64>)| Outcome {
        name,
        css_class: kind.css_class(),
        count: Unit::Count.format(count),
        percent: percent.map_or_else(|| "–".to_owned(), |percent| format!("{percent} %")),
    };
    outcomes.into_iter().zip(percentages).map(outcome).collect()
}

/// Returns the counts as whole percentages that add up to 100. The largest remainders are rounded up. `None`: all
/// counts are zero.
fn percentages<const N: usize>(counts: [i64; N]) -> [Option<i64>; N] {
    let total: i64 = counts.iter().sum();
    if total <= 0 {
        return [None; N];
    }
    let mut percentages = counts.map(|count| count * 100 / total);
    let mut by_remainder: [usize; N] = std::array::from_fn(|index| index);
    by_remainder.sort_by_key(|index| std::cmp::Reverse(counts[*index] * 100 % total));
    let missing = 100 - percentages.iter().sum::<i64>();
    for index in by_remainder.into_iter().take(usize::try_from(missing).unwrap_or_default()) {
        percentages[index] += 1;
    }
    percentages.map(Some)
}

/// Draws the outcomes as parts of one bar.
fn outcome_bar(counts: &ActivityCounts) -> Svg {
    stacked_bar(&outcome_counts(counts).map(|(_, kind, count)| (kind.css_class(), count)))
}

pub fn completion_metrics(completion: Option<CompletionPercentiles>) -> Vec<Metric> {
    let metric = |name, value: fn(CompletionPercentiles) -> i64| {
        let format = |completion: CompletionPercentiles| {
            let about = if completion.is_exact { "" } else { "≈ " };
            format!("{about}{}", Unit::Millis.format(value(completion)))
        };
        Metric { name, value: completion.map_or_else(|| "–".to_owned(), format) }
    };
    vec![metric("p50", |it| it.p50), metric("p95", |it| it.p95), metric("p99", |it| it.p99)]
}

/// Returns the stages of the funnel, from creation to a match. The checks of a stage are a subset of the previous
/// stage's.
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

pub fn callback_metrics(total: &ActivityCounts, waiting: WaitingCallbacks) -> Vec<Metric> {
    let count = Unit::Count.format(i64::try_from(waiting.count).unwrap_or(i64::MAX));
    let count = if waiting.is_truncated { format!("at least {count}") } else { count };
    vec![
        metric("Delivered", total.attempts_delivered),
        metric("Failed attempts", total.attempts_failed),
        metric("Undeliverable", total.given_up),
        Metric { name: "Pending now", value: count },
    ]
}

/// Draws the number of checks by creation time and outcome.
pub fn checks_chart(span: OverviewPeriods, periods: &[PeriodActivity]) -> Chart {
    let series = [
        series("Match", "match", periods, |counts| Some(counts.matched)),
        series("No match", "no-match", periods, |counts| Some(counts.unmatched())),
        series("Expired", "expired", periods, |counts| Some(counts.expired)),
        series("Failed", "failed", periods, |counts| Some(counts.failed)),
        series("Open", "open", periods, |counts| Some(counts.open_checks())),
    ];
    plot("Checks", span, periods, series.into(), Unit::Count).bars()
}

/// Draws percentiles of the time that checks took to complete.
pub fn latency_chart(span: OverviewPeriods, periods: &[PeriodActivity]) -> Chart {
    let series = [
        series("p99", "third", periods, |counts| counts.latency_percentile(99)),
        series("p95", "second", periods, |counts| counts.latency_percentile(95)),
        series("p50", "first", periods, |counts| counts.latency_percentile(50)),
    ];
    plot("Time to completion", span, periods, series.into(), Unit::Millis).lines()
}

/// Draws the number of callback attempts by the time at which they ended.
pub fn attempts_chart(span: OverviewPeriods, periods: &[PeriodActivity]) -> Chart {
    let series = [
        series("Delivered", "match", periods, |counts| Some(counts.attempts_delivered)),
        series("Failed", "failed", periods, |counts| Some(counts.attempts_failed)),
    ];
    plot("Callback attempts", span, periods, series.into(), Unit::Count).bars()
}

fn series(
    name: &'static str,
    css_class: &'static str,
    periods: &[PeriodActivity],
    value_of: impl Fn(&ActivityCounts) -> Option<i64>,
) -> Series {
    let value = |period: &PeriodActivity| value_of(&period.counts).map(|value| value.max(0));
    Series { name, css_class, values: periods.iter().map(value).collect() }
}

fn plot(subject: &str, span: OverviewPeriods, periods: &[PeriodActivity], series: Vec<Series>, unit: Unit) -> Plot {
    let (period, per, format) = match span.length.as_mins() {
        ..=1 => ("Minute", "minute", "%H:%M"),
        2..60 => ("15 minutes from", "15 minutes", "%H:%M"),
        60 => ("Hour", "hour", "%b %-d, %H:%M"),
        _ => ("Day", "day", "%b %-d"),
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
    fn outcomes_are_apart() {
        let total = ActivityCounts {
            created: 20,
            completed: 14,
            matched: 12,
            expired: 3,
            failed: 1,
            ..ActivityCounts::default()
        };
        let shown: Vec<_> = outcomes(&total).into_iter().map(|it| (it.name, it.count, it.percent)).collect();
        let expected = [
            ("Match", "12", "60 %"),
            ("No match", "2", "10 %"),
            ("Expired", "3", "15 %"),
            ("Failed", "1", "5 %"),
            ("Open", "2", "10 %"),
        ];
        assert_eq!(shown, expected.map(|(name, count, percent)| (name, count.to_owned(), percent.to_owned())));
        assert_eq!(breakdown_row(String::new(), &total).success, "66 %", "of the 18 that are not open");
    }

    #[test]
    fn percentages_add_up() {
        for (counts, expected) in [
            ([1, 1, 1, 0], [34, 33, 33, 0]),
            ([2, 1, 0, 0], [67, 33, 0, 0]),
            ([999, 1, 0, 0], [100, 0, 0, 0]),
            ([1, 2, 3, 4], [10, 20, 30, 40]),
        ] {
            assert_eq!(percentages(counts), expected.map(Some));
        }
        assert_eq!(percentages([0, 0]), [None, None]);
    }

    #[test]
    fn percentages_of_zero_checks_are_omitted() {
        let nothing = ActivityCounts::default();
        assert!(funnel_stages(&nothing).iter().all(|stage| stage.percent == "–"));
        assert_eq!(breakdown_row(String::new(), &nothing).success, "–");
        assert!(completion_metrics(None).iter().all(|metric| metric.value == "–"));
    }

    #[test]
    fn estimates_are_marked() {
        for (is_exact, shown) in [(true, "1.5 s"), (false, "≈ 1.5 s")] {
            let completion = CompletionPercentiles { p50: 1_520, p95: 2_000, p99: 3_000, is_exact };
            assert_eq!(completion_metrics(Some(completion))[0].value, shown);
        }
    }

    #[test]
    fn date_times_of_the_form_are_utc() {
        let at = parse_date_time("2026-11-15T13:34").unwrap();
        assert_eq!(at.to_string(), "2026-11-15T13:34:00Z");
        for wrong in ["", "2026-11-15", "2026-11-15T13:34:00Z", "now"] {
            assert_eq!(parse_date_time(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn truncated_callback_count_is_a_minimum() {
        for (is_truncated, shown) in [(false, "3"), (true, "at least 3")] {
            let metrics = callback_metrics(&ActivityCounts::default(), WaitingCallbacks { count: 3, is_truncated });
            assert_eq!(metrics[3].value, shown);
        }
    }
}
