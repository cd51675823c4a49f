//! SIM Swap: whether the SIM of a number was changed within a period.
//!
//! The verdict is computed from the exact time of the change. Only afterwards is the age of the change rounded up to a
//! bucket (one of a few fixed durations), so that the verdict and the bucket never contradict each other.

use jiff::{SignedDuration, Timestamp};

use crate::{
    lifecycle::{AlreadyConcluded, Check, CheckOutcome, CheckStatus, Concluded, ErrorCode, Verdict},
    search::{Field, FieldKind},
};

/// Fields by which lists of SIM Swap checks can be filtered. `verified` is the name of the verdict in the lists of all
/// products. Here it has the same value as `no_sim_change`.
pub static SEARCH_FIELDS: [Field; 8] = [
    Field { name: "status", kind: FieldKind::Keyword(<CheckStatus as strum::VariantNames>::VARIANTS) },
    Field { name: "verified", kind: FieldKind::Boolean },
    Field { name: "no_sim_change", kind: FieldKind::Boolean },
    Field { name: "network_id", kind: FieldKind::Text },
    Field { name: "error_code", kind: FieldKind::Text },
    Field { name: "reference_id", kind: FieldKind::Text },
    Field { name: "created_at", kind: FieldKind::Instant },
    Field { name: "updated_at", kind: FieldKind::Instant },
];

/// The period before the check within which a SIM change counts, in whole minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimSwapPeriod(u32);

impl SimSwapPeriod {
    /// One week.
    pub const DEFAULT: SimSwapPeriod = SimSwapPeriod(10_080);
    const ALLOWED: std::ops::RangeInclusive<u32> = 60..=540_000;

    pub fn minutes(self) -> u32 {
        self.0
    }

    pub fn duration(self) -> SignedDuration {
        SignedDuration::from_mins(self.0.into())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a period is 60 to 540000 whole minutes")]
pub struct InvalidSimSwapPeriod;

impl TryFrom<i64> for SimSwapPeriod {
    type Error = InvalidSimSwapPeriod;

    fn try_from(minutes: i64) -> Result<Self, InvalidSimSwapPeriod> {
        u32::try_from(minutes)
            .ok()
            .filter(|minutes| Self::ALLOWED.contains(minutes))
            .map(SimSwapPeriod)
            .ok_or(InvalidSimSwapPeriod)
    }
}

/// The SIM history of a number, as reported by an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimHistory {
    /// The last SIM change, or the activation of the SIM.
    ChangedAt(Timestamp),
    /// There was no change within this duration. The operator does not monitor a longer one.
    NoChangeFor(SignedDuration),
    /// There was a change within this duration, at an unknown time.
    ChangedWithin(SignedDuration),
}

/// The verdict of a SIM Swap check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimSwapVerdict {
    pub no_sim_change: bool,
    /// Length of the period that the verdict covers. It can differ from the requested one, because operators may
    /// monitor other periods.
    pub covered_minutes: u32,
    /// Upper bound of the bucket that contains the last change. For [`SimHistory::ChangedWithin`], the bucket of that
    /// duration. `None`: no change is known, or the duration exceeds all buckets.
    pub changed_within_minutes: Option<u32>,
}

impl Verdict for SimSwapVerdict {
    /// An unchanged SIM counts as a match.
    fn matched(&self) -> Option<bool> {
        Some(self.no_sim_change)
    }
}

pub type SimSwapCheck = Check<SimSwapVerdict>;

impl Check<SimSwapVerdict> {
    /// Concludes the check with the operator's response or error.
    pub fn conclude_with_history(
        self,
        history: Result<SimHistory, ErrorCode>,
        period: SimSwapPeriod,
        at: Timestamp,
    ) -> Result<Concluded<SimSwapVerdict>, AlreadyConcluded> {
        let outcome = match history {
            Ok(history) => CheckOutcome::Completed(history.evaluate(period, at)),
            Err(code) => CheckOutcome::Error(code),
        };
        self.conclude_unless_expired(outcome, at)
    }
}

/// Upper bounds of the buckets for the age of a SIM change, in minutes.
pub const CHANGE_BUCKETS_MINUTES: [u32; 11] =
    [60, 360, 720, 1_440, 2_880, 4_320, 10_080, 43_200, 129_600, 259_200, 525_600];
/// Bucket for changes that are older than the last of [`CHANGE_BUCKETS_MINUTES`].
pub const OLDER_CHANGE_BUCKET_MINUTES: u32 = 525_601;

