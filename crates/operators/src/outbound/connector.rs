//! Opening connections, to permitted addresses only.

use std::{fmt, net::IpAddr, sync::Arc, time::Duration};

use futures_util::future::join_all;
use ringtrue_domain::web_url::{AddressPolicy, CallbackUrl, Host};
use ringtrue_engine::ports::Undelivered;
use tokio::{
    sync::Mutex,
    time::{Instant, timeout, timeout_at},
};
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, pki_types::ServerName},
};

use super::{
    Resolver,
    dial::{self, Stream},
    line::Line,
};

pub struct Connector {
    resolver: Arc<dyn Resolver>,
    policy: AddressPolicy,
    own: OwnAddresses,
    tls: TlsConnector,
    patience: Duration,
}

impl Connector {
    pub fn new(resolver: Arc<dyn Resolver>, policy: AddressPolicy, tls: Arc<ClientConfig>, patience: Duration) -> Self {
        Connector { own: OwnAddresses::of(&policy), resolver, policy, tls: tls.into(), patience }
    }

    pub async fn connect(&self, url: &CallbackUrl, deadline: Instant) -> Result<Line, Undelivered> {
        let deadline = deadline.min(Instant::now() + self.patience);
        let opened = timeout_at(deadline, self.open(url, deadline)).await;
        let stream = opened.map_err(|_| Undelivered::Timeout)??;
        Line::over(stream).await
    }

    async fn open(&self, url: &CallbackUrl, deadline: Instant) -> Result<Box<dyn Stream>, Undelivered> {
        let addresses = self.permitted(url.host(), url.port()).await?;
        let tcp = dial::open_first(&addresses, url.port(), deadline).await?;
        if !url.is_https() {
            return Ok(Box::new(tcp));
        }
        let name = match url.host() {
            Host::Domain(name) => ServerName::try_from(name.clone()).map_err(|_| Undelivered::Tls)?,
            Host::Ipv4(address) => ServerName::from(IpAddr::from(*address)),
            Host::Ipv6(address) => ServerName::from(IpAddr::from(*address)),
        };
        dial::secure(&self.tls, name, tcp).await
    }

    /// The addresses of a host that may be connected to. There is at least one.
    async fn permitted(&self, host: &Host, port: u16) -> Result<Vec<IpAddr>, Undelivered> {
        let (mut addresses, is_trusted) = match host {
            Host::Ipv4(address) => (vec![IpAddr::from(*address)], false),
            Host::Ipv6(address) => (vec![IpAddr::from(*address)], false),
            Host::Domain(name) if !self.policy.permits_name(name) => return Err(Undelivered::BlockedAddress),
            Host::Domain(name) => {
                let found = self.resolver.resolve(name).await.map_err(|_| Undelivered::Unresolved)?;
                (found, self.policy.trusts(name))
            }
        };
        if addresses.is_empty() {
            return Err(Undelivered::Unresolved);
        }
        if !is_trusted {
            // A foreign name may lead to us as well as our own.
            let own = self.own.get(&*self.resolver).await;
            addresses.retain(|address| self.policy.permits_endpoint(*address, port, &own));
        }
        if addresses.is_empty() { Err(Undelivered::BlockedAddress) } else { Ok(addresses) }
    }
}

/// How long an attempt waits for the addresses of our own names.
const OWN_LOOKUP_TIMEOUT: Duration = Duration::from_secs(1);
/// How long the addresses of our own names are taken for granted.
const OWN_ADDRESSES_TTL: Duration = Duration::from_mins(1);

/// The addresses that our own host names resolve to. They are asked for again once they are old; if that fails, the last
/// ones known still count.
struct OwnAddresses {
    names: Vec<String>,
    known: Mutex<Known>,
}

#[derive(Clone, Default)]
struct Known {
    addresses: Arc<[IpAddr]>,
    asked_at: Option<Instant>,
}

impl OwnAddresses {
    fn of(policy: &AddressPolicy) -> Self {
        let names = policy.own_hosts.iter().filter_map(|host| match host {
            Host::Domain(name) => Some(name.clone()),
            Host::Ipv4(_) | Host::Ipv6(_) => None,
        });
        OwnAddresses { names: names.collect(), known: Mutex::default() }
    }

    /// Those who ask at the same time wait for one resolution.
    async fn get(&self, resolver: &dyn Resolver) -> Arc<[IpAddr]> {
        let mut known = self.known.lock().await;
        let is_fresh = known.asked_at.is_some_and(|at| at.elapsed() < OWN_ADDRESSES_TTL);
        if self.names.is_empty() || is_fresh {
            return Arc::clone(&known.addresses);
        }
        known.asked_at = Some(Instant::now());
        let lookups = join_all(self.names.iter().map(|name| resolver.resolve(name)));
        let found = timeout(OWN_LOOKUP_TIMEOUT, lookups).await.unwrap_or_default();
        if found.iter().any(Result::is_ok) {
            known.addresses = found.into_iter().flatten().flatten().collect();
        } else {
            tracing::warn!("failed to resolve this service's own host names; callbacks to their addresses may be sent");
        }
        Arc::clone(&known.addresses)
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("policy", &self.policy).finish_non_exhaustive()
    }
}
