//! Overview of a project's activity: verifications with their funnel, or checks, with charts and callbacks.

mod breakdowns;
mod charts;
mod filter;
mod funnel;
mod metrics;
mod outcomes;

use std::sync::Arc;

use askama::Template;
use axum::{
    Extension,
    extract::{RawQuery, State},
    response::Response,
};
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::network::NetworkId;
use ringtrue_engine::{
    activity::{OverviewFilter, OverviewPeriods, OverviewSpan, ProjectOverview},
    ports::activity::ActivityScope,
};
use ringtrue_web::{app::App, routes::Routes};

use crate::{
    dependencies::ConsoleDependencies,
    observe::issues::{self, IssueView},
    page::{
        self, Layout, MenuSection, SelectOption, Tab,
        chart::{Chart, Svg, Unit},
        error::ConsoleError,
        network_name::network_name,
    },
    session::console_session::ProjectAccess,
};
use breakdowns::{Breakdown, breakdowns};
use charts::{callback_attempts_chart, checks_chart, latency_chart};
use filter::{DATE_TIME_FORMAT, parse_filter, products_with_checks, span_name};
use funnel::{HeadlineFigure, StageView, check_stages, headline, verification_stages};
use metrics::{Metric, callback_metrics, completion_metrics};
use outcomes::{Outcome, outcome_bar, outcomes};

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/workspaces/{workspace_id}/projects/{project_id}", redirect)
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/overview", show)
}

#[derive(Debug, Template)]
#[template(path = "observe/overview.html")]
struct OverviewPage {
    layout: Layout,
    issues: Vec<IssueView>,
    /// Verifications or checks.
    views: Vec<Tab>,
    view: View,
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
    /// Figures about verifications. Empty if the page shows checks.
    headline: Vec<HeadlineFigure>,
    outcomes: Vec<Outcome>,
    outcome_bar: Svg,
    completion_metrics: Vec<Metric>,
    is_estimated: bool,
    checks_chart: Chart,
    /// Empty if the page shows verifications of one network only, because the funnel covers all networks.
    stages: Vec<StageView>,
    /// Tables of outcomes, for example by network and by connector.
    breakdowns: Vec<Breakdown>,
    /// `None`: no check has completed.
    latency_chart: Option<Chart>,
    callback_metrics: Vec<Metric>,
    /// `None`: no callback was sent.
    callback_attempts_chart: Option<Chart>,
}

/// Fields of the form for a custom time span.
#[derive(Debug)]
struct CustomSpan {
    from: String,
    to: String,
    is_current: bool,
}

/// What the overview is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    Verifications,
    /// Checks that are not steps of verifications.
    Checks,
}

impl View {
    fn into_str(self) -> &'static str {
        match self {
            View::Verifications => "verifications",
            View::Checks => "checks",
        }
    }

    fn title(self) -> &'static str {
        match self {
            View::Verifications => "Verifications",
            View::Checks => "Checks",
        }
    }

    fn of_scope(scope: ActivityScope) -> Self {
        match scope {
            ActivityScope::Verifications => View::Verifications,
            ActivityScope::All | ActivityScope::Checks(_) => View::Checks,
        }
    }
}

/// `GET …/projects/{project_id}`: redirects to the overview.
async fn redirect(State(_): State<App>, access: ProjectAccess) -> Response {
    page::see_other(&format!("{}/overview", access.path()))
}

/// `GET …/projects/{project_id}/overview`
async fn show(
    State(app): State<App>,
    Extension(dependencies): Extension<Arc<ConsoleDependencies>>,
    access: ProjectAccess,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let (filter, has_view) = parse_filter(query.as_deref())?;
    let (filter, overview) = load_overview(&app, &access, filter, has_view).await?;
    let issues = issues::load(&app, &dependencies, &access).await?;
    let layout = access.layout("Overview", MenuSection::Overview);
    let networks = network_options(&app, &filter, &overview.networks);
    let breakdowns = breakdowns(&app, access.project.mode, &filter, &overview.by_network);
    let now = app.engine.clock().now();
    Ok(page::render_ok(&OverviewPage::new(layout, issues, &filter, networks, breakdowns, &overview, now)))
}

/// Loads the overview. If the user has not chosen between verifications and checks, shows checks only to a project
/// without verifications.
async fn load_overview(
    app: &App,
    access: &ProjectAccess,
    filter: OverviewFilter,
    has_view: bool,
) -> Result<(OverviewFilter, ProjectOverview), ConsoleError> {
    let (activity, project) = (&app.engine.activity, access.project.id);
    let overview = activity.project_overview(project, filter.clone()).await?;
    if has_view || overview.total.created > 0 {
        return Ok((filter, overview));
    }
    let filter = OverviewFilter { scope: ActivityScope::Checks(None), ..filter };
    let overview = activity.project_overview(project, filter.clone()).await?;
    Ok((filter, overview))
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

impl OverviewPage {
    fn new(
        layout: Layout,
        issues: Vec<IssueView>,
        filter: &OverviewFilter,
        networks: Vec<SelectOption>,
        breakdowns: Vec<Breakdown>,
        overview: &ProjectOverview,
        now: Timestamp,
    ) -> Self {
        let OverviewFilter { span, scope, network } = filter;
        let (total, periods, view) = (&overview.total, overview.span, View::of_scope(*scope));
        let product = match scope {
            ActivityScope::Checks(product) => *product,
            ActivityScope::All | ActivityScope::Verifications => None,
        };
        let path = format!("{}/overview", layout.project_path());
        let view_tab = |other: View| {
            let query = [
                ("view", Some(other.into_str())),
                ("span", Some(span_name(*span)).filter(|span| *span != "custom")),
                ("network", network.as_ref().map(NetworkId::as_str)),
            ];
            Tab { path: page::path_with_query(&path, &query), title: other.title(), is_current: other == view }
        };
        let tab = |other: OverviewSpan| {
            let query = [
                ("view", Some(view.into_str())),
                ("span", Some(span_name(other))),
                ("product", product.map(|product| product.into_str())),
                ("network", network.as_ref().map(NetworkId::as_str)),
            ];
            Tab {
                path: page::path_with_query(&path, &query),
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
            issues,
            views: [View::Verifications, View::Checks].map(view_tab).into(),
            view,
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
                products_with_checks().map(|product| (product.into_str(), product.title())),
                product.map(|product| product.into_str()),
            ),
            networks,
            product: product.map_or("", |product| product.into_str()),
            network: network.as_ref().map(ToString::to_string).unwrap_or_default(),
            is_single_network: network.is_some(),
            has_checks: total.created > 0,
            created: Unit::Count.format(total.created.max(0)),
            headline: overview
                .funnel
                .as_ref()
                .map(|funnel| headline(total, funnel, overview.completion))
                .unwrap_or_default(),
            outcomes: outcomes(view, total),
            outcome_bar: outcome_bar(total),
            completion_metrics: completion_metrics(overview.completion),
            is_estimated: overview.completion.is_some_and(|completion| !completion.is_exact),
            checks_chart: checks_chart(view, periods, &overview.periods),
            stages: match &overview.funnel {
                Some(_) if network.is_some() => vec![],
                Some(funnel) => verification_stages(total, funnel),
                None => check_stages(total),
            },
            breakdowns,
            latency_chart: (total.completed > 0).then(|| latency_chart(periods, &overview.periods)),
            callback_metrics: callback_metrics(total, overview.waiting),
            callback_attempts_chart: (total.attempts_delivered + total.attempts_failed > 0)
                .then(|| callback_attempts_chart(periods, &overview.periods)),
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
