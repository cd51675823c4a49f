//! What is counted of a project's checks and callbacks over a while, and what the counts say.
//!
//! Counts are for people who look after a project. Bills and lists have counters of their own.

use std::ops::AddAssign;

/// Upper bounds of the classes of durations of completed checks, in milliseconds, each about twice the one before. One
/// more class takes the rest.
pub const LATENCY_BOUNDS: [i64; 19] =
    [1, 2, 4, 8, 16, 32, 64, 125, 250, 500, 1_000, 2_000, 4_000, 8_000, 15_000, 30_000, 60_000, 120_000, 300_000];

/// Upper bound of the durations in [`Counts::unresolved_latency`]. It is one of [`LATENCY_BOUNDS`].
const UNRESOLVED_BOUND: i64 = 250;

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
    /// Completed checks that took at most 250 ms, counted by a release that had no classes below that.
    pub unresolved_latency: i64,
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
        let latency = self.resolved_latency();
        let total: i64 = latency.iter().sum();
        let rank = (total * percent + 99) / 100;
        let mut before = 0;
        let mut lower = 0;
        for (count, upper) in latency.into_iter().zip(LATENCY_BOUNDS.into_iter().chain([LONGEST])) {
            if count > 0 && rank <= before + count {
                // Rounded up: the lower bound belongs to the class below.
                return Some(lower + ((upper - lower) * (rank - before) + count - 1) / count);
            }
            before += count;
            lower = upper;
        }
        None
    }

    /// All completed checks by class. Those of unresolved classes are taken for evenly spread over them.
    fn resolved_latency(&self) -> [i64; LATENCY_BOUNDS.len() + 1] {
        let mut latency = self.latency.map(|count| count.max(0));
        let unresolved = self.unresolved_latency.max(0);
        let mut lower = 0;
        for (count, upper) in latency.iter_mut().zip(LATENCY_BOUNDS).take_while(|(_, upper)| *upper <= UNRESOLVED_BOUND)
        {
            *count += unresolved * upper / UNRESOLVED_BOUND - unresolved * lower / UNRESOLVED_BOUND;
            lower = upper;
        }
        latency
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
        self.unresolved_latency += other.unresolved_latency;
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
            assert_eq!(Counts::bucket(millis), bucket, "{millis}");
        }
    }

    #[test]
    fn percentiles_are_found_within_their_buckets() {
        for (latencies, percent, expected) in [
            (vec![], 50, None),
            (vec![0], 50, Some(1)),
            (vec![8], 50, Some(8)),
            (vec![8; 9], 50, Some(7)),
            (vec![100], 50, Some(125)),
            (vec![1_500], 95, Some(2_000)),
            // Of ten in one bucket, the fifth is taken to be half-way.
            (vec![1_500; 10], 50, Some(1_500)),
            (vec![1_500; 10], 100, Some(2_000)),
            (vec![100, 100, 100, 5_000], 50, Some(105)),
            (vec![100, 100, 100, 5_000], 75, Some(125)),
            (vec![100, 100, 100, 5_000], 95, Some(8_000)),
            (vec![400_000], 50, Some(900_000)),
        ] {
            assert_eq!(of(&latencies).latency_of(percent), expected, "{percent} of {latencies:?}");
        }
    }

    #[test]
    fn counts_of_older_releases_are_spread_over_the_classes_that_they_did_not_have() {
        let old = Counts { unresolved_latency: 1_000, ..Counts::default() };
        for (percent, expected) in [(1, 3), (25, 63), (50, 125), (100, 250)] {
            let told = old.latency_of(percent).unwrap();
            assert!((told - expected).abs() <= 1, "{percent} %: {told}");
        }
        let mut mixed = of(&[8; 1_000]);
        mixed += &old;
        assert_eq!(mixed.latency_of(100), Some(250));
        assert_eq!(Counts::bucket(mixed.latency_of(40).unwrap()), Counts::bucket(8));
        assert_eq!(Counts { unresolved_latency: -1, ..Counts::default() }.latency_of(50), None);
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
