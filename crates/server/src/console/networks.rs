//! The way to operators, as this node sees it: connectors, the numbers that users text, and the networks that are known.

use askama::Template;
use axum::{extract::State, response::Response};
use ringtrue_domain::{
    network::{Audience, Network},
    phone::Msisdn,
    product::Product,
    tenancy::Mode,
};
use ringtrue_engine::ports::{BreakerPosition, Condition, ConnectorReport, Signs};

use super::{
    page::{self, Frame, Moment, Section},
    refusal::{Refusal, sentence},
    visitor::SignedIn,
};
use crate::http::{App, Routes};

pub fn routes() -> Routes {
    Routes::default().get("/console/deployment/networks", show)
}

#[derive(Debug, Template)]
#[template(path = "console/networks.html")]
struct NetworksPage {
    frame: Frame,
    node: String,
    now: Moment,
    connectors: Vec<ConnectorView>,
    pools: Vec<PoolView>,
    networks: Vec<NetworkRow>,
}

#[derive(Debug)]
struct ConnectorView {
    name: String,
    kind: &'static str,
    is_simulated: bool,
    condition: &'static str,
    tone: &'static str,
    /// What it serves, in a line.
    serves: String,
    facts: Vec<(&'static str, String)>,
    since: Option<Moment>,
    heard_at: Option<Moment>,
    mishap: Option<(String, Moment)>,
    /// What is kept from the operator, and until when.
    breakers: Vec<BreakerView>,
}

#[derive(Debug)]
struct BreakerView {
    of: &'static str,
    state: &'static str,
    tone: &'static str,
    until: Option<Moment>,
}

#[derive(Debug)]
struct PoolView {
    audience: String,
    receivers: Vec<ReceiverView>,
}

#[derive(Debug)]
struct ReceiverView {
    number: String,
    word: &'static str,
    tone: &'static str,
    by: String,
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
async fn show(State(app): State<App>, who: SignedIn) -> Result<Response, Refusal> {
    who.administrator()?;
    let directory = app.engine.networks().directory();
    let pool = |(audience, receivers): (Audience<'_>, &Vec<Msisdn>)| PoolView {
        audience: match audience {
            Audience::Network(network) => format!("{} ({})", network.name, network.id),
            Audience::Country(country) => format!("Everybody else in {country}"),
            Audience::Everybody => "Everybody else".to_owned(),
        },
        receivers: receivers.iter().map(|receiver| receiver_view(&app, receiver)).collect(),
    };
    Ok(page::ok(&NetworksPage {
        frame: Frame::of(&who, "Networks").in_deployment(Section::DeploymentNetworks),
        node: app.engine.node().0.to_string(),
        now: Moment(app.engine.clock().now()),
        connectors: app.connectors.reports().into_iter().map(connector_view).collect(),
        pools: directory.all_pools().map(pool).collect(),
        networks: directory.networks().map(|network| network_row(&app, network)).collect(),
    }))
}

fn receiver_view(app: &App, receiver: &Msisdn) -> ReceiverView {
    let lines = app.engine.networks().lines_of(receiver);
    let (word, tone) = if lines.is_empty() {
        ("no connector", "s4")
    } else if lines.iter().any(|(_, hears)| *hears) {
        ("heard", "s2")
    } else {
        ("not heard", "s5")
    };
    let by = lines.iter().map(|(connector, _)| &**connector).collect::<Vec<_>>().join(", ");
    ReceiverView { number: receiver.as_str().to_owned(), word, tone, by }
}

fn network_row(app: &App, network: &Network) -> NetworkRow {
    let products: Vec<&str> = app.engine.networks().supported(network).into_iter().map(Product::title).collect();
    NetworkRow {
        id: network.id.to_string(),
        name: network.name.clone(),
        country: network.country.to_string(),
        aliases: network.aliases.join(", "),
        prefixes: network.prefixes.len(),
        products: products.join(", "),
    }
}

fn connector_view(report: ConnectorReport) -> ConnectorView {
    let (condition, tone) = match report.condition {
        Condition::Up => ("up", "s2"),
        Condition::Impaired => ("impaired", "s4"),
        Condition::Down => ("down", "s5"),
        Condition::Waiting => ("not used yet", "s3"),
    };
    let Signs { heard_at, mishap, lag } = report.signs;
    let networks: Vec<String> = report.networks.iter().map(ToString::to_string).collect();
    let receivers: Vec<&str> = report.receivers.iter().map(Msisdn::as_str).collect();
    let is_simulated = report.mode == Mode::Sandbox;
    let serves = match (networks.is_empty(), receivers.is_empty()) {
        _ if is_simulated => "sandbox projects".to_owned(),
        (false, _) => format!("networks {}", networks.join(", ")),
        (true, false) => format!("SMS to {}", receivers.join(", ")),
        (true, true) => "nothing".to_owned(),
    };
    let mut facts = vec![];
    if let Some(links) = report.links {
        facts.push(("Binds", format!("{} of {}", links.up, links.wanted)));
    }
    if let Some(counts) = report.counts {
        facts.push(("Taken", counts.taken.to_string()));
        facts.push(("Turned away", counts.refused.to_string()));
    }
    if let Some(lag) = lag {
        facts.push(("From SMS to conclusion", format!("{} ms", lag.as_millis())));
    }
    ConnectorView {
        name: report.name.to_string(),
        kind: report.kind,
        is_simulated,
        condition,
        tone,
        serves,
        facts,
        since: report.links.map(|links| Moment(links.since)),
        heard_at: heard_at.map(Moment),
        mishap: mishap.map(|mishap| (sentence(&mishap.what), Moment(mishap.at))),
        breakers: report.breakers.iter().map(|breaker| breaker_view(breaker.of, breaker.position)).collect(),
    }
}

fn breaker_view(of: &'static str, position: BreakerPosition) -> BreakerView {
    let (state, tone, until) = match position {
        BreakerPosition::Closed => ("asked", "s2", None),
        BreakerPosition::Open { until } => ("not asked", "s5", Some(Moment(until))),
        BreakerPosition::HalfOpen => ("tried anew", "s4", None),
    };
    BreakerView { of, state, tone, until }
}
