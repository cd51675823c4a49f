//! What an operator's answers say of a SIM.

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::sim_swap::SimHistory;
use serde::Deserialize;

use crate::camara::faults::{Nonsense, Symptom};

/// How far an operator's clock may be ahead of ours.
const SKEW: SignedDuration = SignedDuration::from_mins(10);
/// No network had SIM cards before.
const FIRST_SIMS: Timestamp = Timestamp::constant(662_688_000, 0);
/// Nor does anybody look back to before that.
const MOST_DAYS: i64 = 40_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Dated {
    /// Must be there, and may be null.
    #[serde(deserialize_with = "Option::deserialize")]
    latest_sim_change: Option<String>,
    monitored_period: Option<i64>,
}

#[derive(Deserialize)]
struct Checked {
    swapped: bool,
}

/// What the operation `retrieve-date` says.
pub fn of_date(
    body: &[u8],
    assumed_window: Option<SignedDuration>,
    now: Timestamp,
) -> Result<SimHistory, Symptom<'static>> {
    let nonsense = Symptom::Nonsense;
    let dated: Dated = serde_json::from_slice(body).map_err(|_| nonsense(Nonsense::Body))?;
    match (&dated.latest_sim_change, dated.monitored_period) {
        (Some(date), _) => {
            let at: Timestamp = date.parse().map_err(|_| nonsense(Nonsense::Date))?;
            let is_sensible = at >= FIRST_SIMS && at.duration_since(now) <= SKEW;
            if is_sensible { Ok(SimHistory::ChangedAt(at)) } else { Err(nonsense(Nonsense::Date)) }
        }
        (None, Some(days)) if (1..=MOST_DAYS).contains(&days) => {
            Ok(SimHistory::NoChangeFor(SignedDuration::from_hours(24 * days)))
        }
        (None, Some(_)) => Err(nonsense(Nonsense::Date)),
        (None, None) => assumed_window.map(SimHistory::NoChangeFor).ok_or(Symptom::NoHistory),
    }
}

/// What the operation `check` says of so many hours.
pub fn of_check(body: &[u8], hours: u32) -> Result<SimHistory, Symptom<'static>> {
    let checked: Checked = serde_json::from_slice(body).map_err(|_| Symptom::Nonsense(Nonsense::Body))?;
    let window = SignedDuration::from_hours(hours.into());
    Ok(if checked.swapped { SimHistory::ChangedWithin(window) } else { SimHistory::NoChangeFor(window) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_were_no_sims_before_1991() {
        assert_eq!(FIRST_SIMS.to_string(), "1991-01-01T00:00:00Z");
    }
}
