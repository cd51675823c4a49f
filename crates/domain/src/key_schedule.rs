//! When a key is announced, used, kept for verification, and gone.
//!
//! A key's state is not stored: it follows from four instants, so no job has to move keys from state to state and no
//! two nodes can disagree for longer than their clocks do.

use jiff::{SignedDuration, Timestamp};

/// Where a key stands at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// Published, so that verifiers know it before it is used.
    Next,
    /// In use for new signatures.
    Active,
    /// No longer used, still published: what it signed may still be under way.
    Retiring,
    /// Neither used nor published.
    Gone,
}

impl KeyState {
    pub fn as_str(self) -> &'static str {
        match self {
            KeyState::Next => "next",
            KeyState::Active => "active",
            KeyState::Retiring => "retiring",
            KeyState::Gone => "gone",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySchedule {
    pub published_at: Timestamp,
    pub active_from: Timestamp,
    /// The instant at which its successor takes over, once there is one.
    pub retires_at: Option<Timestamp>,
    pub gone_at: Option<Timestamp>,
}

impl KeySchedule {
    /// The schedule of a key that is used from its first instant on.
    pub fn active_at_once(now: Timestamp) -> Self {
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

/// How long a key is announced before its use, and kept after its last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RotationPolicy {
    pub announce: SignedDuration,
    pub keep: SignedDuration,
}

impl RotationPolicy {
    /// The schedules of the successor and of the key that it relieves.
    pub fn rotate(&self, current: KeySchedule, now: Timestamp) -> (KeySchedule, KeySchedule) {
        let handover = now + self.announce;
        let successor = KeySchedule { published_at: now, active_from: handover, retires_at: None, gone_at: None };
        let relieved = KeySchedule { retires_at: Some(handover), gone_at: Some(handover + self.keep), ..current };
        (successor, relieved)
    }
}

/// The rotation after a key was disclosed: the new one is used, and the old one is gone, from now on.
pub fn rotate_at_once(current: KeySchedule, now: Timestamp) -> (KeySchedule, KeySchedule) {
    let relieved = KeySchedule { retires_at: Some(now), gone_at: Some(now), ..current };
    (KeySchedule::active_at_once(now), relieved)
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
    fn a_rotation_overlaps_on_both_sides() {
        let first = KeySchedule::active_at_once(hours(0));
        let (second, first) = POLICY.rotate(first, hours(100));
        for (at, first_is, second_is) in [
            (100, KeyState::Active, KeyState::Next),
            (123, KeyState::Active, KeyState::Next),
            (124, KeyState::Retiring, KeyState::Active),
            (147, KeyState::Retiring, KeyState::Active),
            (148, KeyState::Gone, KeyState::Active),
        ] {
            assert_eq!((first.state(hours(at)), second.state(hours(at))), (first_is, second_is), "hour {at}");
        }
    }

    #[test]
    fn exactly_one_key_is_active_at_any_hour() {
        let mut keys = vec![KeySchedule::active_at_once(hours(0))];
        for rotation in [30, 60, 90] {
            let current = keys.pop().unwrap();
            let (next, relieved) = POLICY.rotate(current, hours(rotation));
            keys.extend([relieved, next]);
        }
        for hour in 0..300 {
            let active = keys.iter().filter(|key| key.state(hours(hour)) == KeyState::Active).count();
            assert_eq!(active, 1, "hour {hour}");
        }
    }

    #[test]
    fn an_emergency_leaves_nothing_of_the_old_key() {
        let (new, old) = rotate_at_once(KeySchedule::active_at_once(hours(0)), hours(5));
        assert_eq!((new.state(hours(5)), old.state(hours(5))), (KeyState::Active, KeyState::Gone));
    }
}
