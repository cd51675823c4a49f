//! Opening connections, to permitted addresses only.

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use ringtrue_domain::web_url::{AddressPolicy, CallbackUrl, Host};
use ringtrue_engine::ports::Undelivered;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::{Instant, timeout_at},
};
use tokio_rustls::{
    TlsConnector,
    rustls::{self, ClientConfig, pki_types::ServerName},
};
use tokio_util::task::TaskTracker;

use super::{Resolver, Sender};

/// How many addresses of a name are tried.
const TRIED: usize = 4;
/// How long the head of an answer may be, and how many headers it may have.
const HEAD: usize = 16 * 1_024;
const HEADERS: usize = 100;
/// What a connection holds in memory at most.
const BUFFER: usize = 32 * 1_024;

pub struct Connector {
    resolver: Arc<dyn Resolver>,
    policy: AddressPolicy,
    tls: TlsConnector,
    patience: Duration,
    /// Each connection is driven by a task, which ends when the connection does or nobody holds its sender.
    tasks: TaskTracker,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Connector {
    pub fn new(resolver: Arc<dyn Resolver>, policy: AddressPolicy, tls: Arc<ClientConfig>, patience: Duration) -> Self {
        Connector { resolver, policy, tls: tls.into(), patience, tasks: TaskTracker::new() }
    }

    pub async fn connect(&self, url: &CallbackUrl, deadline: Instant) -> Result<Sender, Undelivered> {
        let deadline = deadline.min(Instant::now() + self.patience);
        let opened = timeout_at(deadline, self.open(url, deadline)).await;
        let stream = opened.map_err(|_| Undelivered::Timeout)??;
        let handshake = http1::Builder::new()
            .max_headers(HEADERS)
            .max_header_size(HEAD)
            .max_buf_size(BUFFER)
            .handshake::<_, Full<Bytes>>(TokioIo::new(stream));
        let (sender, connection) = handshake.await.map_err(|_| Undelivered::Connection)?;
        self.tasks.spawn(async move {
            // Whoever waits for an answer hears of an error; nobody else needs to.
            let _ = connection.await;
        });
        Ok(sender)
    }

    async fn open(&self, url: &CallbackUrl, deadline: Instant) -> Result<Box<dyn Stream>, Undelivered> {
        let addresses = self.permitted(url.host()).await?;
        let tcp = open_first(&addresses, url.port(), deadline).await?;
        // Requests are small and written at once.
        let _ = tcp.set_nodelay(true);
        if !url.is_https() {
            return Ok(Box::new(tcp));
        }
        let name = match url.host() {
            Host::Domain(name) => ServerName::try_from(name.clone()).map_err(|_| Undelivered::Tls)?,
            Host::Ipv4(address) => ServerName::from(IpAddr::from(*address)),
            Host::Ipv6(address) => ServerName::from(IpAddr::from(*address)),
        };
        match self.tls.connect(name, tcp).await {
            Ok(tls) => Ok(Box::new(tls)),
            Err(error) => Err(match error.downcast::<rustls::Error>() {
                Ok(_) => Undelivered::Tls,
                Err(_) => Undelivered::Connection,
            }),
        }
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
        addresses.truncate(TRIED);
        if addresses.is_empty() { Err(Undelivered::BlockedAddress) } else { Ok(addresses) }
    }
}

/// Tries one address after the other. Each but the last gets an equal share of the time that is left.
async fn open_first(addresses: &[IpAddr], port: u16, deadline: Instant) -> Result<TcpStream, Undelivered> {
    let mut outcome = Undelivered::Connection;
    for (index, address) in addresses.iter().enumerate() {
        let left = deadline.saturating_duration_since(Instant::now());
        let share = left / u32::try_from(addresses.len() - index).unwrap_or(1);
        let tried: Result<io::Result<TcpStream>, _> =
            timeout_at(Instant::now() + share, TcpStream::connect(SocketAddr::new(*address, port))).await;
        match tried {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(_)) => outcome = Undelivered::Connection,
            Err(_) => outcome = Undelivered::Timeout,
        }
    }
    Err(outcome)
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("policy", &self.policy).finish_non_exhaustive()
    }
}
