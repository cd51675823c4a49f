//! How long to wait before the next attempt to bind.

use std::time::Duration;

/// Doubles with every failure in a row, from `least` to `most`.
#[derive(Clone, Copy, Debug)]
pub(super) struct BackOff {
    least: Duration,
    most: Duration,
    failures: u32,
}

impl BackOff {
    pub(super) fn new(least: Duration, most: Duration) -> Self {
        Self { least: least.min(most), most, failures: 0 }
    }

    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }

    /// The next pause. `chance` spreads it over its upper half, so that those who lost their links together do not
    /// come back together.
    pub(super) fn next(&mut self, chance: u16) -> Duration {
        let doubled = self.least.saturating_mul(2_u32.saturating_pow(self.failures));
        self.failures = self.failures.saturating_add(1);
        spread(doubled.min(self.most), chance)
    }

    /// The longest pause, for a peer that will not change its mind soon.
    pub(super) fn longest(&mut self, chance: u16) -> Duration {
        self.failures = self.failures.saturating_add(1);
        spread(self.most, chance)
    }

    pub(super) fn failures(&self) -> u32 {
        self.failures
    }
}

fn spread(pause: Duration, chance: u16) -> Duration {
    pause / 2 + pause.mul_f64(f64::from(chance) / f64::from(u16::MAX) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn pauses_double_up_to_the_longest() {
        let mut back_off = BackOff::new(SECOND, 60 * SECOND);
        let pauses: Vec<_> = (0..8).map(|_| back_off.next(u16::MAX).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        back_off.reset();
        assert_eq!(back_off.next(u16::MAX), SECOND);
        assert_eq!(back_off.longest(u16::MAX), 60 * SECOND);
        assert_eq!(back_off.failures(), 2);
    }

    #[test]
    fn chance_takes_at_most_half() {
        let pause = |chance| BackOff::new(8 * SECOND, 60 * SECOND).next(chance);
        assert_eq!(pause(0), 4 * SECOND);
        assert!(pause(1) > pause(0) && pause(u16::MAX / 2) < pause(u16::MAX));
    }

    #[test]
    fn no_number_of_failures_is_too_many() {
        let mut back_off = BackOff { failures: u32::MAX, ..BackOff::new(SECOND, 60 * SECOND) };
        assert_eq!(back_off.next(u16::MAX), 60 * SECOND);
    }
}
