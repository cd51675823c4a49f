//! Pages for administrators: connectors, receivers and networks as seen by this node, and the rotation of keys.

use std::sync::Arc;

use askama::Template;
use axum::{
    Extension,
    extract::{RawQuery, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::{
    key_schedule::KeyState,
    network::{Network, NetworkId, PoolScope},
    phone::Msisdn,
    product::Product,
    tenancy::Mode,
};
use ringtrue_engine::{
    keys::RotateError,
    management::KeyWithKid,
    ports::{BreakerPosition, ConnectorHealth, ConnectorState, ConnectorStatus, KeyPurpose},
};
use ringtrue_web::{app::App, parameters::Query, routes::Routes};

use crate::{
    dependencies::ConsoleDependencies,
    error::{ConsoleError, to_sentence},
    forms::SessionForm,
    network_list::{NetworkListQuery, PAGE_PARAMETER, SEARCH_PARAMETER},
    page::{self, ExactTime, Layout, MenuSection, Pagination, UtcTime},
    session::ConsoleSession,
};

const NETWORKS_PATH: &str = "/console/deployment/networks";
const KEYS_PATH: &str = "/console/deployment/keys";
/// Networks or receivers of a connector that are named.
const MAX_SERVED: usize = 10;
/// Receivers that are shown.
const MAX_RECEIVERS: usize = 100;

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/deployment/networks", show_networks)
        .get("/console/deployment/keys", show_keys)
        .post("/console/deployment/keys", rotate_key)
}

#[derive(Debug, Template)]
#[template(path = "networks.html")]
struct NetworksPage {
    layout: Layout,
    node: String,
    now: UtcTime,
    connectors: Vec<ConnectorView>,
    receivers: Vec<ReceiverView>,
    /// Receivers that are not shown.
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
    /// Summary of its networks or receivers.
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
    /// Which senders use it.
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

#[derive(Debug, Template)]
#[template(path = "keys.html")]
struct KeysPage {
    layout: Layout,
    jwks_url: String,
    groups: Vec<KeyGroup>,
    rotated: Option<&'static str>,
    error: Option<String>,
}

#[derive(Debug)]
struct KeyGroup {
    purpose: &'static str,
    title: &'static str,
    description: &'static str,
    /// Effects of a scheduled and of an immediate rotation. `None`: the key cannot be rotated.
    rotation: Option<(&'static str, &'static str)>,
    keys: Vec<KeyRow>,
}

#[derive(Debug)]
struct KeyRow {
    name: String,
    state: &'static str,
    css_class: &'static str,
    published_at: UtcTime,
    active_from: UtcTime,
    retires_at: Option<UtcTime>,
    gone_at: Option<UtcTime>,
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
    let found = query.select(directory.networks().filter(|network| query.matches(network)));
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
        last_error: last_error.map(|last_error| (to_sentence(&last_error.message), ExactTime(last_error.at))),
        breakers: report.breakers.iter().map(|breaker| breaker_view(breaker.operation, breaker.position)).collect(),
    }
}

/// The first items, and the number of the others.
fn join_first<'i>(items: impl ExactSizeIterator<Item = &'i str>) -> String {
    let more = items.len().saturating_sub(MAX_SERVED);
    let first: Vec<&str> = items.take(MAX_SERVED).collect();
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

/// `GET /console/deployment/keys`
async fn show_keys(
    State(app): State<App>,
    session: ConsoleSession,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let query = Query::parse(query.as_deref(), &["rotated"])?;
    let rotated = query.get("rotated").and_then(|name| name.parse().ok());
    render_keys(&app, &session, StatusCode::OK, rotated, None).await
}

/// `POST /console/deployment/keys`
async fn rotate_key(State(app): State<App>, form: SessionForm) -> Result<Response, ConsoleError> {
    let SessionForm { session, fields } = form;
    let administrator = session.require_admin()?;
    let purpose: Option<KeyPurpose> = fields.get("purpose").and_then(|name| name.parse().ok());
    let purpose = purpose.ok_or_else(ConsoleError::not_found)?;
    let emergency = fields.contains("emergency");
    let confirmation = if emergency { purpose.into_str() } else { "yes" };
    if fields.get("confirm") != Some(confirmation) {
        let error = if emergency {
            format!("Type `{purpose}` to confirm. Nothing was changed.")
        } else {
            "Select the checkbox to confirm. Nothing was changed.".to_owned()
        };
        return render_keys(&app, &session, StatusCode::BAD_REQUEST, None, Some(error)).await;
    }
    match app.engine.management.rotate_key(&administrator, purpose, emergency).await {
        Ok(_) => Ok(page::see_other(&format!("{KEYS_PATH}?rotated={purpose}"))),
        Err(RotateError::Store(cause)) => Err(cause.into()),
        Err(RotateError::RotationPending(_)) => {
            let error = format!("The newest {purpose} key is not active yet. Wait until it is, or rotate immediately.");
            render_keys(&app, &session, StatusCode::CONFLICT, None, Some(error)).await
        }
        Err(
            error @ (RotateError::ConcurrentChange(_)
            | RotateError::NotRotatable(_)
            | RotateError::NoKey(_)
            | RotateError::Unseal(_)),
        ) => render_keys(&app, &session, StatusCode::CONFLICT, None, Some(to_sentence(&error.to_string()))).await,
    }
}

async fn render_keys(
    app: &App,
    session: &ConsoleSession,
    status: StatusCode,
    rotated: Option<KeyPurpose>,
    error: Option<String>,
) -> Result<Response, ConsoleError> {
    let keys = app.engine.management.list_keys(&session.require_admin()?).await?;
    let groups = [
        KeyPurpose::Callback,
        KeyPurpose::SandboxCallback,
        KeyPurpose::Token,
        KeyPurpose::Seal,
        KeyPurpose::Link,
        KeyPurpose::Hash,
    ];
    let page = KeysPage {
        layout: session.layout("Keys").in_deployment(MenuSection::Keys),
        jwks_url: format!("{}/.well-known/jwks.json", app.engine.base_url()),
        groups: groups.map(|purpose| key_group(purpose, &keys)).into(),
        rotated: rotated.map(|purpose| purpose.into_str()),
        error,
    };
    Ok(page::render(status, &page))
}

fn key_group(purpose: KeyPurpose, keys: &[KeyWithKid]) -> KeyGroup {
    let (title, description) = match purpose {
        KeyPurpose::Callback => ("Callback", "Signs callbacks of live checks. The key set contains the public key."),
        KeyPurpose::SandboxCallback => (
            "Sandbox callback",
            "Signs callbacks of sandbox checks. The key set marks its public key; live receivers must reject it.",
        ),
        KeyPurpose::Token => ("Token", "Signs access tokens."),
        KeyPurpose::Seal => ("Seal", "Encrypts stored data such as callback bodies."),
        KeyPurpose::Link => ("Link", "Derives the tokens of page and device links, invitations and forms."),
        KeyPurpose::Hash => {
            ("Hash", "Hashes phone numbers and codes. It cannot be rotated: stored hashes would no longer match.")
        }
    };
    let rotation = match purpose {
        KeyPurpose::Callback | KeyPurpose::SandboxCallback => Some((
            "The new key is published immediately and used after one day. The old key stays published for another day.",
            "The new key is used immediately and all others are withdrawn. Receivers that cache the key set reject \
             callbacks until they reload it.",
        )),
        KeyPurpose::Token => Some((
            "The new key is used after ten seconds. Issued tokens stay valid.",
            "All issued access tokens become invalid immediately. Clients must request new ones.",
        )),
        KeyPurpose::Seal => Some((
            "The new key is used after ten seconds. Existing data stays readable.",
            "The new key is used immediately. Existing data stays readable.",
        )),
        KeyPurpose::Link => Some((
            "The new key is used after ten seconds. Existing links stay valid.",
            "All open links become invalid immediately: verification pages, device links, invitations. Users reload \
             open console pages.",
        )),
        KeyPurpose::Hash => None,
    };
    let of_purpose = keys.iter().rev().filter(|key| key.summary.purpose == purpose);
    KeyGroup { purpose: purpose.into_str(), title, description, rotation, keys: of_purpose.map(key_row).collect() }
}

fn key_row(KeyWithKid { summary, kid }: &KeyWithKid) -> KeyRow {
    KeyRow {
        name: kid.clone().unwrap_or_else(|| summary.id.0.to_string()),
        state: summary.state.into_str(),
        css_class: match summary.state {
            KeyState::Active => "s2",
            KeyState::Next => "s3",
            KeyState::Retiring => "s4",
            KeyState::Gone => "s5",
        },
        published_at: UtcTime(summary.schedule.published_at),
        active_from: UtcTime(summary.schedule.active_from),
        retires_at: summary.schedule.retires_at.map(UtcTime),
        gone_at: summary.schedule.gone_at.map(UtcTime),
    }
}
