//! `Idempotency-Key` on creates, and on what else is done once.

use axum::{extract::Request, response::Response};
use http::{HeaderName, HeaderValue, StatusCode};
use ringtrue_engine::idempotency::{Begun, IdempotencyScope, Once, StoredAnswer, fingerprint};
use serde::Serialize;

use super::{App, json_bytes, problem::Problem};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// What tells of a request that it is sent again: nothing, for most.
pub struct Sent {
    keys: Vec<HeaderValue>,
    path: String,
}

impl Sent {
    pub fn by(request: &Request) -> Self {
        let keys: Vec<_> = request.headers().get_all(IDEMPOTENCY_KEY).iter().cloned().collect();
        let path = if keys.is_empty() { String::new() } else { request.uri().path().to_owned() };
        Sent { keys, path }
    }

    fn key(&self) -> Result<Option<&str>, Problem> {
        let invalid =
            || Problem::bad_request("`Idempotency-Key` has 1 to 255 visible ASCII characters, and occurs once");
        let value = match &self.keys[..] {
            [] => return Ok(None),
            [value] => value,
            [_, _, ..] => return Err(invalid()),
        };
        let key = value.to_str().map_err(|_| invalid())?;
        let shape_is_right = (1..=255).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic());
        if shape_is_right { Ok(Some(key)) } else { Err(invalid()) }
    }
}

/// Does a create, once for each idempotency key, and answers 201.
///
/// A repetition gets the very bytes that were stored with the effect of the first.
pub async fn once<T, B: Serialize, E: Into<Problem>>(
    app: &App,
    scope: IdempotencyScope,
    sent: &Sent,
    body: &[u8],
    body_of: impl Fn(&T) -> B + Send + Sync,
    create: impl AsyncFnOnce(Option<Once<'_, T>>) -> Result<T, E>,
) -> Result<Response, Problem> {
    once_with(StatusCode::CREATED, app, scope, (sent, body), body_of, create).await
}

/// The same with another status.
pub async fn once_with<T, B: Serialize, E: Into<Problem>>(
    status: StatusCode,
    app: &App,
    scope: IdempotencyScope,
    (sent, body): (&Sent, &[u8]),
    body_of: impl Fn(&T) -> B + Send + Sync,
    create: impl AsyncFnOnce(Option<Once<'_, T>>) -> Result<T, E>,
) -> Result<Response, Problem> {
    let claim = match sent.key()? {
        None => None,
        Some(key) => match app.engine.begin_once(scope, key, fingerprint("POST", &sent.path, body)).await? {
            Begun::First(claim) => Some(claim),
            Begun::Replay(answer) => return Ok(replayed(answer)),
        },
    };
    let render = |created: &T| serde_json::to_vec(&body_of(created)).unwrap_or_default();
    let answer = |created: &T| StoredAnswer { status: status.as_u16(), body: render(created) };
    let created = create(claim.as_ref().map(|claim| Once { claim, answer: &answer })).await;
    match (created, claim) {
        (Ok(created), _) => Ok(json_bytes(status, render(&created))),
        (Err(error), Some(claim)) => {
            app.engine.abandon(claim).await;
            Err(error.into())
        }
        (Err(error), None) => Err(error.into()),
    }
}

fn replayed(answer: StoredAnswer) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::CREATED);
    let mut response = json_bytes(status, answer.body);
    response.headers_mut().insert("idempotent-replayed", HeaderValue::from_static("true"));
    response
}
