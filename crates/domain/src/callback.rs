//! Retry schedule of callbacks.

use std::num::NonZeroU32;

use jiff::{SignedDuration, Timestamp};

/// Delays before each retry, in seconds.
const RETRY_DELAYS: [i64; 6] = [10, 20, 30, 40, 50, 60];

/// The first attempt and six retries.
pub const MAX_ATTEMPTS: u32 = 7;

/// The next step after a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryDecision {
    RetryAt(Timestamp),
    GiveUp,
}

/// Schedules the retry after the given number of failed attempts, the last of which ended at `ended`.
pub fn retry_after_failure(failed_attempts: NonZeroU32, ended: Timestamp) -> RetryDecision {
    let delay = usize::try_from(failed_attempts.get() - 1).ok().and_then(|index| RETRY_DELAYS.get(index));
    match delay {
        Some(&delay) => {
            RetryDecision::RetryAt(ended.saturating_add(SignedDuration::from_secs(delay)).unwrap_or(Timestamp::MAX))
        }
        None => RetryDecision::GiveUp,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unresponsive_receiver_gets_seven_attempts() {
        let mut now = Timestamp::UNIX_EPOCH;
        let mut sent_at = vec![0];
        while let RetryDecision::RetryAt(at) =
            retry_after_failure(NonZeroU32::new(sent_at.len().try_into().unwrap()).unwrap(), now)
        {
            now = at;
            sent_at.push(at.as_second());
        }
        assert_eq!(sent_at, [0, 10, 30, 60, 100, 150, 210]);
        assert_eq!(sent_at.len(), usize::try_from(MAX_ATTEMPTS).unwrap());
    }
}
