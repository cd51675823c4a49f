//! HTTP API, OAuth, hosted page and documentation: handlers and their extractors.
//!
//! Each resource's module defines its public JSON types. `api/openapi.yaml` is the contract.

mod browser_cookie;
mod caller;
mod camara;
mod checks;
mod digital_credential;
mod docs_pages;
mod eligibility;
mod health;
mod idempotency;
mod landing;
mod logos;
mod management;
mod oauth;
mod pages;
mod redirect_response;
mod sandbox;
mod sign_in_page;
mod silent;
mod sms_webhooks;
mod verification_page;
mod verifications;

use std::sync::Arc;

use ringtrue_web::routes::Routes;

use docs_pages::DocsPages;
pub use pages::openapi;
pub use sms_webhooks::Webhooks;

/// Routes of the public listener: the API, its documentation and the hosted verification page.
pub fn routes() -> Routes {
    let docs = DocsPages::default();
    documented_routes(&docs)
        .merge(docs_pages::script_routes(&docs))
        .merge(landing::routes())
        .merge(logos::routes())
        .merge(verification_page::routes())
        .merge(sign_in_page::routes())
}

/// Public routes of the API. A test compares them with the OpenAPI document.
pub fn public_routes() -> Routes {
    documented_routes(&DocsPages::default())
}

fn documented_routes(docs: &DocsPages) -> Routes {
    Routes::default()
        .merge(oauth::routes())
        .merge(camara::routes())
        .merge(checks::routes())
        .merge(silent::routes())
        .merge(verifications::routes())
        .merge(eligibility::routes())
        .merge(sandbox::routes())
        .merge(management::routes())
        .merge(health::routes())
        .merge(docs_pages::routes(docs))
}

/// Routes of the metrics listener: metrics and health checks.
pub fn metrics_routes() -> Routes {
    health::routes().get("/metrics", health::metrics)
}

/// Routes on which SMS vendors deliver inbound SMS by webhook.
pub fn sms_webhook_routes(webhooks: Arc<dyn Webhooks>) -> Routes {
    sms_webhooks::routes(webhooks)
}

/// Routes for devices whose operator adds their number in a request header (header enrichment).
pub fn enrichment_routes() -> Routes {
    silent::enrichment_routes()
}
