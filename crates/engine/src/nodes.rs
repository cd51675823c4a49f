//! The shared time, which nodes are alive, and forgetting what has expired.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};

use crate::{
    Engine,
    ports::{Clock, DatabaseTime, KnownDatabase, NodeId, Store, StoreError, TimeSample},
    rate_limit::Share,
    rate_shares::{self, Demand},
};

const BEAT: Duration = Duration::from_secs(1);
/// A node that was not heard of for so long is dead.
const DEAD_AFTER: SignedDuration = SignedDuration::from_secs(5);
/// A node that has published nothing for so long counts as one that is not asked.
const DEMAND_STALE_AFTER: SignedDuration = SignedDuration::from_secs(3);
const HOUSEKEEPING: Duration = Duration::from_mins(1);
/// A machine whose clock differs by more from the database's time is reported.
const MAX_CLOCK_SKEW: SignedDuration = SignedDuration::from_secs(2);

/// Samples the database's time for a clock that follows it.
pub async fn sample_database_time(store: &dyn Store, clock: &dyn Clock) -> Result<(), StoreError> {
    let requested_at = Instant::now();
    let DatabaseTime { clock: database, latest } = store.database_time(clock.machine_now()).await?;
    clock.follow(TimeSample { requested_at, received_at: Instant::now(), clock: database, latest });
    Ok(())
}

/// How far the machine's own clock is ahead of the database's time.
pub fn clock_skew(clock: &dyn Clock) -> SignedDuration {
    clock.machine_now().duration_since(clock.now())
}

/// Whether a machine's clock is wrong enough to be reported.
pub fn is_skewed(skew: SignedDuration) -> bool {
    skew.abs() > MAX_CLOCK_SKEW
}

/// Logs the skew of the machine's clock when it appears, changes or ends.
#[derive(Debug, Default)]
pub(crate) struct SkewReport {
    /// In milliseconds; zero while the clock is right.
    logged: AtomicI64,
}

impl SkewReport {
    fn update(&self, skew: SignedDuration) {
        let logged = SignedDuration::from_millis(self.logged.load(Ordering::Relaxed));
        let seconds = skew.as_secs_f64();
        if is_skewed(skew) {
            if !is_skewed(skew - logged) {
                return;
            }
            tracing::warn!(
                clock.skew_seconds = seconds,
                "the clock of this machine differs from the database's time; the database's time is used. Correct the \
                 clock, for example with NTP"
            );
        } else if logged.is_zero() {
            return;
        } else {
            tracing::info!(
                clock.skew_seconds = seconds,
                "the clock of this machine agrees with the database's time again"
            );
        }
        let reported = if is_skewed(skew) { i64::try_from(skew.as_millis()).unwrap_or(i64::MAX) } else { 0 };
        self.logged.store(reported, Ordering::Relaxed);
    }
}

impl Engine {
    /// Says that this node is alive, and divides the rate limits among those that are.
    pub async fn beat(&self) -> Result<(), StoreError> {
        self.beat_knowing(None).await
    }

    /// As [`beat`](Engine::beat), and compares the identity of the database.
    pub(crate) async fn beat_with_identity(&self) -> Result<(), StoreError> {
        let identity = self.store().database_identity().await?;
        self.beat_knowing(identity).await
    }

    async fn beat_knowing(&self, identity: Option<String>) -> Result<(), StoreError> {
        let now = self.clock().now();
        let known = KnownDatabase { generation: self.lineage().generation(), identity };
        let heartbeat = self.store().heartbeat(self.node(), now, now - DEAD_AFTER, known).await?;
        self.lineage().update(&heartbeat);
        let alive = heartbeat.nodes;
        let nodes = u32::try_from(alive.len()).unwrap_or(u32::MAX).max(1);
        let rank = alive.iter().position(|node| *node == self.node()).unwrap_or(0);
        let share = Share { nodes, rank: u32::try_from(rank).unwrap_or(0) };
        let demands = if nodes > 1 { self.demands(&alive, now).await? } else { Vec::new() };
        self.limiter().set_shares(share, &demands);
        Ok(())
    }

    /// Lets the clock follow the database's time, and reports a machine whose own clock is wrong.
    pub async fn follow_database_time(&self) -> Result<(), StoreError> {
        sample_database_time(self.store(), self.clock()).await?;
        self.skew_report().update(clock_skew(self.clock()));
        Ok(())
    }

    /// What each live node was asked for in the last second, in their order.
    async fn demands(&self, alive: &[NodeId], now: Timestamp) -> Result<Vec<Demand>, StoreError> {
        let own = self.limiter().demand(now);
        let published =
            self.store().exchange_demand(self.node(), rate_shares::encode(&own), now, now - DEMAND_STALE_AFTER).await?;
        let of = |node: &NodeId| match published.iter().find(|(other, _)| other == node) {
            Some((_, demand)) => rate_shares::decode(demand),
            None if *node == self.node() => own.clone(),
            None => Demand::new(),
        };
        Ok(alive.iter().map(of).collect())
    }

    /// Beats until the future is dropped.
    pub async fn keep_beating(&self) {
        loop {
            tokio::time::sleep(BEAT).await;
            if let Err(error) = self.follow_database_time().await {
                tracing::debug!(%error, "failed to read the database's time; counting on without it");
            }
            if let Err(error) = self.beat_with_identity().await {
                tracing::debug!(%error, "no heartbeat");
            }
        }
    }

    /// Tells the other nodes that this one goes, so that they need not wait for its silence.
    pub async fn leave(&self) {
        if let Err(error) = self.store_credential_uses().await {
            tracing::debug!(%error, "failed to store when credentials were last used");
        }
        if let Err(error) = self.store().leave(self.node()).await {
            tracing::debug!(%error, "left without a word");
        }
    }

    /// Deletes what has expired, a bounded number of rows in each transaction. Says how many went.
    pub async fn tidy_up(&self) -> Result<u64, StoreError> {
        let now = self.clock().now();
        self.control_plane().forget_expired(now);
        self.store_credential_uses().await?;
        let mut deleted = self.forget_old_requests(now).await?;
        let audit_kept_since = now.saturating_sub(self.audit_retention()).unwrap_or(Timestamp::MIN);
        loop {
            match self.store().delete_audit_events(audit_kept_since).await? {
                0 => break,
                rows => deleted += rows,
            }
        }
        loop {
            match self.store().forget_expired(now).await? {
                0 => return Ok(deleted),
                rows => deleted += rows,
            }
        }
    }

    /// Tidies up until the future is dropped.
    pub async fn keep_tidy(&self) {
        loop {
            tokio::time::sleep(HOUSEKEEPING).await;
            if let Err(error) = self.erase_due(self.clock().now()).await {
                tracing::warn!(%error, "what is due could not be erased");
            }
            if let Err(error) = self.tidy_activity_up().await {
                tracing::warn!(%error, "old counts could not be summed up");
            }
            match self.tidy_up().await {
                Ok(0) => {}
                Ok(rows) => tracing::debug!(rows, "expired rows deleted"),
                Err(error) => tracing::warn!(%error, "expired rows could not be deleted"),
            }
        }
    }
}
