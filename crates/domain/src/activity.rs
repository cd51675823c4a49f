//! Activity counts of a project's checks and callbacks, which the console shows.
//!
//! Billing and list totals use other counters, the usage counters.

use std::ops::AddAssign;

/// Upper bounds of the latency buckets of completed checks. One more bucket, for longer latencies, has no bound.
pub const LATENCY_BOUNDS_MILLIS: [i64; 19] =
    [1, 2, 4, 8, 16, 32, 64, 125, 250, 500, 1_000, 2_000, 4_000, 8_000, 15_000, 30_000, 60_000, 120_000, 300_000];

/// Assumed upper end of the last bucket: the longest lifetime of any check other than a verification.
const MAX_LATENCY_MILLIS: i64 = 900_000;

/// Counts of one period. A count may be negative for a short time, because a check that moves to another network is
/// subtracted from the counts of its previous network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActivityCounts {
    pub created: i64,
    /// Checks whose end-user has started: an SMS arrived, or the device opened the URL.
    pub seen: i64,
    pub completed: i64,
    /// Completed checks whose number matched or was discovered.
    pub matched: i64,
    pub expired: i64,
    pub failed: i64,
    /// Callback attempts that the receiver answered with status 200.
    pub attempts_delivered: i64,
    pub attempts_failed: i64,
    /// Callbacks that were given up after all retries.
    pub given_up: i64,
    /// Completed checks by latency bucket. The counts are not cumulative.
    pub latency: [i64; LATENCY_BOUNDS_MILLIS.len() + 1],
}

impl ActivityCounts {
    pub fn latency_bucket(millis: i64) -> usize {
        LATENCY_BOUNDS_MILLIS.iter().position(|bound| millis <= *bound).unwrap_or(LATENCY_BOUNDS_MILLIS.len())
    }

    pub fn is_zero(&self) -> bool {
        *self == ActivityCounts::default()
    }

    /// Completed checks whose number did not match.
    pub fn unmatched(&self) -> i64 {
        (self.completed - self.matched).max(0)
    }

    pub fn open_checks(&self) -> i64 {
        (self.created - self.completed - self.expired - self.failed).max(0)
    }

    /// Latency percentile in milliseconds, interpolated linearly within a bucket. `None`: no check has completed.
    pub fn latency_percentile(&self, percent: i64) -> Option<i64> {
        let latency = self.latency.map(|count| count.max(0));
        let total: i64 = latency.iter().sum();
        let rank = (total * percent + 99) / 100;
        let mut before = 0;
        let mut lower = 0;
        for (count, upper) in latency.into_iter().zip(LATENCY_BOUNDS_MILLIS.into_iter().chain([MAX_LATENCY_MILLIS])) {
            if count > 0 && rank <= before + count {
                // Rounds up, because the lower bound belongs to the previous bucket.
                return Some(lower + ((upper - lower) * (rank - before) + count - 1) / count);
            }
            before += count;
            lower = upper;
        }
        None
    }
}

impl AddAssign<&ActivityCounts> for ActivityCounts {
    fn add_assign(&mut self, other: &ActivityCounts) {
        self.created += other.created;
        self.seen += other.seen;
        self.completed += other.completed;
        self.matched += other.matched;
        self.expired += other.expired;
        self.failed += other.failed;
        self.attempts_delivered += other.attempts_delivered;
        self.attempts_failed += other.attempts_failed;
        self.given_up += other.given_up;
        for (count, more) in self.latency.iter_mut().zip(other.latency) {
            *count += more;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counts_of(latencies: &[i64]) -> ActivityCounts {
        let mut counts = ActivityCounts::default();
        for millis in latencies {
            counts.latency[ActivityCounts::latency_bucket(*millis)] += 1;
        }
        counts
    }

    #[test]
    fn check_is_in_the_first_bucket_that_contains_it() {
        for (millis, bucket) in [
            (0, 0),
            (1, 0),
            (2, 1),
            (8, 3),
            (9, 4),
            (250, 8),
            (251, 9),
            (30_000, 15),
            (300_000, 18),
            (300_001, 19),
            (i64::MAX, 19),
        ] {
            assert_eq!(ActivityCounts::latency_bucket(millis), bucket, "{millis}");
        }
    }

    #[test]
    fn percentiles_are_interpolated_within_buckets() {
        for (latencies, percent, expected) in [
            (vec![], 50, None),
            (vec![0], 50, Some(1)),
            (vec![8], 50, Some(8)),
            (vec![8; 9], 50, Some(7)),
            (vec![100], 50, Some(125)),
            (vec![1_500], 95, Some(2_000)),
            // The fifth of ten checks in a bucket is half-way between its bounds.
            (vec![1_500; 10], 50, Some(1_500)),
            (vec![1_500; 10], 100, Some(2_000)),
            (vec![100, 100, 100, 5_000], 50, Some(105)),
            (vec![100, 100, 100, 5_000], 75, Some(125)),
            (vec![100, 100, 100, 5_000], 95, Some(8_000)),
            (vec![400_000], 50, Some(900_000)),
        ] {
            assert_eq!(counts_of(&latencies).latency_percentile(percent), expected, "{percent} of {latencies:?}");
        }
    }

    #[test]
    fn checks_without_conclusion_are_open() {
        let counts = ActivityCounts { created: 9, completed: 4, expired: 2, failed: 1, ..ActivityCounts::default() };
        assert_eq!(counts.open_checks(), 2);
        // Another node may store the count of the conclusion before this node stores that of the creation.
        assert_eq!(ActivityCounts { completed: 1, ..ActivityCounts::default() }.open_checks(), 0);
    }

    proptest! {
        #[test]
        fn percentile_lies_in_the_bucket_of_the_exact_one(
            mut latencies in prop::collection::vec(0_i64..900_000, 1..50),
            percent in 1_i64..=100,
        ) {
            let counts = counts_of(&latencies);
            latencies.sort_unstable();
            let rank = usize::try_from((i64::try_from(latencies.len()).unwrap() * percent + 99) / 100).unwrap();
            let percentile = counts.latency_percentile(percent).unwrap();
            prop_assert_eq!(ActivityCounts::latency_bucket(percentile), ActivityCounts::latency_bucket(latencies[rank - 1]));
            prop_assert!(percentile <= counts.latency_percentile(100).unwrap());
        }
    }
}
