//! The networks that a project may use, and for which products: what the Management API calls `allowed-networks`.

use askama::Template;
use axum::{extract::State, response::Response};
use http::StatusCode;
use ringtrue_domain::{
    account::Power,
    network::{AllowedNetwork, Network, NetworkId},
    product::Product,
    tenancy::{Mode, Project},
};
use ringtrue_engine::networks::Networks;

use super::{
    forms::{Fields, SignedForm},
    page::{self, Frame, Section},
    refusal::Refusal,
    visitor::{InProject, SignedIn},
};
use crate::http::{App, path::PathIds, problem::Problem};

/// The products that ask an operator, in the order of the columns.
const PRODUCTS: [Product; 4] = [Product::ReverseSms, Product::SecureSna, Product::Discovery, Product::SimSwap];

#[derive(Debug, Template)]
#[template(path = "console/allowed_networks.html")]
struct AllowedNetworksPage {
    frame: Frame,
    is_sandbox: bool,
    products: [&'static str; PRODUCTS.len()],
    networks: Vec<NetworkRow>,
    /// Those that this deployment does not know.
    strangers: Vec<NetworkRow>,
    was_saved: bool,
}

#[derive(Debug)]
struct NetworkRow {
    id: String,
    /// What it is called; for one that nobody knows, its id.
    name: String,
    country: String,
    aliases: String,
    cells: Vec<Cell>,
}

#[derive(Debug)]
struct Cell {
    /// Of its box.
    name: String,
    product: &'static str,
    is_allowed: bool,
    is_supported: bool,
}

/// `GET …/projects/{project_id}/networks`
pub async fn show(State(app): State<App>, who: SignedIn, ids: PathIds) -> Result<Response, Refusal> {
    let place = who.project(&app, &ids, Power::Look).await?;
    Ok(shown(&app, &who, &place, &place.project, false))
}

/// `POST …/projects/{project_id}/networks`
pub async fn change(State(app): State<App>, ids: PathIds, form: SignedForm) -> Result<Response, Refusal> {
    let SignedForm { who, fields } = form;
    let place = who.project(&app, &ids, Power::Develop).await?;
    let wanted = match fields.get("choice") {
        Some("all") => everything(app.engine.networks(), &place.project),
        Some("none") => vec![],
        _ => ticked(app.engine.networks(), &fields),
    };
    let changed =
        app.engine.replace_allowed_networks(&place.manager, place.workspace.id, place.project.id, wanted).await;
    Ok(shown(&app, &who, &place, &changed.map_err(Problem::from)?, true))
}

/// Every product of every network; what the project says of networks that nobody knows stays.
fn everything(networks: &Networks, project: &Project) -> Vec<AllowedNetwork> {
    let directory = networks.directory();
    let all = |network: &Network| AllowedNetwork { network: network.id.clone(), products: PRODUCTS.to_vec() };
    let strangers = project.allowed_networks.iter().filter(|allowed| directory.known_as(&allowed.network).is_none());
    directory.networks().map(all).chain(strangers.cloned()).collect()
}

/// A box is called `23410.sim_swap`. Ids of the same network are put together.
fn ticked(networks: &Networks, fields: &Fields) -> Vec<AllowedNetwork> {
    let directory = networks.directory();
    let mut allowed: Vec<AllowedNetwork> = vec![];
    for name in fields.names() {
        let parts = name.split_once('.').map(|(id, product)| (id.parse::<NetworkId>(), product.parse::<Product>()));
        let Some((Ok(network), Ok(product))) = parts else { continue };
        if !product.asks_an_operator() {
            continue;
        }
        let network = directory.known_as(&network).map_or(network, |known| known.id.clone());
        match allowed.iter_mut().find(|other| other.network == network) {
            Some(other) if other.products.contains(&product) => {}
            Some(other) => other.products.push(product),
            None => allowed.push(AllowedNetwork { network, products: vec![product] }),
        }
    }
    allowed
}

fn shown(app: &App, who: &SignedIn, place: &InProject, project: &Project, was_saved: bool) -> Response {
    let networks = app.engine.networks();
    let directory = networks.directory();
    let known = directory.networks().map(|network| {
        let supported = networks.supported(network);
        NetworkRow {
            name: network.name.clone(),
            country: network.country.to_string(),
            aliases: network.aliases.join(", "),
            cells: cells(&network.id, project, |product| supported.contains(&product)),
            id: network.id.to_string(),
        }
    });
    let own = project.allowed_networks.iter().filter(|allowed| directory.get(&allowed.network).is_none());
    let strangers = own.map(|allowed| NetworkRow {
        name: allowed.network.to_string(),
        country: String::new(),
        aliases: directory.known_as(&allowed.network).map(|network| network.name.clone()).unwrap_or_default(),
        cells: cells(&allowed.network, project, |_| false),
        id: allowed.network.to_string(),
    });
    let frame = Frame::of(who, "Networks allowed").in_workspace(who, &place.workspace, Section::AllowedNetworks);
    let page = AllowedNetworksPage {
        frame: frame.in_project(project),
        is_sandbox: project.mode == Mode::Sandbox,
        products: PRODUCTS.map(Product::title),
        networks: known.collect(),
        strangers: strangers.collect(),
        was_saved,
    };
    page::html(StatusCode::OK, &page)
}

fn cells(id: &NetworkId, project: &Project, is_supported: impl Fn(Product) -> bool) -> Vec<Cell> {
    let allowed = project.allowed_networks.iter().find(|allowed| allowed.network == *id);
    let cell = |product: Product| Cell {
        name: format!("{id}.{product}"),
        product: product.title(),
        is_allowed: allowed.is_some_and(|allowed| allowed.products.contains(&product)),
        is_supported: is_supported(product),
    };
    PRODUCTS.into_iter().map(cell).collect()
}
