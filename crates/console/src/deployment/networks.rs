//! Page with the connectors, receivers and networks, as this node sees them.

use std::sync::Arc;

use askama::Template;
use axum::{
    Extension,
    extract::{RawQuery, State},
    response::Response,
};
use ringtrue_domain::{
    network::{Network, NetworkId, PoolScope},
    phone::Msisdn,
    product::Product,
    tenancy::Mode,
};
use ringtrue_engine::ports::connectors::{BreakerPosition, ConnectorHealth, ConnectorState, ConnectorStatus};
use ringtrue_web::{app::App, parameters::Query, routes::Routes};

use crate::{
    dependencies::ConsoleDependencies,
    page::{
        self, ExactTime, Layout, MenuSection, Pagination, UtcTime,
        error::{ConsoleError, to_sentence},
        network_list::{NetworkListQuery, PAGE_PARAMETER, SEARCH_PARAMETER},
    },
    session::console_session::ConsoleSession,
};

const NETWORKS_PATH: &str = "/console/deployment/networks";

/// Maximum number of networks or receivers that the page lists for a connector.
const MAX_LISTED_PER_CONNECTOR: usize = 10;
/// Maximum number of receivers that the page shows.
const MAX_RECEIVERS: usize = 100;

pub fn routes() -> Routes {
    Routes::default().get("/console/deployment/networks", show_networks)
}

#[derive(Debug, Template)]
#[template(path = "deployment/networks.html")]
struct NetworksPage {
    layout: Layout,
    node: String,
    now: UtcTime,
    connectors: Vec<ConnectorView>,
    receivers: Vec<ReceiverView>,
    /// Number of receivers that the page does not show.
    further_receivers: usize,
    search: String,
    networks: Vec<NetworkRow>,
    has_networks: bool,
    pagination: Pagination,
}

