//! Simulated CAMARA operator: an OpenID provider for simulated SIMs, and the APIs Number Verification 2.1 and SIM Swap
//! 2.1.
//!
//! The authorization endpoint recognises devices by their mobile network, which is simulated: `login_hint` is the
//! number of the device's SIM. The last two digits of the number select the outcome, see [`sim`]; there is no user
//! interaction. Grants are authorization code, client credentials, CIBA and JWT bearer. Tokens for Number Verification
//! are single-use.
//!
//! The CAMARA security profile applies where it is stricter than OpenID: exactly one purpose in the scope, client
//! assertions that live up to five minutes and are used once, and no parameters outside of a request object.
//!
//! The operator also issues operator tokens of SIMs (GSMA TS.43) to simulated wallets: see [`wallet`](crate::wallet).
//!
//! Connections, bodies and stored entries are bounded. Codes and tokens contain their data in encrypted form, so that
//! only used ones are stored.
//!
//! Deliberately absent: TLS, DPoP, refresh tokens, consent, encrypted tokens, subscriptions to SIM changes, and
//! persistence.

mod api;
mod client;
mod endpoint;
mod jose;
mod message;
mod openid;
mod server;
mod sim;
mod store;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use aws_lc_rs::{error::Unspecified, hmac, rand};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(crate) use self::sim::WalletSupport;
pub use self::{
    client::{OAuthClient, Scope},
    endpoint::{Endpoint, EndpointFault, RecordedRequest},
    jose::InvalidJwk,
    sim::{InvalidPhoneNumber, PhoneNumber},
};
use self::{
    endpoint::{FaultTable, RequestObserver},
    jose::SigningKey,
    store::{OperatorStore, OperatorToken, SealedKind, Sealer},
};

#[derive(Clone, derive_more::Debug)]
#[debug("OperatorConfig({listen}, {issuer:?}, {clients:?})")]
pub struct OperatorConfig {
    /// Port 0 selects a free port.
    pub listen: SocketAddr,
    /// Issuer and base URL of the endpoints; default: the listen address.
    pub issuer: Option<String>,
    /// Public URL of the authorization endpoint, if devices use a different one than clients.
    pub authorization_endpoint: Option<String>,
    pub clients: Vec<OAuthClient>,
    /// SIM of devices that send no `login_hint`. `None`: such devices are not recognised.
    pub default_sim: Option<PhoneNumber>,
    /// Number of days for which the law permits a SIM history. `None`: unlimited.
    pub monitored_days: Option<u32>,
    /// Polling interval of CIBA clients, in whole seconds.
    pub poll_interval: Duration,
    pub clock: Clock,
    /// Maximum number of connections. Further ones are closed immediately.
    pub max_connections: usize,
    /// Key that encrypts codes and tokens. Operators with the same key accept each other's codes and tokens. `None`: a
    /// random key.
    pub seal_key: Option<[u8; 32]>,
    /// Maximum number of stored entries of each kind (used codes, used tokens, requests).
    pub max_records: usize,
}

impl Default for OperatorConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            issuer: None,
            authorization_endpoint: None,
            clients: vec![],
            default_sim: None,
            monitored_days: None,
            poll_interval: Duration::from_secs(5),
            clock: Clock::default(),
            max_connections: 256,
            seal_key: None,
            max_records: 10_000,
        }
    }
}

/// A running operator. Stops when dropped; [`shutdown`](Self::shutdown) also waits for its tasks.
#[derive(Debug)]
pub struct Operator {
    address: SocketAddr,
    state: Arc<OperatorState>,
    tasks: TaskTracker,
}

/// State shared by all requests.
#[derive(Debug)]
struct OperatorState {
    config: OperatorConfig,
    issuer: String,
    signing_key: SigningKey,
    sealer: Sealer,
    /// Key from which the pairwise `sub` of a number is derived.
    pseudonym_key: hmac::Key,
    /// When the first SIM of every number was activated, in Unix seconds.
    activated_at: i64,
    store: Mutex<OperatorStore>,
    faults: FaultTable,
    observer: RequestObserver,
    stop: CancellationToken,
}

