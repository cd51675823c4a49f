//! A node's clock synchronisation, heartbeats and housekeeping, and the repair of a restored database.
//!
//! Every heartbeat increments a counter in the database, the generation. A node keeps the last generation that it has
//! seen in memory and, if it has a state file, across restarts. If the database has a lower generation than that, it
//! was rolled back, for example by restoring a backup. A database server also has an identity, which a restore changes.
//! A changed identity is weaker evidence, because a promoted standby has a new identity too and may have lost nothing.

mod check_retention;

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use ringtrue_domain::{
    audit::{Action, Actor, AuditEvent},
    phone::Msisdn,
};
use tokio::time::{MissedTickBehavior, interval};

use crate::{
    accounts::Accounts,
    activity::Activity,
    checks::Checks,
    context::Context,
    control_plane::RefreshError,
    courier::Courier,
    keys::{self, KeyRotation, RotateError},
    ports::{
        clock::{Clock, TimeSample},
        combined::MaintenanceStore,
        keys::KeyPurpose,
        node::{DatabaseTime, HeartbeatResult, LastSeenDatabase, NodeId, NodeStore, PublishedDemand},
        privacy::ErasureCounts,
        store::StoreError,
    },
    rate_limits::{
        LimitSubject, RateLimiter,
        shares::{PublishedCalls, SubjectKey, encode_calls},
    },
    request_log::RequestLog,
    tokens::Tokens,
};

const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// How often nodes exchange their request counts in each heartbeat interval. Each node gets a part of every rate limit
/// in proportion to these counts.
const EXCHANGES_PER_HEARTBEAT: u32 = 4;
/// A node without a heartbeat for this time is considered dead.
pub const NODE_TIMEOUT: SignedDuration = SignedDuration::from_secs(5);
/// Request counts that a node published longer ago than this are ignored. It is several exchange intervals, so that a
/// live node may miss some exchanges. When a node dies, the other nodes take over its part of the rate limits after at
/// most 1.5 s.
const CALLS_STALE_AFTER: SignedDuration = SignedDuration::from_millis(1_200);
const HOUSEKEEPING_INTERVAL: Duration = Duration::from_mins(1);
/// How far in advance the monthly partitions of tables are created.
const PARTITION_LEAD_TIME: SignedDuration = SignedDuration::from_hours(62 * 24);
/// Largest difference between the machine's clock and the database's time that is not reported.
const MAX_CLOCK_SKEW: SignedDuration = SignedDuration::from_secs(2);

/// Maximum time from the conclusion of a check to the last attempt to send its callback on the regular retry schedule,
/// which has six delays and seven attempts of at most ten seconds.
const MAX_CALLBACK_AGE: SignedDuration = SignedDuration::from_mins(5);
const MAX_BATCH_CALLBACKS: u32 = 500;
/// Maximum number of checks whose personal data one transaction erases.
const MAX_ERASURES_PER_TRANSACTION: u32 = 500;

/// Reads the database's time and corrects the clock with it.
pub async fn sync_clock_with_database(store: &dyn NodeStore, clock: &dyn Clock) -> Result<(), StoreError> {
    let requested_at = Instant::now();
    let DatabaseTime { clock: database, latest_recorded: latest } = store.database_time(clock.machine_now()).await?;
    clock.apply_sample(TimeSample {
        requested_at,
        received_at: Instant::now(),
        clock: database,
        latest_recorded: latest,
    });
    Ok(())
}

/// Returns by how much the machine's clock is ahead of the database's time.
pub fn clock_skew(clock: &dyn Clock) -> SignedDuration {
    clock.machine_now().duration_since(clock.now())
}

pub fn is_excessive_skew(skew: SignedDuration) -> bool {
    skew.abs() > MAX_CLOCK_SKEW
}

/// Logs the machine's clock skew when it exceeds [`MAX_CLOCK_SKEW`], when it then changes by more than that, and when
/// it is within the limit again.
#[derive(Debug, Default)]
pub(crate) struct ClockSkewReporter {
    /// Last logged skew in milliseconds. Zero: the skew is within the limit.
    logged: AtomicI64,
}

impl ClockSkewReporter {
    fn update(&self, skew: SignedDuration) {
        let logged = SignedDuration::from_millis(self.logged.load(Ordering::Relaxed));
        let seconds = skew.as_secs_f64();
        if is_excessive_skew(skew) {
            if !is_excessive_skew(skew - logged) {
                return;
            }
            tracing::warn!(
                clock.skew_seconds = seconds,
                "machine clock differs from the database clock, which is used instead; synchronise it, for example \
                 with NTP"
            );
        } else if logged.is_zero() {
            return;
        } else {
            tracing::info!(clock.skew_seconds = seconds, "machine clock agrees with the database's time again");
        }
        let reported = if is_excessive_skew(skew) { i64::try_from(skew.as_millis()).unwrap_or(i64::MAX) } else { 0 };
        self.logged.store(reported, Ordering::Relaxed);
    }
}

