//! The networks that a project may use: the authorisation gate.

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::{
    network::{AllowedNetwork, NetworkId},
    tenancy::{CredentialOwner, Project},
};
use serde::Serialize;

use super::projects::products;
use crate::http::{
    App,
    body::read_json,
    caller::{Caller, scope::Management},
    json,
    json::{Invalid, Node, Object, distinct, object, parsed},
    path::PathIds,
    problem::Problem,
};

#[derive(Serialize)]
struct NetworksBody {
    networks: Vec<NetworkBody>,
}

#[derive(Serialize)]
struct NetworkBody {
    network_id: String,
    products: Vec<&'static str>,
}

impl From<Project> for NetworksBody {
    fn from(project: Project) -> Self {
        let networks = project.allowed_networks.into_iter().map(|allowed| NetworkBody {
            network_id: allowed.network.to_string(),
            products: allowed.products.iter().map(|product| product.as_str()).collect(),
        });
        NetworksBody { networks: networks.collect() }
    }
}

/// `GET .../projects/{project_id}/allowed-networks`
pub async fn get(State(app): State<App>, caller: Caller<Management>, ids: PathIds) -> Result<Response, Problem> {
    let project = app.engine.project(&caller.manager(), ids.workspace()?, ids.project()?).await?;
    Ok(json(StatusCode::OK, &NetworksBody::from(project)))
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
    let networks = networks(&read_json(&app, request).await?)?;
    let project = app.engine.replace_allowed_networks(&manager, workspace, id, networks).await?;
    Ok(json(StatusCode::OK, &NetworksBody::from(project)))
}

fn networks(document: &[u8]) -> Result<Vec<AllowedNetwork>, Invalid> {
    let mut body = Object::parse(document)?;
    let networks = body.require("networks", |node, pointer| distinct(node, pointer, network))?;
    body.finish()?;
    Ok(networks.into_iter().map(|Entry(allowed)| allowed).collect())
}

/// Two entries for one network would leave open which of them counts.
struct Entry(AllowedNetwork);

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.0.network == other.0.network
    }
}

fn network(node: Node, pointer: &str) -> Result<Entry, Invalid> {
    let mut members = object(node, pointer)?;
    let network: NetworkId = members.require("network_id", parsed)?;
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
