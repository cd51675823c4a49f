//! SIM Swap 2.1.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CamaraError, access_token::authorize, body};
use crate::camara::{
    OperatorState,
    http::Request,
    scope::Scope,
    sim::{PhoneNumber, SimHistory},
    store::Grant,
};

const HOUR_SECONDS: i64 = 3600;
const DAY_SECONDS: i64 = 24 * HOUR_SECONDS;
const DEFAULT_MAX_AGE_HOURS: i64 = 240;
const LONGEST_MAX_AGE_HOURS: i64 = 2400;

/// Latest SIM change of a number.
enum LatestChange {
    At(i64),
    /// No change in the monitored period; earlier changes are not recorded.
    NotWithin {
        days: i64,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SimSwapRequest {
    #[serde(default, deserialize_with = "body::deserialize_present")]
    phone_number: Option<Value>,
    #[serde(default, deserialize_with = "body::deserialize_present")]
    max_age: Option<Value>,
}

#[derive(Serialize)]
pub(in crate::camara) struct CheckResponse {
    swapped: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::camara) struct RetrieveDateResponse {
    latest_sim_change: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    monitored_period: Option<i64>,
}

/// `POST /sim-swap/v2/check`
pub(in crate::camara) fn check_sim_swap(
    state: &OperatorState,
    request: &Request,
) -> Result<CheckResponse, CamaraError> {
    let grant = authorize(state, request, &[Scope::CheckSimSwap, Scope::SimSwap])?;
    let body: SimSwapRequest = body::parse_object(request)?;
    let hours = parse_max_age(state, body.max_age.as_ref())?;
    let number = resolve_number(&grant, body.phone_number.as_ref())?;
    let swapped = match latest_change(state, &number)? {
        LatestChange::At(when) => state.now() - when <= hours * HOUR_SECONDS,
        LatestChange::NotWithin { .. } => false,
    };
    Ok(CheckResponse { swapped })
}

/// `POST /sim-swap/v2/retrieve-date`
pub(in crate::camara) fn retrieve_sim_swap_date(
    state: &OperatorState,
    request: &Request,
) -> Result<RetrieveDateResponse, CamaraError> {
    let grant = authorize(state, request, &[Scope::RetrieveSimSwapDate, Scope::SimSwap])?;
    let body: SimSwapRequest = body::parse_object(request)?;
    let number = resolve_number(&grant, body.phone_number.as_ref())?;
    match latest_change(state, &number)? {
        LatestChange::At(when) => {
            let date = Timestamp::from_second(when).map_err(|_| CamaraError::Internal)?;
            Ok(RetrieveDateResponse { latest_sim_change: Some(date.to_string()), monitored_period: None })
        }
        LatestChange::NotWithin { days } => {
            Ok(RetrieveDateResponse { latest_sim_change: None, monitored_period: Some(days) })
        }
    }
}

/// The number of the access token or of the request body; never both.
fn resolve_number(grant: &Grant, value_in_body: Option<&Value>) -> Result<PhoneNumber, CamaraError> {
    let number_in_body = value_in_body.map(body::parse_phone_number).transpose()?;
    match (&grant.subject, number_in_body) {
        (Some(subject), None) => Ok(subject.number.clone()),
        (None, Some(number)) => Ok(number),
        (Some(_), Some(_)) => Err(CamaraError::UnnecessaryIdentifier),
        (None, None) => Err(CamaraError::MissingIdentifier),
    }
}

fn parse_max_age(state: &OperatorState, value_in_body: Option<&Value>) -> Result<i64, CamaraError> {
    let hours = match value_in_body {
        None => return Ok(DEFAULT_MAX_AGE_HOURS),
        Some(value) => {
            value.as_i64().ok_or(CamaraError::InvalidArgument("maxAge must be an integer number of hours."))?
        }
    };
    if !(1..=LONGEST_MAX_AGE_HOURS).contains(&hours) {
        return Err(CamaraError::OutOfRange("maxAge must be between 1 and 2400 hours."));
    }
    if state.config.monitored_days.is_some_and(|days| hours * HOUR_SECONDS > i64::from(days) * DAY_SECONDS) {
        return Err(CamaraError::OutOfRange("maxAge exceeds the monitored period."));
    }
    Ok(hours)
}

fn latest_change(state: &OperatorState, number: &PhoneNumber) -> Result<LatestChange, CamaraError> {
    let now = state.now();
    let swapped_at = state.store().sim_swaps.get_mut(now, number.as_str()).copied();
    let simulated_change = match number.sim_history() {
        SimHistory::NeverChanged => LatestChange::At(state.activated_at),
        SimHistory::ChangedRecently => LatestChange::At(now - SimHistory::RECENT_CHANGE_AGE),
        SimHistory::NotMonitored { monitored_days } => LatestChange::NotWithin { days: monitored_days },
        SimHistory::NotApplicable => return Err(CamaraError::ServiceNotApplicable),
        SimHistory::UnknownNumber => return Err(CamaraError::IdentifierNotFound),
        SimHistory::Timeout => return Err(CamaraError::Timeout),
        SimHistory::Unavailable => return Err(CamaraError::Unavailable),
        SimHistory::Failure => return Err(CamaraError::Internal),
    };
    let last = swapped_at.map_or(simulated_change, LatestChange::At);
    Ok(match (last, state.config.monitored_days.map(i64::from)) {
        (LatestChange::At(when), Some(days)) if now - when > days * DAY_SECONDS => LatestChange::NotWithin { days },
        (last, _) => last,
    })
}
