//! How many requests of a project get into the log in a second: one atomic word for each kind, as rate limits have.

use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;

use crate::ports::StatusClass;

/// Of one project, on this node.
#[derive(Debug, Default)]
pub(super) struct Gate {
    served: Count,
    rejected: Count,
    unauthenticated: Count,
}

/// Those that were served look alike; those that were not are what people look for.
const SERVED: u32 = 20;
const REJECTED: u32 = 50;
/// Requests that only name a client. Anybody can send them, so they have a share of their own.
const UNAUTHENTICATED: u32 = 2;

/// The second in the upper half, how many have come in it in the lower.
#[derive(Debug, Default)]
struct Count(AtomicU64);

impl Gate {
    /// `Some`: it may pass, and so many could not since the last that did.
    pub(super) fn admits(&self, authenticated: bool, class: StatusClass, at: Timestamp) -> Option<u32> {
        if !authenticated {
            return self.unauthenticated.admits(UNAUTHENTICATED, at);
        }
        match class {
            StatusClass::Served => self.served.admits(SERVED, at),
            StatusClass::CallersFault | StatusClass::OurFault => self.rejected.admits(REJECTED, at),
        }
    }
}

impl Count {
    fn admits(&self, most: u32, at: Timestamp) -> Option<u32> {
        // Cut off: it repeats after more than a century.
        let second = at.as_second().cast_unsigned() & u64::from(u32::MAX);
        let mut known = self.0.load(Ordering::Relaxed);
        while known >> 32 != second {
            match self.0.compare_exchange_weak(known, (second << 32) + 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(before) => return Some(count(before).saturating_sub(most)),
                Err(now) => known = now,
            }
        }
        // No second has so many requests that the count would reach into the upper half.
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        (count(before) < most).then_some(0)
    }
}

fn count(word: u64) -> u32 {
    u32::try_from(word & u64::from(u32::MAX)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(number: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + number).unwrap()
    }

    #[test]
    fn so_many_pass_in_a_second_and_the_next_one_says_how_many_did_not() {
        let gate = Gate::default();
        for (class, most) in [(StatusClass::Served, 20), (StatusClass::CallersFault, 50)] {
            let passed = (0..100).filter(|_| gate.admits(true, class, second(1)).is_some()).count();
            assert_eq!(passed, most, "{class:?}");
            assert_eq!(gate.admits(true, class, second(2)), Some(100 - u32::try_from(most).unwrap()), "{class:?}");
            assert_eq!(gate.admits(true, class, second(2)), Some(0), "{class:?}");
            assert_eq!(gate.admits(true, class, second(3)), Some(0), "nothing was left out: {class:?}");
        }
        assert_eq!(gate.admits(true, StatusClass::OurFault, second(3)), Some(0), "a second has room for both");
    }
    #[test]
    fn unauthenticated_requests_have_a_share_of_their_own() {
        let gate = Gate::default();
        let admitted = |authenticated| {
            (0..100).filter(|_| gate.admits(authenticated, StatusClass::CallersFault, second(1)).is_some()).count()
        };
        assert_eq!((admitted(false), admitted(true)), (2, 50));
        assert_eq!(gate.admits(false, StatusClass::CallersFault, second(2)), Some(98));
        assert_eq!(gate.admits(true, StatusClass::CallersFault, second(2)), Some(50));
    }
}
