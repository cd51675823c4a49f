//! Credentials of projects and workspaces.

use axum::{
    extract::{RawQuery, Request, State},
    response::{IntoResponse, Response},
};
use http::{HeaderMap, StatusCode};
use ringtrue_domain::tenancy::Credential;
use ringtrue_engine::management::{IssuedCredential, NewCredential};
use serde::Serialize;

use crate::http::{
    App,
    body::read_json,
    caller::{Caller, scope::Management},
    detached::run_to_completion,
    etag::{IfMatch, with_etag},
    idempotency::{IdempotencyHeader, idempotent},
    json::{JsonError, Object, as_distinct_list, as_parsed, as_timestamp},
    json_response,
    path::PathParameters,
    problem::Problem,
    query::{PageBody, Query},
    time,
};

#[derive(Serialize)]
struct CredentialBody {
    client_id: String,
    scopes: Vec<&'static str>,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    /// Rounded to the minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_used_at: Option<String>,
}

/// Response to a create. Only this response contains the secret.
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
            scopes: credential.scopes.iter().map(|scope| scope.as_str()).collect(),
            created_at: time::format(credential.created_at),
            expires_at: credential.expires_at.map(time::format),
            last_used_at: credential.last_used_at.map(time::format),
        }
    }
}

impl CredentialBody {
    /// Representation for the `ETag`, which does not change with use.
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
pub async fn list(
    State(app): State<App>,
    caller: Caller<Management>,
    ids: PathParameters,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let page = Query::parse(query.as_deref(), &["size", "page"])?.page_request()?;
    let page = app.engine.list_credentials(&caller.manager(), ids.owner()?, page).await?;
    Ok(json_response(StatusCode::OK, &PageBody::new(page, |credential| CredentialBody::from(&credential))))
}

/// `POST .../credentials`
pub async fn create(
    State(app): State<App>,
    caller: Caller<Management>,
    ids: PathParameters,
    request: Request,
) -> Result<Response, Problem> {
    let owner = ids.owner()?;
    let manager = caller.manager();
    let scope = app.engine.authorize(&manager, owner).await?;
    let header = IdempotencyHeader::from_request(&request);
    let bytes = read_json(&app, request).await?;
    let new = parse_new_credential(&bytes)?;
    let app_ = app.clone();
    run_to_completion(&app_, async move {
        idempotent(
            &app,
            scope,
            &header,
            &bytes,
            |issued| NewCredentialBody::from(issued),
            async |idempotency| app.engine.create_credential(&manager, owner, new, idempotency).await,
        )
        .await
    })
    .await
}

/// `GET .../credentials/{client_id}`
pub async fn get(State(app): State<App>, caller: Caller<Management>, ids: PathParameters) -> Result<Response, Problem> {
    let credential = app.engine.credential(&caller.manager(), ids.owner()?, &ids.client_id()?).await?;
    let response = json_response(StatusCode::OK, &CredentialBody::from(&credential));
    Ok(with_etag(response, &CredentialBody::without_last_use(&credential)))
}

/// `DELETE .../credentials/{client_id}`: also invalidates its tokens.
pub async fn delete(
    State(app): State<App>,
    caller: Caller<Management>,
    ids: PathParameters,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let if_match = IfMatch::from_headers(&headers);
    let condition = |current: &Credential| if_match.matches(&CredentialBody::without_last_use(current));
    app.engine.delete_credential(&caller.manager(), ids.owner()?, &ids.client_id()?, &condition).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn parse_new_credential(document: &[u8]) -> Result<NewCredential, JsonError> {
    let mut body = Object::parse(document)?;
    let scopes = body.take("scopes", |node, pointer| {
        let scopes = as_distinct_list(node, pointer, as_parsed)?;
        if scopes.is_empty() { Err(JsonError::new(pointer, "at least one scope is required")) } else { Ok(scopes) }
    })?;
    let expires_at = body.take("expires_at", as_timestamp)?;
    body.finish()?;
    Ok(NewCredential { scopes, expires_at })
}
