//! Simulated number directory. Returns the network of a number by ENUM (RFC 6116) and by HLR lookups over HTTP, from
//! one subscriber table.
//!
//! ENUM simulates a portability database: it has the network of a number, but not whether the phone is on. Names of
//! unassigned numbers do not exist; names outside of the zone are refused. UDP and TCP use the same port.
//!
//! HLR requests are `GET /hlr?number=%2B447700900123`, with the optional secret as bearer token. The JSON response has
//! `number`, `status` (`present`, `absent` or `unknown`), `mcc`, `mnc`, `ported` and `ported_from`.
//!
//! Connections, messages and delayed responses are bounded.
//!
//! Deliberately absent: TLS, DNSSEC, zone transfers, records other than NAPTR and SOA, and changes of the table while
//! running.

mod dns;
mod hlr;
mod subscriber;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{net::TcpListener, sync::watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::{
    dns::RecordStyle,
    subscriber::{InvalidPlmn, InvalidSubscriber, Plmn, Subscriber, SubscriberState},
};
use self::{dns::Zone, subscriber::SubscriberTable};

/// Settings of a directory. `Debug` hides the secret and the numbers.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("DirectoryConfig({enum_listen:?}, {hlr_listen:?}, {} subscribers, {suffix})", subscribers.len())]
pub struct DirectoryConfig {
    /// Listen address of DNS. Port 0 selects a free port; `None` disables ENUM.
    pub enum_listen: Option<SocketAddr>,
    /// Listen address of HTTP. Port 0 selects a free port; `None` disables the HLR.
    pub hlr_listen: Option<SocketAddr>,
    /// Numbers and their networks. If a number has several entries, the last one counts.
    pub subscribers: Vec<Subscriber>,
    /// Bearer token of HLR clients; `None`: no authentication.
    pub hlr_secret: Option<String>,
    /// Domain of the ENUM zone, which is appended to the reversed digits of a number.
    pub suffix: String,
    pub records: RecordStyle,
    /// Whether only ported numbers have ENUM records.
    pub ported_only: bool,
    /// Maximum number of connections, separately for DNS and HTTP. Further ones are closed immediately.
    pub max_connections: usize,
}

impl Default for DirectoryConfig {
    fn default() -> Self {
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self {
            enum_listen: Some(loopback),
            hlr_listen: Some(loopback),
            subscribers: vec![],
            hlr_secret: None,
            suffix: "e164.arpa".to_owned(),
            records: RecordStyle::default(),
            ported_only: false,
            max_connections: 64,
        }
    }
}

/// A running directory. Stops when dropped; [`shutdown`](Self::shutdown) also waits for its tasks.
#[derive(Debug)]
pub struct Directory {
    dns_address: Option<SocketAddr>,
    hlr_address: Option<SocketAddr>,
    state: Arc<DirectoryState>,
    tasks: TaskTracker,
}

/// State shared by all requests.
#[derive(Debug)]
struct DirectoryState {
    config: DirectoryConfig,
    subscribers: SubscriberTable,
    zone: Zone,
    faults: Mutex<ActiveFaults>,
    counts: watch::Sender<DirectoryCounts>,
    stop: CancellationToken,
}

impl Directory {
    pub async fn start(config: DirectoryConfig) -> io::Result<Self> {
        let dns = match config.enum_listen {
            Some(listen) => Some(dns::bind_udp_and_tcp(listen).await?),
            None => None,
        };
        let hlr = match config.hlr_listen {
            Some(listen) => Some(TcpListener::bind(listen).await?),
            None => None,
        };
        let dns_address = dns.as_ref().map(|(_, listener)| listener.local_addr()).transpose()?;
        let hlr_address = hlr.as_ref().map(TcpListener::local_addr).transpose()?;
        let state = Arc::new(DirectoryState {
            subscribers: SubscriberTable::new(&config.subscribers),
            zone: Zone::new(&config).ok_or(io::ErrorKind::InvalidInput)?,
            faults: Mutex::default(),
            counts: watch::Sender::default(),
            stop: CancellationToken::new(),
            config,
        });
        let tasks = TaskTracker::new();
        if let Some((socket, listener)) = dns {
            tasks.spawn(dns::serve_udp(socket, Arc::clone(&state), tasks.clone()));
            tasks.spawn(dns::serve_tcp(listener, Arc::clone(&state), tasks.clone()));
        }
        if let Some(listener) = hlr {
            tasks.spawn(hlr::listen(listener, Arc::clone(&state), tasks.clone()));
        }
        Ok(Self { dns_address, hlr_address, state, tasks })
    }

    /// Returns the address of the DNS server, for UDP and TCP.
    pub fn dns_address(&self) -> Option<SocketAddr> {
        self.dns_address
    }

    /// Returns the URL of the HLR without the query `?number=`.
    pub fn hlr_url(&self) -> Option<String> {
        self.hlr_address.map(|address| format!("http://{address}{}", hlr::HLR_PATH))
    }

    /// Simulates a fault of ENUM or of the HLR. It replaces the previous fault of the same service.
    pub fn set_fault(&self, fault: DirectoryFault) {
        let mut faults = self.state.faults.lock();
        match fault {
            DirectoryFault::Enum(fault) => faults.enum_fault = Some(fault),
            DirectoryFault::Hlr(fault) => faults.hlr_fault = Some(fault),
        }
    }

    pub fn clear_faults(&self) {
        *self.state.faults.lock() = ActiveFaults::default();
    }

    pub fn counts(&self) -> DirectoryCounts {
        *self.state.counts.borrow()
    }

    /// Waits until the predicate accepts the counts.
    pub async fn wait_until(&self, mut predicate: impl FnMut(&DirectoryCounts) -> bool) -> DirectoryCounts {
        let mut changes = self.state.counts.subscribe();
        // Waiting fails only if the sender is dropped, and `self` keeps it alive.
        changes.wait_for(|counts| predicate(counts)).await.map_or_else(|_| self.counts(), |counts| *counts)
    }

    /// Closes all connections and waits for all tasks.
    pub async fn shutdown(&self) {
        self.state.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        self.state.stop.cancel();
    }
}

/// A simulated fault. It is active until it is replaced or cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryFault {
    Enum(EnumFault),
    Hlr(HlrFault),
}

/// Faults that the DNS server can simulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnumFault {
    /// UDP responses are truncated; TCP works.
    Truncated,
    /// Queries are refused, as a server does for an unknown client address.
    Refused,
    ServerFailure,
    NoResponse,
    Delayed(Duration),
}

/// Faults that the HLR can simulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HlrFault {
    InternalError,
    /// Status 429 with `Retry-After`, in seconds.
    TooManyRequests {
        retry_after: u32,
    },
    /// The request gets no response.
    Hang,
    /// The body is garbage of the same length as the regular one.
    GarbledBody,
}

#[derive(Clone, Copy, Debug, Default)]
struct ActiveFaults {
    enum_fault: Option<EnumFault>,
    hlr_fault: Option<HlrFault>,
}

/// Numbers of requests that the directory has received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectoryCounts {
    /// DNS queries over UDP.
    pub udp_queries: u64,
    /// DNS queries over TCP.
    pub tcp_queries: u64,
    /// HLR requests, with or without a response.
    pub hlr_requests: u64,
    /// HLR requests without the valid secret.
    pub unauthorized: u64,
}
