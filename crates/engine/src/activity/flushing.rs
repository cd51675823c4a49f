//! Counts on their way to the store, and what becomes of them there.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::{
    Engine,
    ports::{ActivityCount, StoreError},
};

/// How often counts are stored: what a crash loses at most.
const PAUSE: Duration = Duration::from_secs(5);
/// How many counters go in one transaction.
const BATCH: usize = 200;
/// Minutes are kept for two days, so that the last day can be seen in quarters of an hour.
const MINUTES_ARE_KEPT: SignedDuration = SignedDuration::from_hours(48);
/// Hours are kept for forty days: a month, and some.
const HOURS_ARE_KEPT: SignedDuration = SignedDuration::from_hours(40 * 24);

impl Engine {
    /// Adds what this node has counted to what is stored. What cannot be stored is kept for the next time; if only the
    /// answer was lost, it counts twice.
    pub async fn flush_activity(&self) -> Result<(), StoreError> {
        let activity = self.activity();
        let _turn = activity.flushing.lock().await;
        let counts = activity.take();
        for (number, batch) in counts.chunks(BATCH).enumerate() {
            let stored = self.store().add_activity(batch.iter().map(ActivityCount::from).collect()).await;
            if let Err(error) = stored {
                activity.put_back(&counts[number * BATCH..]);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Flushes until the future is dropped.
    pub async fn keep_flushing_activity(&self) {
        loop {
            tokio::time::sleep(PAUSE).await;
            if let Err(error) = self.flush_activity().await {
                tracing::debug!(%error, "counts wait for the next time");
            }
        }
    }

    /// Sums old minutes up into hours, and deletes old hours, a bounded number in each transaction. Says how many rows
    /// went.
    pub async fn tidy_activity_up(&self) -> Result<u64, StoreError> {
        let now = self.clock().now();
        let mut gone = 0;
        loop {
            match self.store().sum_activity_up(hour_of(before(now, MINUTES_ARE_KEPT))).await? {
                0 => break,
                minutes => gone += minutes,
            }
        }
        loop {
            match self.store().forget_activity(hour_of(before(now, HOURS_ARE_KEPT))).await? {
                0 => return Ok(gone),
                rows => gone += rows,
            }
        }
    }
}

fn before(now: Timestamp, by: SignedDuration) -> Timestamp {
    now.checked_sub(by).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// The beginning of an instant's hour: no hour is summed up before all of it is old.
fn hour_of(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second().div_euclid(3_600) * 3_600).unwrap_or(at)
}
