//! Exponential backoff between bind attempts.

use std::time::Duration;

/// The delay doubles with every consecutive failure, from `min_delay` to `max_delay`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backoff {
    min_delay: Duration,
    max_delay: Duration,
    failures: u32,
}

impl Backoff {
    pub(super) fn new(min_delay: Duration, max_delay: Duration) -> Self {
        Self { min_delay: min_delay.min(max_delay), max_delay, failures: 0 }
    }

    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }

    /// `jitter` spreads the delay over its upper half, so that binds lost together do not reconnect together.
    pub(super) fn next_delay(&mut self, jitter: u16) -> Duration {
        let doubled = self.min_delay.saturating_mul(2_u32.saturating_pow(self.failures));
        self.failures = self.failures.saturating_add(1);
        apply_jitter(doubled.min(self.max_delay), jitter)
    }

    /// For errors that will not go away soon.
    pub(super) fn longest_delay(&mut self, jitter: u16) -> Duration {
        self.failures = self.failures.saturating_add(1);
        apply_jitter(self.max_delay, jitter)
    }

    pub(super) fn failures(&self) -> u32 {
        self.failures
    }
}

fn apply_jitter(delay: Duration, jitter: u16) -> Duration {
    delay / 2 + delay.mul_f64(f64::from(jitter) / f64::from(u16::MAX) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn delays_double_up_to_the_maximum() {
        let mut backoff = Backoff::new(SECOND, 60 * SECOND);
        let delays: Vec<_> = (0..8).map(|_| backoff.next_delay(u16::MAX).as_secs()).collect();
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 60, 60]);
        backoff.reset();
        assert_eq!(backoff.next_delay(u16::MAX), SECOND);
        assert_eq!(backoff.longest_delay(u16::MAX), 60 * SECOND);
        assert_eq!(backoff.failures(), 2);
    }

    #[test]
    fn jitter_is_at_most_half_of_the_delay() {
        let delay = |jitter| Backoff::new(8 * SECOND, 60 * SECOND).next_delay(jitter);
        assert_eq!(delay(0), 4 * SECOND);
        assert!(delay(1) > delay(0) && delay(u16::MAX / 2) < delay(u16::MAX));
    }

    #[test]
    fn failure_count_does_not_overflow() {
        let mut backoff = Backoff { failures: u32::MAX, ..Backoff::new(SECOND, 60 * SECOND) };
        assert_eq!(backoff.next_delay(u16::MAX), 60 * SECOND);
    }
}
