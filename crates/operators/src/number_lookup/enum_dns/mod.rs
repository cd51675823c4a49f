//! Which network serves a number, by DNS: ENUM (RFC 6116).
//!
//! The number becomes a name, its digits backwards under a suffix, and the name's NAPTR records become URIs that tell
//! the network: by its codes, by a host that is named after them, or by a code of the operator that a table knows.
//! Those who sell such answers write them each in their own way; what they write is read with patience, and believed
//! only from whom was asked.
//!
//! The exchange is our own: a resolver hides records that come with a refusal, and there is nothing to resolve, since
//! the servers are named. Answers are not kept here; whoever asks several sources does so.

mod config;
mod exchange;
mod judgement;
mod message;
mod record;
mod uri;

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
use ringtrue_engine::ports::{Clock, Entropy, NumberSource, Resolved, SourceFault};
use tokio::time::timeout;

use super::guard::{Fault, Guard};
use crate::{
    breaker::Effect,
    outbound::{Resolver, SystemResolver},
};
pub use config::{BadEnumConfig, CodeTable, EnumConfig, NameServer, NotAServer, Reading};
pub use judgement::Judgement;
pub use message::{Answer, Query, Reception};
pub use record::Record;

/// A source that is asked by DNS.
pub struct EnumDns {
    config: EnumConfig,
    resolver: Arc<dyn Resolver>,
    entropy: Arc<dyn Entropy>,
    /// Which server is asked first: the one that answered last. A dead one costs its time once, not with each number.
    first: AtomicUsize,
    guard: Guard,
}

impl EnumDns {
    pub fn new(config: EnumConfig, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Result<Self, BadEnumConfig> {
        EnumDns::with_resolver(config, clock, entropy, Arc::new(SystemResolver::default()))
    }

    /// The resolver is asked for the addresses of servers that are given by name.
    pub fn with_resolver(
        config: EnumConfig,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        resolver: Arc<dyn Resolver>,
    ) -> Result<Self, BadEnumConfig> {
        let config = config.checked()?;
        let guard = Guard::new(Arc::clone(&config.name), config.breaker, clock);
        Ok(EnumDns { config, resolver, entropy, first: AtomicUsize::new(0), guard })
    }

    /// Each server in its turn, and all of them again.
    async fn ask(&self, number: &Msisdn) -> Result<Resolved, Fault> {
        let servers = &self.config.servers;
        let first = self.first.load(Ordering::Relaxed);
        let mut fault = SourceFault::Unreachable;
        for _ in 0..self.config.tries {
            for turn in 0..servers.len() {
                let place = (first + turn) % servers.len();
                let mut turn = Turn { first: &self.first, place, next: (place + 1) % servers.len(), is_alive: false };
                let judgement = self.ask_one(&servers[place], number).await;
                let is_dead = [SourceFault::Timeout, SourceFault::Unreachable].map(Judgement::AskAnother);
                turn.is_alive = !is_dead.contains(&judgement);
                match judgement {
                    Judgement::Final(answer) => {
                        self.first.store(place, Ordering::Relaxed);
                        return answer.map_err(Fault::of_answer);
                    }
                    Judgement::AskAnother(why) => fault = why,
                    Judgement::AskPlainly => fault = SourceFault::Refused,
                }
                let (source, server) = (&*self.config.name, &servers[place]);
                tracing::debug!(source, %server, %fault, "a server gave no answer about a number");
            }
        }
        let effect = if fault == SourceFault::Timeout { Effect::TimesOut } else { Effect::Fails };
        Err(Fault::new(fault, effect))
    }

    async fn ask_one(&self, server: &NameServer, number: &Msisdn) -> Judgement {
        let address = match self.address(server).await {
            Ok(address) => address,
            Err(fault) => return Judgement::AskAnother(fault),
        };
        match self.put(address, number, true).await {
            Judgement::AskPlainly => self.put(address, number, false).await,
            judgement => judgement,
        }
    }

    async fn put(&self, address: SocketAddr, number: &Msisdn, edns: bool) -> Judgement {
        let EnumConfig { suffix, timeout, mixes_case, reading, .. } = &self.config;
        let Some(query) = Query::new(number, suffix, &*self.entropy, *mixes_case, edns) else {
            return Judgement::Final(Err(SourceFault::Nonsense));
        };
        match exchange::ask(address, &query, *timeout).await {
            Ok(answer) => reading.judge(&answer, number),
            Err(fault) => Judgement::AskAnother(fault),
        }
    }

    async fn address(&self, server: &NameServer) -> Result<SocketAddr, SourceFault> {
        if let Ok(address) = server.host.parse::<IpAddr>() {
            return Ok(SocketAddr::new(address, server.port));
        }
        let resolved = timeout(self.config.timeout, self.resolver.resolve(&server.host));
        let addresses: io::Result<_> = resolved.await.map_err(|_| SourceFault::Timeout)?;
        let address = addresses.ok().and_then(|addresses| addresses.first().copied());
        address.map(|address| SocketAddr::new(address, server.port)).ok_or(SourceFault::Unreachable)
    }
}

/// A server's turn. One that nobody hears from is not the first for the next number, nor is one that whoever asked did
/// not wait for to the end.
struct Turn<'a> {
    first: &'a AtomicUsize,
    place: usize,
    next: usize,
    is_alive: bool,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.is_alive {
            // Unless another number's turn has moved on already.
            let _ = self.first.compare_exchange(self.place, self.next, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

#[async_trait]
impl NumberSource for EnumDns {
    fn name(&self) -> &str {
        &self.config.name
    }

    async fn resolve(&self, number: &Msisdn) -> Result<Resolved, SourceFault> {
        self.guard.watch(self.ask(number)).await
    }
}

impl fmt::Debug for EnumDns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnumDns").field("name", &self.config.name).finish_non_exhaustive()
    }
}
