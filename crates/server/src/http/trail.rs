//! The trail of a request: whose it is and what it brought, for the log of requests.
//!
//! Only the edge knows how a request was answered, and only handlers know whose it was. What they leave here on the way
//! costs a reference or two; all else is done for the few requests that get into the log.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use axum::response::Response;
use bytes::Bytes;
use http::{Method, Uri, uri::PathAndQuery};
use jiff::Timestamp;
use ringtrue_domain::{id::time_ordered, tenancy::Credential};
use ringtrue_engine::{
    ports::{Rejection, RequestRecord},
    requests::mask,
};

use super::{App, arrival::RequestId, problem::Problem};

pub struct Trail {
    at: Timestamp,
    client: OnceLock<Client>,
    body: OnceLock<Bytes>,
    /// Kept only where there is a query.
    target: Option<PathAndQuery>,
}

/// The client of a request.
struct Client {
    credential: Arc<Credential>,
    /// It has shown its secret, or a token that is good.
    authenticated: bool,
}

/// How a request was answered.
#[derive(Debug)]
pub struct Answered<'a> {
    pub method: &'a Method,
    pub route: &'static str,
    pub request_id: &'a RequestId,
    pub response: &'a Response,
    pub elapsed: Duration,
}

impl Trail {
    /// Of calls for projects. Who manages leaves a trail in the audit log.
    pub fn of(app: &App, uri: &Uri, at: Timestamp) -> Option<Self> {
        let path = uri.path();
        let is_for_projects = path.strip_prefix("/v1/").is_some_and(|rest| !rest.starts_with("management/"));
        if !(is_for_projects || path.starts_with("/oauth2/")) || !app.engine.request_log().is_kept() {
            return None;
        }
        let target = uri.query().and(uri.path_and_query()).cloned();
        Some(Trail { at, client: OnceLock::new(), body: OnceLock::new(), target })
    }

    /// Sets the client that has sent the request. The first call counts.
    pub fn set_client(&self, credential: Arc<Credential>) {
        let _ = self.client.set(Client { credential, authenticated: true });
    }

    /// Sets the client that the request names without proof.
    pub fn set_claimed_client(&self, credential: Arc<Credential>) {
        let _ = self.client.set(Client { credential, authenticated: false });
    }

    /// What came with it. Only its shape is kept, and only when the request is rejected.
    pub fn brings(&self, body: &Bytes) {
        let _ = self.body.set(body.clone());
    }

    /// Puts the request into the log, if it is known whose it is and there is room.
    pub fn end(&self, app: &App, answered: &Answered<'_>) {
        let Trail { at, client, body, target } = self;
        let Some(Client { credential, authenticated }) = client.get() else { return };
        let Some(project) = credential.owner.project() else { return };
        let status = answered.response.status().as_u16();
        let log = app.engine.request_log();
        let Some(skipped) = log.admits(project, *authenticated, status, *at) else { return };
        let problem = answered.response.extensions().get::<Problem>();
        log.put(RequestRecord {
            id: time_ordered(*at, app.engine.entropy().bytes()),
            project,
            at: *at,
            request_id: answered.request_id.as_str().to_owned(),
            method: answered.method.as_str().to_owned(),
            route: answered.route.to_owned(),
            status,
            rejection: problem.map(|problem| Rejection {
                error_code: problem.code.entry().code.to_owned(),
                detail: mask::detail(&problem.detail),
            }),
            client: credential.client_id.clone(),
            authenticated: *authenticated,
            micros: u64::try_from(answered.elapsed.as_micros()).unwrap_or(u64::MAX),
            query: target.as_ref().and_then(PathAndQuery::query).map(mask::query),
            body: body.get().filter(|_| problem.is_some()).map(|body| mask::body(body)),
            skipped,
        });
    }
}

/// Nothing of what came.
impl fmt::Debug for Trail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trail(…)")
    }
}
