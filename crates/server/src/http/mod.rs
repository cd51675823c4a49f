//! HTTP API: routes, extractors, handlers and middleware.
//!
//! Handlers parse input, call a use case of the engine and render the result. The [`middleware`] renders errors. Public
//! JSON shapes are defined in the modules of their resources only.

pub(crate) mod body;
mod callback_resends;
mod caller;
mod check;
mod detached;
mod docs_pages;
mod eligibility;
pub mod error_catalog;
mod etag;
mod header_case;
mod health;
mod idempotency;
mod ingress;
mod json;
mod management;
pub(crate) mod middleware;
mod oauth;
pub(crate) mod path;
pub(crate) mod problem;
pub(crate) mod query;
pub(crate) mod request_context;
mod request_limits;
mod request_log;
mod reverse_sms;
mod routes;
mod sandbox;
mod silent;
mod sim_swap;
pub mod time;

use std::{sync::Arc, time::Duration};

use axum::response::Response;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use ipnet::IpNet;
use ringtrue_engine::Engine;
use serde::Serialize;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use middleware::{HttpService, RequestTimer};
pub use request_limits::MAX_HEADER_COUNT;
pub use routes::Routes;

use crate::{
    config::RequestLogLevel, connectors::Connectors, console, handsets::Handsets, sandbox_operator::SandboxAuthorizer,
    telemetry::metrics::Metrics,
};

/// State shared by all handlers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct App(Arc<AppState>);

#[derive(Debug)]
pub struct AppState {
    pub engine: Engine,
    pub metrics: Arc<Metrics>,
    pub connectors: Arc<Connectors>,
    /// Simulated handsets of sandbox projects.
    pub handsets: Handsets,
    /// Forwards simulated devices to the sandbox operator.
    pub authorizer: SandboxAuthorizer,
    /// Peers whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: Vec<IpNet>,
    pub request_log: RequestLogLevel,
    /// Whether traces are exported.
    pub traces: bool,
    pub body_timeout: Duration,
    pub request_timeout: Duration,
    /// Maximum idle time of a connection.
    pub idle_timeout: Duration,
    /// Tasks that outlive their request.
    pub tasks: TaskTracker,
    pub shutdown: CancellationToken,
    pub readiness_cache: health::ReadinessCache,
    pub docs_pages: docs_pages::DocsPages,
    pub networks_cache: eligibility::NetworksCache,
}

impl App {
    pub fn new(shared: AppState) -> Self {
        App(Arc::new(shared))
    }
}

impl std::ops::Deref for App {
    type Target = AppState;

    fn deref(&self) -> &AppState {
        &self.0
    }
}

pub use docs_pages::DocsPages;
pub use eligibility::NetworksCache;
pub use health::ReadinessCache;

/// Serves the API and the console.
pub fn public_service(app: App) -> HttpService {
    HttpService::new(public_routes().merge(docs_pages::script_routes()).merge(console::routes()), app).with_hsts()
}

/// Public routes of the API. A test compares them with the OpenAPI document.
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
        .merge(docs_pages::routes())
}

/// Serves metrics and health checks.
pub fn metrics_service(app: App) -> HttpService {
    HttpService::new(Routes::default().merge(health::routes()).get("/metrics", health::metrics), app)
}

/// Serves webhooks of SMS vendors.
pub fn ingress_service(app: App) -> HttpService {
    HttpService::new(ingress::routes(), app)
}

/// Serves devices whose operator enriches headers. Plain HTTP, as gateways cannot add headers to TLS.
pub fn enrichment_service(app: App) -> HttpService {
    HttpService::new(silent::enrichment_routes(), app).with_enrichment_headers()
}

/// Initial buffer size; fits most responses.
const JSON_BUFFER_BYTES: usize = 512;
/// Fits the headers of a response, including those added by the middleware.
const RESPONSE_HEADER_CAPACITY: usize = 12;

fn json_response(status: StatusCode, body: &impl Serialize) -> Response {
    json_bytes_response(status, render_json(body))
}

fn render_json(body: &impl Serialize) -> Vec<u8> {
    let mut document = Vec::with_capacity(JSON_BUFFER_BYTES);
    if serde_json::to_writer(&mut document, body).is_err() {
        document.clear();
    }
    document
}

fn json_bytes_response(status: StatusCode, body: impl Into<axum::body::Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    *response.headers_mut() = HeaderMap::with_capacity(RESPONSE_HEADER_CAPACITY);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
