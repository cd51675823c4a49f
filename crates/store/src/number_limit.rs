//! The limit of checks per project and number, from the creation times of recent checks.
//!
//! The times ascend: a check created out of order, because a clock is behind, counts as the newest before it. Of any
//! `max_checks + 1` admitted checks the first and the last are therefore at least a window apart.

use jiff::Timestamp;
use ringtrue_domain::reverse_sms::NumberLimit;

pub(crate) fn window_millis(limit: NumberLimit) -> i64 {
    i64::from(limit.window_seconds) * 1_000
}

/// When the next check is admitted. `None`: now.
pub(crate) fn blocked_until(limit: NumberLimit, instants: &[i64]) -> Option<Timestamp> {
    let max_checks = usize::try_from(limit.max_checks).unwrap_or(usize::MAX);
    let oldest_counted = instants.len().checked_sub(max_checks.max(1))?;
    let until = instants.get(oldest_counted)?.saturating_add(window_millis(limit));
    Timestamp::from_millisecond(until).ok()
}

/// The times after one more check was admitted, without those that cannot count any more.
pub(crate) fn with_create(limit: NumberLimit, instants: &[i64], at: Timestamp) -> Vec<i64> {
    let at = at.as_millisecond();
    let kept = usize::try_from(limit.max_checks).unwrap_or(usize::MAX).saturating_sub(1);
    let mut next = instants[instants.len().saturating_sub(kept)..].to_vec();
    next.push(instants.last().map_or(at, |&newest| newest.max(at)));
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: NumberLimit = NumberLimit { max_checks: 2, window_seconds: 10 };

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    #[test]
    fn oldest_counted_check_determines_when_limit_opens() {
        for (instants, until) in
            [(&[][..], None), (&[5_000], None), (&[5_000, 7_000], Some(15_000)), (&[1, 5_000, 7_000], Some(15_000))]
        {
            assert_eq!(blocked_until(LIMIT, instants), until.map(at), "{instants:?}");
        }
    }

    #[test]
    fn only_times_that_may_still_count_are_kept() {
        assert_eq!(with_create(LIMIT, &[], at(9)), [9]);
        assert_eq!(with_create(LIMIT, &[1, 5], at(9)), [5, 9]);
        assert_eq!(with_create(LIMIT, &[1, 5], at(3)), [5, 5], "clock is behind");
    }
}