/// Detects that the database was rolled back.
#[derive(Debug, Default)]
pub(crate) struct RollbackDetector {
    /// Last generation that this node has seen in the database, a counter that heartbeats increment. Zero: none seen
    /// yet.
    generation: AtomicI64,
    rollback_detected_at: Mutex<Option<Timestamp>>,
}

impl RollbackDetector {
    pub(crate) fn generation(&self) -> i64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(crate) fn update(&self, heartbeat: &HeartbeatResult) {
        self.generation.store(heartbeat.generation, Ordering::Release);
        let mut known = self.rollback_detected_at.lock();
        if let (Some(at), true) = (heartbeat.rollback_detected_at, *known != heartbeat.rollback_detected_at) {
            tracing::error!(
                noticed_at = %at,
                "DATABASE ROLLED BACK: it was restored from a backup, copied or replaced. Tokens revoked since then may be \
                 valid again, and old callbacks may be sent again. Stop all servers, run `ringtrue restored`, and start \
                 them again"
            );
        }
        *known = heartbeat.rollback_detected_at;
    }
}

/// What the repair of a restored database has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreReport {
    /// Number of overdue callbacks that will not be sent.
    pub callbacks: u64,
    /// Number of expired checks that were concluded.
    pub checks: usize,
    /// Number of console sessions that were ended.
    pub sessions: u64,
    pub event: AuditEvent,
}

/// This node's heartbeats and housekeeping, and the repair of a restored database.
#[derive(derive_more::Debug)]
#[debug("Node({id:?})")]
pub struct Node {
    pub(crate) id: NodeId,
    pub(crate) context: Arc<Context>,
    pub(crate) store: Arc<dyn MaintenanceStore>,
    pub(crate) checks: Arc<Checks>,
    pub(crate) courier: Courier,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) activity: Arc<Activity>,
    pub(crate) request_log: Arc<RequestLog>,
    pub(crate) rate_limiter: Arc<RateLimiter>,
    /// The other nodes that were alive at the last heartbeat.
    pub(crate) peers: Mutex<Vec<NodeId>>,
    pub(crate) clock_skew_reporter: ClockSkewReporter,
    pub(crate) rollback_detector: RollbackDetector,
}

impl Node {
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// Loads the changes of projects, credentials and other control-plane data since the last refresh.
    pub async fn refresh(&self) -> Result<(), RefreshError> {
        self.context.refresh().await
    }

    /// Reloads changed control-plane data after each change, until the future is dropped.
    pub async fn run_control_plane_refresh(&self) {
        let Context { control_plane, control_plane_store, clock, .. } = &*self.context;
        control_plane.run_refresh(&**control_plane_store, &**clock).await;
    }

    /// Derives a key from the deployment's hash key, so the result is the same on all nodes.
    pub fn derive_key(&self, purpose: &str) -> Result<[u8; 32], StoreError> {
        self.context.keyed_hash(&[purpose.as_bytes()])
    }

    /// Records that this node is alive, and exchanges request counts with the other nodes, which divide rate limits by
    /// them.
    pub async fn send_heartbeat(&self) -> Result<(), StoreError> {
        self.record_heartbeat(None).await
    }

    /// Like [`send_heartbeat`](Self::send_heartbeat), and also compares the database's identity with the identity
    /// recorded in it, to detect a restore.
    pub(crate) async fn send_heartbeat_with_identity(&self) -> Result<(), StoreError> {
        let identity = self.store.database_identity().await?;
        self.record_heartbeat(identity).await
    }

    async fn record_heartbeat(&self, identity: Option<String>) -> Result<(), StoreError> {
        let now = self.context.now();
        let known = LastSeenDatabase { generation: self.rollback_detector.generation(), identity };
        let heartbeat = self.store.heartbeat(self.id, now, now - NODE_TIMEOUT, known).await?;
        self.rollback_detector.update(&heartbeat);
        let peers = heartbeat.nodes.into_iter().filter(|node| *node != self.id).collect();
        *self.peers.lock() = peers;
        self.exchange_demand().await
    }

    /// Synchronises the clock with the database's time, and logs the skew of the machine's clock.
    pub(crate) async fn sync_clock(&self) -> Result<(), StoreError> {
        sync_clock_with_database(&*self.store, &*self.context.clock).await?;
        self.clock_skew_reporter.update(clock_skew(&*self.context.clock));
        Ok(())
    }

