//! An operator's CAMARA side: an OpenID provider that recognises simulated SIMs, and the APIs Number Verification 2.1
//! and SIM Swap 2.1 for those whom it gave a token.
//!
//! Devices come to the authorization endpoint and are recognised by their network, which is simulated: the parameter
//! `login_hint` names the SIM that the device has. What then happens is decided by the number's last two digits, as
//! [`sim`] says, and nothing is ever asked of the user. Clients get tokens by code, by client credentials, by CIBA and by
//! JWT bearer; those for Number Verification are good for one call.
//!
//! It follows CAMARA's security profile where that is stricter than OpenID: scopes need exactly one purpose, signed
//! tokens live five minutes at most and are taken once, and parameters beside a request object do not count.
//!
//! Everything is bounded: connections, bodies, and what is remembered. Codes and tokens are not: they hold what they
//! stand for, and only those that were used are remembered.
//!
//! Deliberately absent: TLS, DPoP, refresh tokens, consent, encrypted tokens, subscriptions to SIM changes, and keeping
//! anything over a restart.

mod api;
mod client;
mod clock;
mod endpoint;
mod expiring;
mod fault;
mod http;
mod jose;
mod memory;
mod observer;
mod openid;
mod routes;
mod scope;
mod sealed;
mod sim;

use std::{
    fmt, io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use aws_lc_rs::{error::Unspecified, hmac, rand};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::{
    client::Client,
    clock::Clock,
    endpoint::Endpoint,
    fault::Fault,
    jose::BadKey,
    observer::Exchange,
    scope::Scope,
    sim::{NotANumber, PhoneNumber},
};
use self::{fault::Faults, jose::SigningKey, memory::Memory, observer::Observer, sealed::Sealer};

/// What an operator is like.
#[derive(Clone)]
pub struct OperatorConfig {
    /// Port 0 takes any that is free.
    pub listen: SocketAddr,
    /// What it calls itself; without this, the address that it listens at. Its endpoints are named under it.
    pub issuer: Option<String>,
    /// Where devices are sent, if they come by another way than clients do.
    pub authorization_endpoint: Option<String>,
    pub clients: Vec<Client>,
    /// The SIM of a device that names none. Without this, such a device is not recognised.
    pub default_sim: Option<PhoneNumber>,
    /// How many days the law lets it remember changes of SIMs; without this, it remembers them all.
    pub monitored_days: Option<u32>,
    /// How long CIBA clients are to wait between questions, in whole seconds.
    pub poll_interval: Duration,
    pub clock: Clock,
    /// Connections at a time; those above are closed at once.
    pub connections: usize,
    /// Seals codes and tokens, which operators with the same key take from each other; without this, a key of its own.
    pub seal_key: Option<[u8; 32]>,
    /// How many used codes, used tokens and the like it remembers, of each kind, and how many exchanges.
    pub remembered: usize,
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
            connections: 256,
            seal_key: None,
            remembered: 10_000,
        }
    }
}

impl fmt::Debug for OperatorConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperatorConfig")
            .field("listen", &self.listen)
            .field("issuer", &self.issuer)
            .field("clients", &self.clients)
            .finish_non_exhaustive()
    }
}

/// A running operator. It stops when it is dropped; [`shutdown`](Self::shutdown) also waits until it has.
#[derive(Debug)]
pub struct Operator {
    address: SocketAddr,
    core: Arc<Core>,
    tasks: TaskTracker,
}

/// What all requests share.
#[derive(Debug)]
struct Core {
    config: OperatorConfig,
    issuer: String,
    key: SigningKey,
    sealer: Sealer,
    /// Makes pseudonyms of numbers.
    pseudonyms: hmac::Key,
    /// When the first SIMs were activated, all at once.
    activated_at: i64,
    memory: Mutex<Memory>,
    faults: Faults,
    observer: Observer,
    stop: CancellationToken,
}

