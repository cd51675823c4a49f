//! State shared by all handlers.

use std::{net::IpAddr, sync::Arc, time::Duration};

use ipnet::IpNet;
use ringtrue_engine::Engine;
use ringtrue_sandbox::handsets::Handsets;
use serde::Deserialize;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{authorization_forwarder::AuthorizationForwarder, development::Development, metrics::Metrics};

/// Cheap to clone.
#[derive(Clone, Debug)]
pub struct App(Arc<AppState>);

/// What only some routes need is an extension of theirs: see
/// [`Routes::with_extension`](crate::routes::Routes::with_extension).
#[derive(Debug)]
pub struct AppState {
    pub engine: Engine,
    pub metrics: Arc<Metrics>,
    /// Simulated handsets of sandbox projects.
    pub handsets: Handsets,
    /// Forwards simulated devices to the sandbox operator.
    pub authorization_forwarder: AuthorizationForwarder,
    pub http: HttpSettings,
    pub log_requests: LoggedRequests,
    /// Whether traces are exported.
    pub traces: bool,
    /// Tasks that outlive their request.
    pub tasks: TaskTracker,
    pub shutdown: CancellationToken,
    /// `None` unless `ringtrue dev` started this server.
    pub development: Option<Arc<Development>>,
}

/// Timeouts and trusted proxies of a listener, as far as requests depend on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpSettings {
    /// Proxies whose client address information is trusted.
    pub trusted_proxies: Vec<IpNet>,
    pub body_timeout: Duration,
    pub request_timeout: Duration,
    pub idle_timeout: Duration,
}

/// Requests to write to the application log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoggedRequests {
    Off,
    /// Responses with status 5xx.
    Errors,
    All,
}

impl App {
    pub fn new(state: AppState) -> Self {
        App(Arc::new(state))
    }

    /// Whether the peer is a proxy whose information about its clients is trusted.
    pub fn trusts_proxy(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.http.trusted_proxies.iter().any(|proxies| proxies.contains(&address))
    }
}

impl std::ops::Deref for App {
    type Target = AppState;

    fn deref(&self) -> &AppState {
        &self.0
    }
}
