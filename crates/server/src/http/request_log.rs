//! Collects the request log entry of one request.
//!
//! Handlers know the client, and the middleware knows the response. Until then the draft holds references only; entries
//! are built for the few requests that the sampler admits.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use axum::response::Response;
use bytes::Bytes;
use http::{Method, Uri, uri::PathAndQuery};
use jiff::Timestamp;
use ringtrue_domain::{id::uuid_v7, tenancy::Credential};
use ringtrue_engine::{
    ports::{Rejection, RequestLogEntry},
    request_log::redaction,
};

use super::{App, problem::Problem, request_context::RequestId};

pub struct RequestLogDraft {
    at: Timestamp,
    client: OnceLock<Client>,
    body: OnceLock<Bytes>,
    /// Only set if there is a query.
    target: Option<PathAndQuery>,
}

struct Client {
    credential: Arc<Credential>,
    /// Whether the secret or token was verified.
    authenticated: bool,
}

#[derive(Debug)]
pub struct CompletedRequest<'a> {
    pub method: &'a Method,
    pub route: &'static str,
    pub request_id: &'a RequestId,
    pub response: &'a Response,
    pub elapsed: Duration,
}

impl RequestLogDraft {
    /// Returns a draft for API calls of projects. Management calls are in the audit log.
    pub fn for_request(app: &App, uri: &Uri, at: Timestamp) -> Option<Self> {
        let path = uri.path();
        let is_for_projects = path.strip_prefix("/v1/").is_some_and(|rest| !rest.starts_with("management/"));
        if !(is_for_projects || path.starts_with("/oauth2/")) || !app.engine.request_log().is_enabled() {
            return None;
        }
        let target = uri.query().and(uri.path_and_query()).cloned();
        Some(RequestLogDraft { at, client: OnceLock::new(), body: OnceLock::new(), target })
    }

    /// Sets the authenticated client. The first call wins.
    pub fn set_client(&self, credential: Arc<Credential>) {
        let _ = self.client.set(Client { credential, authenticated: true });
    }

    /// Sets the client that the request names without proof.
    pub fn set_claimed_client(&self, credential: Arc<Credential>) {
        let _ = self.client.set(Client { credential, authenticated: false });
    }

    /// Sets the body. Only its structure is recorded, and only for rejected requests.
    pub fn set_body(&self, body: &Bytes) {
        let _ = self.body.set(body.clone());
    }

    /// Records the request if its project is known and the sampler admits it.
    pub fn submit(&self, app: &App, completed: &CompletedRequest<'_>) {
        let RequestLogDraft { at, client, body, target } = self;
        let Some(Client { credential, authenticated }) = client.get() else { return };
        let Some(project) = credential.owner.project() else { return };
        let status = completed.response.status().as_u16();
        let log = app.engine.request_log();
        let Some(skipped) = log.sample(project, *authenticated, status, *at) else { return };
        let problem = completed.response.extensions().get::<Problem>();
        log.enqueue(RequestLogEntry {
            id: uuid_v7(*at, app.engine.entropy().bytes()),
            project,
            at: *at,
            request_id: completed.request_id.as_str().to_owned(),
            method: completed.method.as_str().to_owned(),
            route: completed.route.to_owned(),
            status,
            rejection: problem.map(|problem| Rejection {
                error_code: problem.code.entry().code.to_owned(),
                detail: redaction::redact_error_detail(&problem.detail),
            }),
            client: credential.client_id.clone(),
            authenticated: *authenticated,
            duration_micros: u64::try_from(completed.elapsed.as_micros()).unwrap_or(u64::MAX),
            query: target.as_ref().and_then(PathAndQuery::query).map(redaction::redact_query),
            body: body.get().filter(|_| problem.is_some()).map(|body| redaction::redact_body(body)),
            skipped,
        });
    }
}

/// Masked: holds bodies and queries.
impl fmt::Debug for RequestLogDraft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RequestLogDraft(…)")
    }
}
