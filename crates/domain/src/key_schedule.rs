//! Key rotation: when a key is announced, active, retiring and gone.
//!
//! The state of a key is computed from four stored times. No job has to update it, and all nodes agree on it.

use jiff::{SignedDuration, Timestamp};
use strum::IntoStaticStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum KeyState {
    /// Published before its first use, so that verifiers can fetch it.
    Next,
    /// Used for new signatures.
    Active,
    /// Does not sign any more, but is still published to verify signatures that are in transit.
    Retiring,
    /// No longer published.
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySchedule {
    pub published_at: Timestamp,
    pub active_from: Timestamp,
    /// When the successor becomes active. `None`: there is no successor yet.
    pub retires_at: Option<Timestamp>,
    pub gone_at: Option<Timestamp>,
}

impl KeySchedule {
    /// Returns the schedule of a key that becomes active without being announced.
    pub fn new_unannounced(now: Timestamp) -> Self {
        KeySchedule { published_at: now, active_from: now, retires_at: None, gone_at: None }
    }

    pub fn state(&self, now: Timestamp) -> KeyState {
        let has_passed = |instant: Option<Timestamp>| instant.is_some_and(|at| at <= now);
        if has_passed(self.gone_at) {
            KeyState::Gone
        } else if has_passed(self.retires_at) {
            KeyState::Retiring
        } else if self.active_from <= now {
            KeyState::Active
        } else {
            KeyState::Next
        }
    }
}

/// How long a key is announced before its first use, and how long it stays published after its last use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RotationPolicy {
    pub announce: SignedDuration,
    pub keep: SignedDuration,
}

impl RotationPolicy {
    /// Returns the schedules of the successor and of the retired key.
    pub fn schedule_rotation(&self, current: KeySchedule, now: Timestamp) -> (KeySchedule, KeySchedule) {
        let handover = now + self.announce;
        let successor = KeySchedule { published_at: now, active_from: handover, retires_at: None, gone_at: None };
        let retired = KeySchedule { retires_at: Some(handover), gone_at: Some(handover + self.keep), ..current };
        (successor, retired)
    }
}

/// Schedules an emergency rotation, which replaces a disclosed key immediately. Returns the schedules of the successor
/// and of the old key.
pub fn schedule_immediate_rotation(current: KeySchedule, now: Timestamp) -> (KeySchedule, KeySchedule) {
    let retired = KeySchedule { retires_at: Some(now), gone_at: Some(now), ..current };
    (KeySchedule::new_unannounced(now), retired)
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: RotationPolicy =
        RotationPolicy { announce: SignedDuration::from_hours(24), keep: SignedDuration::from_hours(24) };

    fn hours(n: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_hours(n)
    }

    #[test]
    fn rotation_overlaps_on_both_sides() {
        let first = KeySchedule::new_unannounced(hours(0));
        let (second, first) = POLICY.schedule_rotation(first, hours(100));
        for (at, first_state, second_state) in [
            (100, KeyState::Active, KeyState::Next),
            (123, KeyState::Active, KeyState::Next),
            (124, KeyState::Retiring, KeyState::Active),
            (147, KeyState::Retiring, KeyState::Active),
            (148, KeyState::Gone, KeyState::Active),
        ] {
            assert_eq!((first.state(hours(at)), second.state(hours(at))), (first_state, second_state), "hour {at}");
        }
    }

    #[test]
    fn exactly_one_key_is_active_at_any_hour() {
        let mut keys = vec![KeySchedule::new_unannounced(hours(0))];
        for rotation in [30, 60, 90] {
            let current = keys.pop().unwrap();
            let (next, retired) = POLICY.schedule_rotation(current, hours(rotation));
            keys.extend([retired, next]);
        }
        for hour in 0..300 {
            let active = keys.iter().filter(|key| key.state(hours(hour)) == KeyState::Active).count();
            assert_eq!(active, 1, "hour {hour}");
        }
    }

    #[test]
    fn emergency_rotation_removes_the_old_key() {
        let (new, old) = schedule_immediate_rotation(KeySchedule::new_unannounced(hours(0)), hours(5));
        assert_eq!((new.state(hours(5)), old.state(hours(5))), (KeyState::Active, KeyState::Gone));
    }
}
