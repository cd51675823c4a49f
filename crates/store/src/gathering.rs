//! How long a batch stays open for more.
//!
//! Callers that were just answered are often about to ask again. If the next batch is closed at once it misses most of
//! them, and they fall into two halves that wait for each other's commit. Where a commit is slow and callers are quick
//! that is half the throughput: there a batch stays open until as many are back as were known to be there, but at most
//! for a small part of what a commit takes. Where callers need as long as the commit the halves are good, since the
//! callers of the one are busy while the other is being committed. Which of the two it is shows when waiting was in
//! vain: then the next batches do without it. A lone caller is never kept waiting.

use std::time::{Duration, Instant};

/// A batch is kept open for one part in this many of what the last one took.
const PART: u32 = 6;
const LONGEST: Duration = Duration::from_millis(1);
/// Waiting is tried again after two to the power of this many batches, at most.
const MOST_DOUBLINGS: u32 = 6;

/// What the last batches say about the next one.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    expected: usize,
    patience: Duration,
    /// How often in a row waiting was in vain.
    in_vain: u32,
    /// How many batches do not wait.
    impatient: u32,
}

impl Gathering {
    /// A batch of `answered` has taken `time`, and `waiting` others have come meanwhile.
    pub(crate) fn ended(&mut self, answered: usize, waiting: usize, time: Duration) {
        let is_alone = answered + waiting <= 1;
        self.expected = if is_alone { 0 } else { answered + waiting };
        self.patience = (time / PART).min(LONGEST);
    }

    /// Whether a batch of `gathered` that was opened at `opened` waits for more.
    pub(crate) fn goes_on(&self, gathered: usize, opened: Instant) -> bool {
        self.impatient == 0 && gathered < self.expected && opened.elapsed() < self.patience
    }

    /// A batch of `gathered` is closed: was it worth the wait?
    pub(crate) fn closed(&mut self, gathered: usize) {
        if self.impatient > 0 {
            self.impatient -= 1;
        } else if gathered >= self.expected - self.expected / 8 {
            self.in_vain = 0;
        } else {
            self.in_vain = (self.in_vain + 1).min(MOST_DOUBLINGS);
            self.impatient = 1 << self.in_vain;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(answered: usize, waiting: usize, time: Duration) -> Gathering {
        let mut gathering = Gathering::default();
        gathering.ended(answered, waiting, time);
        gathering
    }

    #[test]
    fn a_lone_caller_does_not_wait() {
        let opened = Instant::now();
        assert!(!Gathering::default().goes_on(1, opened));
        assert!(!after(1, 0, Duration::from_secs(9)).goes_on(1, opened));
        assert!(!after(1, 0, Duration::from_secs(9)).goes_on(0, opened));
    }

    #[test]
    fn many_wait_for_each_other_and_not_for_long() {
        let opened = Instant::now();
        let many = after(30, 10, Duration::from_secs(9));
        assert!(many.goes_on(39, opened));
        assert!(!many.goes_on(40, opened));
        let long_ago = opened.checked_sub(LONGEST).unwrap();
        assert!(!many.goes_on(1, long_ago));
        assert!(!after(30, 10, Duration::ZERO).goes_on(1, opened));
    }

    #[test]
    fn who_has_waited_in_vain_waits_less_often() {
        let opened = Instant::now();
        let mut many = after(30, 10, Duration::from_secs(9));
        let mut waits = Vec::new();
        for batch in 0..20 {
            if many.goes_on(20, opened) {
                waits.push(batch);
            }
            many.closed(20);
        }
        assert_eq!(waits, [0, 3, 8, 17]);
    }

    #[test]
    fn who_has_waited_with_success_waits_again() {
        let mut many = after(30, 10, Duration::from_secs(9));
        many.closed(20);
        for _ in 0..2 {
            assert!(!many.goes_on(20, Instant::now()));
            many.closed(20);
        }
        for _ in 0..5 {
            assert!(many.goes_on(20, Instant::now()));
            many.closed(36);
        }
    }
}
