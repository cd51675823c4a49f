//! The HTTP door: routes, and everything between a socket's bytes and a use case.
//!
//! A handler is a sentence: who may call, what comes in, what goes out. Rules live in the engine, error bodies are
//! written by the [`edge`], and the public JSON shapes are in the modules of their resources and nowhere else.

mod admission;
pub(crate) mod arrival;
pub(crate) mod body;
mod callback_resends;
mod caller;
pub mod catalogue;
mod check;
pub(crate) mod edge;
mod eligibility;
mod etag;
mod health;
mod idempotency;
mod ingress;
mod json;
mod management;
mod oauth;
pub(crate) mod path;
pub(crate) mod problem;
pub(crate) mod query;
mod reverse_sms;
mod routes;
mod sandbox;
mod silent;
mod sim_swap;
mod site;
pub mod time;
mod to_the_end;
mod trail;
mod usual_case;

use std::{sync::Arc, time::Duration};

use axum::response::Response;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use ipnet::IpNet;
use ringtrue_engine::Engine;
use serde::Serialize;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use admission::MAX_HEADER_COUNT;
pub use edge::{Door, Patience};
pub use routes::Routes;

use crate::{
    config::RequestLog, connectors::Connectors, console, handsets::Handsets, sandbox_operator::Authorizer,
    telemetry::metrics::Metrics,
};

/// What handlers share. Cheap to clone.
#[derive(Clone, Debug)]
pub struct App(Arc<Shared>);

#[derive(Debug)]
pub struct Shared {
    pub engine: Engine,
    pub metrics: Arc<Metrics>,
    pub connectors: Arc<Connectors>,
    /// The simulated handsets of sandbox projects.
    pub handsets: Handsets,
    /// Hands simulated devices on to their operator.
    pub authorizer: Authorizer,
    /// Peers whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    pub request_log: RequestLog,
    /// Whether somebody collects traces.
    pub traces: bool,
    pub body_timeout: Duration,
    pub request_timeout: Duration,
    /// How long a connection may stay open without a word.
    pub idle_timeout: Duration,
    /// Work that goes on when nobody waits for it any more.
    pub tasks: TaskTracker,
    pub shutdown: CancellationToken,
    pub readiness: health::Readiness,
    pub site: site::Site,
    pub told_networks: eligibility::ToldNetworks,
}

impl App {
    pub fn new(shared: Shared) -> Self {
        App(Arc::new(shared))
    }
}

impl std::ops::Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

pub use eligibility::ToldNetworks;
pub use health::Readiness;
pub use site::Site;

/// The public door: to the API, and to the console.
pub fn public_door(app: App) -> Door {
    Door::new(public_routes().merge(console::routes()), app).with_hsts()
}

/// Every public route of the API, with the table that the OpenAPI document is held against.
pub fn public_routes() -> Routes {
    Routes::default()
        .merge(oauth::routes())
        .merge(reverse_sms::routes())
        .merge(silent::routes())
        .merge(sim_swap::routes())
        .merge(callback_resends::routes())
        .merge(eligibility::routes())
        .merge(sandbox::routes())
        .merge(management::routes())
        .merge(health::routes())
        .merge(site::routes())
}

/// What is served on the listener for operators: metrics and health.
pub fn operator_door(app: App) -> Door {
    Door::new(Routes::default().merge(health::routes()).get("/metrics", health::metrics), app)
}

/// The door for operators' webhooks.
pub fn ingress_door(app: App) -> Door {
    Door::new(ingress::routes(), app)
}

/// The door for devices whose operator tells by a header who they are. Plain HTTP: nobody can add one to TLS.
pub fn enrichment_door(app: App) -> Door {
    Door::new(silent::enrichment_routes(), app).keeping_enrichment()
}

/// Room for the answers that are asked for most often: what grows is copied.
const MOST_ANSWERS: usize = 512;
/// Room for the headers of an answer, those that the edge adds and those of a rate limit included.
const MOST_HEADERS: usize = 12;

/// A JSON answer.
fn json(status: StatusCode, body: &impl Serialize) -> Response {
    json_bytes(status, rendered(body))
}

fn rendered(body: &impl Serialize) -> Vec<u8> {
    let mut document = Vec::with_capacity(MOST_ANSWERS);
    if serde_json::to_writer(&mut document, body).is_err() {
        document.clear();
    }
    document
}

fn json_bytes(status: StatusCode, body: impl Into<axum::body::Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    *response.headers_mut() = HeaderMap::with_capacity(MOST_HEADERS);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
