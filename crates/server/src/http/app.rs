//! State shared by all handlers.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use ringtrue_engine::{Engine, lookups::networks::NetworkInfo};
use tokio::{sync::Mutex, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    config::{HttpSection, RequestLogLevel},
    connectors::Connectors,
    development::Development,
    handsets::Handsets,
    identity_provider::IdentityProvider,
    sandbox_operator::AuthorizationForwarder,
    telemetry::metrics::Metrics,
};

/// Cheap to clone.
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
    pub authorization_forwarder: AuthorizationForwarder,
    /// Limits, timeouts and trusted proxies of the listener.
    pub http: HttpSection,
    pub request_log: RequestLogLevel,
    /// Whether traces are exported.
    pub traces: bool,
    /// Tasks that outlive their request.
    pub tasks: TaskTracker,
    pub shutdown: CancellationToken,
    /// Time and result of the last database ping.
    pub last_ping: Mutex<Option<(Instant, PingResult)>>,
    /// Documentation by path, rendered on first use.
    pub docs_pages: OnceLock<BTreeMap<String, Bytes>>,
    pub eligibility_bodies: EligibilityBodies,
    /// Sign-in to the console by OpenID Connect. `None`: off.
    pub identity_provider: Option<Arc<IdentityProvider>>,
    /// `None` unless `ringtrue dev` started this server.
    pub development: Option<Arc<Development>>,
}

pub type PingResult = Result<(), Arc<str>>;

/// Rendered responses by address of the network and bit set of products. The network is kept alive, so that its
/// address stays unique.
pub type EligibilityBodies = papaya::HashMap<(usize, u8), (Arc<NetworkInfo>, Bytes)>;

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
