//! Connectors, receivers and networks as seen by this node.

use askama::Template;
use axum::{extract::State, response::Response};
use ringtrue_domain::{
    network::{Network, PoolScope},
    phone::Msisdn,
    product::Product,
    tenancy::Mode,
};
use ringtrue_engine::ports::{BreakerPosition, ConnectorHealth, ConnectorState, ConnectorStatus};

use super::{
    error::{ConsoleError, to_sentence},
    page::{self, Layout, Section, UtcTime},
    session::ConsoleSession,
};
use crate::http::{App, Routes};

pub fn routes() -> Routes {
    Routes::default().get("/console/deployment/networks", show)
}

#[derive(Debug, Template)]
#[template(path = "console/networks.html")]
struct NetworksPage {
    layout: Layout,
    node: String,
    now: UtcTime,
    connectors: Vec<ConnectorView>,
    pools: Vec<PoolView>,
    networks: Vec<NetworkRow>,
}

#[derive(Debug)]
struct ConnectorView {
    name: String,
    kind: &'static str,
    is_simulated: bool,
    state: &'static str,
    css_class: &'static str,
    /// Summary of its networks or receivers.
    serves: String,
    facts: Vec<(&'static str, String)>,
    since: Option<UtcTime>,
    last_success_at: Option<UtcTime>,
    last_error: Option<(String, UtcTime)>,
    breakers: Vec<BreakerView>,
}

#[derive(Debug)]
struct BreakerView {
    operation: &'static str,
    state: &'static str,
    css_class: &'static str,
    until: Option<UtcTime>,
}

#[derive(Debug)]
struct PoolView {
    scope: String,
    receivers: Vec<ReceiverView>,
}

#[derive(Debug)]
struct ReceiverView {
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
async fn show(State(app): State<App>, session: ConsoleSession) -> Result<Response, ConsoleError> {
    session.require_admin()?;
    let directory = app.engine.networks().directory();
    let pool = |(scope, receivers): (PoolScope<'_>, &Vec<Msisdn>)| PoolView {
        scope: match scope {
            PoolScope::Network(network) => format!("{} ({})", network.name, network.id),
            PoolScope::Country(country) => format!("Other networks in {country}"),
            PoolScope::Global => "All other networks".to_owned(),
        },
        receivers: receivers.iter().map(|receiver| receiver_view(&app, receiver)).collect(),
    };
    Ok(page::render_ok(&NetworksPage {
        layout: Layout::for_session(&session, "Networks").in_deployment(Section::DeploymentNetworks),
        node: app.engine.node().0.to_string(),
        now: UtcTime(app.engine.clock().now()),
        connectors: app.connectors.statuses().into_iter().map(connector_view).collect(),
        pools: directory.all_pools().map(pool).collect(),
        networks: directory.networks().map(|network| network_row(&app, network)).collect(),
    }))
}

fn receiver_view(app: &App, receiver: &Msisdn) -> ReceiverView {
    let bindings = app.engine.networks().connectors_of_receiver(receiver);
    let (state, css_class) = if bindings.is_empty() {
        ("no connector", "s4")
    } else if bindings.iter().any(|(_, is_up)| *is_up) {
        ("in service", "s2")
    } else {
        ("out of service", "s5")
    };
    let names = bindings.iter().map(|(connector, _)| &**connector).collect::<Vec<_>>().join(", ");
    ReceiverView { number: receiver.as_str().to_owned(), state, css_class, connectors: names }
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
        ConnectorState::Idle => ("idle", "s3"),
    };
    let ConnectorHealth { last_success_at, last_error, conclusion_lag: lag } = report.health;
    let networks: Vec<String> = report.networks.iter().map(ToString::to_string).collect();
    let receivers: Vec<&str> = report.receivers.iter().map(Msisdn::as_str).collect();
    let is_simulated = report.mode == Mode::Sandbox;
    let serves = match (networks.is_empty(), receivers.is_empty()) {
        _ if is_simulated => "sandbox projects".to_owned(),
        (false, _) => format!("networks {}", networks.join(", ")),
        (true, false) => format!("SMS to {}", receivers.join(", ")),
        (true, true) => "no networks or receivers".to_owned(),
    };
    let mut facts = vec![];
    if let Some(links) = report.links {
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
        since: report.links.map(|links| UtcTime(links.since)),
        last_success_at: last_success_at.map(UtcTime),
        last_error: last_error.map(|last_error| (to_sentence(&last_error.message), UtcTime(last_error.at))),
        breakers: report.breakers.iter().map(|breaker| breaker_view(breaker.operation, breaker.position)).collect(),
    }
}

fn breaker_view(operation: &'static str, position: BreakerPosition) -> BreakerView {
    let (state, css_class, until) = match position {
        BreakerPosition::Closed => ("closed", "s2", None),
        BreakerPosition::Open { until } => ("open", "s5", Some(UtcTime(until))),
        BreakerPosition::HalfOpen => ("half-open", "s4", None),
    };
    BreakerView { operation, state, css_class, until }
}
