//! Page to choose the networks that a project may use, for each product.

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::{
    account::Permission,
    network::{AllowedNetwork, Network, NetworkId, NetworkSelector},
    product::Product,
    tenancy::{Mode, Project},
};
use ringtrue_engine::{lookups::networks::Networks, tenants::ManagementError};
use ringtrue_web::{
    app::App,
    parameters::{PathParameters, Query},
    routes::Routes,
};

use crate::{
    page::{
        self, Layout, MenuSection, Pagination,
        error::ConsoleError,
        network_list::{NetworkListQuery, PAGE_PARAMETER, SEARCH_PARAMETER},
    },
    session::{
        console_session::ProjectAccess,
        forms::{FormFields, SessionForm},
    },
};

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/networks", show_networks)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/networks", replace_networks)
}

#[derive(Debug, Template)]
#[template(path = "configure/allowed_networks.html")]
struct AllowedNetworksPage {
    layout: Layout,
    is_sandbox: bool,
    products: Vec<&'static str>,
    networks: Vec<NetworkRow>,
    /// Networks that the project allows but this deployment does not configure.
    unknown_networks: Vec<NetworkRow>,
    has_networks: bool,
    search: String,
    pagination: Pagination,
    /// Ids of the networks that the form shows, separated by spaces. Saving the form leaves other networks unchanged.
    shown: String,
    was_saved: bool,
}

#[derive(Debug)]
struct NetworkRow {
    id: String,
    /// Name of the network, or its id if the network is unknown.
    name: String,
    country: String,
    aliases: String,
    cells: Vec<ProductCell>,
}

#[derive(Debug)]
struct ProductCell {
    /// Form field name of the checkbox.
    name: String,
    product: &'static str,
    is_allowed: bool,
    is_supported: bool,
}

/// `GET …/projects/{project_id}/networks`
async fn show_networks(
    State(app): State<App>,
    access: ProjectAccess,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let query = Query::parse(query.as_deref(), &["saved", SEARCH_PARAMETER, PAGE_PARAMETER])?;
    let was_saved = query.get("saved").is_some();
    Ok(networks_page(&app, &access, &NetworkListQuery::parse(&query)?, was_saved))
}

/// `POST …/projects/{project_id}/networks`
async fn replace_networks(
    State(app): State<App>,
    ids: PathParameters,
    form: SessionForm,
) -> Result<Response, ConsoleError> {
    let (access, fields) = form.authorize_project(&app, &ids, Permission::Develop).await?;
    let allowed = match fields.get("choice") {
        Some("all") => {
            vec![AllowedNetwork { network: NetworkSelector::All, products: Product::WITH_OPERATOR.to_vec() }]
        }
        Some("none") => vec![],
        _ => {
            let selected = parse_allowed_networks(app.engine.networks(), &fields);
            let mut allowed = networks_not_shown(&access.project, &fields);
            allowed.retain(|kept| selected.iter().all(|other| other.network != kept.network));
            allowed.extend(selected);
            allowed
        }
    };
    let (workspace, project) = (access.workspace.id, access.project.id);
    let is_unchanged = |current: &Project| current.allowed_networks == access.project.allowed_networks;
    let replaced =
        app.engine.management.replace_allowed_networks(&access.actor, workspace, project, allowed, &is_unchanged);
    replaced.await.map_err(|error| match error {
        ManagementError::PreconditionFailed => {
            let text = "The allowed networks were changed meanwhile. Reload the page and select again.";
            ConsoleError::new(StatusCode::CONFLICT, "Networks changed", text)
        }
        other => other.into(),
    })?;
    let query = [SEARCH_PARAMETER, PAGE_PARAMETER].map(|name| (name, fields.get(name)));
    let query = [&query[..], &[("saved", Some(""))]].concat();
    Ok(page::see_other(&page::path_with_query(&format!("{}/networks", access.path()), &query)))
}

/// Returns the allowed networks that the form does not show, which stay as they are. The form shows one page of the
/// networks and names them in the field `shown`.
fn networks_not_shown(project: &Project, fields: &FormFields) -> Vec<AllowedNetwork> {
    let Some(shown) = fields.get("shown") else { return vec![] };
    let is_shown = |allowed: &&AllowedNetwork| shown.split(' ').any(|id| id == allowed.network.to_string());
    project.allowed_networks.iter().filter(|allowed| !is_shown(allowed)).cloned().collect()
}

/// Parses the checkboxes. They are named `23410.sim_swap`, or `*.sim_swap` for all networks. Several ids of the same
/// network are merged.
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

fn networks_page(app: &App, access: &ProjectAccess, query: &NetworkListQuery, was_saved: bool) -> Response {
    let project = &access.project;
    let networks = app.engine.networks();
    let directory = networks.directory();
    let single = project.allowed_networks.iter().filter_map(|allowed| match &allowed.network {
        NetworkSelector::All => None,
        NetworkSelector::One(id) => Some(id),
    });
    let unknown = single.filter(|id| directory.get(id).is_none() && query.matches_id(id)).map(ListedNetwork::Unknown);
    let known = directory.networks().filter(|network| query.matches(network)).map(ListedNetwork::Known);
    let found = query.paginate(known.chain(unknown));
    let mut rows = vec![NetworkRow {
        name: "All networks".to_owned(),
        country: String::new(),
        aliases: "including networks added later".to_owned(),
        cells: product_cells(&NetworkSelector::All, project, |_| true),
        id: NetworkSelector::All.to_string(),
    }];
    let mut unknown_networks = vec![];
    for network in &found.items {
        match network {
            ListedNetwork::Known(network) => {
                let supported = networks.supported_products(network);
                rows.push(NetworkRow {
                    name: network.name.clone(),
                    country: network.country.to_string(),
                    aliases: network.aliases.join(", "),
                    cells: product_cells(&network.id.clone().into(), project, |product| supported.contains(&product)),
                    id: network.id.to_string(),
                });
            }
            ListedNetwork::Unknown(id) => unknown_networks.push(NetworkRow {
                name: id.to_string(),
                country: String::new(),
                aliases: directory.find_by_any_id(id).map(|network| network.name.clone()).unwrap_or_default(),
                cells: product_cells(&(*id).clone().into(), project, |_| false),
                id: id.to_string(),
            }),
        }
    }
    let has_networks = directory.networks().next().is_some();
    if !has_networks {
        rows.clear();
    }
    let shown: Vec<&str> = rows.iter().chain(&unknown_networks).map(|row| row.id.as_str()).collect();
    let layout = access.layout("Allowed networks", MenuSection::AllowedNetworks);
    let path = format!("{}/networks", layout.project_path());
    let page = AllowedNetworksPage {
        is_sandbox: project.mode == Mode::Sandbox,
        products: Product::WITH_OPERATOR.iter().map(|product| product.title()).collect(),
        shown: shown.join(" "),
        networks: rows,
        unknown_networks,
        has_networks,
        search: query.text.clone(),
        pagination: Pagination::new(&found, &path, &query.link_parameters()),
        was_saved,
        layout,
    };
    page::render_ok(&page)
}

enum ListedNetwork<'n> {
    Known(&'n Network),
    /// A network that the project allows but this deployment does not configure.
    Unknown(&'n NetworkId),
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
    Product::WITH_OPERATOR.iter().copied().map(cell).collect()
}
