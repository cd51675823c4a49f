//! Knowing which nodes are alive, and forgetting what has expired.

use std::time::Duration;

use jiff::SignedDuration;

use crate::{Engine, ports::StoreError, rate_limit::Share};

const BEAT: Duration = Duration::from_secs(1);
/// A node that was not heard of for so long is dead.
const DEAD_AFTER: SignedDuration = SignedDuration::from_secs(5);
const HOUSEKEEPING: Duration = Duration::from_mins(1);

impl Engine {
    /// Says that this node is alive, and divides the rate limits among those that are.
    pub async fn beat(&self) -> Result<(), StoreError> {
        let now = self.clock().now();
        let alive = self.store().heartbeat(self.node(), now, now - DEAD_AFTER).await?;
        let nodes = u32::try_from(alive.len()).unwrap_or(u32::MAX).max(1);
        let rank = alive.iter().position(|node| *node == self.node()).unwrap_or(0);
        self.limiter().set_share(Share { nodes, rank: u32::try_from(rank).unwrap_or(0) });
        Ok(())
    }

    /// Beats until the future is dropped.
    pub async fn keep_beating(&self) {
        loop {
            tokio::time::sleep(BEAT).await;
            if let Err(error) = self.beat().await {
                tracing::debug!(%error, "no heartbeat");
            }
        }
    }

    /// Tells the other nodes that this one goes, so that they need not wait for its silence.
    pub async fn leave(&self) {
        if let Err(error) = self.store().leave(self.node()).await {
            tracing::debug!(%error, "left without a word");
        }
    }

    /// Deletes what has expired, a bounded number of rows in each transaction. Says how many went.
    pub async fn tidy_up(&self) -> Result<u64, StoreError> {
        let now = self.clock().now();
        self.control_plane().forget_expired(now);
        let mut deleted = self.forget_old_requests(now).await?;
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
