//! An operator's number directory: which network serves a number, told by ENUM (RFC 6116, over DNS) and by an HLR (over
//! HTTP), out of one table of subscribers.
//!
//! ENUM tells what a portability database knows: whose a number is. It does not know whether a phone is on. Names of
//! numbers that nobody has do not exist; the zone answers for all below its suffix and refuses what is elsewhere.
//! Datagrams and TCP have the same port.
//!
//! The HLR is asked by `GET /hlr?number=%2B447700900123`, with the secret as a bearer token if there is one, and answers
//! in JSON: `number`, `status` (`present`, `absent` or `unknown`), `mcc`, `mnc`, `ported`, and `ported_from` where it is.
//!
//! Everything is bounded: connections, messages, answers that are late.
//!
//! Deliberately absent: TLS, DNSSEC, zone transfers, other records than NAPTR and the zone's SOA, and changes to the
//! table while it runs.

mod dns;
mod fault;
mod hlr;
mod observer;
mod subscriber;

use std::{
    fmt, io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::{
    dns::RecordStyle,
    fault::{EnumFault, Fault, HlrFault},
    observer::Counts,
    subscriber::{NetworkCodes, NotANetwork, NotASubscriber, State, Subscriber},
};
use self::{dns::Zone, fault::Faults, observer::Observer, subscriber::Register};

/// What a directory is like.
#[derive(Clone, PartialEq, Eq)]
pub struct DirectoryConfig {
    /// Where it answers by DNS. Port 0 takes any that is free; `None`: nowhere.
    pub enum_listen: Option<SocketAddr>,
    /// Where it answers by HTTP, likewise.
    pub hlr_listen: Option<SocketAddr>,
    /// Of several with one number, the last counts.
    pub subscribers: Vec<Subscriber>,
    /// What those bring who ask the HLR, as a bearer token. `None`: nothing is asked of them.
    pub secret: Option<String>,
    /// What numbers become names under.
    pub suffix: String,
    pub records: RecordStyle,
    /// The database knows of ported numbers only: others have a name and no records.
    pub ported_only: bool,
    /// Connections at a time, for each of the two; those above are closed at once.
    pub connections: usize,
}

impl Default for DirectoryConfig {
    fn default() -> Self {
        let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self {
            enum_listen: Some(anywhere),
            hlr_listen: Some(anywhere),
            subscribers: vec![],
            secret: None,
            suffix: "e164.arpa".to_owned(),
            records: RecordStyle::default(),
            ported_only: false,
            connections: 64,
        }
    }
}

/// Without the secret, and without numbers.
impl fmt::Debug for DirectoryConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectoryConfig")
            .field("enum_listen", &self.enum_listen)
            .field("hlr_listen", &self.hlr_listen)
            .field("subscribers", &self.subscribers.len())
            .field("suffix", &self.suffix)
            .finish_non_exhaustive()
    }
}

/// A running directory. It stops when it is dropped; [`shutdown`](Self::shutdown) also waits until it has.
#[derive(Debug)]
pub struct Directory {
    dns_address: Option<SocketAddr>,
    hlr_address: Option<SocketAddr>,
    core: Arc<Core>,
    tasks: TaskTracker,
}

/// What all questions share.
#[derive(Debug)]
struct Core {
    config: DirectoryConfig,
    register: Register,
    zone: Zone,
    faults: Faults,
    observer: Observer,
    stop: CancellationToken,
}

impl Directory {
    pub async fn start(config: DirectoryConfig) -> io::Result<Self> {
        let dns = match config.enum_listen {
            Some(listen) => Some(dns::bind(listen).await?),
            None => None,
        };
        let hlr = match config.hlr_listen {
            Some(listen) => Some(TcpListener::bind(listen).await?),
            None => None,
        };
        let dns_address = dns.as_ref().map(|(_, listener)| listener.local_addr()).transpose()?;
        let hlr_address = hlr.as_ref().map(TcpListener::local_addr).transpose()?;
        let core = Arc::new(Core {
            register: Register::new(&config.subscribers),
            zone: Zone::new(&config).ok_or(io::ErrorKind::InvalidInput)?,
            faults: Faults::default(),
            observer: Observer::default(),
            stop: CancellationToken::new(),
            config,
        });
        let tasks = TaskTracker::new();
        if let Some((socket, listener)) = dns {
            tasks.spawn(dns::answer_datagrams(socket, Arc::clone(&core), tasks.clone()));
            tasks.spawn(dns::listen(listener, Arc::clone(&core), tasks.clone()));
        }
        if let Some(listener) = hlr {
            tasks.spawn(hlr::listen(listener, Arc::clone(&core), tasks.clone()));
        }
        Ok(Self { dns_address, hlr_address, core, tasks })
    }

    /// Where it answers by DNS, both ways.
    pub fn dns_address(&self) -> Option<SocketAddr> {
        self.dns_address
    }

    /// Where the HLR is asked, with `?number=` and a number to follow.
    pub fn hlr_url(&self) -> Option<String> {
        self.hlr_address.map(|address| format!("http://{address}{}", hlr::PATH))
    }

    /// From now on, all answers of its kind have this fault, which takes the place of another one.
    pub fn set_fault(&self, fault: Fault) {
        self.core.faults.set(fault);
    }

    /// From now on, everything works.
    pub fn recover(&self) {
        self.core.faults.clear();
    }

    pub fn counts(&self) -> Counts {
        self.core.observer.counts()
    }

    /// Waits until the counts are as wished.
    pub async fn wait_until(&self, wished: impl FnMut(&Counts) -> bool) -> Counts {
        self.core.observer.wait_until(wished).await
    }

    /// Breaks all connections, and waits until nothing of it is left.
    pub async fn shutdown(&self) {
        self.core.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        self.core.stop.cancel();
    }
}
