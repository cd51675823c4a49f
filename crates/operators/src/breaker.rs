//! Not asking an operator that cannot answer.
//!
//! Each check that goes to a dead operator costs its device the whole patience of a time-out. After some failures in a
//! row no more are sent for a while, then one, whose fate decides. Where the operator says that it does not know us, or
//! when to come back, it is believed at once.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::lifecycle::ErrorCode;

/// How an operator is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// Devices are sent.
    Closed,
    /// No device is sent.
    Open { until: Timestamp, code: ErrorCode },
    /// One device is sent to see how it goes.
    HalfOpen,
}

/// What the breaker learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The operator is in order. The subscriber or the device is the matter.
    Works,
    Nothing,
    Fails,
    TimesOut,
    /// The operator does not know us, or does not let us. It will not before somebody does something.
    Misconfigured,
    /// We ask too often.
    Throttled,
}

impl Effect {
    const ALL: [Effect; 6] =
        [Effect::Works, Effect::Nothing, Effect::Fails, Effect::TimesOut, Effect::Misconfigured, Effect::Throttled];

    /// The value of the label `outcome` in metrics.
    fn as_str(self) -> &'static str {
        match self {
            Effect::Works => "success",
            Effect::Nothing => "inconclusive",
            Effect::Fails => "error",
            Effect::TimesOut => "timeout",
            Effect::Misconfigured => "rejected",
            Effect::Throttled => "throttled",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerSettings {
    /// How many failures in a row open the breaker.
    pub failures: u32,
    /// How long it stays open.
    pub open_for: SignedDuration,
    /// How long it stays open at most when the operator says when to come back.
    pub longest: SignedDuration,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self { failures: 5, open_for: SignedDuration::from_secs(30), longest: SignedDuration::from_mins(10) }
    }
}

#[derive(Debug)]
pub struct Breaker {
    settings: BreakerSettings,
    position: Mutex<Position>,
    /// Calls by outcome, in the order of [`Effect::ALL`].
    calls: [AtomicU64; Effect::ALL.len()],
}

#[derive(Clone, Copy, Debug)]
enum Position {
    Closed {
        failures: u32,
    },
    Open {
        until: Timestamp,
        code: ErrorCode,
    },
    /// The device that was sent may never come back. After a while another one is.
    HalfOpen {
        next_at: Timestamp,
        code: ErrorCode,
    },
}

impl Breaker {
    pub fn new(settings: BreakerSettings) -> Self {
        Breaker { settings, position: Mutex::new(Position::Closed { failures: 0 }), calls: Default::default() }
    }

    /// Whether a device may be sent now. If not, what its check ends with.
    pub fn admit(&self, now: Timestamp) -> Result<(), ErrorCode> {
        let mut position = self.position();
        match *position {
            Position::Closed { .. } => Ok(()),
            Position::Open { until: at, code } | Position::HalfOpen { next_at: at, code } if now < at => Err(code),
            Position::Open { code, .. } | Position::HalfOpen { code, .. } => {
                *position = Position::HalfOpen { next_at: later(now, self.settings.open_for), code };
                Ok(())
            }
        }
    }

    pub fn learn(&self, effect: Effect, retry_after: Option<SignedDuration>, now: Timestamp) {
        self.calls[effect as usize].fetch_add(1, Ordering::Relaxed);
        let mut position = self.position();
        let open = |code| Position::Open { until: later(now, self.settings.open_for), code };
        let after_failure = |position, code| match position {
            Position::Closed { failures } if failures + 1 < self.settings.failures => {
                Position::Closed { failures: failures + 1 }
            }
            Position::Closed { .. } | Position::HalfOpen { .. } => open(code),
            // A device that was sent before.
            Position::Open { .. } => position,
        };
        *position = match (effect, *position) {
            (Effect::Works, Position::Closed { .. } | Position::HalfOpen { .. }) => Position::Closed { failures: 0 },
            (Effect::Nothing, Position::HalfOpen { code, .. }) => Position::HalfOpen { next_at: now, code },
            (Effect::Works | Effect::Nothing, position) => position,
            (Effect::Fails, position) => after_failure(position, ErrorCode::MnoServerError),
            (Effect::TimesOut, position) => after_failure(position, ErrorCode::MnoTimeout),
            (Effect::Misconfigured, _) => open(ErrorCode::MnoServerError),
            (Effect::Throttled, position) => {
                let pause =
                    retry_after.unwrap_or(self.settings.open_for).clamp(SignedDuration::ZERO, self.settings.longest);
                let until = later(now, pause);
                let before = if let Position::Open { until, .. } = position { until } else { until };
                Position::Open { until: until.max(before), code: ErrorCode::MnoServerError }
            }
        };
    }