#[derive(Debug)]
struct ConnectorView {
    name: String,
    kind: &'static str,
    is_simulated: bool,
    state: &'static str,
    css_class: &'static str,
    /// Summary of the networks or receivers that the connector serves.
    serves: String,
    facts: Vec<(&'static str, String)>,
    since: Option<UtcTime>,
    last_success_at: Option<UtcTime>,
    last_error: Option<(String, ExactTime)>,
    breakers: Vec<BreakerView>,
}

#[derive(Debug)]
struct BreakerView {
    operation: &'static str,
    state: &'static str,
    css_class: &'static str,
    until: Option<ExactTime>,
}

#[derive(Debug)]
struct ReceiverView {
    /// Describes the networks whose subscribers send their SMS to this receiver.
    scope: String,
    number: String,
    state: &'static str,
    css_class: &'static str,
    connectors: String,
}

#[derive(Debug)]
struct NetworkRow {
    id: String,
    name: String,
    country: String,
    aliases: String,
    prefixes: usize,
    products: String,
}

/// `GET /console/deployment/networks`
async fn show_networks(
    State(app): State<App>,
    Extension(dependencies): Extension<Arc<ConsoleDependencies>>,
    session: ConsoleSession,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    session.require_admin()?;
    let query = NetworkListQuery::parse(&Query::parse(query.as_deref(), &[SEARCH_PARAMETER, PAGE_PARAMETER])?)?;
    let directory = app.engine.networks().directory();
    let found = query.paginate(directory.networks().filter(|network| query.matches(network)));
    let receivers = || {
        let pools = directory.all_pools().filter(|(scope, _)| match scope {
            PoolScope::Network(network) => query.matches(network),
            PoolScope::Country(country) => !query.is_search() || country.to_string().eq_ignore_ascii_case(&query.text),
            PoolScope::Global => !query.is_search(),
        });
        pools.flat_map(|(scope, receivers)| receivers.iter().map(move |receiver| (scope, receiver)))
    };
    Ok(page::render_ok(&NetworksPage {
        layout: session.layout("Networks").in_deployment(MenuSection::DeploymentNetworks),
        node: app.engine.node.id().0.to_string(),
        now: UtcTime(app.engine.clock().now()),
        connectors: dependencies.connectors.statuses().into_iter().map(connector_view).collect(),
        receivers: receivers()
            .take(MAX_RECEIVERS)
            .map(|(scope, receiver)| receiver_view(&app, scope, receiver))
            .collect(),
        further_receivers: receivers().count().saturating_sub(MAX_RECEIVERS),
        has_networks: directory.networks().next().is_some(),
        pagination: Pagination::new(&found, NETWORKS_PATH, &query.link_parameters()),
        networks: found.items.into_iter().map(|network| network_row(&app, network)).collect(),
        search: query.text,
    }))
}

fn receiver_view(app: &App, scope: PoolScope<'_>, receiver: &Msisdn) -> ReceiverView {
    let scope = match scope {
        PoolScope::Network(network) => format!("{} ({})", network.name, network.id),
        PoolScope::Country(country) => format!("Other networks in {country}"),
        PoolScope::Global => "All other networks".to_owned(),
    };
    let bindings = app.engine.networks().connectors_of_receiver(receiver);
    let (state, css_class) = if bindings.is_empty() {
        ("no connector", "s4")
    } else if bindings.iter().any(|(_, is_up)| *is_up) {
        ("in service", "s2")
    } else {
        ("out of service", "s5")
    };
    let names = bindings.iter().map(|(connector, _)| &**connector).collect::<Vec<_>>().join(", ");
    ReceiverView { scope, number: receiver.as_str().to_owned(), state, css_class, connectors: names }
}

fn network_row(app: &App, network: &Network) -> NetworkRow {
    let products: Vec<&str> =
        app.engine.networks().supported_products(network).into_iter().map(Product::title).collect();
    NetworkRow {
        id: network.id.to_string(),
        name: network.name.clone(),
        country: network.country.to_string(),
        aliases: network.aliases.join(", "),
        prefixes: network.prefixes.len(),
        products: products.join(", "),
    }
}

fn connector_view(report: ConnectorStatus) -> ConnectorView {
    let (state, css_class) = match report.state {
        ConnectorState::Up => ("up", "s2"),
        ConnectorState::Degraded => ("degraded", "s4"),
        ConnectorState::Down => ("down", "s5"),
        ConnectorState::Standby => ("standby: another node is bound", "s3"),
        ConnectorState::Idle => ("idle", "s3"),
    };
    let ConnectorHealth { last_success_at, last_error, conclusion_lag: lag } = report.health;
    let (networks, receivers) = (&report.networks, &report.receivers);
    let is_simulated = report.mode == Mode::Sandbox;
    let serves = match (networks.is_empty(), receivers.is_empty()) {
        _ if is_simulated => "sandbox projects".to_owned(),
        (false, _) => format!("networks {}", join_first(networks.iter().map(NetworkId::as_str))),
        (true, false) => format!("SMS to {}", join_first(receivers.iter().map(Msisdn::as_str))),
        (true, true) => "no networks or receivers".to_owned(),
    };
    let mut facts = vec![];
    if let Some(links) = report.link_summary {
        facts.push(("Binds", format!("{} of {}", links.up, links.configured)));
    }
    if let Some(counts) = report.counts {
        facts.push(("Accepted", counts.accepted.to_string()));
        facts.push(("Rejected", counts.rejected.to_string()));
    }
    if let Some(lag) = lag {
        facts.push(("Conclusion latency", format!("{} ms", lag.as_millis())));
    }
    ConnectorView {
        name: report.name.to_string(),
        kind: report.kind,
        is_simulated,
        state,
        css_class,
        serves,
        facts,
        since: report.link_summary.map(|links| UtcTime(links.since)),
        last_success_at: last_success_at.map(UtcTime),
        last_error: last_error.map(|last_error| (to_sentence(&last_error.message), ExactTime(last_error.at))),
        breakers: report.breakers.iter().map(|breaker| breaker_view(breaker.operation, breaker.position)).collect(),
    }
}

/// Joins the first [`MAX_LISTED_PER_CONNECTOR`] items and says how many items were left out.
fn join_first<'i>(items: impl ExactSizeIterator<Item = &'i str>) -> String {
    let more = items.len().saturating_sub(MAX_LISTED_PER_CONNECTOR);
    let first: Vec<&str> = items.take(MAX_LISTED_PER_CONNECTOR).collect();
    match more {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

fn breaker_view(operation: &'static str, position: BreakerPosition) -> BreakerView {
    let (state, css_class, until) = match position {
        BreakerPosition::Closed => ("closed", "s2", None),
        BreakerPosition::Open { until } => ("open", "s5", Some(ExactTime(until))),
        BreakerPosition::HalfOpen => ("half-open", "s4", None),
    };
    BreakerView { operation, state, css_class, until }
}