impl SimHistory {
    pub fn evaluate(self, period: SimSwapPeriod, now: Timestamp) -> SimSwapVerdict {
        match self {
            SimHistory::ChangedAt(at) => {
                // The change may lie in the future if the operator's clock is ahead.
                let age = now.duration_since(at).max(SignedDuration::ZERO);
                let holds = |minutes: &u32| age <= SignedDuration::from_mins((*minutes).into());
                SimSwapVerdict {
                    no_sim_change: age > period.duration(),
                    covered_minutes: period.minutes(),
                    changed_within_minutes: Some(
                        CHANGE_BUCKETS_MINUTES.into_iter().find(holds).unwrap_or(OLDER_CHANGE_BUCKET_MINUTES),
                    ),
                }
            }
            SimHistory::NoChangeFor(monitored) => SimSwapVerdict {
                no_sim_change: true,
                covered_minutes: whole_minutes(monitored).min(period.minutes()),
                changed_within_minutes: None,
            },
            SimHistory::ChangedWithin(window) => {
                let holds = |minutes: &u32| window <= SignedDuration::from_mins((*minutes).into());
                SimSwapVerdict {
                    no_sim_change: false,
                    covered_minutes: whole_minutes(window),
                    changed_within_minutes: CHANGE_BUCKETS_MINUTES.into_iter().find(holds),
                }
            }
        }
    }
}

fn whole_minutes(duration: SignedDuration) -> u32 {
    u32::try_from(duration.as_mins().max(0)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn now() -> Timestamp {
        "2026-11-14T09:30:00Z".parse().unwrap()
    }

    #[test]
    fn period_is_limited() {
        for (minutes, good) in [(59, false), (60, true), (540_000, true), (540_001, false), (-60, false)] {
            assert_eq!(SimSwapPeriod::try_from(minutes).is_ok(), good, "{minutes}");
        }
    }

    #[test]
    fn last_change_is_put_into_its_bucket() {
        // Columns: seconds since the change, period in minutes, whether it counts as no change, bucket in minutes.
        for (ago, period, no_change, within) in [
            (0, 60, false, 60),
            (3_600, 60, false, 60),
            (3_601, 60, true, 360),
            (72_000, 1_440, false, 1_440),
            (72_000, 1_199, true, 1_440),
            (525_600 * 60, 540_000, false, 525_600),
            (525_600 * 60 + 1, 540_000, false, 525_601),
            (-30, 60, false, 60),
        ] {
            let at = now() - SignedDuration::from_secs(ago);
            let verdict = SimHistory::ChangedAt(at).evaluate(SimSwapPeriod::try_from(period).unwrap(), now());
            let expected = SimSwapVerdict {
                no_sim_change: no_change,
                covered_minutes: period.try_into().unwrap(),
                changed_within_minutes: Some(within),
            };
            assert_eq!(verdict, expected, "{ago}");
        }
    }

    #[test]
    fn shorter_monitoring_reduces_the_covered_period() {
        let days = |days: i64| SignedDuration::from_hours(24 * days);
        for (history, expected) in [
            (SimHistory::NoChangeFor(days(3)), (true, 4_320, None)),
            (SimHistory::NoChangeFor(days(30)), (true, 10_080, None)),
            (SimHistory::ChangedWithin(days(1)), (false, 1_440, Some(1_440))),
            (SimHistory::ChangedWithin(days(7)), (false, 10_080, Some(10_080))),
            (SimHistory::ChangedWithin(days(100)), (false, 144_000, Some(259_200))),
            (SimHistory::ChangedWithin(days(400)), (false, 576_000, None)),
        ] {
            let verdict = history.evaluate(SimSwapPeriod::DEFAULT, now());
            assert_eq!(
                (verdict.no_sim_change, verdict.covered_minutes, verdict.changed_within_minutes),
                expected,
                "{history:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn verdict_and_bucket_agree(
            millis in 0_i64..80_000_000_000,
            minutes in 60_i64..=540_000,
        ) {
            let age = SignedDuration::from_millis(millis);
            let verdict = SimHistory::ChangedAt(now() - age).evaluate(SimSwapPeriod::try_from(minutes).unwrap(), now());
            prop_assert_eq!(verdict.no_sim_change, millis > minutes * 60_000);
            let within = i64::from(verdict.changed_within_minutes.unwrap());
            if within == i64::from(OLDER_CHANGE_BUCKET_MINUTES) {
                prop_assert!(millis > 525_600 * 60_000);
            } else {
                prop_assert!(millis <= within * 60_000);
                let below = CHANGE_BUCKETS_MINUTES.into_iter().rev().find(|bucket| i64::from(*bucket) < within).unwrap_or(0);
                prop_assert!(millis > i64::from(below) * 60_000 || below == 0);
                if verdict.no_sim_change { prop_assert!(within > minutes); }
                if within <= minutes { prop_assert!(!verdict.no_sim_change); }
            }
        }
    }
}
