//! Deletes checks whose retention period has ended, with their callbacks and logged callback attempts.
//!
//! Only the checks of whole days (UTC) are deleted. Lists take their totals from daily counters, which are kept longer
//! than the checks, so a cutoff within a day would require counting that day's checks one by one.
//!
//! A deletion must not delay other writes, in particular with `SQLite`, which has one writer at a time. Each
//! transaction is therefore short, and the pause after it leaves most of the time to other writers.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::Node;
use crate::ports::store::StoreError;

const RETENTION_INTERVAL: Duration = Duration::from_mins(1);
/// Time limit for the statements of one deletion. With its commit, the transaction takes less than 20 ms.
const MAX_TRANSACTION_DURATION: Duration = Duration::from_millis(10);
const PAUSE_BETWEEN_TRANSACTIONS: Duration = Duration::from_millis(40);

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Returns the start of the day (UTC) that contains `now - retention`. Checks created before that time are deleted.
fn retention_boundary(now: Timestamp, retention: SignedDuration) -> Timestamp {
    let oldest = now.saturating_sub(retention).unwrap_or(Timestamp::MIN).as_second();
    Timestamp::from_second(oldest - oldest.rem_euclid(DAY_SECONDS)).unwrap_or(Timestamp::UNIX_EPOCH)
}

impl Node {
    /// Deletes all checks whose retention has ended. Returns the number of deleted checks.
    pub async fn delete_old_checks(&self) -> Result<u64, StoreError> {
        let Some(retention) = self.context.settings.retention.checks else { return Ok(0) };
        let before = retention_boundary(self.context.now(), retention);
        let mut deleted = 0;
        loop {
            let step = self.store.delete_old_checks(before, MAX_TRANSACTION_DURATION).await?;
            deleted += step.deleted_rows;
            if step.is_complete {
                return Ok(deleted);
            }
            tokio::time::sleep(PAUSE_BETWEEN_TRANSACTIONS).await;
        }
    }

    /// Runs [`delete_old_checks`](Self::delete_old_checks) periodically until the future is dropped. It is separate
    /// from housekeeping, because the first deletion in a large database takes hours.
    pub async fn run_check_retention(&self) {
        loop {
            tokio::time::sleep(RETENTION_INTERVAL).await;
            match self.delete_old_checks().await {
                Ok(0) => {}
                Ok(checks) => tracing::info!(checks, "old checks deleted"),
                Err(error) => tracing::warn!(%error, "failed to delete old checks; retrying"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundary_is_the_start_of_a_day() {
        let days = |days: i64| SignedDuration::from_hours(days * 24);
        for (now, retention, boundary) in [
            ("2026-11-15T00:00:00Z", days(1), "2026-11-14T00:00:00Z"),
            ("2026-11-15T23:59:59.999Z", days(1), "2026-11-14T00:00:00Z"),
            ("2026-11-16T00:00:00Z", days(1), "2026-11-15T00:00:00Z"),
            ("2026-11-15T02:30:00Z", days(400), "2025-10-11T00:00:00Z"),
            ("2026-11-15T02:30:00Z", SignedDuration::from_hours(36), "2026-11-13T00:00:00Z"),
            ("1970-01-01T10:00:00Z", days(1), "1969-12-31T00:00:00Z"),
        ] {
            let boundary: Timestamp = boundary.parse().unwrap();
            assert_eq!(retention_boundary(now.parse().unwrap(), retention), boundary, "{now}");
        }
        assert_eq!(retention_boundary(Timestamp::MIN, days(1)), Timestamp::UNIX_EPOCH);
    }
}
