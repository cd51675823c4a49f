//! Networks and products that a project may use (`allowed-networks` in the Management API).

use askama::Template;
use axum::{extract::State, response::Response};
use http::StatusCode;
use ringtrue_domain::{
    account::Permission,
    network::{AllowedNetwork, NetworkSelector},
    product::Product,
    tenancy::{Mode, Project},
};
use ringtrue_engine::networks::Networks;

use super::{
    error::ConsoleError,
    forms::{FormFields, SessionForm},
    page::{self, Layout, Section},
    session::{ConsoleSession, ProjectAccess},
};
use crate::http::{App, path::PathParameters, problem::Problem};

/// Products that require an operator, in the order of the columns.
const PRODUCTS: [Product; 4] = [Product::ReverseSms, Product::SecureSna, Product::Discovery, Product::SimSwap];

#[derive(Debug, Template)]
#[template(path = "console/allowed_networks.html")]
struct AllowedNetworksPage {
    layout: Layout,
    is_sandbox: bool,
    products: [&'static str; PRODUCTS.len()],
    networks: Vec<NetworkRow>,
    /// Allowed networks that are not configured in this deployment.
    unknown_networks: Vec<NetworkRow>,
    was_saved: bool,
}

#[derive(Debug)]
struct NetworkRow {
    id: String,
    /// The id if the network is unknown.
    name: String,
    country: String,
    aliases: String,
    cells: Vec<ProductCell>,
}

#[derive(Debug)]
struct ProductCell {
    /// Name of the checkbox.
    name: String,
    product: &'static str,
    is_allowed: bool,
    is_supported: bool,
}

/// `GET …/projects/{project_id}/networks`
pub async fn show(
    State(app): State<App>,
    session: ConsoleSession,
    ids: PathParameters,
) -> Result<Response, ConsoleError> {
    let access = session.authorize_project(&app, &ids, Permission::View).await?;
    Ok(render_page(&app, &session, &access, &access.project, false))
}

/// `POST …/projects/{project_id}/networks`
pub async fn replace(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let SessionForm { session, fields } = form;
    let access = session.authorize_project(&app, &ids, Permission::Develop).await?;
    let allowed = match fields.get("choice") {
        Some("all") => vec![AllowedNetwork { network: NetworkSelector::All, products: PRODUCTS.to_vec() }],
        Some("none") => vec![],
        _ => parse_allowed_networks(app.engine.networks(), &fields),
    };
    let (workspace, project) = (access.workspace.id, access.project.id);
    let updated = app.engine.replace_allowed_networks(&access.manager, workspace, project, allowed, &|_| true).await;
    Ok(render_page(&app, &session, &access, &updated.map_err(Problem::from)?, true))
}

/// Checkboxes are named `23410.sim_swap`, or `*.sim_swap` for all networks. Ids of the same network are merged.
fn parse_allowed_networks(networks: &Networks, fields: &FormFields) -> Vec<AllowedNetwork> {
    let directory = networks.directory();
    let mut allowed: Vec<AllowedNetwork> = vec![];
    for name in fields.names() {
        let parts =
            name.split_once('.').map(|(id, product)| (id.parse::<NetworkSelector>(), product.parse::<Product>()));
        let Some((Ok(network), Ok(product))) = parts else { continue };
        if !product.requires_operator() {
            continue;
        }
        let network = match network {
            NetworkSelector::All => NetworkSelector::All,
            NetworkSelector::One(id) => directory.find_by_any_id(&id).map_or(id, |known| known.id.clone()).into(),
        };
        match allowed.iter_mut().find(|other| other.network == network) {
            Some(other) if other.products.contains(&product) => {}
            Some(other) => other.products.push(product),
            None => allowed.push(AllowedNetwork { network, products: vec![product] }),
        }
    }
    allowed
}

fn render_page(
    app: &App,
    session: &ConsoleSession,
    access: &ProjectAccess,
    project: &Project,
    was_saved: bool,
) -> Response {
    let networks = app.engine.networks();
    let directory = networks.directory();
    let known = directory.networks().map(|network| {
        let supported = networks.supported_products(network);
        NetworkRow {
            name: network.name.clone(),
            country: network.country.to_string(),
            aliases: network.aliases.join(", "),
            cells: product_cells(&network.id.clone().into(), project, |product| supported.contains(&product)),
            id: network.id.to_string(),
        }
    });
    let all = NetworkRow {
        name: "All networks".to_owned(),
        country: String::new(),
        aliases: "including networks added later".to_owned(),
        cells: product_cells(&NetworkSelector::All, project, |_| true),
        id: NetworkSelector::All.to_string(),
    };
    let single = project.allowed_networks.iter().filter_map(|allowed| match &allowed.network {
        NetworkSelector::All => None,
        NetworkSelector::One(id) => Some(id),
    });
    let unknown_networks = single.filter(|id| directory.get(id).is_none()).map(|id| NetworkRow {
        name: id.to_string(),
        country: String::new(),
        aliases: directory.find_by_any_id(id).map(|network| network.name.clone()).unwrap_or_default(),
        cells: product_cells(&id.clone().into(), project, |_| false),
        id: id.to_string(),
    });
    let mut rows: Vec<_> = known.collect();
    if !rows.is_empty() {
        rows.insert(0, all);
    }
    let layout = Layout::for_session(session, "Allowed networks").in_workspace(
        session,
        &access.workspace,
        Section::AllowedNetworks,
    );
    let page = AllowedNetworksPage {
        layout: layout.in_project(project),
        is_sandbox: project.mode == Mode::Sandbox,
        products: PRODUCTS.map(Product::title),
        networks: rows,
        unknown_networks: unknown_networks.collect(),
        was_saved,
    };
    page::render(StatusCode::OK, &page)
}

fn product_cells(
    network: &NetworkSelector,
    project: &Project,
    is_supported: impl Fn(Product) -> bool,
) -> Vec<ProductCell> {
    let allowed = project.allowed_networks.iter().find(|allowed| allowed.network == *network);
    let cell = |product: Product| ProductCell {
        name: format!("{network}.{product}"),
        product: product.title(),
        is_allowed: allowed.is_some_and(|allowed| allowed.products.contains(&product)),
        is_supported: is_supported(product),
    };
    PRODUCTS.into_iter().map(cell).collect()
}
