//! Manages projects and the networks that they may use.

use axum::{
    extract::{RawQuery, Request, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::{
    network::{AllowedNetwork, NetworkSelector},
    product::Product,
    search::{Field, FieldKind},
    tenancy::{CredentialOwner, Mode, Project},
    timestamp,
};
use ringtrue_engine::tenants::{CreatedProject, IssuedCredential, NewProject, ProjectPatch};
use ringtrue_web::{
    app::App,
    body::{
        JsonError, MAX_ALLOWED_NETWORKS_BYTES, Node, Object, as_boolean, as_distinct_list, as_object, as_parsed,
        read_json_bytes, read_json_bytes_with_limit,
    },
    parameters::{PathParameters, Query},
    problem::Problem,
    response::{IfMatch, PageBody, json_response, json_with_etag, with_etag},
    routes::{self, Routes, post, put},
};
use serde::Serialize;
use strum::VariantArray as _;

use crate::{
    caller::{Caller, scope::Management},
    idempotency::Idempotency,
    management::{
        configuration::{parse_configuration, render_configuration},
        credentials::NewCredentialBody,
    },
};

pub fn routes() -> Routes {
    const PROJECTS: &str = "/v1/management/workspaces/{workspace_id}/projects";
    const PROJECT: &str = "/v1/management/workspaces/{workspace_id}/projects/{project_id}";
    const NETWORKS: &str = "/v1/management/workspaces/{workspace_id}/projects/{project_id}/allowed-networks";
    Routes::default()
        .get(PROJECTS, list)
        .route(PROJECTS, post(create).idempotent())
        .get(PROJECT, get)
        .route(PROJECT, routes::patch(patch).completes_after_disconnect())
        .get(NETWORKS, get_allowed_networks)
        .route(NETWORKS, put(replace_allowed_networks))
}

const SEARCHABLE_FIELDS: &[Field] = &[
    Field { name: "name", kind: FieldKind::Text },
    Field { name: "mode", kind: FieldKind::Keyword(&["sandbox", "live"]) },
    Field { name: "disabled", kind: FieldKind::Boolean },
    Field { name: "created_at", kind: FieldKind::Instant },
    Field { name: "updated_at", kind: FieldKind::Instant },
];

#[derive(Serialize)]
pub(super) struct ProjectBody {
    project_id: String,
    workspace_id: String,
    name: String,
    mode: &'static str,
    disabled: bool,
    configuration: serde_json::Value,
    products: Vec<&'static str>,
    created_at: String,
    updated_at: String,
}

/// Response to the request that creates a project or switches it from sandbox to live mode. Only this response contains
/// the secret of the new credential.
#[derive(Serialize)]
struct NewProjectBody {
    #[serde(flatten)]
    project: ProjectBody,
    credentials: [NewCredentialBody; 1],
}

impl ProjectBody {
    pub(super) fn new(app: &App, project: &Project) -> Self {
        ProjectBody {
            project_id: project.id.to_string(),
            workspace_id: project.workspace.to_string(),
            name: project.name.to_string(),
            mode: project.mode.into_str(),
            disabled: project.disabled,
            configuration: render_configuration(&project.configuration, app.engine.base_url()),
            products: project.products.iter().map(Product::into_str).collect(),
            created_at: timestamp::format(project.created_at),
            updated_at: timestamp::format(project.updated_at),
        }
    }
}

impl NewProjectBody {
    fn new(app: &App, project: &Project, issued: &IssuedCredential) -> Self {
        NewProjectBody { project: ProjectBody::new(app, project), credentials: [issued.into()] }
    }
}

/// `GET /v1/management/workspaces/{workspace_id}/projects`
async fn list(
    State(app): State<App>,
    caller: Caller<Management>,
    ids: PathParameters,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref(), &["size", "page", "search"])?;
    let filter = query.search_filter(SEARCHABLE_FIELDS)?;
    let page = app
        .engine
        .management
        .list_projects(&caller.management_actor(), ids.workspace_id()?, query.page_request()?, filter.as_ref())
        .await?;
    Ok(json_response(StatusCode::OK, &PageBody::new(page, |project| ProjectBody::new(&app, &project))))
}

/// `POST /v1/management/workspaces/{workspace_id}/projects`
async fn create(
    State(app): State<App>,
    caller: Caller<Management>,
    ids: PathParameters,
    idempotency: Idempotency,
    request: Request,
) -> Result<Response, Problem> {
    let (manager, workspace) = (caller.management_actor(), ids.workspace_id()?);
    let scope = app.engine.management.authorize(&manager, CredentialOwner::Workspace(workspace)).await?;
    let body = read_json_bytes(&app, request).await?;
    let new = parse_new_project(&body)?;
    let body_of =
        |CreatedProject { project, credential }: &CreatedProject| NewProjectBody::new(&app, project, credential);
    idempotency
        .respond(StatusCode::CREATED, scope, &body, body_of, async |claim| {
            app.engine.management.create_project(&manager, workspace, new, claim).await
        })
        .await
}

/// `GET /v1/management/workspaces/{workspace_id}/projects/{project_id}`
async fn get(State(app): State<App>, caller: Caller<Management>, ids: PathParameters) -> Result<Response, Problem> {
    let project =
        app.engine.management.project(&caller.management_actor(), ids.workspace_id()?, ids.project_id()?).await?;
    Ok(json_with_etag(&ProjectBody::new(&app, &project)))
}

/// `PATCH /v1/management/workspaces/{workspace_id}/projects/{project_id}` (RFC 7396)
async fn patch(
    State(app): State<App>,
    caller: Caller<Management>,
    ids: PathParameters,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, Problem> {
    let (workspace, id) = (ids.workspace_id()?, ids.project_id()?);
    let manager = caller.management_actor();
    app.engine.management.authorize(&manager, CredentialOwner::Project(workspace, id)).await?;
    let force = Query::parse(query.as_deref(), &["force"])?.get_parsed::<bool>("force")?.unwrap_or(false);
    let if_match = IfMatch::from_headers(request.headers());
    let mut patch = parse_project_patch(&read_json_bytes(&app, request).await?)?;
    patch.skip_live_requirements = force;
    let condition = |current: &Project| if_match.matches(&ProjectBody::new(&app, current));
    let updated = app.engine.management.patch_project(&manager, workspace, id, patch, &condition).await?;
    let project = ProjectBody::new(&app, &updated.project);
    Ok(match &updated.credential {
        None => json_with_etag(&project),
        Some(issued) => {
            with_etag(json_response(StatusCode::OK, &NewProjectBody::new(&app, &updated.project, issued)), &project)
        }
    })
}

fn parse_new_project(document: &[u8]) -> Result<NewProject, JsonError> {
    let mut body = Object::parse(document)?;
    let new = NewProject {
        name: body.require("name", as_parsed)?,
        mode: body.take("mode", as_parsed)?.unwrap_or(Mode::Sandbox),
        configuration: body.take("configuration", parse_configuration)?.unwrap_or_default(),
        products: body.take("products", parse_products)?.unwrap_or_else(|| Product::VARIANTS.to_vec()),
    };
    body.finish(new)
}

fn parse_project_patch(document: &[u8]) -> Result<ProjectPatch, JsonError> {
    let mut body = Object::parse(document)?;
    let patch = ProjectPatch {
        name: body.take_non_null("name", as_parsed)?,
        mode: body.take_non_null("mode", as_parsed)?,
        disabled: body.take_non_null("disabled", as_boolean)?,
        products: body.take_non_null("products", parse_products)?,
        configuration: body.take_non_null("configuration", parse_configuration)?.unwrap_or_default(),
        logo: None,
        skip_live_requirements: false,
    };
    body.finish(patch)
}

fn parse_products(node: Node, pointer: &str) -> Result<Vec<Product>, JsonError> {
    let mut products: Vec<Product> = as_distinct_list(node, pointer, as_parsed)?;
    products.sort_unstable();
    Ok(products)
}

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
            products: allowed.products.iter().map(Product::into_str).collect(),
        });
        AllowedNetworksBody { networks: networks.collect() }
    }
}

