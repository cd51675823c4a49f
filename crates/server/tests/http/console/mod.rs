//! Tests of the console over HTTP.

mod accounts;
mod allowed_networks;
mod brand_preview;
pub mod browser;
mod callbacks;
mod checks;
mod deployment;
mod getting_started;
mod handset;
mod limits;
pub mod live;
mod logo;
mod openid_connect;
mod overview;
mod pages;
mod projects;
mod requests;
mod roles;
mod sandbox_tokens;
mod search;
pub mod second_factor;
mod sign_in;
mod sign_in_settings;
mod sign_in_test;
mod signatures;

use std::sync::Arc;

use ringtrue_console::{CertificateStatuses, ConnectorStatuses, ConsoleDependencies};
use ringtrue_engine::ports::{certificates::CertificateStatus, connectors::ConnectorStatus};
use ringtrue_web::routes::Routes;

#[derive(Debug)]
struct NoConnectors;

impl ConnectorStatuses for NoConnectors {
    fn statuses(&self) -> Vec<ConnectorStatus> {
        vec![]
    }
}

#[derive(Debug)]
struct NoCertificates;

impl CertificateStatuses for NoCertificates {
    fn certificates(&self) -> Vec<CertificateStatus> {
        vec![]
    }
}

/// Returns all routes of the console, so that tests can list them.
pub fn console_routes() -> Routes {
    let (identity_provider, logged_routes) = (None, Arc::default());
    ringtrue_console::routes(ConsoleDependencies {
        identity_provider,
        connectors: Arc::new(NoConnectors),
        certificates: Arc::new(NoCertificates),
        logged_routes,
    })
}
