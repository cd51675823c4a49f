//! Simulated SMSC: delivers SMS of simulated handsets to bound ESMEs.
//!
//! An SMS is encoded when it is sent, with its faults. Its own task waits for a bind, sends the messages, and retries
//! after temporary errors, timeouts and lost connections. Receivers are used in round robin. The parts of an SMS are
//! sent in order over one bind, unless scripted otherwise, so that runs are reproducible; different SMS may overtake
//! each other, as on a real network.
//!
//! Connections, queued SMS, attempts and records are bounded. Handsets may belong to accounts, and each account can use
//! only a part of the queue.
//!
//! Deliberately absent: messages to handsets (`submit_sm` fails), TLS, more than one `system_id`, and persistence.

mod connection;
mod delivery;
mod message_encoding;
mod queue;
mod sms;

use std::{
    collections::VecDeque,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use fastrand::Rng;
use parking_lot::Mutex;
use ringtrue_smpp::{pdu::TlvTag, session};
use tokio::{
    net::TcpListener,
    sync::{Semaphore, oneshot, watch},
    time::sleep,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::{
    delivery::{AttemptFailure, DeliveryHandle, DeliveryOutcome},
    message_encoding::Alphabet,
    queue::{QueueAccount, QueueLimits},
    sms::{ConcatenationMode, FaultScript, SendError, Sms, SmsAddress},
};
use self::{
    delivery::{Binds, DeliveryTask, RetryPolicy},
    queue::SmsQueue,
};

#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("SmscConfig({listen}, {system_id}, seed {seed})")]
pub struct SmscConfig {
    /// Port 0 selects a free port.
    pub listen: SocketAddr,
    /// `system_id` of ESMEs and of the SMSC.
    pub system_id: String,
    /// At most 8 characters, the limit of SMPP.
    pub password: String,
    pub session: session::SessionConfig,
    /// Maximum number of connections. Further ones are closed immediately.
    pub max_connections: usize,
    /// Maximum number of binds. Further ones are rejected with `ESME_RALYBND`. 1 simulates an SMSC that allows one bind
    /// per account.
    pub max_binds: usize,
    pub queue: QueueLimits,
    /// TLV that carries the account of the handset, in 16 octets. `None`: it is not sent.
    pub account_tag: Option<TlvTag>,
    /// Maximum number of attempts for each message. The default lets retries go on for the longest lifetime of a check.
    pub max_attempts: u32,
    pub retry_delay: Duration,
    /// Timeout of the unbind on shutdown.
    pub unbind_timeout: Duration,
    /// Maximum number of SMS that the observer records.
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
            // Large enough that a connector can conclude many checks in one batch.
            session: session::SessionConfig { request_window: 128, ..session::SessionConfig::default() },
            max_connections: 64,
            max_binds: usize::MAX,
            queue: QueueLimits::default(),
            account_tag: None,
            max_attempts: 900,
            retry_delay: Duration::from_secs(1),
            unbind_timeout: Duration::from_secs(1),
            max_records: 100,
            seed: 0,
        }
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
    bind_permits: Arc<Semaphore>,
    /// Cancelled to drop all connections, and then replaced by a new token for later connections.
    connections: Mutex<CancellationToken>,
    stop: CancellationToken,
}

impl Smsc {
    pub async fn start(config: SmscConfig) -> io::Result<Self> {
        let listener = TcpListener::bind(config.listen).await?;
        let address = listener.local_addr()?;
        let queue = SmsQueue::new(config.queue);
        let bind_permits = Arc::new(Semaphore::new(config.max_binds.min(Semaphore::MAX_PERMITS)));
        let state = Arc::new(SmscState {
            observer: SmscObserver::new(config.max_records),
            config,
            binds: Binds::default(),
            refuses_binds: AtomicBool::new(false),
            bind_permits,
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
        // The concatenation reference increments with each SMS, as on a handset.
        let [.., high, low] = id.to_be_bytes();
        let mut random = Rng::with_seed(self.state.config.seed ^ id.rotate_left(32));
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
                state.delivery_task(id, &sms.faults).run(&messages).await
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
        let mut connections = self.state.connections.lock();
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

    /// Returns the token that drops a new connection when it is cancelled.
    fn disconnect_token(&self) -> CancellationToken {
        self.connections.lock().child_token()
    }

    fn delivery_task<'a>(&'a self, id: u64, faults: &'a FaultScript) -> DeliveryTask<'a> {
        DeliveryTask {
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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmscCounts {
    /// Current binds of every mode.
    pub binds: usize,
    pub binds_rejected: u64,
    /// Connections closed because of the limit.
    pub connections_rejected: u64,
    /// SMS whose delivery has not ended yet.
    pub queued: usize,
    /// SMS accepted by a receiver.
    pub delivered: u64,
    /// SMS rejected by a receiver.
    pub rejected: u64,
    /// SMS whose attempts are exhausted.
    pub retries_exhausted: u64,
    /// Sent messages, including parts, copies and retries.
    pub attempts: u64,
    /// Attempts that failed temporarily.
    pub failed_attempts: u64,
}

/// A sent SMS and its outcome. `Debug` shows the length of the text, never the text.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
pub struct SmsRecord {
    pub id: u64,
    pub from: SmsAddress,
    pub to: SmsAddress,
    #[debug("{} characters", text.chars().count())]
    pub text: String,
    pub attempts: u32,
    /// `None` while it is queued.
    pub outcome: Option<DeliveryOutcome>,
}

/// Observer of an SMSC. Clones share the data, which stays available after a shutdown.
#[derive(Clone, Debug)]
pub struct SmscObserver {
    counts: Arc<watch::Sender<SmscCounts>>,
    records: Arc<Mutex<VecDeque<SmsRecord>>>,
    max_records: usize,
}

impl SmscObserver {
    fn new(max_records: usize) -> Self {
        Self { counts: Arc::default(), records: Arc::default(), max_records }
    }

    pub fn counts(&self) -> SmscCounts {
        *self.counts.borrow()
    }

    /// Waits until the predicate accepts the counts.
    pub async fn wait_until(&self, mut predicate: impl FnMut(&SmscCounts) -> bool) -> SmscCounts {
        let mut changes = self.counts.subscribe();
        // Waiting fails only if the sender is dropped, and `self` keeps it alive.
        changes.wait_for(|counts| predicate(counts)).await.map_or_else(|_| self.counts(), |counts| *counts)
    }

    /// Returns the recent SMS, oldest first.
    pub fn sent_sms(&self) -> Vec<SmsRecord> {
        self.records.lock().iter().cloned().collect()
    }

    fn update_counts(&self, change: impl FnOnce(&mut SmscCounts)) {
        self.counts.send_modify(change);
    }

    fn record_sent(&self, id: u64, sms: &Sms) {
        let mut records = self.records.lock();
        while records.len() >= self.max_records.max(1) {
            records.pop_front();
        }
        records.push_back(SmsRecord {
            id,
            from: sms.from.clone(),
            to: sms.to.clone(),
            text: sms.text.clone(),
            attempts: 0,
            outcome: None,
        });
        drop(records);
        self.update_counts(|counts| counts.queued += 1);
    }

    fn record_attempt(&self, id: u64) {
        self.update_record(id, |record| record.attempts += 1);
        self.update_counts(|counts| counts.attempts += 1);
    }

    fn record_outcome(&self, id: u64, outcome: DeliveryOutcome) {
        self.update_record(id, |record| record.outcome = Some(outcome));
        self.update_counts(|counts| {
            counts.queued -= 1;
            match outcome {
                DeliveryOutcome::Acknowledged => counts.delivered += 1,
                DeliveryOutcome::Rejected(_) => counts.rejected += 1,
                DeliveryOutcome::RetriesExhausted(_) => counts.retries_exhausted += 1,
                DeliveryOutcome::Stopped => {}
            }
        });
    }

    /// Updates a record, if it is still kept; searches from the newest.
    fn update_record(&self, id: u64, change: impl FnOnce(&mut SmsRecord)) {
        if let Some(record) = self.records.lock().iter_mut().rev().find(|record| record.id == id) {
            change(record);
        }
    }
}
