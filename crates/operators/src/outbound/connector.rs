//! Opening connections, to permitted addresses only.

use std::{fmt, net::IpAddr, sync::Arc, time::Duration};

use ringtrue_domain::web_url::{AddressPolicy, CallbackUrl, Host};
use ringtrue_engine::ports::Undelivered;
use tokio::time::{Instant, timeout_at};
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
    tls: TlsConnector,
    patience: Duration,
}

impl Connector {
    pub fn new(resolver: Arc<dyn Resolver>, policy: AddressPolicy, tls: Arc<ClientConfig>, patience: Duration) -> Self {
        Connector { resolver, policy, tls: tls.into(), patience }
    }

    pub async fn connect(&self, url: &CallbackUrl, deadline: Instant) -> Result<Line, Undelivered> {
        let deadline = deadline.min(Instant::now() + self.patience);
        let opened = timeout_at(deadline, self.open(url, deadline)).await;
        let stream = opened.map_err(|_| Undelivered::Timeout)??;
        Line::over(stream).await
    }

    async fn open(&self, url: &CallbackUrl, deadline: Instant) -> Result<Box<dyn Stream>, Undelivered> {
        let addresses = self.permitted(url.host()).await?;
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
    async fn permitted(&self, host: &Host) -> Result<Vec<IpAddr>, Undelivered> {
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
        addresses.retain(|address| is_trusted || self.policy.permits(*address));
        if addresses.is_empty() { Err(Undelivered::BlockedAddress) } else { Ok(addresses) }
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("policy", &self.policy).finish_non_exhaustive()
    }
}
