//! How often a project may ask about a number, from the instants at which it last did.
//!
//! The instants ascend: one that comes out of order, by a clock that is behind, counts as the newest before it. So of
//! any `creates + 1` that were admitted the first and the last are at least a window apart.

use jiff::Timestamp;
use ringtrue_domain::reverse_sms::NumberGuard;

pub(crate) fn window_millis(guard: NumberGuard) -> i64 {
    i64::from(guard.within_seconds) * 1_000
}

/// From when on one more is taken, or nothing if that is at once.
pub(crate) fn closed_until(guard: NumberGuard, instants: &[i64]) -> Option<Timestamp> {
    let creates = usize::try_from(guard.creates).unwrap_or(usize::MAX);
    let oldest_that_counts = instants.len().checked_sub(creates.max(1))?;
    let until = instants.get(oldest_that_counts)?.saturating_add(window_millis(guard));
    Timestamp::from_millisecond(until).ok()
}

/// The instants after one more was taken.
pub(crate) fn with(guard: NumberGuard, instants: &[i64], at: Timestamp) -> Vec<i64> {
    let at = at.as_millisecond();
    let kept = usize::try_from(guard.creates).unwrap_or(usize::MAX).saturating_sub(1);
    let mut next = instants[instants.len().saturating_sub(kept)..].to_vec();
    next.push(instants.last().map_or(at, |&newest| newest.max(at)));
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUARD: NumberGuard = NumberGuard { creates: 2, within_seconds: 10 };

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    #[test]
    fn the_oldest_that_counts_tells_when_it_opens() {
        for (instants, until) in
            [(&[][..], None), (&[5_000], None), (&[5_000, 7_000], Some(15_000)), (&[1, 5_000, 7_000], Some(15_000))]
        {
            assert_eq!(closed_until(GUARD, instants), until.map(at), "{instants:?}");
        }
    }

    #[test]
    fn only_what_may_still_count_is_kept() {
        assert_eq!(with(GUARD, &[], at(9)), [9]);
        assert_eq!(with(GUARD, &[1, 5], at(9)), [5, 9]);
        assert_eq!(with(GUARD, &[1, 5], at(3)), [5, 5], "a clock that is behind");
    }
}
