//! `Idempotency-Key` support for creates and other non-repeatable requests.

use axum::{extract::Request, response::Response};
use http::{HeaderName, HeaderValue, StatusCode};
use ringtrue_engine::idempotency::{
    IdempotencyScope, IdempotencyState, IdempotentRequest, StoredResponse, request_fingerprint,
};
use serde::Serialize;

use super::{App, json_bytes_response, problem::Problem};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// `Idempotency-Key` values and path of a request. Empty without a key.
pub struct IdempotencyHeader {
    keys: Vec<HeaderValue>,
    path: String,
}

impl IdempotencyHeader {
    pub fn from_request(request: &Request) -> Self {
        let keys: Vec<_> = request.headers().get_all(IDEMPOTENCY_KEY).iter().cloned().collect();
        let path = if keys.is_empty() { String::new() } else { request.uri().path().to_owned() };
        IdempotencyHeader { keys, path }
    }

    fn key(&self) -> Result<Option<&str>, Problem> {
        let invalid =
            || Problem::bad_request("`Idempotency-Key` must occur once and have 1 to 255 visible ASCII characters");
        let value = match &self.keys[..] {
            [] => return Ok(None),
            [value] => value,
            [_, _, ..] => return Err(invalid()),
        };
        let key = value.to_str().map_err(|_| invalid())?;
        let is_valid = (1..=255).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic());
        if is_valid { Ok(Some(key)) } else { Err(invalid()) }
    }
}

/// Creates a resource at most once for each idempotency key and responds with 201.
///
/// A repeated request gets the stored bytes of the first response.
pub async fn idempotent<T, B: Serialize, E: Into<Problem>>(
    app: &App,
    scope: IdempotencyScope,
    header: &IdempotencyHeader,
    body: &[u8],
    body_of: impl Fn(&T) -> B + Send + Sync,
    create: impl AsyncFnOnce(Option<IdempotentRequest<'_, T>>) -> Result<T, E>,
) -> Result<Response, Problem> {
    idempotent_with_status(StatusCode::CREATED, app, scope, (header, body), body_of, create).await
}

/// Like [`idempotent`], with another status.
pub async fn idempotent_with_status<T, B: Serialize, E: Into<Problem>>(
    status: StatusCode,
    app: &App,
    scope: IdempotencyScope,
    (header, body): (&IdempotencyHeader, &[u8]),
    body_of: impl Fn(&T) -> B + Send + Sync,
    create: impl AsyncFnOnce(Option<IdempotentRequest<'_, T>>) -> Result<T, E>,
) -> Result<Response, Problem> {
    let claim = match header.key()? {
        None => None,
        Some(key) => {
            match app.engine.claim_idempotency_key(scope, key, request_fingerprint("POST", &header.path, body)).await? {
                IdempotencyState::Claimed(claim) => Some(claim),
                IdempotencyState::Replay(stored) => return Ok(replay_response(stored)),
            }
        }
    };
    let render = |created: &T| serde_json::to_vec(&body_of(created)).unwrap_or_default();
    let render_response = |created: &T| StoredResponse { status: status.as_u16(), body: render(created) };
    let created =
        create(claim.as_ref().map(|claim| IdempotentRequest { claim, render_response: &render_response })).await;
    match (created, claim) {
        (Ok(created), _) => Ok(json_bytes_response(status, render(&created))),
        (Err(error), Some(claim)) => {
            app.engine.release_idempotency_key(claim).await;
            Err(error.into())
        }
        (Err(error), None) => Err(error.into()),
    }
}

fn replay_response(stored: StoredResponse) -> Response {
    let status = StatusCode::from_u16(stored.status).unwrap_or(StatusCode::CREATED);
    let mut response = json_bytes_response(status, stored.body);
    response.headers_mut().insert("idempotent-replayed", HeaderValue::from_static("true"));
    response
}
