//! Credentials of projects and of workspaces: the same calls under two paths.

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
    etag::{IfMatch, with_etag},
    idempotency::{Sent, once},
    json,
    json::{Invalid, Object, distinct, instant, parsed},
    path::PathIds,
    problem::Problem,
    query::{PageBody, Query},
    time,
    to_the_end::to_the_end,
};

#[derive(Serialize)]
struct CredentialBody {
    client_id: String,
    scopes: Vec<&'static str>,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    /// To the minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_used_at: Option<String>,
}

/// The credential as creation shows it, once.
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
    /// What its `ETag` is of: a credential that is used stays the same.
    fn without_use(credential: &Credential) -> Self {
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
    ids: PathIds,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let page = Query::parse(query.as_deref(), &["size", "page"])?.page()?;
    let page = app.engine.credentials(&caller.manager(), ids.owner()?, page).await?;
    Ok(json(StatusCode::OK, &PageBody::new(page, |credential| CredentialBody::from(&credential))))
}

/// `POST .../credentials`
pub async fn create(
    State(app): State<App>,
    caller: Caller<Management>,
    ids: PathIds,
    request: Request,
) -> Result<Response, Problem> {
    let owner = ids.owner()?;
    let manager = caller.manager();
    let scope = app.engine.authorize(&manager, owner).await?;
    let sent = Sent::by(&request);
    let bytes = read_json(&app, request).await?;
    let new = new_credential(&bytes)?;
    let app_ = app.clone();
    to_the_end(&app_, async move {
        once(
            &app,
            scope,
            &sent,
            &bytes,
            |issued| NewCredentialBody::from(issued),
            async |once| app.engine.create_credential(&manager, owner, new, once).await,
        )
        .await
    })
    .await
}

/// `GET .../credentials/{client_id}`
pub async fn get(State(app): State<App>, caller: Caller<Management>, ids: PathIds) -> Result<Response, Problem> {
    let credential = app.engine.credential(&caller.manager(), ids.owner()?, &ids.client_id()?).await?;
    let response = json(StatusCode::OK, &CredentialBody::from(&credential));
    Ok(with_etag(response, &CredentialBody::without_use(&credential)))
}

/// `DELETE .../credentials/{client_id}`: its tokens die with it.
pub async fn delete(
    State(app): State<App>,
    caller: Caller<Management>,
    ids: PathIds,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let if_match = IfMatch::of(&headers);
    let condition = |current: &Credential| if_match.admits(&CredentialBody::without_use(current));
    app.engine.delete_credential(&caller.manager(), ids.owner()?, &ids.client_id()?, &condition).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn new_credential(document: &[u8]) -> Result<NewCredential, Invalid> {
    let mut body = Object::parse(document)?;
    let scopes = body.take("scopes", |node, pointer| {
        let scopes = distinct(node, pointer, parsed)?;
        if scopes.is_empty() { Err(Invalid::new(pointer, "a credential has at least one scope")) } else { Ok(scopes) }
    })?;
    let expires_at = body.take("expires_at", instant)?;
    body.finish()?;
    Ok(NewCredential { scopes, expires_at })
}