    pub fn state(&self, now: Timestamp) -> BreakerState {
        match *self.position() {
            Position::Closed { .. } => BreakerState::Closed,
            Position::Open { until, code } if now < until => BreakerState::Open { until, code },
            Position::Open { .. } | Position::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    /// Calls to the operator by outcome, since the connector was created.
    pub fn calls(&self) -> Vec<(&'static str, u64)> {
        let counts = self.calls.iter().map(|count| count.load(Ordering::Relaxed));
        Effect::ALL.into_iter().map(Effect::as_str).zip(counts).collect()
    }

    fn position(&self) -> MutexGuard<'_, Position> {
        self.position.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn later(now: Timestamp, by: SignedDuration) -> Timestamp {
    now.checked_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// What happens when, and whether a device is sent then.
    fn tell(story: &[(i64, Option<Effect>, Result<(), ErrorCode>)]) {
        let settings = BreakerSettings { failures: 3, ..BreakerSettings::default() };
        let breaker = Breaker::new(settings);
        for (step, (second, effect, admitted)) in story.iter().enumerate() {
            if let Some(effect) = effect {
                breaker.learn(*effect, Some(SignedDuration::from_secs(100)), at(*second));
            }
            assert_eq!(breaker.admit(at(*second)), *admitted, "step {step}");
        }
    }

    #[test]
    fn the_fate_of_one_decides_for_all() {
        use Effect::{Fails, Misconfigured, Nothing, Throttled, TimesOut, Works};
        let (server, timeout) = (Err(ErrorCode::MnoServerError), Err(ErrorCode::MnoTimeout));
        let fails = Some(Fails);
        // In a row, and in a row only.
        tell(&[
            (0, fails, Ok(())),
            (0, fails, Ok(())),
            (0, Some(Works), Ok(())),
            (0, fails, Ok(())),
            (1, None, Ok(())),
        ]);
        tell(&[
            (0, fails, Ok(())),
            (0, Some(Nothing), Ok(())),
            (0, fails, Ok(())),
            (0, fails, server),
            (29, None, server),
        ]);
        // The last of them says why.
        tell(&[(0, fails, Ok(())), (0, fails, Ok(())), (0, Some(TimesOut), timeout), (29, None, timeout)]);
        // At once.
        tell(&[(0, Some(Misconfigured), server), (29, None, server), (30, None, Ok(())), (30, None, server)]);
        tell(&[(0, Some(Throttled), server), (99, None, server), (100, None, Ok(())), (100, None, server)]);
        // One is let through; it fares well, badly, or tells nothing.
        let open = (0, Some(Misconfigured), server);
        tell(&[open, (30, None, Ok(())), (31, Some(Works), Ok(())), (31, None, Ok(()))]);
        tell(&[open, (30, None, Ok(())), (31, fails, server), (60, None, server), (61, None, Ok(()))]);
        tell(&[open, (30, None, Ok(())), (31, Some(Nothing), Ok(())), (31, None, server)]);
        // It never comes back.
        tell(&[open, (30, None, Ok(())), (59, None, server), (60, None, Ok(())), (61, None, server)]);
        // One that was sent before comes back while it is open.
        tell(&[open, (1, Some(Works), server), (2, fails, server), (30, None, Ok(()))]);
        tell(&[open, (1, Some(Throttled), server), (100, None, server), (101, None, Ok(()))]);
    }

    #[test]
    fn calls_are_counted_by_outcome() {
        let breaker = Breaker::new(BreakerSettings::default());
        for (position, effect) in Effect::ALL.into_iter().enumerate() {
            assert_eq!(effect as usize, position);
            breaker.learn(effect, None, at(0));
        }
        breaker.learn(Effect::TimesOut, None, at(0));
        let counts = breaker.calls();
        assert_eq!(counts.iter().map(|(_, count)| count).sum::<u64>(), 7);
        assert!(counts.contains(&("timeout", 2)), "{counts:?}");
    }

    #[test]
    fn nobody_is_kept_waiting_for_ever() {
        let breaker = Breaker::new(BreakerSettings::default());
        breaker.learn(Effect::Throttled, Some(SignedDuration::from_hours(1_000)), at(0));
        let until = at(600);
        assert_eq!(breaker.state(at(1)), BreakerState::Open { until, code: ErrorCode::MnoServerError });
        assert_eq!(breaker.state(until), BreakerState::HalfOpen);
        breaker.learn(Effect::Throttled, Some(SignedDuration::MIN), at(601));
        assert_eq!(breaker.admit(at(601)), Ok(()));
    }
}
