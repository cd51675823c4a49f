//! The schedule by which failed callbacks are retried.

use std::num::NonZeroU32;

use jiff::{SignedDuration, Timestamp};

/// Delays before the retries of the regular schedule, in seconds.
const RETRY_DELAYS: [i64; 6] = [10, 20, 30, 40, 50, 60];

/// Number of attempts of the regular schedule: the first attempt and six retries. Projects with a longer [`RetryFor`]
/// get more attempts.
pub const MAX_ATTEMPTS: u32 = 7;

/// First and longest delay after the regular schedule. The delay doubles with each retry.
const EXTENDED_DELAY_BOUNDS_SECONDS: (i64, i64) = (120, 3_600);

/// How long after the end of a check its callback is retried, in seconds. A small value does not shorten the regular
/// schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetryFor(u32);

impl RetryFor {
    const MAX: u32 = 259_200;

    pub fn seconds(self) -> u32 {
        self.0
    }

    /// Returns the latest time of an attempt after the regular schedule.
    #[must_use]
    pub fn deadline(self, check_ended_at: Timestamp) -> Timestamp {
        check_ended_at.saturating_add(SignedDuration::from_secs(self.0.into())).unwrap_or(Timestamp::MAX)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("callbacks can be retried for 0 to {} seconds", RetryFor::MAX)]
pub struct InvalidRetryFor;

impl TryFrom<i64> for RetryFor {
    type Error = InvalidRetryFor;

    fn try_from(seconds: i64) -> Result<Self, InvalidRetryFor> {
        u32::try_from(seconds).ok().filter(|seconds| *seconds <= Self::MAX).map(RetryFor).ok_or(InvalidRetryFor)
    }
}

/// What happens after a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryDecision {
    RetryAt(Timestamp),
    GiveUp,
}

/// Decides what follows after `failed_attempts` attempts, the last of which ended at `ended`. After the regular
/// schedule, the callback is retried until `deadline`.
pub fn retry_after_failure(failed_attempts: NonZeroU32, ended: Timestamp, deadline: Timestamp) -> RetryDecision {
    let retries = usize::try_from(failed_attempts.get() - 1).unwrap_or(usize::MAX);
    let after = |delay: i64| ended.saturating_add(SignedDuration::from_secs(delay)).unwrap_or(Timestamp::MAX);
    if let Some(&delay) = RETRY_DELAYS.get(retries) {
        return RetryDecision::RetryAt(after(delay));
    }
    let (first, longest) = EXTENDED_DELAY_BOUNDS_SECONDS;
    let doublings = u32::try_from(retries - RETRY_DELAYS.len()).unwrap_or(u32::MAX);
    let delay = 2_i64.checked_pow(doublings).map_or(longest, |factor| first.saturating_mul(factor).min(longest));
    match after(delay) {
        at if at <= deadline => RetryDecision::RetryAt(at),
        _ => RetryDecision::GiveUp,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the times, in seconds, of all attempts at a receiver that fails immediately.
    fn schedule(retry_for: RetryFor) -> Vec<i64> {
        let deadline = retry_for.deadline(Timestamp::UNIX_EPOCH);
        let mut now = Timestamp::UNIX_EPOCH;
        let mut sent_at = vec![0];
        while let RetryDecision::RetryAt(at) =
            retry_after_failure(NonZeroU32::new(sent_at.len().try_into().unwrap()).unwrap(), now, deadline)
        {
            now = at;
            sent_at.push(at.as_second());
        }
        sent_at
    }

    #[test]
    fn unresponsive_receiver_gets_seven_attempts() {
        let sent_at = schedule(RetryFor::default());
        assert_eq!(sent_at, [0, 10, 30, 60, 100, 150, 210]);
        assert_eq!(sent_at.len(), usize::try_from(MAX_ATTEMPTS).unwrap());
    }

    #[test]
    fn longer_retries_double_their_delays_up_to_an_hour() {
        for (seconds, extended) in [
            (60, &[][..]),
            (329, &[]),
            (330, &[330]),
            (8_000, &[330, 570, 1_050, 2_010, 3_930, 7_530]),
            (15_000, &[330, 570, 1_050, 2_010, 3_930, 7_530, 11_130, 14_730]),
        ] {
            let sent_at = schedule(RetryFor::try_from(seconds).unwrap());
            assert_eq!(sent_at[7..], *extended, "{seconds}");
        }
        let days = schedule(RetryFor::try_from(259_200).unwrap());
        assert!(days.last().is_some_and(|last| (255_600..=259_200).contains(last)), "{days:?}");
    }

    #[test]
    fn attempts_are_counted_without_end() {
        let last = retry_after_failure(NonZeroU32::MAX, Timestamp::UNIX_EPOCH, Timestamp::MAX);
        assert_eq!(last, RetryDecision::RetryAt(Timestamp::from_second(3_600).unwrap()));
    }

    #[test]
    fn callbacks_are_retried_for_three_days_at_most() {
        for (seconds, is_valid) in [(-1, false), (0, true), (259_200, true), (259_201, false)] {
            assert_eq!(RetryFor::try_from(seconds).is_ok(), is_valid, "{seconds}");
        }
    }
}
