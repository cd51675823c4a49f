//! Parses SIM Swap responses.

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::sim_swap::SimHistory;
use serde::Deserialize;

use crate::camara::error::{ErrorCause, InvalidResponse};

const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(10);
/// The first SIM cards were issued in 1991.
const EARLIEST_SIM_CHANGE: Timestamp = Timestamp::constant(662_688_000, 0);
/// Upper bound for plausible values.
const MAX_MONITORED_DAYS: i64 = 40_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RetrieveDateResponse {
    /// Required, but may be null.
    #[serde(deserialize_with = "Option::deserialize")]
    latest_sim_change: Option<String>,
    monitored_period: Option<i64>,
}

#[derive(Deserialize)]
struct CheckResponse {
    swapped: bool,
}

pub fn parse_retrieve_date(
    body: &[u8],
    assumed_window: Option<SignedDuration>,
    now: Timestamp,
) -> Result<SimHistory, ErrorCause<'static>> {
    let invalid_response = ErrorCause::InvalidResponse;
    let response: RetrieveDateResponse =
        serde_json::from_slice(body).map_err(|_| invalid_response(InvalidResponse::Body))?;
    match (&response.latest_sim_change, response.monitored_period) {
        (Some(date), _) => {
            let at: Timestamp = date.parse().map_err(|_| invalid_response(InvalidResponse::Date))?;
            let is_plausible = at >= EARLIEST_SIM_CHANGE && at.duration_since(now) <= CLOCK_SKEW;
            if is_plausible { Ok(SimHistory::ChangedAt(at)) } else { Err(invalid_response(InvalidResponse::Date)) }
        }
        (None, Some(days)) if (1..=MAX_MONITORED_DAYS).contains(&days) => {
            Ok(SimHistory::NoChangeFor(SignedDuration::from_hours(24 * days)))
        }
        (None, Some(_)) => Err(invalid_response(InvalidResponse::Date)),
        (None, None) => assumed_window.map(SimHistory::NoChangeFor).ok_or(ErrorCause::NoHistory),
    }
}

pub fn parse_check(body: &[u8], hours: u32) -> Result<SimHistory, ErrorCause<'static>> {
    let response: CheckResponse =
        serde_json::from_slice(body).map_err(|_| ErrorCause::InvalidResponse(InvalidResponse::Body))?;
    let window = SignedDuration::from_hours(hours.into());
    Ok(if response.swapped { SimHistory::ChangedWithin(window) } else { SimHistory::NoChangeFor(window) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earliest_sim_change_is_1991() {
        assert_eq!(EARLIEST_SIM_CHANGE.to_string(), "1991-01-01T00:00:00Z");
    }
}
