//! When a callback is tried again.

use std::num::NonZeroU32;

use jiff::{SignedDuration, Timestamp};

/// The gaps between attempts, in seconds: the first attempt is immediate, six retries follow.
const GAPS: [i64; 6] = [10, 20, 30, 40, 50, 60];

/// How often a callback is sent at most.
pub const MAX_ATTEMPTS: u32 = 7;

/// What follows a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    RetryAt(Timestamp),
    GiveUp,
}

/// What follows when so many attempts have failed, the last of which ended at `ended`.
pub fn after_failure(failed_attempts: NonZeroU32, ended: Timestamp) -> Next {
    let gap = usize::try_from(failed_attempts.get() - 1).ok().and_then(|index| GAPS.get(index));
    match gap {
        Some(&gap) => Next::RetryAt(ended.saturating_add(SignedDuration::from_secs(gap)).unwrap_or(Timestamp::MAX)),
        None => Next::GiveUp,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_that_never_answers_is_tried_seven_times() {
        let mut now = Timestamp::UNIX_EPOCH;
        let mut sent_at = vec![0];
        while let Next::RetryAt(at) = after_failure(NonZeroU32::new(sent_at.len().try_into().unwrap()).unwrap(), now) {
            now = at;
            sent_at.push(at.as_second());
        }
        assert_eq!(sent_at, [0, 10, 30, 60, 100, 150, 210]);
        assert_eq!(sent_at.len(), usize::try_from(MAX_ATTEMPTS).unwrap());
    }
}
