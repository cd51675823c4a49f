//! The networks that a project may use, and for which products: what the Management API calls `allowed-networks`.

use askama::Template;
use axum::{extract::State, response::Response};
use http::StatusCode;
use ringtrue_domain::{
    account::Power,
    network::{AllowedNetwork, NetworkSelector},
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
        Some("all") => vec![AllowedNetwork { network: NetworkSelector::All, products: PRODUCTS.to_vec() }],
        Some("none") => vec![],
        _ => ticked(app.engine.networks(), &fields),
    };
    let (workspace, project) = (place.workspace.id, place.project.id);
    let changed = app.engine.replace_allowed_networks(&place.manager, workspace, project, wanted, &|_| true).await;
    Ok(shown(&app, &who, &place, &changed.map_err(Problem::from)?, true))
}

/// A box is called `23410.sim_swap`, or `*.sim_swap` for all networks. Ids of the same network are put together.
fn ticked(networks: &Networks, fields: &Fields) -> Vec<AllowedNetwork> {
    let directory = networks.directory();
    let mut allowed: Vec<AllowedNetwork> = vec![];
    for name in fields.names() {
        let parts =
            name.split_once('.').map(|(id, product)| (id.parse::<NetworkSelector>(), product.parse::<Product>()));
        let Some((Ok(network), Ok(product))) = parts else { continue };
        if !product.asks_an_operator() {
            continue;
        }
        let network = match network {
            NetworkSelector::All => NetworkSelector::All,
            NetworkSelector::One(id) => directory.known_as(&id).map_or(id, |known| known.id.clone()).into(),
        };
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
            cells: cells(&network.id.clone().into(), project, |product| supported.contains(&product)),
            id: network.id.to_string(),
        }
    });
    let all = NetworkRow {
        name: "All networks".to_owned(),
        country: String::new(),
        aliases: "also those that are added later".to_owned(),
        cells: cells(&NetworkSelector::All, project, |_| true),
        id: NetworkSelector::All.to_string(),
    };
    let single = project.allowed_networks.iter().filter_map(|allowed| match &allowed.network {
        NetworkSelector::All => None,
        NetworkSelector::One(id) => Some(id),
    });
    let strangers = single.filter(|id| directory.get(id).is_none()).map(|id| NetworkRow {
        name: id.to_string(),
        country: String::new(),
        aliases: directory.known_as(id).map(|network| network.name.clone()).unwrap_or_default(),
        cells: cells(&id.clone().into(), project, |_| false),
        id: id.to_string(),
    });
    let mut rows: Vec<_> = known.collect();
    if !rows.is_empty() {
        rows.insert(0, all);
    }
    let frame = Frame::of(who, "Networks allowed").in_workspace(who, &place.workspace, Section::AllowedNetworks);
    let page = AllowedNetworksPage {
        frame: frame.in_project(project),
        is_sandbox: project.mode == Mode::Sandbox,
        products: PRODUCTS.map(Product::title),
        networks: rows,
        strangers: strangers.collect(),
        was_saved,
    };
    page::html(StatusCode::OK, &page)
}

fn cells(network: &NetworkSelector, project: &Project, is_supported: impl Fn(Product) -> bool) -> Vec<Cell> {
    let allowed = project.allowed_networks.iter().find(|allowed| allowed.network == *network);
    let cell = |product: Product| Cell {
        name: format!("{network}.{product}"),
        product: product.title(),
        is_allowed: allowed.is_some_and(|allowed| allowed.products.contains(&product)),
        is_supported: is_supported(product),
    };
    PRODUCTS.into_iter().map(cell).collect()
}
