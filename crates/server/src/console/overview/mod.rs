//! Overview of a project's activity.

mod metrics;

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use ringtrue_domain::{account::Permission, network::NetworkId, product::Product};
use ringtrue_engine::activity::{OverviewFilter, OverviewSpan, ProjectOverview};

use super::{
    chart::Chart,
    checks::{PRODUCTS, Tab},
    error::ConsoleError,
    page::{self, Layout, Section},
    session::{ConsoleSession, ProjectAccess},
};
use crate::http::{App, path::PathParameters, problem::Problem, query::Query};
use metrics::{FunnelStage, Metric};

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
struct SelectOption {
    value: String,
    title: String,
    is_selected: bool,
}

/// `GET …/projects/{project_id}`
pub async fn redirect(
    State(app): State<App>,
    session: ConsoleSession,
    ids: PathParameters,
) -> Result<Response, ConsoleError> {
    let ProjectAccess { project, .. } = session.authorize_project(&app, &ids, Permission::View).await?;
    let layout = Layout::for_session(&session, "").in_project(&project);
    Ok(page::see_other(&format!("{}/overview", layout.project_path())))
}

/// `GET …/projects/{project_id}/overview`
pub async fn show(
    State(app): State<App>,
    session: ConsoleSession,
    ids: PathParameters,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let ProjectAccess { workspace, project, .. } = session.authorize_project(&app, &ids, Permission::View).await?;
    let filter = parse_filter(query.as_deref())?;
    let overview = app.engine.project_overview(project.id, filter.clone()).await?;
    let layout = Layout::for_session(&session, "Overview")
        .in_workspace(&session, &workspace, Section::Overview)
        .in_project(&project);
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

fn product_options(selected: Option<Product>) -> Vec<SelectOption> {
    let option = |product: Product| SelectOption {
        value: product.as_str().to_owned(),
        title: product.title().to_owned(),
        is_selected: selected == Some(product),
    };
    PRODUCTS.into_iter().map(option).collect()
}

impl OverviewPage {
    fn new(layout: Layout, filter: &OverviewFilter, networks: Vec<SelectOption>, overview: &ProjectOverview) -> Self {
        let OverviewFilter { span, product, network } = filter;
        let total = &overview.total;
        let tab = |other: OverviewSpan| {
            let mut query = url::form_urlencoded::Serializer::new(String::new());
            query.append_pair("span", span_name(other));
            for (name, value) in
                [("product", product.map(Product::as_str)), ("network", network.as_ref().map(NetworkId::as_str))]
            {
                query.extend_pairs(value.map(|value| (name, value)));
            }
            Tab {
                path: format!("{}/overview?{}", layout.project_path(), query.finish()),
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
            products: product_options(*product),
            networks,
            is_single_network: network.is_some(),
            has_checks: total.created > 0,
            check_metrics: metrics::check_metrics(total),
            checks_chart: metrics::checks_chart(*span, &overview.periods),
            stages: metrics::funnel_stages(total),
            incomplete_metrics: metrics::incomplete_metrics(total),
            latency_chart: (total.completed > 0).then(|| metrics::latency_chart(*span, &overview.periods)),
            callback_metrics: metrics::callback_metrics(total, overview.waiting),
            attempts_chart: (total.attempts_delivered + total.attempts_failed > 0)
                .then(|| metrics::attempts_chart(*span, &overview.periods)),
            layout,
        }
    }
}
