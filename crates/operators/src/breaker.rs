//! Circuit breaker for calls to operators, and the recorder of a connector's health.
//!
//! Without a breaker, every device would wait for the full timeout of an unreachable operator. Consecutive failures
//! open the breaker, which then refuses calls. After a pause it allows one probe call, whose success closes it. The
//! breaker opens immediately if the operator rejects our client or throttles us.

use std::sync::atomic::{AtomicU64, Ordering};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use ringtrue_domain::lifecycle::ErrorCode;
use ringtrue_engine::ports::connectors::{ConnectorHealth, LastError};
use strum::{IntoStaticStr, VariantArray};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    Closed,
    Open {
        until: Timestamp,
        code: ErrorCode,
    },
    /// The pause is over: one probe call is allowed, or its outcome is awaited.
    HalfOpen,
}

/// Outcome of a call, as the breaker counts it. The name is the value of the label `outcome` in metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum CallOutcome {
    /// The operator works, even if it reports an error about the subscriber or the device.
    Success,
    Inconclusive,
    #[strum(serialize = "error")]
    Failure,
    Timeout,
    /// The operator rejects our client or its permissions; retrying does not help until the configuration changes.
    Rejected,
    Throttled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerSettings {
    /// Number of consecutive failures after which the breaker opens.
    pub failures: u32,
    pub open_for: SignedDuration,
    /// Upper limit for the pause that an operator requests with `Retry-After`.
    pub max_open_for: SignedDuration,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self { failures: 5, open_for: SignedDuration::from_secs(30), max_open_for: SignedDuration::from_mins(10) }
    }
}

#[derive(Debug)]
pub struct Breaker {
    settings: BreakerSettings,
    stored: Mutex<StoredState>,
    /// Calls by outcome, in the order of [`CallOutcome::VARIANTS`].
    call_counts: [AtomicU64; CallOutcome::VARIANTS.len()],
}

#[derive(Clone, Copy, Debug)]
enum StoredState {
    Closed {
        failures: u32,
    },
    Open {
        until: Timestamp,
        code: ErrorCode,
    },
    /// A probe call is pending. Its outcome may never arrive, for example because the device does not return from the
    /// redirect. Another probe is therefore allowed at `next_probe_at`.
    HalfOpen {
        next_probe_at: Timestamp,
        code: ErrorCode,
    },
}

impl Breaker {
    pub fn new(settings: BreakerSettings) -> Self {
        Breaker { settings, stored: Mutex::new(StoredState::Closed { failures: 0 }), call_counts: Default::default() }
    }

    /// Permits a call, or returns the error code for the check while the breaker is open or a probe is pending.
    pub fn allow_call(&self, now: Timestamp) -> Result<(), ErrorCode> {
        let mut state = self.stored.lock();
        match *state {
            StoredState::Closed { .. } => Ok(()),
            StoredState::Open { until: at, code } | StoredState::HalfOpen { next_probe_at: at, code } if now < at => {
                Err(code)
            }
            StoredState::Open { code, .. } | StoredState::HalfOpen { code, .. } => {
                *state = StoredState::HalfOpen { next_probe_at: saturating_add(now, self.settings.open_for), code };
                Ok(())
            }
        }
    }

    pub fn record_outcome(&self, outcome: CallOutcome, retry_after: Option<SignedDuration>, now: Timestamp) {
        self.call_counts[outcome as usize].fetch_add(1, Ordering::Relaxed);
        let mut state = self.stored.lock();
        let open = |code| StoredState::Open { until: saturating_add(now, self.settings.open_for), code };
        let after_failure = |state, code| match state {
            StoredState::Closed { failures } if failures + 1 < self.settings.failures => {
                StoredState::Closed { failures: failures + 1 }
            }
            StoredState::Closed { .. } | StoredState::HalfOpen { .. } => open(code),
            // This call began before the breaker opened, so its failure does not extend the pause.
            StoredState::Open { .. } => state,
        };
        *state = match (outcome, *state) {
            (CallOutcome::Success, StoredState::Closed { .. } | StoredState::HalfOpen { .. }) => {
                StoredState::Closed { failures: 0 }
            }
            (CallOutcome::Inconclusive, StoredState::HalfOpen { code, .. }) => {
                StoredState::HalfOpen { next_probe_at: now, code }
            }
            (CallOutcome::Success | CallOutcome::Inconclusive, state) => state,
            (CallOutcome::Failure, state) => after_failure(state, ErrorCode::MnoServerError),
            (CallOutcome::Timeout, state) => after_failure(state, ErrorCode::MnoTimeout),
            (CallOutcome::Rejected, _) => open(ErrorCode::MnoServerError),
            (CallOutcome::Throttled, state) => {
                let pause = retry_after
                    .unwrap_or(self.settings.open_for)
                    .clamp(SignedDuration::ZERO, self.settings.max_open_for);
                let until = saturating_add(now, pause);
                let before = if let StoredState::Open { until, .. } = state { until } else { until };
                StoredState::Open { until: until.max(before), code: ErrorCode::MnoServerError }
            }
        };
    }

