//! Clock synchronisation, heartbeats and housekeeping of a node.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};

use crate::{
    Engine,
    ports::{Clock, DatabaseTime, LastSeenDatabase, NodeId, Store, StoreError, TimeSample},
    rate_limit::NodeShare,
    rate_shares::{self, Demand},
};

const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// A node without a heartbeat for this long is dead.
const NODE_TIMEOUT: SignedDuration = SignedDuration::from_secs(5);
/// A node that has published no demand for this long counts as idle.
const DEMAND_STALE_AFTER: SignedDuration = SignedDuration::from_secs(3);
const HOUSEKEEPING_INTERVAL: Duration = Duration::from_mins(1);
/// A larger skew between the machine's clock and the database's time is reported.
const MAX_CLOCK_SKEW: SignedDuration = SignedDuration::from_secs(2);

/// Reads the database's time and passes it to the clock.
pub async fn sample_database_time(store: &dyn Store, clock: &dyn Clock) -> Result<(), StoreError> {
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

/// Time by which the machine's clock is ahead of the database's time.
pub fn clock_skew(clock: &dyn Clock) -> SignedDuration {
    clock.machine_now().duration_since(clock.now())
}

pub fn is_excessive_skew(skew: SignedDuration) -> bool {
    skew.abs() > MAX_CLOCK_SKEW
}

/// Logs the machine's clock skew when it appears, changes or ends.
#[derive(Debug, Default)]
pub(crate) struct ClockSkewReporter {
    /// Logged skew in milliseconds; zero while the clock is within the limit.
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
                "machine clock differs from the database's time, which is used instead; correct the clock, for example \
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

impl Engine {
    /// Records a heartbeat and updates this node's share of the rate limits.
    pub async fn send_heartbeat(&self) -> Result<(), StoreError> {
        self.record_heartbeat(None).await
    }

    /// As [`send_heartbeat`](Engine::send_heartbeat), and compares the identity of the database.
    pub(crate) async fn send_heartbeat_with_identity(&self) -> Result<(), StoreError> {
        let identity = self.store().database_identity().await?;
        self.record_heartbeat(identity).await
    }

    async fn record_heartbeat(&self, identity: Option<String>) -> Result<(), StoreError> {
        let now = self.clock().now();
        let known = LastSeenDatabase { generation: self.rollback_detector().generation(), identity };
        let heartbeat = self.store().heartbeat(self.node(), now, now - NODE_TIMEOUT, known).await?;
        self.rollback_detector().update(&heartbeat);
        let alive = heartbeat.nodes;
        let nodes = u32::try_from(alive.len()).unwrap_or(u32::MAX).max(1);
        let rank = alive.iter().position(|node| *node == self.node()).unwrap_or(0);
        let share = NodeShare { nodes, rank: u32::try_from(rank).unwrap_or(0) };
        let demands = if nodes > 1 { self.exchange_demands(&alive, now).await? } else { Vec::new() };
        self.rate_limiter().set_shares(share, &demands);
        Ok(())
    }

    /// Synchronises the clock with the database's time, and logs a skewed machine clock.
    pub async fn sync_clock(&self) -> Result<(), StoreError> {
        sample_database_time(self.store(), self.clock()).await?;
        self.clock_skew_reporter().update(clock_skew(self.clock()));
        Ok(())
    }

    /// Publishes this node's demand and returns the demand of each live node, ordered by rank.
    async fn exchange_demands(&self, alive: &[NodeId], now: Timestamp) -> Result<Vec<Demand>, StoreError> {
        let own = self.rate_limiter().demand(now);
        let published = self
            .store()
            .exchange_demand(self.node(), rate_shares::encode_demand(&own), now, now - DEMAND_STALE_AFTER)
            .await?;
        let demand_of = |node: &NodeId| match published.iter().find(|(other, _)| other == node) {
            Some((_, demand)) => rate_shares::decode_demand(demand),
            None if *node == self.node() => own.clone(),
            None => Demand::new(),
        };
        Ok(alive.iter().map(demand_of).collect())
    }

    /// Synchronises the clock and sends heartbeats until the future is dropped.
    pub async fn run_heartbeat(&self) {
        loop {
            tokio::time::sleep(HEARTBEAT_INTERVAL).await;
            if let Err(error) = self.sync_clock().await {
                tracing::debug!(%error, "failed to read the database's time; retrying");
            }
            if let Err(error) = self.send_heartbeat_with_identity().await {
                tracing::debug!(%error, "heartbeat failed; retrying");
            }
        }
    }

    /// Deregisters this node, so that other nodes need not wait for its timeout.
    pub async fn deregister_node(&self) {
        if let Err(error) = self.flush_credential_uses().await {
            tracing::debug!(%error, "failed to store the last use of credentials");
        }
        if let Err(error) = self.store().deregister_node(self.node()).await {
            tracing::debug!(%error, "failed to deregister node");
        }
    }

    /// Deletes expired rows, a bounded number in each transaction. Returns their number.
    pub async fn delete_expired(&self) -> Result<u64, StoreError> {
        let now = self.clock().now();
        self.control_plane().drop_expired(now);
        self.flush_credential_uses().await?;
        let mut deleted = self.delete_old_requests(now).await?;
        let audit_cutoff = now.saturating_sub(self.audit_retention()).unwrap_or(Timestamp::MIN);
        loop {
            match self.store().delete_audit_events_before(audit_cutoff).await? {
                0 => break,
                rows => deleted += rows,
            }
        }
        loop {
            match self.store().delete_expired(now).await? {
                0 => return Ok(deleted),
                rows => deleted += rows,
            }
        }
    }

    /// Erases, compacts and deletes expired data until the future is dropped.
    pub async fn run_housekeeping(&self) {
        loop {
            tokio::time::sleep(HOUSEKEEPING_INTERVAL).await;
            if let Err(error) = self.erase_due(self.clock().now()).await {
                tracing::warn!(%error, "failed to erase expired personal data");
            }
            if let Err(error) = self.compact_activity().await {
                tracing::warn!(%error, "failed to compact activity counters");
            }
            match self.delete_expired().await {
                Ok(0) => {}
                Ok(rows) => tracing::debug!(rows, "expired rows deleted"),
                Err(error) => tracing::warn!(%error, "failed to delete expired rows"),
            }
        }
    }
}