    /// Publishes this node's recent request counts, and computes its part of each rate limit from the counts of all
    /// live nodes. Publishes nothing while this is the only node.
    pub async fn exchange_demand(&self) -> Result<(), StoreError> {
        if self.peers.lock().is_empty() {
            self.rate_limiter.apply_exchange(self.id, &[], &[], self.context.now());
            return Ok(());
        }
        let now = self.context.now();
        let recent = self.rate_limiter.recent_calls(now).into_iter();
        let with_key = |(subject, calls)| Ok((subject, self.subject_key(&subject)?, calls));
        let own = recent.map(with_key).collect::<Result<Vec<_>, StoreError>>()?;
        let published = encode_calls(own.iter().map(|(_, key, calls)| (*key, *calls)));
        let others = self.store.exchange_demand(self.id, published, now).await?;
        let is_live = |other: &&PublishedDemand| now.duration_since(other.published_at) <= CALLS_STALE_AFTER;
        let others: Vec<_> = others.iter().filter(is_live).map(PublishedCalls::decode).collect();
        self.rate_limiter.apply_exchange(self.id, &own, &others, now);
        Ok(())
    }

    /// Returns the keyed hash under which nodes publish the request counts of a rate-limited subject. A hash is used
    /// because some subjects are IP addresses.
    fn subject_key(&self, subject: &LimitSubject) -> Result<SubjectKey, StoreError> {
        let hash = self.context.keyed_hash(&[b"rate limit", subject.encode().as_bytes()])?;
        Ok(hash.first_chunk().copied().map(SubjectKey::from_be_bytes).unwrap_or_default())
    }

    /// Synchronises the clock, sends heartbeats and exchanges request counts, until the future is dropped.
    pub async fn run_heartbeat(&self) {
        let mut ticks = interval(HEARTBEAT_INTERVAL / EXCHANGES_PER_HEARTBEAT);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick is immediate. It is skipped, because the node has just registered at startup.
        ticks.tick().await;
        for exchange in (1..=EXCHANGES_PER_HEARTBEAT).cycle() {
            ticks.tick().await;
            if exchange < EXCHANGES_PER_HEARTBEAT {
                if let Err(error) = self.exchange_demand().await {
                    tracing::debug!(%error, "failed to exchange calls for rate limits; retrying");
                }
                continue;
            }
            if let Err(error) = self.sync_clock().await {
                tracing::debug!(%error, "failed to read the database's time; retrying");
            }
            if let Err(error) = self.send_heartbeat_with_identity().await {
                tracing::debug!(%error, "heartbeat failed; retrying");
            }
        }
    }

    /// Deregisters this node at shutdown, so that other nodes need not wait for [`NODE_TIMEOUT`] to consider it dead.
    pub async fn deregister_node(&self) {
        if let Err(error) = self.tokens.flush_credential_uses().await {
            tracing::debug!(%error, "failed to store the last use of credentials");
        }
        if let Err(error) = self.store.deregister_node(self.id).await {
            tracing::debug!(%error, "failed to deregister node");
        }
    }

    /// Deletes expired rows, a limited number in each transaction. Returns the total number of deleted rows.
    pub async fn delete_expired(&self) -> Result<u64, StoreError> {
        let now = self.context.now();
        self.context.control_plane.drop_expired(now);
        self.tokens.flush_credential_uses().await?;
        let mut deleted = self.request_log.delete_old_requests(now).await?;
        let audit_cutoff = now.saturating_sub(self.context.settings.retention.audit_events).unwrap_or(Timestamp::MIN);
        loop {
            match self.store.delete_audit_events_before(audit_cutoff).await? {
                0 => break,
                rows => deleted += rows,
            }
        }
        loop {
            match self.store.delete_expired(now).await? {
                0 => return Ok(deleted),
                rows => deleted += rows,
            }
        }
    }

    /// Runs [`housekeep`](Self::housekeep) periodically until the future is dropped.
    pub async fn run_housekeeping(&self) {
        loop {
            tokio::time::sleep(HOUSEKEEPING_INTERVAL).await;
            self.housekeep().await;
        }
    }

