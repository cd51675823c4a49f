//! State shared by all handlers.

use std::{net::IpAddr, sync::Arc, time::Duration};

use ipnet::IpNet;
use ringtrue_engine::Engine;
use ringtrue_sandbox::handsets::Handsets;
use serde::Deserialize;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{authorization_forwarder::AuthorizationForwarder, development::Development, metrics::Metrics};

/// State shared by all handlers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct App(Arc<AppState>);

/// Fields of [`App`]. State that only some routes need is a route extension instead: see
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
    /// Whether traces are exported. Otherwise requests have no tracing span.
    pub traces: bool,
    /// Tracks tasks that outlive their request, so that shutdown can wait for them.
    pub tasks: TaskTracker,
    pub shutdown: CancellationToken,
    /// Information about a server that `ringtrue dev` started. `None` for other servers.
    pub development: Option<Arc<Development>>,
}

/// HTTP settings that affect individual requests: timeouts and trusted proxies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpSettings {
    /// Proxies that are trusted to report client addresses, by `X-Forwarded-For` or the PROXY protocol.
    pub trusted_proxies: Vec<IpNet>,
    pub body_timeout: Duration,
    pub request_timeout: Duration,
    pub idle_timeout: Duration,
}

/// Which requests the server writes to the application log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoggedRequests {
    Off,
    /// Only requests whose response has a 5xx status.
    Errors,
    All,
}

impl App {
    pub fn new(state: AppState) -> Self {
        App(Arc::new(state))
    }

    /// Returns whether the peer is a proxy that is trusted to report client addresses.
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
