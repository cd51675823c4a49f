//! Opens connections, to permitted addresses only.

use std::{fmt, net::IpAddr, sync::Arc, time::Duration};

use futures_util::future::join_all;
use ringtrue_domain::web_url::{AddressPolicy, CallbackUrl, Host};
use ringtrue_engine::ports::TransportError;
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
    connect::{self, Stream},
    connection::HttpConnection,
};

pub struct GuardedConnector {
    resolver: Arc<dyn Resolver>,
    policy: AddressPolicy,
    own_addresses: OwnAddresses,
    tls: TlsConnector,
    connect_timeout: Duration,
}

impl GuardedConnector {
    pub fn new(
        resolver: Arc<dyn Resolver>,
        policy: AddressPolicy,
        tls: Arc<ClientConfig>,
        connect_timeout: Duration,
    ) -> Self {
        GuardedConnector {
            own_addresses: OwnAddresses::new(&policy),
            resolver,
            policy,
            tls: tls.into(),
            connect_timeout,
        }
    }

    pub async fn connect(&self, url: &CallbackUrl, deadline: Instant) -> Result<HttpConnection, TransportError> {
        let deadline = deadline.min(Instant::now() + self.connect_timeout);
        let opened = timeout_at(deadline, self.open_stream(url, deadline)).await;
        let stream = opened.map_err(|_| TransportError::Timeout)??;
        HttpConnection::handshake(stream).await
    }

    async fn open_stream(&self, url: &CallbackUrl, deadline: Instant) -> Result<Box<dyn Stream>, TransportError> {
        let addresses = self.permitted_addresses(url.host(), url.port()).await?;
        let tcp = connect::connect_any(&addresses, url.port(), deadline).await?;
        if !url.is_https() {
            return Ok(Box::new(tcp));
        }
        let name = match url.host() {
            Host::Domain(name) => ServerName::try_from(name.clone()).map_err(|_| TransportError::Tls)?,
            Host::Ipv4(address) => ServerName::from(IpAddr::from(*address)),
            Host::Ipv6(address) => ServerName::from(IpAddr::from(*address)),
        };
        connect::start_tls(&self.tls, name, tcp).await
    }

    /// The permitted addresses of a host; never empty.
    async fn permitted_addresses(&self, host: &Host, port: u16) -> Result<Vec<IpAddr>, TransportError> {
        let (mut addresses, is_trusted) = match host {
            Host::Ipv4(address) => (vec![IpAddr::from(*address)], false),
            Host::Ipv6(address) => (vec![IpAddr::from(*address)], false),
            Host::Domain(name) if !self.policy.permits_name(name) => return Err(TransportError::BlockedAddress),
            Host::Domain(name) => {
                let found = self.resolver.resolve(name).await.map_err(|_| TransportError::Unresolved)?;
                (found, self.policy.trusts(name))
            }
        };
        if addresses.is_empty() {
            return Err(TransportError::Unresolved);
        }
        if !is_trusted {
            // Any name may resolve to this service's own addresses.
            let own_addresses = self.own_addresses.get(&*self.resolver).await;
            addresses.retain(|address| self.policy.permits_endpoint(*address, port, &own_addresses));
        }
        if addresses.is_empty() { Err(TransportError::BlockedAddress) } else { Ok(addresses) }
    }
}

/// Timeout for resolving our own host names.
const OWN_LOOKUP_TIMEOUT: Duration = Duration::from_secs(1);
/// Lifetime of the resolved addresses of our own host names.
const OWN_ADDRESSES_TTL: Duration = Duration::from_mins(1);

/// The addresses of our own host names. If resolving them again fails, the last result stays in use.
struct OwnAddresses {
    names: Vec<String>,
    cache: Mutex<CachedAddresses>,
}

#[derive(Clone, Default)]
struct CachedAddresses {
    addresses: Arc<[IpAddr]>,
    resolved_at: Option<Instant>,
}

impl OwnAddresses {
    fn new(policy: &AddressPolicy) -> Self {
        let names = policy.own_hosts.iter().filter_map(|host| match host {
            Host::Domain(name) => Some(name.clone()),
            Host::Ipv4(_) | Host::Ipv6(_) => None,
        });
        OwnAddresses { names: names.collect(), cache: Mutex::default() }
    }

    /// Concurrent callers share one resolution.
    async fn get(&self, resolver: &dyn Resolver) -> Arc<[IpAddr]> {
        let mut cache = self.cache.lock().await;
        let is_fresh = cache.resolved_at.is_some_and(|at| at.elapsed() < OWN_ADDRESSES_TTL);
        if self.names.is_empty() || is_fresh {
            return Arc::clone(&cache.addresses);
        }
        cache.resolved_at = Some(Instant::now());
        let lookups = join_all(self.names.iter().map(|name| resolver.resolve(name)));
        let found = timeout(OWN_LOOKUP_TIMEOUT, lookups).await.unwrap_or_default();
        if found.iter().any(Result::is_ok) {
            cache.addresses = found.into_iter().flatten().flatten().collect();
        } else {
            tracing::warn!("failed to resolve this service's own host names; callbacks to their addresses may be sent");
        }
        Arc::clone(&cache.addresses)
    }
}

impl fmt::Debug for GuardedConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardedConnector").field("policy", &self.policy).finish_non_exhaustive()
    }
}
