//! `Idempotency-Key` on creates.

use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use ringtrue_engine::{
    idempotency::{Begun, Claim, StoredAnswer, fingerprint},
    management::{ManagementError, Once},
};
use serde::Serialize;
use uuid::Uuid;

use super::{App, json_bytes, problem::Problem};

/// How a create begins: with a key that is claimed, with no key, or not at all, since it was answered before.
pub enum Start {
    Fresh(Option<Claim>),
    Replayed(Response),
}

/// Claims the request's key, when it has one.
pub async fn start(app: &App, tenant: Uuid, headers: &HeaderMap, uri: &Uri, body: &Bytes) -> Result<Start, Problem> {
    let Some(key) = key(headers)? else { return Ok(Start::Fresh(None)) };
    match app.engine.begin_once(tenant, key, fingerprint("POST", uri.path(), body)).await? {
        Begun::First(claim) => Ok(Start::Fresh(Some(claim))),
        Begun::Replay(answer) => {
            let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::CREATED);
            let mut response = json_bytes(status, answer.body);
            response.headers_mut().insert("idempotent-replayed", HeaderValue::from_static("true"));
            Ok(Start::Replayed(response))
        }
    }
}

fn key(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else { return Ok(None) };
    let invalid = || Problem::bad_request("`Idempotency-Key` has 1 to 255 visible ASCII characters, and occurs once");
    if values.next().is_some() {
        return Err(invalid());
    }
    let key = value.to_str().map_err(|_| invalid())?;
    let shape_is_right = (1..=255).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic());
    if shape_is_right { Ok(Some(key)) } else { Err(invalid()) }
}

/// Does a create and answers 201, with the very bytes that are stored for a repetition.
pub async fn finish<T, B: Serialize>(
    app: &App,
    claim: Option<Claim>,
    body_of: impl Fn(&T) -> B + Send + Sync,
    create: impl AsyncFnOnce(Option<Once<'_, T>>) -> Result<T, ManagementError>,
) -> Result<Response, Problem> {
    let render = |created: &T| serde_json::to_vec(&body_of(created)).unwrap_or_default();
    let answer = |created: &T| StoredAnswer { status: StatusCode::CREATED.as_u16(), body: render(created) };
    let created = create(claim.as_ref().map(|claim| Once { claim, answer: &answer })).await;
    match (created, claim) {
        (Ok(created), _) => Ok(json_bytes(StatusCode::CREATED, render(&created))),
        (Err(error), Some(claim)) => {
            app.engine.abandon(claim).await;
            Err(error.into())
        }
        (Err(error), None) => Err(error.into()),
    }
}

/// Goes on with a create whose caller hangs up: what was begun is ended, and its key not left claimed.
pub async fn to_the_end<F>(app: &App, work: F) -> Result<Response, Problem>
where
    F: Future<Output = Result<Response, Problem>> + Send + 'static,
{
    match app.tasks.spawn(work).await {
        Ok(result) => result,
        Err(error) => Err(Problem::internal(&error)),
    }
}
