//! Host name resolution.

use std::{fmt, io, net::IpAddr, time::Duration};

use async_trait::async_trait;
use hickory_resolver::{TokioResolver, net::NetError};

#[async_trait]
pub trait Resolver: Send + Sync + fmt::Debug {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// Timeout per name server. API clients choose the names, and thereby the name servers.
const QUERY_TIMEOUT: Duration = Duration::from_secs(2);
/// Cached names; each expires by its TTL.
const CACHE_ENTRIES: u64 = 1_024;

/// Uses the hosts file and the system's name servers. Lookups block no thread, so slow ones do not delay others.
pub struct SystemResolver(Option<TokioResolver>);

impl fmt::Debug for SystemResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SystemResolver")
    }
}

impl Default for SystemResolver {
    fn default() -> Self {
        let resolver = system_resolver();
        if let Err(error) = &resolver {
            tracing::error!(%error, "failed to read the system's DNS configuration; no host name can be resolved");
        }
        SystemResolver(resolver.ok())
    }
}

fn system_resolver() -> Result<TokioResolver, NetError> {
    let mut builder = TokioResolver::builder_tokio()?;
    let options = builder.options_mut();
    options.timeout = QUERY_TIMEOUT;
    options.attempts = 2;
    options.cache_size = CACHE_ENTRIES;
    builder.build()
}

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let resolver = self.0.as_ref().ok_or_else(|| io::Error::other("no name servers configured"))?;
        // The trailing dot makes the name absolute: no search domain is appended.
        let found = resolver.lookup_ip(format!("{name}.")).await.map_err(io::Error::other)?;
        Ok(found.iter().collect())
    }
}
