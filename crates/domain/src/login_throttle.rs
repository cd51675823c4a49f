//! Delays after failed logins. The delay grows with every failure, but only up to a maximum, so that an attacker cannot
//! lock an account permanently.

use jiff::{SignedDuration, Timestamp};

/// Number of attempts without a delay, per account and network address. The delay begins when the last of them fails.
pub const FREE_ATTEMPTS_PER_ACCOUNT: u32 = 3;
/// Number of attempts without a delay, per network address, over all accounts.
pub const FREE_ATTEMPTS_PER_ADDRESS: u32 = 20;
/// After this time without an attempt, the count starts again at zero.
pub const RESET_AFTER: SignedDuration = SignedDuration::from_hours(1);
/// Maximum delay. It must be less than [`RESET_AFTER`], or waiting out a delay would reset the count.
const MAX_WAIT: SignedDuration = SignedDuration::from_mins(15);

/// Failed logins that are counted together: those to one account from one network address, or those to any account from
/// one network address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedLogins {
    pub count: u32,
    pub last_at: Timestamp,
}

impl FailedLogins {
    /// Returns when the next attempt is allowed. `free` is the number of attempts without a delay.
    pub fn blocked_until(self, free: u32) -> Timestamp {
        self.last_at.saturating_add(wait_after_failures(self.count, free)).unwrap_or(Timestamp::MAX)
    }

    /// Counts one more failure.
    #[must_use]
    pub fn with_failure(self, now: Timestamp) -> Self {
        let is_reset = self.last_at.duration_until(now) > RESET_AFTER;
        let wrong = if is_reset { 0 } else { self.count };
        FailedLogins { count: wrong.saturating_add(1), last_at: self.last_at.max(now) }
    }
}

/// Returns the delay after `wrong` failures: 1, 2, 4, 8 … seconds, starting when all free attempts have failed.
fn wait_after_failures(wrong: u32, free: u32) -> SignedDuration {
    match wrong.checked_sub(free) {
        None => SignedDuration::ZERO,
        Some(beyond) => SignedDuration::from_secs(1 << beyond.min(20)).min(MAX_WAIT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    #[test]
    fn delay_doubles_up_to_the_maximum() {
        let waits: Vec<i64> =
            (0..20).map(|wrong| wait_after_failures(wrong, FREE_ATTEMPTS_PER_ACCOUNT).as_secs()).collect();
        assert_eq!(waits[..8], [0, 0, 0, 1, 2, 4, 8, 16]);
        assert_eq!(waits[19], 900);
        assert_eq!(wait_after_failures(u32::MAX, FREE_ATTEMPTS_PER_ACCOUNT), MAX_WAIT);
    }

    #[test]
    fn delay_starts_at_the_last_failure() {
        let mut failures = FailedLogins { count: 0, last_at: at(0) };
        for (second, wrong, open_at) in [(0, 1, 0), (0, 2, 0), (0, 3, 1), (1, 4, 3), (3, 5, 7)] {
            failures = failures.with_failure(at(second));
            assert_eq!((failures.count, failures.blocked_until(FREE_ATTEMPTS_PER_ACCOUNT)), (wrong, at(open_at)));
        }
        // A failure that a node with a slower clock reports does not move the time of the last failure back.
        assert_eq!(failures.with_failure(at(2)).last_at, at(3));
    }

    #[test]
    fn count_restarts_after_a_quiet_hour() {
        let failures = FailedLogins { count: 7, last_at: at(0) };
        assert_eq!(failures.with_failure(at(3_600)).count, 8);
        assert_eq!(failures.with_failure(at(3_601)), FailedLogins { count: 1, last_at: at(3_601) });
        assert!(MAX_WAIT < RESET_AFTER);
    }
}