impl Operator {
    pub async fn start(config: OperatorConfig) -> io::Result<Self> {
        let listener = TcpListener::bind(config.listen).await?;
        let address = listener.local_addr()?;
        let state = Arc::new(OperatorState::new(config, address).map_err(io::Error::other)?);
        let tasks = TaskTracker::new();
        tasks.spawn(server::listen(listener, Arc::clone(&state), tasks.clone()));
        Ok(Self { address, state, tasks })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn issuer(&self) -> &str {
        &self.state.issuer
    }

    /// Returns the absolute URL of an endpoint.
    pub fn url(&self, endpoint: Endpoint) -> String {
        self.state.url(endpoint)
    }

    /// Swaps the SIM of a number now. Numbers that simulate an error keep doing so.
    pub fn swap_sim(&self, number: &PhoneNumber) {
        let now = self.state.now();
        // The record expires when the swap is as old as every first SIM at the start. Such an old change does not
        // affect results.
        let until = now + FIRST_SIM_AGE_SECONDS;
        self.state.store().sim_swaps.insert(now, number.as_str(), until, now);
    }

    /// Issues a single-use operator token for the SIM of a number, as an entitlement server does after it has
    /// authenticated the SIM.
    pub fn issue_operator_token(&self, number: &PhoneNumber) -> Result<String, Unspecified> {
        let content = OperatorToken { number: number.clone(), until: self.state.now() + OPERATOR_TOKEN_LIFETIME };
        self.state.sealer.seal(SealedKind::OperatorToken, &content)
    }

    /// Returns the Unix time in seconds, by the operator's clock.
    pub(crate) fn now(&self) -> i64 {
        self.state.now()
    }

    /// Simulates a fault in all responses of an endpoint, until it is replaced or cleared.
    pub fn set_fault(&self, endpoint: Endpoint, fault: EndpointFault) {
        self.state.faults.set(endpoint, fault, None);
    }

    /// Simulates a fault in the next `times` responses of an endpoint.
    pub fn set_fault_for_next(&self, times: u32, endpoint: Endpoint, fault: EndpointFault) {
        self.state.faults.set(endpoint, fault, Some(times));
    }

    pub fn clear_faults(&self) {
        self.state.faults.clear();
    }

    /// Returns the number of requests that an endpoint has received.
    pub fn request_count(&self, endpoint: Endpoint) -> u64 {
        self.state.observer.request_count(endpoint)
    }

    /// Waits until an endpoint has received this number of requests.
    pub async fn wait_for_requests(&self, endpoint: Endpoint, count: u64) {
        self.state.observer.wait_for_requests(endpoint, count).await;
    }

    /// Returns the recent requests, oldest first.
    pub fn recorded_requests(&self) -> Vec<RecordedRequest> {
        self.state.observer.recorded_requests()
    }

    /// Closes all connections and waits for all tasks.
    pub async fn shutdown(&self) {
        self.state.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.state.stop.cancel();
    }
}

/// Lifetime of operator tokens, in seconds.
const OPERATOR_TOKEN_LIFETIME: i64 = 300;

/// Age of every first SIM when the operator starts, in seconds: more than two years, which is longer than any period
/// that clients can ask for.
const FIRST_SIM_AGE_SECONDS: i64 = 800 * 86_400;

impl OperatorState {
    fn new(config: OperatorConfig, address: SocketAddr) -> Result<Self, Unspecified> {
        let [mut pseudonym_secret, mut seal_key] = [[0; 32]; 2];
        rand::fill(&mut pseudonym_secret)?;
        rand::fill(&mut seal_key)?;
        Ok(Self {
            issuer: config.issuer.clone().unwrap_or_else(|| format!("http://{address}")),
            signing_key: SigningKey::generate()?,
            sealer: Sealer::new(&config.seal_key.unwrap_or(seal_key))?,
            pseudonym_key: hmac::Key::new(hmac::HMAC_SHA256, &pseudonym_secret),
            activated_at: config.clock.now() - FIRST_SIM_AGE_SECONDS,
            store: Mutex::new(OperatorStore::new(config.max_records)),
            faults: FaultTable::default(),
            observer: RequestObserver::new(config.max_records),
            stop: CancellationToken::new(),
            config,
        })
    }

    fn now(&self) -> i64 {
        self.config.clock.now()
    }

    fn store(&self) -> MutexGuard<'_, OperatorStore> {
        self.store.lock()
    }

    fn client(&self, id: &str) -> Option<&OAuthClient> {
        self.config.clients.iter().find(|client| client.id == id)
    }

    fn url(&self, endpoint: Endpoint) -> String {
        match &self.config.authorization_endpoint {
            Some(public_url) if endpoint == Endpoint::Authorize => public_url.clone(),
            _ => format!("{}{}", self.issuer.trim_end_matches('/'), endpoint.path()),
        }
    }

    /// Returns the issuer for responses, which is wrong if a simulated fault requires it.
    fn stated_issuer(&self, fault: &EndpointFault) -> &str {
        if fault.wrong_issuer { "https://someone-else.invalid" } else { &self.issuer }
    }
}

pub(crate) fn random_token() -> Result<String, Unspecified> {
    let mut octets = [0; 32];
    rand::fill(&mut octets)?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(octets))
}

/// The system clock, or one set by a test.
#[derive(Clone, derive_more::Debug)]
#[debug("Clock")]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Returns the Unix time in seconds.
    fn now(&self) -> i64 {
        (self.0)().as_second()
    }
}

impl Default for Clock {
    #[expect(clippy::disallowed_methods, reason = "the simulated operator uses the system clock")]
    fn default() -> Self {
        Self::new(Timestamp::now)
    }
}