    pub fn state(&self, now: Timestamp) -> BreakerState {
        match *self.stored.lock() {
            StoredState::Closed { .. } => BreakerState::Closed,
            StoredState::Open { until, code } if now < until => BreakerState::Open { until, code },
            StoredState::Open { .. } | StoredState::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    /// Calls to the operator by outcome, since the connector was created.
    pub fn call_counts(&self) -> Vec<(&'static str, u64)> {
        let counts = self.call_counts.iter().map(|count| count.load(Ordering::Relaxed));
        CallOutcome::VARIANTS.iter().map(CallOutcome::into_str).zip(counts).collect()
    }
}

fn saturating_add(now: Timestamp, by: SignedDuration) -> Timestamp {
    now.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// Records the health of a connector, for the console and metrics. Never holds text that an operator or a device sent.
#[derive(Debug, Default)]
pub(crate) struct HealthRecorder(Mutex<ConnectorHealth>);

impl HealthRecorder {
    /// Records that a valid message or response arrived from the operator.
    pub(crate) fn record_success(&self, at: Timestamp) {
        self.0.lock().last_success_at = Some(at);
    }

    pub(crate) fn record_error(&self, message: impl Into<String>, at: Timestamp) {
        self.0.lock().last_error = Some(LastError { message: message.into(), at });
    }

    /// Records the time from the receipt of an SMS until it concluded a check.
    pub(crate) fn record_conclusion_lag(&self, received_at: Timestamp, now: Timestamp) {
        self.0.lock().conclusion_lag = Some(received_at.duration_until(now));
    }

    pub(crate) fn snapshot(&self) -> ConnectorHealth {
        self.0.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Each step: the time in seconds, an outcome to record at that time, and the expected result of `allow_call`.
    fn assert_sequence(steps: &[(i64, Option<CallOutcome>, Result<(), ErrorCode>)]) {
        let settings = BreakerSettings { failures: 3, ..BreakerSettings::default() };
        let breaker = Breaker::new(settings);
        for (step, (second, outcome, admitted)) in steps.iter().enumerate() {
            if let Some(outcome) = outcome {
                breaker.record_outcome(*outcome, Some(SignedDuration::from_secs(100)), at(*second));
            }
            assert_eq!(breaker.allow_call(at(*second)), *admitted, "step {step}");
        }
    }

    #[test]
    fn consecutive_failures_open_and_a_probe_decides() {
        use CallOutcome::{Failure, Inconclusive, Rejected, Success, Throttled, Timeout};
        let (server, timeout) = (Err(ErrorCode::MnoServerError), Err(ErrorCode::MnoTimeout));
        let failure = Some(Failure);
        // Only consecutive failures open the breaker.
        assert_sequence(&[
            (0, failure, Ok(())),
            (0, failure, Ok(())),
            (0, Some(Success), Ok(())),
            (0, failure, Ok(())),
            (1, None, Ok(())),
        ]);
        assert_sequence(&[
            (0, failure, Ok(())),
            (0, Some(Inconclusive), Ok(())),
            (0, failure, Ok(())),
            (0, failure, server),
            (29, None, server),
        ]);
        // The last failure determines the error code.
        assert_sequence(&[
            (0, failure, Ok(())),
            (0, failure, Ok(())),
            (0, Some(Timeout), timeout),
            (29, None, timeout),
        ]);
        // Rejections and throttling open the breaker immediately.
        assert_sequence(&[(0, Some(Rejected), server), (29, None, server), (30, None, Ok(())), (30, None, server)]);
        assert_sequence(&[(0, Some(Throttled), server), (99, None, server), (100, None, Ok(())), (100, None, server)]);
        // After a probe that succeeds the breaker closes, after one that fails it opens again, and after an
        // inconclusive one it allows another probe.
        let open = (0, Some(Rejected), server);
        assert_sequence(&[open, (30, None, Ok(())), (31, Some(Success), Ok(())), (31, None, Ok(()))]);
        assert_sequence(&[open, (30, None, Ok(())), (31, failure, server), (60, None, server), (61, None, Ok(()))]);
        assert_sequence(&[open, (30, None, Ok(())), (31, Some(Inconclusive), Ok(())), (31, None, server)]);
        // The outcome of the probe never arrives, so another probe is allowed after the pause.
        assert_sequence(&[open, (30, None, Ok(())), (59, None, server), (60, None, Ok(())), (61, None, server)]);
        // Calls that began before the breaker opened may end while it is open. A success or failure then changes
        // nothing, but throttling extends the pause.
        assert_sequence(&[open, (1, Some(Success), server), (2, failure, server), (30, None, Ok(()))]);
        assert_sequence(&[open, (1, Some(Throttled), server), (100, None, server), (101, None, Ok(()))]);
    }

    #[test]
    fn calls_are_counted_by_outcome() {
        let breaker = Breaker::new(BreakerSettings::default());
        for (index, outcome) in CallOutcome::VARIANTS.iter().copied().enumerate() {
            assert_eq!(outcome as usize, index);
            breaker.record_outcome(outcome, None, at(0));
        }
        breaker.record_outcome(CallOutcome::Timeout, None, at(0));
        let counts = breaker.call_counts();
        assert_eq!(counts.iter().map(|(_, count)| count).sum::<u64>(), 7);
        assert!(counts.contains(&("timeout", 2)), "{counts:?}");
    }

    #[test]
    fn retry_after_is_capped() {
        let breaker = Breaker::new(BreakerSettings::default());
        breaker.record_outcome(CallOutcome::Throttled, Some(SignedDuration::from_hours(1_000)), at(0));
        let until = at(600);
        assert_eq!(breaker.state(at(1)), BreakerState::Open { until, code: ErrorCode::MnoServerError });
        assert_eq!(breaker.state(until), BreakerState::HalfOpen);
        breaker.record_outcome(CallOutcome::Throttled, Some(SignedDuration::MIN), at(601));
        assert_eq!(breaker.allow_call(at(601)), Ok(()));
    }
}
