//! Manages the credentials of projects and workspaces.

use axum::{
    extract::{RawQuery, Request, State},
    response::{IntoResponse, Response},
};
use http::{HeaderMap, StatusCode};
use ringtrue_domain::{tenancy::Credential, timestamp};
use ringtrue_engine::tenants::{IssuedCredential, NewCredential};
use ringtrue_web::{
    app::App,
    body::{JsonError, NoBody, Object, as_distinct_list, as_parsed, as_timestamp, read_json_bytes},
    parameters::{PathParameters, Query},
    problem::Problem,
    response::{IfMatch, PageBody, json_response, with_etag},
    routes::{Routes, delete, post},
};
use serde::Serialize;

use crate::{
    caller::{Caller, scope::Management},
    idempotency::Idempotency,
};

pub fn routes() -> Routes {
    const PROJECT_CREDENTIALS_PATH: &str = "/v1/management/workspaces/{workspace_id}/projects/{project_id}/credentials";
    const PROJECT_CREDENTIAL_PATH: &str =
        "/v1/management/workspaces/{workspace_id}/projects/{project_id}/credentials/{client_id}";
    const WORKSPACE_CREDENTIALS_PATH: &str = "/v1/management/workspaces/{workspace_id}/credentials";
    const WORKSPACE_CREDENTIAL_PATH: &str = "/v1/management/workspaces/{workspace_id}/credentials/{client_id}";
    Routes::default()
        .get(PROJECT_CREDENTIALS_PATH, list)
        .route(PROJECT_CREDENTIALS_PATH, post(create).idempotent())
        .get(PROJECT_CREDENTIAL_PATH, get)
        .route(PROJECT_CREDENTIAL_PATH, delete(revoke))
        .get(WORKSPACE_CREDENTIALS_PATH, list)
        .route(WORKSPACE_CREDENTIALS_PATH, post(create).idempotent())
        .get(WORKSPACE_CREDENTIAL_PATH, get)
        .route(WORKSPACE_CREDENTIAL_PATH, delete(revoke))
}

#[derive(Serialize)]
struct CredentialBody {
    client_id: String,
    scopes: Vec<&'static str>,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    /// Time of the last use, rounded to the minute. `None` if the credential was never used.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_used_at: Option<String>,
}

/// Response to the request that creates a credential. No later response contains the secret.
#[derive(Serialize)]
pub struct NewCredentialBody {
    #[serde(flatten)]
    credential: CredentialBody,
    client_secret: String,
}

impl From<&Credential> for CredentialBody {
    fn from(credential: &Credential) -> Self {
        CredentialBody {
            client_id: credential.client_id.to_string(),
            scopes: credential.scopes.iter().map(|scope| scope.into_str()).collect(),
            created_at: timestamp::format(credential.created_at),
            expires_at: credential.valid_until().map(timestamp::format),
            last_used_at: credential.last_used_at.map(timestamp::format),
        }
    }
}

impl CredentialBody {
    /// Returns the representation from which the `ETag` is computed. It omits the last use, so that using a credential
    /// does not change its `ETag`.
    fn without_last_use(credential: &Credential) -> Self {
        CredentialBody { last_used_at: None, ..CredentialBody::from(credential) }
    }
}

impl From<&IssuedCredential> for NewCredentialBody {
    fn from(issued: &IssuedCredential) -> Self {
        NewCredentialBody { credential: (&issued.credential).into(), client_secret: issued.secret.reveal().to_owned() }
    }
}

/// `GET .../credentials`
async fn list(
    State(app): State<App>,
    caller: Caller<Management>,
    ids: PathParameters,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let page = Query::parse(query.as_deref(), &["size", "page"])?.page_request()?;
    let page =
        app.engine.management.list_credentials(&caller.management_actor(), ids.credential_owner()?, page).await?;
    Ok(json_response(StatusCode::OK, &PageBody::new(page, |credential| CredentialBody::from(&credential))))
}

/// `POST .../credentials`
async fn create(
    State(app): State<App>,
    caller: Caller<Management>,
    ids: PathParameters,
    idempotency: Idempotency,
    request: Request,
) -> Result<Response, Problem> {
    let (manager, owner) = (caller.management_actor(), ids.credential_owner()?);
    let scope = app.engine.management.authorize(&manager, owner).await?;
    let body = read_json_bytes(&app, request).await?;
    let new = parse_new_credential(&body)?;
    let body_of = |issued: &IssuedCredential| NewCredentialBody::from(issued);
    idempotency
        .respond(StatusCode::CREATED, scope, &body, body_of, async |claim| {
            app.engine.management.create_credential(&manager, owner, new, claim).await
        })
        .await
}

/// `GET .../credentials/{client_id}`
async fn get(State(app): State<App>, caller: Caller<Management>, ids: PathParameters) -> Result<Response, Problem> {
    let credential = app
        .engine
        .management
        .credential(&caller.management_actor(), ids.credential_owner()?, &ids.client_id()?)
        .await?;
    let response = json_response(StatusCode::OK, &CredentialBody::from(&credential));
    Ok(with_etag(response, &CredentialBody::without_last_use(&credential)))
}

/// `DELETE .../credentials/{client_id}`: also invalidates the credential's tokens.
async fn revoke(
    State(app): State<App>,
    caller: Caller<Management>,
    ids: PathParameters,
    headers: HeaderMap,
    _: NoBody,
) -> Result<Response, Problem> {
    let if_match = IfMatch::from_headers(&headers);
    let condition = |current: &Credential| if_match.matches(&CredentialBody::without_last_use(current));
    app.engine
        .management
        .delete_credential(&caller.management_actor(), ids.credential_owner()?, &ids.client_id()?, &condition)
        .await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn parse_new_credential(document: &[u8]) -> Result<NewCredential, JsonError> {
    let mut body = Object::parse(document)?;
    let scopes = body.take("scopes", |node, pointer| {
        let scopes = as_distinct_list(node, pointer, as_parsed)?;
        if scopes.is_empty() { Err(JsonError::new(pointer, "at least one scope is required")) } else { Ok(scopes) }
    })?;
    let expires_at = body.take("expires_at", as_timestamp)?;
    body.finish(NewCredential { scopes, expires_at, label: None })
}
