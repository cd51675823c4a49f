//! Decides how long a batch stays open for more callers.
//!
//! Callers that just got a result often submit again immediately. If the next batch closes at once, it misses most of
//! them. The callers then split into two halves, each of which waits for the commit of the other. With slow commits and
//! fast callers, this costs half the throughput. A batch therefore stays open until the expected number of callers has
//! arrived, but at most for a fraction of the duration of the last commit.
//!
//! If callers are as slow as the commit, the two halves overlap well, and waiting only costs time. After a wait that
//! did not fill the batch, the next batches therefore skip the wait. A lone caller never waits.

use std::time::{Duration, Instant};

/// Divisor for the maximum wait: an open batch waits for more callers at most one sixth of the time that the previous
/// batch took.
const DELAY_DIVISOR: u32 = 6;
const MAX_DELAY: Duration = Duration::from_millis(1);
/// Limits the backoff: after repeated waits that did not fill the batch, at most 2^6 batches close without waiting
/// before the next wait is tried.
const MAX_BACKOFF_EXPONENT: u32 = 6;

/// Decides whether an open batch waits for more callers, based on the last batches.
#[derive(Debug, Default)]
pub(crate) struct BatchDelay {
    expected_size: usize,
    max_delay: Duration,
    /// Number of consecutive waits that did not fill the batch.
    failed_waits: u32,
    /// Number of upcoming batches that close without waiting for more callers.
    skipped_batches: u32,
}

impl BatchDelay {
    /// Records the size and duration of a finished batch, and the number of callers that queued while it ran.
    pub(crate) fn record_commit(&mut self, size: usize, queued: usize, duration: Duration) {
        let is_alone = size + queued <= 1;
        self.expected_size = if is_alone { 0 } else { size + queued };
        self.max_delay = (duration / DELAY_DIVISOR).min(MAX_DELAY);
    }

    pub(crate) fn should_wait(&self, size: usize, opened: Instant) -> bool {
        self.skipped_batches == 0 && size < self.expected_size && opened.elapsed() < self.max_delay
    }

    /// Records the number of callers in a batch that closes. If the batch waited for more callers, but did not reach
    /// 7/8 of the expected size, the next batches do not wait.
    pub(crate) fn record_close(&mut self, size: usize) {
        if self.skipped_batches > 0 {
            self.skipped_batches -= 1;
        } else if size >= self.expected_size - self.expected_size / 8 {
            self.failed_waits = 0;
        } else {
            self.failed_waits = (self.failed_waits + 1).min(MAX_BACKOFF_EXPONENT);
            self.skipped_batches = 1 << self.failed_waits;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the opening time of a batch that has just opened. It is in the future, so that no time has elapsed,
    /// however slowly the test runs.
    fn just_opened() -> Instant {
        Instant::now() + Duration::from_hours(1)
    }

    fn after(size: usize, queued: usize, duration: Duration) -> BatchDelay {
        let mut delay = BatchDelay::default();
        delay.record_commit(size, queued, duration);
        delay
    }

    #[test]
    fn lone_caller_does_not_wait() {
        let opened = just_opened();
        assert!(!BatchDelay::default().should_wait(1, opened));
        assert!(!after(1, 0, Duration::from_secs(9)).should_wait(1, opened));
        assert!(!after(1, 0, Duration::from_secs(9)).should_wait(0, opened));
    }

    #[test]
    fn batch_waits_for_expected_callers_up_to_max_delay() {
        let opened = just_opened();
        let delay = after(30, 10, Duration::from_secs(9));
        assert!(delay.should_wait(39, opened));
        assert!(!delay.should_wait(40, opened));
        let long_ago = Instant::now().checked_sub(MAX_DELAY).unwrap();
        assert!(!delay.should_wait(1, long_ago));
        assert!(!after(30, 10, Duration::ZERO).should_wait(1, opened));
    }

    #[test]
    fn failed_waits_back_off_exponentially() {
        let mut delay = after(30, 10, Duration::from_secs(9));
        let mut waits = Vec::new();
        for batch in 0..20 {
            if delay.should_wait(20, just_opened()) {
                waits.push(batch);
            }
            delay.record_close(20);
        }
        assert_eq!(waits, [0, 3, 8, 17]);
    }

    #[test]
    fn successful_wait_resets_backoff() {
        let mut delay = after(30, 10, Duration::from_secs(9));
        delay.record_close(20);
        for _ in 0..2 {
            assert!(!delay.should_wait(20, just_opened()));
            delay.record_close(20);
        }
        for _ in 0..5 {
            assert!(delay.should_wait(20, just_opened()));
            delay.record_close(36);
        }
    }
}
