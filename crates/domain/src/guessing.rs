//! How long somebody must wait who has guessed a password wrong. The wait grows with every guess and is never for ever:
//! nobody can lock somebody else out for good.

use jiff::{SignedDuration, Timestamp};

/// So many wrong guesses at an account from one network address are free: people mistype.
pub const FREE: u32 = 3;
/// A network address that tries many accounts has some more.
pub const FREE_BY_ADDRESS: u32 = 20;
/// After so long without a guess, all is forgiven.
pub const FORGIVEN_AFTER: SignedDuration = SignedDuration::from_hours(1);
/// Less than it takes to be forgiven.
const LONGEST_WAIT: SignedDuration = SignedDuration::from_mins(15);

/// Wrong guesses so far, and the last of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guesses {
    pub wrong: u32,
    pub last: Timestamp,
}

impl Guesses {
    /// From when on another guess is looked at, where so many are free.
    pub fn closed_until(self, free: u32) -> Timestamp {
        self.last.saturating_add(wait_after(self.wrong, free)).unwrap_or(Timestamp::MAX)
    }

    /// With one more.
    #[must_use]
    pub fn counted(self, now: Timestamp) -> Self {
        let is_forgiven = self.last.duration_until(now) > FORGIVEN_AFTER;
        let wrong = if is_forgiven { 0 } else { self.wrong };
        Guesses { wrong: wrong.saturating_add(1), last: self.last.max(now) }
    }
}

/// 1, 2, 4, 8 … seconds, after what is free.
fn wait_after(wrong: u32, free: u32) -> SignedDuration {
    match wrong.checked_sub(free) {
        None => SignedDuration::ZERO,
        Some(beyond) => SignedDuration::from_secs(1 << beyond.min(20)).min(LONGEST_WAIT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    #[test]
    fn waits_grow_and_have_an_end() {
        let waits: Vec<i64> = (0..20).map(|wrong| wait_after(wrong, FREE).as_secs()).collect();
        assert_eq!(waits[..8], [0, 0, 0, 1, 2, 4, 8, 16]);
        assert_eq!(waits[19], 900);
        assert_eq!(wait_after(u32::MAX, FREE), LONGEST_WAIT);
    }

    #[test]
    fn each_guess_counts_from_when_it_was_made() {
        let mut guesses = Guesses { wrong: 0, last: at(0) };
        for (second, wrong, open_at) in [(0, 1, 0), (0, 2, 0), (0, 3, 1), (1, 4, 3), (3, 5, 7)] {
            guesses = guesses.counted(at(second));
            assert_eq!((guesses.wrong, guesses.closed_until(FREE)), (wrong, at(open_at)));
        }
        // Another node's clock may be behind.
        assert_eq!(guesses.counted(at(2)).last, at(3));
    }

    #[test]
    fn a_quiet_hour_forgives() {
        let guesses = Guesses { wrong: 7, last: at(0) };
        assert_eq!(guesses.counted(at(3_600)).wrong, 8);
        assert_eq!(guesses.counted(at(3_601)), Guesses { wrong: 1, last: at(3_601) });
        assert!(LONGEST_WAIT < FORGIVEN_AFTER);
    }
}