/// `GET .../projects/{project_id}/allowed-networks`
async fn get_allowed_networks(
    State(app): State<App>,
    caller: Caller<Management>,
    ids: PathParameters,
) -> Result<Response, Problem> {
    let project =
        app.engine.management.project(&caller.management_actor(), ids.workspace_id()?, ids.project_id()?).await?;
    Ok(json_with_etag(&AllowedNetworksBody::from(&project)))
}

/// `PUT .../projects/{project_id}/allowed-networks`
async fn replace_allowed_networks(
    State(app): State<App>,
    caller: Caller<Management>,
    ids: PathParameters,
    request: Request,
) -> Result<Response, Problem> {
    let (workspace, id) = (ids.workspace_id()?, ids.project_id()?);
    let manager = caller.management_actor();
    app.engine.management.authorize(&manager, CredentialOwner::Project(workspace, id)).await?;
    let if_match = IfMatch::from_headers(request.headers());
    let networks = parse_networks(&read_json_bytes_with_limit(&app, request, MAX_ALLOWED_NETWORKS_BYTES).await?)?;
    let condition = |current: &Project| if_match.matches(&AllowedNetworksBody::from(current));
    let project = app.engine.management.replace_allowed_networks(&manager, workspace, id, networks, &condition).await?;
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
    body.finish(networks.into_iter().map(|UniqueNetwork(allowed)| allowed).collect())
}

/// Maximum number of allowed networks of a project. Fewer mobile networks exist worldwide.
const MAX_ALLOWED_NETWORKS: usize = 2_000;

/// Allowed network that is compared by its network only, so that a list with two entries for the same network is
/// rejected.
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
            let problem = "`eligibility` and `verification` do not contact operators and need no allowed network";
            Err(JsonError::new(pointer, problem))
        }
    })?;
    members.finish(UniqueNetwork(AllowedNetwork { network, products }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_members_cannot_be_removed() {
        for (document, pointer) in [
            (&br#"{"name":null}"#[..], "/name"),
            (br#"{"products":null}"#, "/products"),
            (br#"{"mode":null}"#, "/mode"),
            (br#"{"disabled":null}"#, "/disabled"),
            (br#"{"products":["reverse_sms","reverse_sms"]}"#, "/products/1"),
            (br#"{"mode":"production"}"#, "/mode"),
            (br#"{"configuration":{"reverse_sms":{"ttl":"59"}}}"#, "/configuration/reverse_sms/ttl"),
            (br#"{"configuration":{"sim_swap":{}}}"#, "/configuration/sim_swap"),
        ] {
            assert_eq!(parse_project_patch(document).unwrap_err().pointer, pointer);
        }
    }
}
