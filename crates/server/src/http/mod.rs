//! HTTP API: routes, extractors, handlers and middleware.
//!
//! Handlers parse input, call a use case of the engine and render the result. The [`middleware`] renders errors. Public
//! JSON shapes are defined in the modules of their resources only.

pub(crate) mod app;
pub(crate) mod body;
mod caller;
mod checks;
mod docs_pages;
mod eligibility;
pub mod error_catalog;
mod health;
mod idempotency;
mod landing;
mod management;
mod middleware;
mod oauth;
pub(crate) mod parameters;
pub(crate) mod problem;
pub(crate) mod request_context;
mod request_limits;
pub(crate) mod response;
pub mod routes;
mod sandbox;
mod silent;
mod sms_webhooks;
pub(crate) mod verification_page;
mod verifications;

pub use app::App;
pub use middleware::HttpService;
use routes::Routes;

use crate::console;

/// Serves the API, the hosted verification page and the console.
pub fn public_service(app: App) -> HttpService {
    let pages = docs_pages::script_routes().merge(landing::routes());
    let pages = pages.merge(verification_page::routes()).merge(console::routes());
    HttpService::new(public_routes().merge(pages), app).with_hsts()
}

/// Public routes of the API. A test compares them with the OpenAPI document.
pub fn public_routes() -> Routes {
    Routes::default()
        .merge(oauth::routes())
        .merge(checks::routes())
        .merge(silent::routes())
        .merge(verifications::routes())
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
pub fn sms_webhook_service(app: App) -> HttpService {
    HttpService::new(sms_webhooks::routes(), app)
}

/// Serves devices whose operator enriches headers. Plain HTTP, as gateways cannot add headers to TLS.
pub fn enrichment_service(app: App) -> HttpService {
    HttpService::new(silent::enrichment_routes(), app).with_enrichment_headers()
}
