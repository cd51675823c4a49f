//! `Idempotency-Key` support for creates and other non-repeatable requests.

use std::sync::Arc;

use axum::{extract::FromRequestParts, response::Response};
use http::{HeaderName, HeaderValue, StatusCode, request::Parts};
use ringtrue_domain::lifecycle::CheckId;
use ringtrue_engine::idempotency::{
    IdempotencyScope, IdempotencyState, IdempotentRequest, StoredResponse, request_fingerprint,
};
use ringtrue_web::{
    app::App,
    problem::Problem,
    request_context::{HandlerState, RequestContext},
    response::json_bytes_response,
};
use serde::{Deserialize, Serialize};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Extracts the `Idempotency-Key` header, on routes that are declared as idempotent.
#[derive(derive_more::Debug)]
#[debug("Idempotency(…)")]
pub struct Idempotency {
    app: App,
    context: Arc<RequestContext>,
    keys: Vec<HeaderValue>,
    /// Path of the request. Part of the fingerprint that detects a different request with the same key. Empty if the
    /// request has no key.
    path: String,
}

impl FromRequestParts<HandlerState> for Idempotency {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &HandlerState) -> Result<Self, Problem> {
        if !state.context.route().policy.is_idempotent {
            return Err(Problem::internal(&"route is not declared as idempotent"));
        }
        let keys: Vec<_> = parts.headers.get_all(IDEMPOTENCY_KEY).iter().cloned().collect();
        let path = if keys.is_empty() { String::new() } else { parts.uri.path().to_owned() };
        Ok(Idempotency { app: state.app.clone(), context: Arc::clone(&state.context), keys, path })
    }
}

impl Idempotency {
    /// Runs `create` at most once for each key. A repeated request gets the stored bytes of the first response.
    pub async fn respond<T, B: Serialize, E: Into<Problem>>(
        &self,
        status: StatusCode,
        scope: IdempotencyScope,
        request_body: &[u8],
        body_of: impl Fn(&T) -> B + Send + Sync,
        create: impl AsyncFnOnce(Option<IdempotentRequest<'_, T>>) -> Result<T, E>,
    ) -> Result<Response, Problem> {
        let idempotency = &self.app.engine.idempotency;
        let claim = match self.key()? {
            None => None,
            Some(key) => {
                match idempotency.claim(scope, key, request_fingerprint("POST", &self.path, request_body)).await? {
                    IdempotencyState::Claimed(claim) => Some(claim),
                    IdempotencyState::Replay(stored) => {
                        self.context.log_check(|| replayed_check(&stored.body));
                        return Ok(replay_response(stored));
                    }
                }
            }
        };
        let render = |created: &T| serde_json::to_vec(&body_of(created)).unwrap_or_default();
        let render_response = |created: &T| StoredResponse { status: status.as_u16(), body: render(created) };
        let request = claim.as_ref().map(|claim| IdempotentRequest { claim, render_response: &render_response });
        match create(request).await {
            Ok(created) => Ok(json_bytes_response(status, render(&created))),
            Err(error) => {
                if let Some(claim) = claim {
                    idempotency.release(claim).await;
                }
                Err(error.into())
            }
        }
    }

    /// Adds the id of the created check or verification to the request log entry.
    pub fn log_created(&self, id: CheckId) {
        self.context.log_check(|| Some(id));
    }

    fn key(&self) -> Result<Option<&str>, Problem> {
        let is_valid = |key: &&str| (1..=255).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic());
        let key = match &self.keys[..] {
            [] => return Ok(None),
            [value] => value.to_str().ok().filter(is_valid),
            [_, _, ..] => None,
        };
        let detail = "`Idempotency-Key` must occur once and have 1 to 255 visible ASCII characters";
        key.map(Some).ok_or_else(|| Problem::bad_request(detail))
    }
}

/// Reads the id of the check or verification from the stored response that a repeated request gets, for the request
/// log.
fn replayed_check(body: &[u8]) -> Option<CheckId> {
    #[derive(Deserialize)]
    struct CheckResponse<'a> {
        #[serde(borrow, alias = "verification_id")]
        check_id: &'a str,
    }
    serde_json::from_slice::<CheckResponse<'_>>(body).ok()?.check_id.parse().ok()
}

fn replay_response(stored: StoredResponse) -> Response {
    let status = StatusCode::from_u16(stored.status).unwrap_or(StatusCode::CREATED);
    mark_replayed(json_bytes_response(status, stored.body))
}

/// Adds the header that marks a response as the repeated result of an earlier request.
pub fn mark_replayed(mut response: Response) -> Response {
    response.headers_mut().insert("idempotent-replayed", HeaderValue::from_static("true"));
    response
}
