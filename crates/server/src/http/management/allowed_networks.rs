//! Networks of this deployment and the networks that a project may use.

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

use super::projects::parse_products;
use crate::http::{
    App,
    body::{MAX_ALLOWED_NETWORKS_BYTES, read_json_with_limit},
    caller::{Caller, scope::Management},
    etag::{IfMatch, json_with_etag},
    json::{JsonError, Node, Object, as_distinct_list, as_object, as_parsed},
    json_response,
    path::PathParameters,
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
    let page = app.engine.networks().page(query.get_parsed("country_code")?, query.page_request()?);
    let body = PageBody::new(page, |(network, products)| NetworkBody {
        network_id: network.id.to_string(),
        network_name: network.name.clone(),
        network_aliases: network.aliases.clone(),
        country_code: network.country.clone(),
        dialing_code: network.dialing_code.clone(),
        products: products.iter().map(|product| product.as_str()).collect(),
    });
    Ok(json_response(StatusCode::OK, &body))
}

/// `GET .../projects/{project_id}/allowed-networks`
pub async fn get(State(app): State<App>, caller: Caller<Management>, ids: PathParameters) -> Result<Response, Problem> {
    let project = app.engine.project(&caller.manager(), ids.workspace()?, ids.project()?).await?;
    Ok(json_with_etag(&AllowedNetworksBody::from(&project)))
}

/// `PUT .../projects/{project_id}/allowed-networks`
pub async fn put(
    State(app): State<App>,
    caller: Caller<Management>,
    ids: PathParameters,
    request: Request,
) -> Result<Response, Problem> {
    let (workspace, id) = (ids.workspace()?, ids.project()?);
    let manager = caller.manager();
    app.engine.authorize(&manager, CredentialOwner::Project(workspace, id)).await?;
    let if_match = IfMatch::from_headers(request.headers());
    let networks = parse_networks(&read_json_with_limit(&app, request, MAX_ALLOWED_NETWORKS_BYTES).await?)?;
    let condition = |current: &Project| if_match.matches(&AllowedNetworksBody::from(current));
    let project = app.engine.replace_allowed_networks(&manager, workspace, id, networks, &condition).await?;
    Ok(json_with_etag(&AllowedNetworksBody::from(&project)))
}

fn parse_networks(document: &[u8]) -> Result<Vec<AllowedNetwork>, JsonError> {
    let mut body = Object::parse(document)?;
    let networks = body.require("networks", |node, pointer| {
        if matches!(&node, Node::List(nodes) if nodes.len() > MAX_ALLOWED_NETWORKS) {
            return Err(JsonError::new(pointer, format!("at most {MAX_ALLOWED_NETWORKS} networks; use `*` for all")));
        }
        as_distinct_list(node, pointer, parse_network)
    })?;
    body.finish()?;
    Ok(networks.into_iter().map(|UniqueNetwork(allowed)| allowed).collect())
}

/// Exceeds the number of mobile networks worldwide.
const MAX_ALLOWED_NETWORKS: usize = 2_000;

/// Compares by network only: two entries for one network would be ambiguous.
struct UniqueNetwork(AllowedNetwork);

impl PartialEq for UniqueNetwork {
    fn eq(&self, other: &Self) -> bool {
        self.0.network == other.0.network
    }
}

fn parse_network(node: Node, pointer: &str) -> Result<UniqueNetwork, JsonError> {
    let mut members = as_object(node, pointer)?;
    let network: NetworkSelector = members.require("network_id", as_parsed)?;
    let products = members.require("products", |node, pointer| {
        let products = parse_products(node, pointer)?;
        if products.is_empty() {
            Err(JsonError::new(pointer, "at least one product is required"))
        } else if products.iter().all(|product| product.requires_operator()) {
            Ok(products)
        } else {
            Err(JsonError::new(pointer, "`eligibility` does not contact operators and needs no allowed network"))
        }
    })?;
    members.finish()?;
    Ok(UniqueNetwork(AllowedNetwork { network, products }))
}
