//! Looks up the network of a number by DNS: ENUM (RFC 6116).
//!
//! The number becomes a domain name (reversed digits under a suffix). Its NAPTR records yield URIs that identify the
//! network by MCC and MNC, by a 3GPP host name, or by an operator code that a table maps. Providers differ in how they
//! write these records, so parsing is lenient; only replies of the queried server are accepted.
//!
//! It does not use a resolver: resolvers hide records that come with REFUSED, and the servers are configured anyway.
//! Results are cached by the engine.

mod config;
mod message;
mod naptr_record;
mod naptr_selection;
mod number_uri;
mod transport;

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use ringtrue_domain::phone::Msisdn;
use ringtrue_engine::ports::{Clock, Entropy, LookupError, LookupResult, LookupSource};
use tokio::time::timeout;

use super::guard::{SourceError, SourceGuard};
use crate::{
    breaker::CallOutcome,
    outbound::{Resolver, SystemResolver},
};
pub use config::{CodeTable, EnumConfig, EnumConfigError, InvalidNameServer, NameServer, RecordRules};
pub use message::{EnumAnswer, EnumQuery, ReplyMatch};
pub use naptr_record::NaptrRecord;
pub use naptr_selection::EnumDecision;

/// ENUM lookup source.
pub struct EnumDns {
    config: EnumConfig,
    resolver: Arc<dyn Resolver>,
    entropy: Arc<dyn Entropy>,
    /// The server to query first: the last one that responded. A dead server costs its timeout only once.
    preferred_server: AtomicUsize,
    guard: SourceGuard,
}

impl EnumDns {
    pub fn new(config: EnumConfig, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Result<Self, EnumConfigError> {
        EnumDns::with_resolver(config, clock, entropy, Arc::new(SystemResolver::default()))
    }

    /// The resolver is for servers configured by name.
    pub fn with_resolver(
        config: EnumConfig,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        resolver: Arc<dyn Resolver>,
    ) -> Result<Self, EnumConfigError> {
        let config = config.validated()?;
        let guard = SourceGuard::new(Arc::clone(&config.name), config.breaker, clock);
        Ok(EnumDns { config, resolver, entropy, preferred_server: AtomicUsize::new(0), guard })
    }

    /// Queries the servers in turn, `tries` times.
    async fn query_servers(&self, number: &Msisdn) -> Result<LookupResult, SourceError> {
        let servers = &self.config.servers;
        let start = self.preferred_server.load(Ordering::Relaxed);
        let mut error = LookupError::Unreachable;
        for _ in 0..self.config.tries {
            for turn in 0..servers.len() {
                let position = (start + turn) % servers.len();
                let mut attempt = ServerAttempt {
                    preferred_server: &self.preferred_server,
                    position,
                    next: (position + 1) % servers.len(),
                    has_responded: false,
                };
                let decision = self.query_server(&servers[position], number).await;
                let unresponsive = [LookupError::Timeout, LookupError::Unreachable].map(EnumDecision::TryNextServer);
                attempt.has_responded = !unresponsive.contains(&decision);
                match decision {
                    EnumDecision::Final(answer) => {
                        self.preferred_server.store(position, Ordering::Relaxed);
                        return answer.map_err(SourceError::from_response);
                    }
                    EnumDecision::TryNextServer(reason) => error = reason,
                    EnumDecision::RetryWithoutEdns => error = LookupError::Refused,
                }
                let (source, server) = (&*self.config.name, &servers[position]);
                tracing::debug!(source, %server, %error, "ENUM server query failed");
            }
        }
        let outcome = if error == LookupError::Timeout { CallOutcome::Timeout } else { CallOutcome::Failure };
        Err(SourceError::new(error, outcome))
    }

    async fn query_server(&self, server: &NameServer, number: &Msisdn) -> EnumDecision {
        let address = match self.address(server).await {
            Ok(address) => address,
            Err(error) => return EnumDecision::TryNextServer(error),
        };
        match self.query_address(address, number, true).await {
            EnumDecision::RetryWithoutEdns => self.query_address(address, number, false).await,
            decision => decision,
        }
    }

    async fn query_address(&self, address: SocketAddr, number: &Msisdn, edns: bool) -> EnumDecision {
        let EnumConfig { suffix, timeout, randomize_case, rules, .. } = &self.config;
        let Some(query) = EnumQuery::new(number, suffix, &*self.entropy, *randomize_case, edns) else {
            return EnumDecision::Final(Err(LookupError::InvalidResponse));
        };
        match transport::send_query(address, &query, *timeout).await {
            Ok(answer) => rules.evaluate(&answer, number),
            Err(error) => EnumDecision::TryNextServer(error),
        }
    }

    async fn address(&self, server: &NameServer) -> Result<SocketAddr, LookupError> {
        if let Ok(address) = server.host.parse::<IpAddr>() {
            return Ok(SocketAddr::new(address, server.port));
        }
        let resolved = timeout(self.config.timeout, self.resolver.resolve(&server.host));
        let addresses: io::Result<_> = resolved.await.map_err(|_| LookupError::Timeout)?;
        let address = addresses.ok().and_then(|addresses| addresses.first().copied());
        address.map(|address| SocketAddr::new(address, server.port)).ok_or(LookupError::Unreachable)
    }
}

/// A query to one server. If it gets no response, or the lookup is dropped, the next number starts with another server.
struct ServerAttempt<'a> {
    preferred_server: &'a AtomicUsize,
    position: usize,
    next: usize,
    has_responded: bool,
}

impl Drop for ServerAttempt<'_> {
    fn drop(&mut self) {
        if !self.has_responded {
            // Unless a concurrent lookup has changed it already.
            let _ =
                self.preferred_server.compare_exchange(self.position, self.next, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

#[async_trait]
impl LookupSource for EnumDns {
    fn name(&self) -> &str {
        &self.config.name
    }

    async fn resolve(&self, number: &Msisdn) -> Result<LookupResult, LookupError> {
        self.guard.run(self.query_servers(number)).await
    }
}

impl fmt::Debug for EnumDns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnumDns").field("name", &self.config.name).finish_non_exhaustive()
    }
}
