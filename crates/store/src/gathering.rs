//! How long a batch stays open for more.
//!
//! Callers that were just answered are often about to ask again. If the next batch were closed at once it would miss
//! most of them, and they would fall into two halves that wait for each other's commit: half the throughput. So
//! after a batch of several the next one stays open until as many are back as were known to be there, but at most for a
//! small part of what a commit takes. A lone caller is never kept waiting.

use std::time::{Duration, Instant};

/// A batch is kept open for one part in this many of what the last one took.
const PART: u32 = 6;
const LONGEST: Duration = Duration::from_millis(1);

/// What the last batch says about the next one.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    expected: usize,
    patience: Duration,
}

impl Gathering {
    /// After a batch of `answered` that took `time`, while `waiting` others came.
    pub(crate) fn after(answered: usize, waiting: usize, time: Duration) -> Self {
        let is_alone = answered + waiting <= 1;
        Gathering { expected: if is_alone { 0 } else { answered + waiting }, patience: (time / PART).min(LONGEST) }
    }

    /// Whether a batch of `gathered` that was opened at `opened` waits for more.
    pub(crate) fn goes_on(&self, gathered: usize, opened: Instant) -> bool {
        gathered < self.expected && opened.elapsed() < self.patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_caller_does_not_wait() {
        let opened = Instant::now();
        assert!(!Gathering::default().goes_on(1, opened));
        assert!(!Gathering::after(1, 0, Duration::from_secs(9)).goes_on(1, opened));
        assert!(!Gathering::after(1, 0, Duration::from_secs(9)).goes_on(0, opened));
    }

    #[test]
    fn many_wait_for_each_other_and_not_for_long() {
        let opened = Instant::now();
        let many = Gathering::after(30, 10, Duration::from_secs(9));
        assert!(many.goes_on(39, opened));
        assert!(!many.goes_on(40, opened));
        let long_ago = opened.checked_sub(LONGEST).unwrap();
        assert!(!many.goes_on(1, long_ago));
        assert!(!Gathering::after(30, 10, Duration::ZERO).goes_on(1, opened));
    }
}