impl Operator {
    pub async fn start(config: OperatorConfig) -> io::Result<Self> {
        let listener = TcpListener::bind(config.listen).await?;
        let address = listener.local_addr()?;
        let core = Arc::new(Core::new(config, address).map_err(io::Error::other)?);
        let tasks = TaskTracker::new();
        tasks.spawn(http::listen(listener, Arc::clone(&core), tasks.clone()));
        Ok(Self { address, core, tasks })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it calls itself. Discovery is found under it.
    pub fn issuer(&self) -> &str {
        &self.core.issuer
    }

    /// The absolute URL of an endpoint.
    pub fn url(&self, endpoint: Endpoint) -> String {
        self.core.url(endpoint)
    }

    /// The number gets another SIM, now. Numbers whose history is an error stay so.
    pub fn swap(&self, number: &PhoneNumber) {
        let now = self.core.now();
        // By then it is as old as if it had never happened.
        let until = now + FIRST_SIMS_AGE;
        self.core.memory().swaps.insert(now, number.as_str().to_owned(), until, now);
    }

    /// From now on, all answers of this endpoint have this fault, which takes the place of another one.
    pub fn befall(&self, endpoint: Endpoint, fault: Fault) {
        self.core.faults.set(endpoint, fault, None);
    }

    /// The next answers of this endpoint have this fault.
    pub fn befall_next(&self, times: u32, endpoint: Endpoint, fault: Fault) {
        self.core.faults.set(endpoint, fault, Some(times));
    }

    /// From now on, everything works.
    pub fn recover(&self) {
        self.core.faults.clear();
    }

    /// How many requests have come to this endpoint.
    pub fn requests(&self, endpoint: Endpoint) -> u64 {
        self.core.observer.requests(endpoint)
    }

    /// Waits until so many requests have come to this endpoint.
    pub async fn wait_for_requests(&self, endpoint: Endpoint, count: u64) {
        self.core.observer.wait_for_requests(endpoint, count).await;
    }

    /// The last requests, oldest first, and what became of them.
    pub fn exchanges(&self) -> Vec<Exchange> {
        self.core.observer.exchanges()
    }

    /// Breaks all connections, and waits until nothing of it is left.
    pub async fn shutdown(&self) {
        self.core.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.core.stop.cancel();
    }
}

/// In seconds: more than two years, so that it is more than one to everybody.
const FIRST_SIMS_AGE: i64 = 800 * 86_400;

impl Core {
    fn new(config: OperatorConfig, address: SocketAddr) -> Result<Self, Unspecified> {
        let [mut pseudonym_key, mut seal_key] = [[0; 32]; 2];
        rand::fill(&mut pseudonym_key)?;
        rand::fill(&mut seal_key)?;
        Ok(Self {
            issuer: config.issuer.clone().unwrap_or_else(|| format!("http://{address}")),
            key: SigningKey::generate()?,
            sealer: Sealer::new(&config.seal_key.unwrap_or(seal_key))?,
            pseudonyms: hmac::Key::new(hmac::HMAC_SHA256, &pseudonym_key),
            activated_at: config.clock.now() - FIRST_SIMS_AGE,
            memory: Mutex::new(Memory::new(config.remembered)),
            faults: Faults::default(),
            observer: Observer::new(config.remembered),
            stop: CancellationToken::new(),
            config,
        })
    }

    fn now(&self) -> i64 {
        self.config.clock.now()
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn client(&self, id: &str) -> Option<&Client> {
        self.config.clients.iter().find(|client| client.id == id)
    }

    fn url(&self, endpoint: Endpoint) -> String {
        match &self.config.authorization_endpoint {
            Some(elsewhere) if endpoint == Endpoint::Authorize => elsewhere.clone(),
            _ => format!("{}{}", self.issuer.trim_end_matches('/'), endpoint.path()),
        }
    }

    /// The issuer as an answer names it.
    fn stated_issuer(&self, fault: &Fault) -> &str {
        if fault.wrong_issuer { "https://someone-else.invalid" } else { &self.issuer }
    }
}

/// A name that nobody can guess.
fn unguessable() -> Result<String, Unspecified> {
    let mut octets = [0; 32];
    rand::fill(&mut octets)?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(octets))
}
