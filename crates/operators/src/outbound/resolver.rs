//! Turning names into addresses.

use std::{fmt, io, net::IpAddr};

use async_trait::async_trait;
use tokio::sync::Semaphore;

/// Asks for the addresses of a name.
#[async_trait]
pub trait Resolver: Send + Sync + fmt::Debug {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The resolver of the machine. Each question occupies a thread until it is answered, so there is a bound to them.
#[derive(Debug)]
pub struct SystemResolver(Semaphore);

const QUESTIONS: usize = 128;

impl Default for SystemResolver {
    fn default() -> Self {
        SystemResolver(Semaphore::new(QUESTIONS))
    }
}

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let _asking = self.0.acquire().await.map_err(io::Error::other)?;
        Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect())
    }
}
