//! A message centre: it takes SMS from simulated handsets and delivers them to those who have bound to it.
//!
//! Each SMS is composed when it is sent, with its faults, and has a task of its own that brings it to its end: waits
//! for a bind, sends message after message, and sends again what was put off, not answered, or lost with a link.
//! Receivers take turns. The parts of an SMS go one after the other over one bind, unless asked otherwise, so what a
//! receiver sees of a single SMS is the same in every run; two SMS may overtake each other, as on a real network.
//!
//! Everything is bounded: connections, SMS on their way, attempts, and what is remembered. Handsets may belong to
//! accounts, which have a share of the queue each.
//!
//! Deliberately absent: messages to handsets (`submit_sm` is answered with a failure), TLS, more than one system
//! id, and keeping the queue over a restart.

mod alphabet;
mod behaviour;
mod binds;
mod composition;
mod connection;
mod delivery;
mod observer;
mod queue;
mod sms;

use std::{
    fmt, io,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use ringtrue_smpp::{pdu::Tag, session};
use tokio::{net::TcpListener, sync::oneshot, time::sleep};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::{
    alphabet::Alphabet,
    behaviour::{Behaviour, Carriage},
    delivery::{Outcome, Setback, Ticket},
    observer::{Counts, Observer, Record},
    queue::{Account, QueueLimits},
    sms::{Party, SendError, Sms},
};
use self::{
    binds::Binds,
    delivery::{Delivery, Persistence},
    queue::Queue,
};
use crate::random::Random;

/// What a message centre is like.
#[derive(Clone, PartialEq, Eq)]
pub struct SmscConfig {
    /// Port 0 takes any that is free.
    pub listen: SocketAddr,
    /// Whom it lets bind, and what it calls itself.
    pub system_id: String,
    /// At most eight characters, which is all that a bind can carry.
    pub password: String,
    pub session: session::Config,
    /// Connections at a time; those above are closed at once.
    pub connections: usize,
    /// SMS on their way at a time.
    pub queue: QueueLimits,
    /// The TLV that names the account of the handset, in sixteen octets. Without this, it is not told.
    pub account_tag: Option<Tag>,
    /// How often a message is sent at most.
    pub attempts: u32,
    /// How long after a failed attempt it is sent again.
    pub retry_delay: Duration,
    /// How long those who are bound may take to let go, when the centre stops.
    pub farewell: Duration,
    /// How many SMS the observer remembers.
    pub remembered: usize,
    /// What decides everything that is left to chance.
    pub seed: u64,
}

impl Default for SmscConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            system_id: "sandbox".to_owned(),
            password: "sandbox".to_owned(),
            session: session::Config::default(),
            connections: 64,
            queue: QueueLimits::default(),
            account_tag: None,
            attempts: 10,
            retry_delay: Duration::from_secs(1),
            farewell: Duration::from_secs(1),
            remembered: 100,
            seed: 0,
        }
    }
}

impl fmt::Debug for SmscConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SmscConfig")
            .field("listen", &self.listen)
            .field("system_id", &self.system_id)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

/// A running message centre. It stops when it is dropped; [`shutdown`](Self::shutdown) also waits until it has.
#[derive(Debug)]
pub struct Smsc {
    address: SocketAddr,
    centre: Arc<Centre>,
    tasks: TaskTracker,
    queue: Arc<Queue>,
    last_id: AtomicU64,
}

/// What connections and deliveries share.
#[derive(Debug)]
struct Centre {
    config: SmscConfig,
    binds: Binds,
    observer: Observer,
    refuses_binds: AtomicBool,
    /// Cancelled to cut all links that there are; then another takes its place.
    links: Mutex<CancellationToken>,
    stop: CancellationToken,
}

impl Smsc {
    pub async fn start(config: SmscConfig) -> io::Result<Self> {
        let listener = TcpListener::bind(config.listen).await?;
        let address = listener.local_addr()?;
        let queue = Queue::new(config.queue);
        let centre = Arc::new(Centre {
            observer: Observer::new(config.remembered),
            config,
            binds: Binds::default(),
            refuses_binds: AtomicBool::new(false),
            links: Mutex::default(),
            stop: CancellationToken::new(),
        });
        let tasks = TaskTracker::new();
        tasks.spawn(connection::listen(listener, Arc::clone(&centre), tasks.clone()));
        Ok(Self { address, centre, tasks, queue, last_id: AtomicU64::new(0) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes an SMS from a handset. To be called within the runtime.
    pub fn send(&self, sms: Sms) -> Result<Ticket, SendError> {
        if self.centre.stop.is_cancelled() {
            return Err(SendError::Stopped);
        }
        let place = self.queue.enter(sms.account)?;
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        // Sixteen bits of the number tie the parts together, as a handset would count them.
        let [.., high, low] = id.to_be_bytes();
        let mut random = Random::new(self.centre.config.seed, id);
        let messages =
            composition::compose(&sms, u16::from_be_bytes([high, low]), self.centre.config.account_tag, &mut random)?;

        self.centre.observer.sent(id, &sms);
        let (ended, outcome) = oneshot::channel();
        let centre = Arc::clone(&self.centre);
        // It begins to be late now, not when the task is first run.
        let late = sleep(sms.behaviour.late);
        self.tasks.spawn(async move {
            let delivery = async {
                late.await;
                let _permit = place.delivery_permit().await;
                centre.delivery(id, &sms.behaviour).run(&messages).await
            };
            let outcome = centre.stop.run_until_cancelled(delivery).await.unwrap_or(Outcome::Stopped);
            drop(place);
            centre.observer.ended(id, outcome);
            // The sender may not care.
            let _ = ended.send(outcome);
        });
        Ok(Ticket { id, outcome })
    }

    /// Cuts every link there is, without unbinding.
    pub fn drop_links(&self) {
        let mut links = self.centre.links.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *links).cancel();
    }

    /// From now on refuses every bind with `ESME_RBINDFAIL`, or no longer does. Binds that there are stay.
    pub fn refuse_binds(&self, refuse: bool) {
        self.centre.refuses_binds.store(refuse, Ordering::Relaxed);
    }

    pub fn observer(&self) -> Observer {
        self.centre.observer.clone()
    }

    pub fn counts(&self) -> Counts {
        self.centre.observer.counts()
    }

    /// Gives up what is on its way, unbinds, and waits until nothing of it is left.
    pub async fn shutdown(&self) {
        self.centre.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for Smsc {
    fn drop(&mut self) {
        self.centre.stop.cancel();
    }
}

impl Centre {
    fn refuses_binds(&self) -> bool {
        self.refuses_binds.load(Ordering::Relaxed)
    }

    /// What cuts a new link.
    fn link_token(&self) -> CancellationToken {
        self.links.lock().unwrap_or_else(PoisonError::into_inner).child_token()
    }

    fn delivery<'a>(&'a self, id: u64, behaviour: &'a Behaviour) -> Delivery<'a> {
        Delivery {
            id,
            binds: &self.binds,
            observer: &self.observer,
            persistence: Persistence { attempts: self.config.attempts, delay: self.config.retry_delay },
            behaviour,
            links_to_lose: behaviour.links_to_lose,
            answers_to_lose: behaviour.answers_to_lose,
        }
    }
}
