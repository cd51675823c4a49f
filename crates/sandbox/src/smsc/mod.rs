//! Simulated SMSC: delivers SMS of simulated handsets to bound ESMEs.
//!
//! An SMS is encoded when it is sent, with its faults. Its own task waits for a bind, sends the messages, and retries
//! after temporary errors, timeouts and lost connections. Receivers are used in round robin. The parts of an SMS are
//! sent in order over one bind, unless scripted otherwise, so that runs are reproducible; different SMS may overtake
//! each other, as on a real network.
//!
//! Connections, queued SMS, attempts and records are bounded. Handsets may belong to accounts, each with a share of the
//! queue.
//!
//! Deliberately absent: messages to handsets (`submit_sm` fails), TLS, more than one `system_id`, and persistence.

mod alphabet;
mod binds;
mod connection;
mod delivery;
mod fault_script;
mod message_encoding;
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

use ringtrue_smpp::{pdu::TlvTag, session};
use tokio::{net::TcpListener, sync::oneshot, time::sleep};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::{
    alphabet::Alphabet,
    delivery::{AttemptFailure, DeliveryHandle, DeliveryOutcome},
    fault_script::{ConcatenationMode, FaultScript},
    observer::{SmsRecord, SmscCounts, SmscObserver},
    queue::{Account, QueueLimits},
    sms::{SendError, Sms, SmsAddress},
};
use self::{
    binds::Binds,
    delivery::{Delivery, RetryPolicy},
    queue::SmsQueue,
};
use crate::random::SeededRandom;

#[derive(Clone, PartialEq, Eq)]
pub struct SmscConfig {
    /// Port 0 selects a free port.
    pub listen: SocketAddr,
    /// `system_id` of ESMEs and of the SMSC.
    pub system_id: String,
    /// At most 8 characters, the limit of SMPP.
    pub password: String,
    pub session: session::SessionConfig,
    /// Further connections are closed immediately.
    pub max_connections: usize,
    pub queue: QueueLimits,
    /// TLV for the account of the handset, in 16 octets; `None`: not sent.
    pub account_tag: Option<TlvTag>,
    /// For each message.
    pub max_attempts: u32,
    pub retry_delay: Duration,
    /// Timeout of the unbind on shutdown.
    pub unbind_timeout: Duration,
    /// Maximum number of records of the observer.
    pub max_records: usize,
    /// Seed of random faults.
    pub seed: u64,
}

impl Default for SmscConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            system_id: "sandbox".to_owned(),
            password: "sandbox".to_owned(),
            session: session::SessionConfig::default(),
            max_connections: 64,
            queue: QueueLimits::default(),
            account_tag: None,
            max_attempts: 10,
            retry_delay: Duration::from_secs(1),
            unbind_timeout: Duration::from_secs(1),
            max_records: 100,
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

/// A running SMSC. Stops when dropped; [`shutdown`](Self::shutdown) also waits for its tasks.
#[derive(Debug)]
pub struct Smsc {
    address: SocketAddr,
    state: Arc<SmscState>,
    tasks: TaskTracker,
    queue: Arc<SmsQueue>,
    last_id: AtomicU64,
}

/// State shared by connections and deliveries.
#[derive(Debug)]
struct SmscState {
    config: SmscConfig,
    binds: Binds,
    observer: SmscObserver,
    refuses_binds: AtomicBool,
    /// Parent token of all connections; replaced after cancellation.
    connections: Mutex<CancellationToken>,
    stop: CancellationToken,
}

impl Smsc {
    pub async fn start(config: SmscConfig) -> io::Result<Self> {
        let listener = TcpListener::bind(config.listen).await?;
        let address = listener.local_addr()?;
        let queue = SmsQueue::new(config.queue);
        let state = Arc::new(SmscState {
            observer: SmscObserver::new(config.max_records),
            config,
            binds: Binds::default(),
            refuses_binds: AtomicBool::new(false),
            connections: Mutex::default(),
            stop: CancellationToken::new(),
        });
        let tasks = TaskTracker::new();
        tasks.spawn(connection::listen(listener, Arc::clone(&state), tasks.clone()));
        Ok(Self { address, state, tasks, queue, last_id: AtomicU64::new(0) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends an SMS from a handset. Must be called within a Tokio runtime.
    pub fn send(&self, sms: Sms) -> Result<DeliveryHandle, SendError> {
        if self.state.stop.is_cancelled() {
            return Err(SendError::Stopped);
        }
        let slot = self.queue.reserve(sms.account)?;
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        // The concatenation reference increments, as on a handset.
        let [.., high, low] = id.to_be_bytes();
        let mut random = SeededRandom::new(self.state.config.seed, id);
        let messages = message_encoding::encode_sms(
            &sms,
            u16::from_be_bytes([high, low]),
            self.state.config.account_tag,
            &mut random,
        )?;

        self.state.observer.record_sent(id, &sms);
        let (outcome_sender, outcome) = oneshot::channel();
        let state = Arc::clone(&self.state);
        // The delay starts now, not when the task first runs.
        let delay = sleep(sms.faults.delay);
        self.tasks.spawn(async move {
            let delivery = async {
                delay.await;
                let _permit = slot.delivery_permit().await;
                state.delivery(id, &sms.faults).run(&messages).await
            };
            let outcome = state.stop.run_until_cancelled(delivery).await.unwrap_or(DeliveryOutcome::Stopped);
            drop(slot);
            state.observer.record_outcome(id, outcome);
            // The handle may have been dropped.
            let _ = outcome_sender.send(outcome);
        });
        Ok(DeliveryHandle { id, outcome })
    }

    /// Drops all connections without unbind.
    pub fn drop_connections(&self) {
        let mut connections = self.state.connections.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *connections).cancel();
    }

    /// Rejects new binds with `ESME_RBINDFAIL` while set.
    pub fn set_refuse_binds(&self, refuse: bool) {
        self.state.refuses_binds.store(refuse, Ordering::Relaxed);
    }

    pub fn observer(&self) -> SmscObserver {
        self.state.observer.clone()
    }

    pub fn counts(&self) -> SmscCounts {
        self.state.observer.counts()
    }

    /// Stops deliveries, unbinds, and waits for all tasks.
    pub async fn shutdown(&self) {
        self.state.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for Smsc {
    fn drop(&mut self) {
        self.state.stop.cancel();
    }
}

impl SmscState {
    fn refuses_binds(&self) -> bool {
        self.refuses_binds.load(Ordering::Relaxed)
    }

    /// Token that drops a new connection.
    fn connection_token(&self) -> CancellationToken {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).child_token()
    }

    fn delivery<'a>(&'a self, id: u64, faults: &'a FaultScript) -> Delivery<'a> {
        Delivery {
            id,
            binds: &self.binds,
            observer: &self.observer,
            retry_policy: RetryPolicy { max_attempts: self.config.max_attempts, delay: self.config.retry_delay },
            faults,
            connection_drops: faults.connection_drops,
            lost_responses: faults.lost_responses,
        }
    }
}
