//! SIM Swap: whether the SIM of a number has changed within a period.
//!
//! The verdict is computed from the exact instant and put into a bucket afterwards, so the two never contradict each
//! other: a bucket that ends within the period means a change, and no change means a bucket that ends after it.

use jiff::{SignedDuration, Timestamp};

use crate::lifecycle::{AlreadyConcluded, Check, Concluded, ErrorCode, Outcome, Verdict};

/// How far back a change matters, in whole minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period(u32);

impl Period {
    /// A week.
    pub const DEFAULT: Period = Period(10_080);
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
pub struct InvalidPeriod;

impl TryFrom<i64> for Period {
    type Error = InvalidPeriod;

    fn try_from(minutes: i64) -> Result<Self, InvalidPeriod> {
        u32::try_from(minutes).ok().filter(|minutes| Self::ALLOWED.contains(minutes)).map(Period).ok_or(InvalidPeriod)
    }
}

/// What an operator says of a number's SIM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimHistory {
    /// The last change, or the activation if there was none.
    ChangedAt(Timestamp),
    /// No change for this long; further back the operator does not look.
    NoChangeFor(SignedDuration),
    /// A change within this long. When exactly is not said.
    ChangedWithin(SignedDuration),
}

/// What a completed check says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimSwap {
    pub no_sim_change: bool,
    /// The minutes that this was said of.
    pub covered: u32,
    /// The upper end of the bucket of the last change, in minutes, when it is known; of an operator that only says
    /// "changed within N", the bucket of N.
    pub change_within: Option<u32>,
}

impl Verdict for SimSwap {
    /// A SIM that has not changed is taken for a match.
    fn matched(&self) -> Option<bool> {
        Some(self.no_sim_change)
    }
}

pub type SimSwapCheck = Check<SimSwap>;

impl Check<SimSwap> {
    /// Ends the check with what its operator said, or failed to say.
    pub fn answer(
        self,
        said: Result<SimHistory, ErrorCode>,
        period: Period,
        at: Timestamp,
    ) -> Result<Concluded<SimSwap>, AlreadyConcluded> {
        let outcome = match said {
            Ok(history) => Outcome::Completed(history.judge(period, at)),
            Err(code) => Outcome::Error(code),
        };
        self.end(outcome, at)
    }
}

/// The upper ends of the buckets, in minutes, and the one for everything older.
pub const BUCKETS: [u32; 11] = [60, 360, 720, 1_440, 2_880, 4_320, 10_080, 43_200, 129_600, 259_200, 525_600];
pub const LONGER_AGO: u32 = 525_601;

impl SimHistory {
    pub fn judge(self, period: Period, now: Timestamp) -> SimSwap {
        match self {
            SimHistory::ChangedAt(at) => {
                // An operator's clock may be ahead of ours.
                let age = now.duration_since(at).max(SignedDuration::ZERO);
                let holds = |minutes: &u32| age <= SignedDuration::from_mins((*minutes).into());
                SimSwap {
                    no_sim_change: age > period.duration(),
                    covered: period.minutes(),
                    change_within: Some(BUCKETS.into_iter().find(holds).unwrap_or(LONGER_AGO)),
                }
            }
            SimHistory::NoChangeFor(monitored) => SimSwap {
                no_sim_change: true,
                covered: whole_minutes(monitored).min(period.minutes()),
                change_within: None,
            },
            SimHistory::ChangedWithin(window) => {
                let holds = |minutes: &u32| window <= SignedDuration::from_mins((*minutes).into());
                SimSwap {
                    no_sim_change: false,
                    covered: whole_minutes(window),
                    change_within: BUCKETS.into_iter().find(holds),
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
    fn a_period_is_an_hour_to_a_year_and_a_bit() {
        for (minutes, good) in [(59, false), (60, true), (540_000, true), (540_001, false), (-60, false)] {
            assert_eq!(Period::try_from(minutes).is_ok(), good, "{minutes}");
        }
    }

    #[test]
    fn the_last_change_has_a_bucket() {
        // Seconds ago, the period, and what is said.
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
            let said = SimHistory::ChangedAt(at).judge(Period::try_from(period).unwrap(), now());
            let expected =
                SimSwap { no_sim_change: no_change, covered: period.try_into().unwrap(), change_within: Some(within) };
            assert_eq!(said, expected, "{ago}");
        }
    }

    #[test]
    fn an_operator_that_looks_less_far_back_covers_less() {
        let days = |days: i64| SignedDuration::from_hours(24 * days);
        for (history, expected) in [
            (SimHistory::NoChangeFor(days(3)), (true, 4_320, None)),
            (SimHistory::NoChangeFor(days(30)), (true, 10_080, None)),
            (SimHistory::ChangedWithin(days(1)), (false, 1_440, Some(1_440))),
            (SimHistory::ChangedWithin(days(7)), (false, 10_080, Some(10_080))),
            (SimHistory::ChangedWithin(days(100)), (false, 144_000, Some(259_200))),
            (SimHistory::ChangedWithin(days(400)), (false, 576_000, None)),
        ] {
            let said = history.judge(Period::DEFAULT, now());
            assert_eq!((said.no_sim_change, said.covered, said.change_within), expected, "{history:?}");
        }
    }

    proptest! {
        #[test]
        fn verdict_and_bucket_agree_with_the_exact_arithmetic(
            millis in 0_i64..80_000_000_000,
            minutes in 60_i64..=540_000,
        ) {
            let age = SignedDuration::from_millis(millis);
            let said = SimHistory::ChangedAt(now() - age).judge(Period::try_from(minutes).unwrap(), now());
            prop_assert_eq!(said.no_sim_change, millis > minutes * 60_000);
            let within = i64::from(said.change_within.unwrap());
            if within == i64::from(LONGER_AGO) {
                prop_assert!(millis > 525_600 * 60_000);
            } else {
                prop_assert!(millis <= within * 60_000);
                let below = BUCKETS.into_iter().rev().find(|bucket| i64::from(*bucket) < within).unwrap_or(0);
                prop_assert!(millis > i64::from(below) * 60_000 || below == 0);
                if said.no_sim_change { prop_assert!(within > minutes); }
                if within <= minutes { prop_assert!(!said.no_sim_change); }
            }
        }
    }
}