    /// Creates partitions, erases expired personal data, re-encrypts second factors with the active key, rolls up
    /// activity counts and deletes expired rows.
    pub async fn housekeep(&self) {
        let now = self.context.now();
        let until = now.saturating_add(PARTITION_LEAD_TIME).unwrap_or(now);
        match self.store.create_partitions(now, until).await {
            Ok(0) => {}
            Ok(partitions) => tracing::info!(partitions, "partitions created"),
            // Not urgent: checks of a month without a partition go to the default partition.
            Err(error) => tracing::warn!(%error, "failed to create partitions"),
        }
        if let Err(error) = self.erase_due(self.context.now()).await {
            tracing::warn!(%error, "failed to erase expired personal data");
        }
        match self.accounts.reseal_second_factors().await {
            Ok(0) => {}
            Ok(accounts) => tracing::info!(accounts, "second factors sealed with the active key"),
            Err(error) => tracing::warn!(%error, "failed to seal second factors with the active key"),
        }
        if let Err(error) = self.activity.roll_up().await {
            tracing::warn!(%error, "failed to roll up activity counters");
        }
        match self.delete_expired().await {
            Ok(0) => {}
            Ok(rows) => tracing::debug!(rows, "expired rows deleted"),
            Err(error) => tracing::warn!(%error, "failed to delete expired rows"),
        }
    }

    /// Erases the data of a number in all projects, and writes an audit event. Data of open checks is erased after
    /// their conclusion. The returned event contains the number of these checks.
    pub async fn erase_number(&self, number: &Msisdn) -> Result<(ErasureCounts, AuditEvent), StoreError> {
        let target = format!("…{}", number.tail());
        let audit = self.context.new_audit_event(Actor::Operator, Action::NumberErased, None, target);
        let erased = self.store.erase_number(self.context.hash_number(number)?, &audit).await?;
        Ok((erased, AuditEvent { changes: erased.audit_details(), ..audit }))
    }

    /// Erases the personal data of concluded checks whose retention period has ended. Also erases what
    /// [`erase_number`](Self::erase_number) had to leave, because a check was open or a callback undelivered. Numbers
    /// found by Discovery checks have their own retention period.
    async fn erase_due(&self, now: Timestamp) -> Result<ErasureCounts, StoreError> {
        let cutoff = |retention| now.saturating_sub(retention).unwrap_or(Timestamp::MIN);
        let (old, old_discovered) = (
            cutoff(self.context.settings.retention.numbers),
            cutoff(self.context.settings.retention.discovered_numbers),
        );
        let mut total = ErasureCounts::default();
        loop {
            // Each round runs all three, even if one of them fails.
            let batch = [
                self.store.erase_deferred(MAX_ERASURES_PER_TRANSACTION).await,
                self.store.erase_discovered_numbers(old_discovered, MAX_ERASURES_PER_TRANSACTION).await,
                self.store.erase_old_checks(old, MAX_ERASURES_PER_TRANSACTION).await,
            ];
            let batch = batch.into_iter().collect::<Result<Vec<_>, _>>()?;
            if batch.iter().all(|erased| *erased == ErasureCounts::default()) {
                return Ok(total);
            }
            for erased in batch {
                total.checks += erased.checks;
                total.callbacks += erased.callbacks;
                total.attempts += erased.attempts;
            }
        }
    }

    /// The last database generation (counter of heartbeats) that this node has seen.
    pub fn database_generation(&self) -> i64 {
        self.rollback_detector.generation()
    }

    /// Detects whether the database was rolled back since this node last ran. `last_seen` is the generation in the
    /// node's state file, if there is one.
    pub async fn detect_rollback(&self, last_seen: Option<i64>) -> Result<(), StoreError> {
        self.rollback_detector.generation.store(last_seen.unwrap_or(0), Ordering::Release);
        self.send_heartbeat_with_identity().await
    }

    /// Repairs a database after a restore from a backup: invalidates all access tokens, sessions and links, concludes
    /// expired checks, gives up overdue callbacks, and records that an administrator has accepted the database.
    ///
    /// A check that is open in the backup and has expired since was probably concluded with another outcome after the
    /// backup, and its callback was delivered then. The callback of the new conclusion is given up, so that it cannot
    /// contradict the delivered one.
    pub async fn repair_restored_database(&self) -> Result<RestoreReport, RotateError> {
        let rotation = KeyRotation::by_command_line(KeyPurpose::Token, true);
        let master = self.context.control_plane.master_key();
        keys::rotate_key(rotation, &*self.store, master, &*self.context.clock, &*self.context.entropy).await?;
        let now = self.context.now();
        // This runs in the command `ringtrue restored`, and only servers send callbacks.
        self.courier.stop_sending();
        let checks = self.checks.sweep().await?;
        let mut callbacks = 0;
        loop {
            match self.store.give_up_overdue_callbacks(now - MAX_CALLBACK_AGE, MAX_BATCH_CALLBACKS).await? {
                0 => break,
                given_up => callbacks += given_up,
            }
        }
        let event =
            self.context.new_audit_event(Actor::Operator, Action::DatabaseRestored, None, "database".to_owned());
        let sessions = self.store.accept_restored_database(&event).await?;
        Ok(RestoreReport { callbacks, checks, sessions, event })
    }
}
