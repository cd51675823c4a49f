//! What is counted of a project's checks and callbacks over a while, and what the counts say.
//!
//! Counts are for people who look after a project. Bills and lists have counters of their own.

use std::ops::AddAssign;

/// The upper ends of the buckets that completed checks are sorted into by how long they took, in milliseconds. One
/// more bucket takes the rest.
pub const LATENCY_BOUNDS: [i64; 11] = [250, 500, 1_000, 2_000, 4_000, 8_000, 15_000, 30_000, 60_000, 120_000, 300_000];

/// Where the last bucket ends: no check waits longer.
const LONGEST: i64 = 900_000;

/// What there was in a while. A count may be negative for a moment: what was counted for one network may turn out to be
/// of another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub created: i64,
    /// The end-user has done their part: their SMS has come, or their device.
    pub seen: i64,
    pub completed: i64,
    /// Completed, and the number was the claimed one; or found out, in products that find one out.
    pub matched: i64,
    pub expired: i64,
    pub failed: i64,
    /// Attempts at callbacks that were answered with 200.
    pub attempts_delivered: i64,
    pub attempts_failed: i64,
    /// Callbacks that are not tried any more.
    pub given_up: i64,
    /// Completed checks by how long they took, one bucket after the other (not cumulative).
    pub latency: [i64; LATENCY_BOUNDS.len() + 1],
}

impl Counts {
    /// The bucket of a check that took so long.
    pub fn bucket(millis: i64) -> usize {
        LATENCY_BOUNDS.iter().position(|bound| millis <= *bound).unwrap_or(LATENCY_BOUNDS.len())
    }

    pub fn is_nothing(&self) -> bool {
        *self == Counts::default()
    }

    /// Checks that have not ended.
    pub fn open(&self) -> i64 {
        (self.created - self.completed - self.expired - self.failed).max(0)
    }

    /// How long it took at most to complete so many of a hundred checks, in milliseconds. Within a bucket, checks are
    /// taken for evenly spread. `None`: none has completed.
    pub fn latency_of(&self, percent: i64) -> Option<i64> {
        let total: i64 = self.latency.iter().map(|count| (*count).max(0)).sum();
        let rank = (total * percent + 99) / 100;
        let mut before = 0;
        let mut lower = 0;
        for (count, upper) in self.latency.iter().zip(LATENCY_BOUNDS.into_iter().chain([LONGEST])) {
            let count = (*count).max(0);
            if count > 0 && rank <= before + count {
                return Some(lower + (upper - lower) * (rank - before) / count);
            }
            before += count;
            lower = upper;
        }
        None
    }
}

impl AddAssign<&Counts> for Counts {
    fn add_assign(&mut self, other: &Counts) {
        self.created += other.created;
        self.seen += other.seen;
        self.completed += other.completed;
        self.matched += other.matched;
        self.expired += other.expired;
        self.failed += other.failed;
        self.attempts_delivered += other.attempts_delivered;
        self.attempts_failed += other.attempts_failed;
        self.given_up += other.given_up;
        for (own, others) in self.latency.iter_mut().zip(other.latency) {
            *own += others;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(latencies: &[i64]) -> Counts {
        let mut counts = Counts::default();
        for millis in latencies {
            counts.latency[Counts::bucket(*millis)] += 1;
        }
        counts
    }

    #[test]
    fn a_check_is_in_the_first_bucket_that_holds_it() {
        for (millis, bucket) in [(0, 0), (250, 0), (251, 1), (30_000, 7), (300_000, 10), (300_001, 11), (i64::MAX, 11)]
        {
            assert_eq!(Counts::bucket(millis), bucket, "{millis}");
        }
    }

    #[test]
    fn percentiles_are_found_within_their_buckets() {
        for (latencies, percent, expected) in [
            (vec![], 50, None),
            (vec![100], 50, Some(250)),
            (vec![1_500], 95, Some(2_000)),
            // Of ten in one bucket, the fifth is taken to be half-way.
            (vec![1_500; 10], 50, Some(1_500)),
            (vec![1_500; 10], 100, Some(2_000)),
            (vec![100, 100, 100, 5_000], 50, Some(166)),
            (vec![100, 100, 100, 5_000], 75, Some(250)),
            (vec![100, 100, 100, 5_000], 95, Some(8_000)),
            (vec![400_000], 50, Some(900_000)),
        ] {
            assert_eq!(of(&latencies).latency_of(percent), expected, "{percent} of {latencies:?}");
        }
    }

    #[test]
    fn what_has_not_ended_is_open() {
        let counts = Counts { created: 9, completed: 4, expired: 2, failed: 1, ..Counts::default() };
        assert_eq!(counts.open(), 2);
        // An end may be stored before its beginning, by another node.
        assert_eq!(Counts { completed: 1, ..Counts::default() }.open(), 0);
    }

    proptest! {
        #[test]
        fn percentiles_grow_and_lie_in_the_bucket_of_the_real_one(
            mut latencies in prop::collection::vec(0_i64..900_000, 1..50),
            percent in 1_i64..=100,
        ) {
            let counts = of(&latencies);
            latencies.sort_unstable();
            let rank = usize::try_from((i64::try_from(latencies.len()).unwrap() * percent + 99) / 100).unwrap();
            let told = counts.latency_of(percent).unwrap();
            prop_assert_eq!(Counts::bucket(told), Counts::bucket(latencies[rank - 1]));
            prop_assert!(told <= counts.latency_of(100).unwrap());
        }
    }
}
