//! The networks of this deployment, and those that a project may use: the authorisation gate.

use axum::{
    extract::{RawQuery, Request, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::{
    network::{AllowedNetwork, NetworkSelector},
    tenancy::{CredentialOwner, Project},
};
use serde::Serialize;

use super::projects::products;
use crate::http::{
    App,
    body::{MAX_ALLOWED_NETWORKS, read_json_within},
    caller::{Caller, scope::Management},
    etag::{IfMatch, tagged},
    json,
    json::{Invalid, Node, Object, distinct, object, parsed},
    path::PathIds,
    problem::Problem,
    query::{PageBody, Query},
};

#[derive(Serialize)]
struct AllowedNetworksBody {
    networks: Vec<AllowedNetworkBody>,
}

#[derive(Serialize)]
struct AllowedNetworkBody {
    network_id: String,
    products: Vec<&'static str>,
}

impl From<&Project> for AllowedNetworksBody {
    fn from(project: &Project) -> Self {
        let networks = project.allowed_networks.iter().map(|allowed| AllowedNetworkBody {
            network_id: allowed.network.to_string(),
            products: allowed.products.iter().map(|product| product.as_str()).collect(),
        });
        AllowedNetworksBody { networks: networks.collect() }
    }
}

#[derive(Serialize)]
struct NetworkBody {
    network_id: String,
    network_name: String,
    network_aliases: Vec<String>,
    country_code: String,
    dialing_code: String,
    products: Vec<&'static str>,
}

/// `GET /v1/management/networks`
pub async fn list(
    State(app): State<App>,
    _: Caller<Management>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref(), &["size", "page", "country_code"])?;
    let page = app.engine.networks().page(query.parsed("country_code")?, query.page()?);
    let body = PageBody::new(page, |(network, products)| NetworkBody {
        network_id: network.id.to_string(),
        network_name: network.name.clone(),
        network_aliases: network.aliases.clone(),
        country_code: network.country.clone(),
        dialing_code: network.dialing_code.clone(),
        products: products.iter().map(|product| product.as_str()).collect(),
    });
    Ok(json(StatusCode::OK, &body))
}

/// `GET .../projects/{project_id}/allowed-networks`
pub async fn get(State(app): State<App>, caller: Caller<Management>, ids: PathIds) -> Result<Response, Problem> {
    let project = app.engine.project(&caller.manager(), ids.workspace()?, ids.project()?).await?;
    Ok(tagged(&AllowedNetworksBody::from(&project)))
}

/// `PUT .../projects/{project_id}/allowed-networks`
pub async fn put(
    State(app): State<App>,
    caller: Caller<Management>,
    ids: PathIds,
    request: Request,
) -> Result<Response, Problem> {
    let (workspace, id) = (ids.workspace()?, ids.project()?);
    let manager = caller.manager();
    app.engine.authorize(&manager, CredentialOwner::Project(workspace, id)).await?;
    let if_match = IfMatch::of(request.headers());
    let networks = networks(&read_json_within(&app, request, MAX_ALLOWED_NETWORKS).await?)?;
    let condition = |current: &Project| if_match.admits(&AllowedNetworksBody::from(current));
    let project = app.engine.replace_allowed_networks(&manager, workspace, id, networks, &condition).await?;
    Ok(tagged(&AllowedNetworksBody::from(&project)))
}

fn networks(document: &[u8]) -> Result<Vec<AllowedNetwork>, Invalid> {
    let mut body = Object::parse(document)?;
    let networks = body.require("networks", |node, pointer| {
        if matches!(&node, Node::List(nodes) if nodes.len() > MAX_ENTRIES) {
            return Err(Invalid::new(pointer, format!("at most {MAX_ENTRIES} networks; `*` stands for all")));
        }
        distinct(node, pointer, network)
    })?;
    body.finish()?;
    Ok(networks.into_iter().map(|Entry(allowed)| allowed).collect())
}

/// More than there are mobile networks in the world.
const MAX_ENTRIES: usize = 2_000;

/// Two entries for one network would leave open which of them counts.
struct Entry(AllowedNetwork);

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.0.network == other.0.network
    }
}

fn network(node: Node, pointer: &str) -> Result<Entry, Invalid> {
    let mut members = object(node, pointer)?;
    let network: NetworkSelector = members.require("network_id", parsed)?;
    let products = members.require("products", |node, pointer| {
        let products = products(node, pointer)?;
        if products.is_empty() {
            Err(Invalid::new(pointer, "at least one product"))
        } else if products.iter().all(|product| product.asks_an_operator()) {
            Ok(products)
        } else {
            Err(Invalid::new(pointer, "`eligibility` asks no operator, and needs no allowed network"))
        }
    })?;
    members.finish()?;
    Ok(Entry(AllowedNetwork { network, products }))
}
