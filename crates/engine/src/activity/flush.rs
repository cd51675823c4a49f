//! Writes activity counters to the store, and compacts old ones.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::{
    Engine,
    ports::{ActivityCount, StoreError},
};

/// A crash loses at most the counts of this interval.
const FLUSH_INTERVAL: Duration = Duration::from_secs(5);
const MAX_BATCH_COUNTERS: usize = 200;
/// Two days, so that the last day can be shown in quarters of an hour.
const MINUTE_RETENTION: SignedDuration = SignedDuration::from_hours(48);
const HOUR_RETENTION: SignedDuration = SignedDuration::from_hours(40 * 24);

impl Engine {
    /// Adds the counts of this node to the stored ones, and keeps them for the next flush if that fails. They count
    /// twice if only the response of the store was lost.
    pub async fn flush_activity(&self) -> Result<(), StoreError> {
        let activity = self.activity_recorder();
        let _guard = activity.flushing.lock().await;
        let counts = activity.drain();
        for (number, batch) in counts.chunks(MAX_BATCH_COUNTERS).enumerate() {
            let stored = self.store().add_activity(batch.iter().map(ActivityCount::from).collect()).await;
            if let Err(error) = stored {
                activity.add_back(&counts[number * MAX_BATCH_COUNTERS..]);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Flushes periodically until the future is dropped.
    pub async fn run_activity_flush(&self) {
        loop {
            tokio::time::sleep(FLUSH_INTERVAL).await;
            if let Err(error) = self.flush_activity().await {
                tracing::debug!(%error, "activity flush failed; retrying");
            }
        }
    }

    /// Sums old minutes into hours and deletes old hours, a bounded number in each transaction. Returns the number of
    /// rows removed.
    pub async fn compact_activity(&self) -> Result<u64, StoreError> {
        let now = self.clock().now();
        let mut removed = 0;
        loop {
            match self.store().roll_up_activity(start_of_hour(subtract_clamped(now, MINUTE_RETENTION))).await? {
                0 => break,
                minutes => removed += minutes,
            }
        }
        loop {
            match self.store().delete_activity_before(start_of_hour(subtract_clamped(now, HOUR_RETENTION))).await? {
                0 => return Ok(removed),
                rows => removed += rows,
            }
        }
    }
}

fn subtract_clamped(now: Timestamp, by: SignedDuration) -> Timestamp {
    now.checked_sub(by).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Rounds down to the hour, so that only whole hours are compacted.
fn start_of_hour(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second().div_euclid(3_600) * 3_600).unwrap_or(at)
}
