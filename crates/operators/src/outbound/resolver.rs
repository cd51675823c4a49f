//! Turning names into addresses.

use std::{fmt, io, net::IpAddr, time::Duration};

use async_trait::async_trait;
use hickory_resolver::{TokioResolver, net::NetError};

/// Asks for the addresses of a name.
#[async_trait]
pub trait Resolver: Send + Sync + fmt::Debug {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// How long a name server may take. Callers choose the names, and so whose name servers are asked.
const PATIENCE: Duration = Duration::from_secs(2);
/// How many names are remembered, each for as long as its server says.
const REMEMBERED: u64 = 1_024;

/// Asks the machine's table of hosts, then its name servers. A question occupies no thread, so slow answers to some hold
/// nobody else up.
pub struct SystemResolver(Option<TokioResolver>);

impl fmt::Debug for SystemResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SystemResolver")
    }
}

impl Default for SystemResolver {
    fn default() -> Self {
        let resolver = machines_resolver();
        if let Err(error) = &resolver {
            tracing::error!(%error, "no name can be resolved: the machine's name servers are not known");
        }
        SystemResolver(resolver.ok())
    }
}

fn machines_resolver() -> Result<TokioResolver, NetError> {
    let mut builder = TokioResolver::builder_tokio()?;
    let options = builder.options_mut();
    options.timeout = PATIENCE;
    options.attempts = 2;
    options.cache_size = REMEMBERED;
    builder.build()
}

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let resolver = self.0.as_ref().ok_or_else(|| io::Error::other("no name servers are known"))?;
        // The dot says that the name is whole: no domain of this machine is tried behind it.
        let found = resolver.lookup_ip(format!("{name}.")).await.map_err(io::Error::other)?;
        Ok(found.iter().collect())
    }
}
