//! SIM Swap: when did the number last get another SIM?

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Problem, access::granted, body};
use crate::camara::{
    Core,
    http::Request,
    memory::Grant,
    scope::Scope,
    sim::{PhoneNumber, SimHistory},
};

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;
const DEFAULT_HOURS: i64 = 240;
const MOST_HOURS: i64 = 2400;

/// What is known of a number.
enum LastChange {
    At(i64),
    /// None in these days, and nothing from before is known.
    NotWithin {
        days: i64,
    },
}

/// What is asked. Whether it may be is told by its values.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    #[serde(default, deserialize_with = "body::given")]
    phone_number: Option<Value>,
    #[serde(default, deserialize_with = "body::given")]
    max_age: Option<Value>,
}

#[derive(Serialize)]
pub(in crate::camara) struct Checked {
    swapped: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::camara) struct Dated {
    latest_sim_change: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    monitored_period: Option<i64>,
}

/// `POST /sim-swap/v2/check`
pub(in crate::camara) fn check_sim_swap(core: &Core, request: &Request) -> Result<Checked, Problem> {
    let grant = granted(core, request, &[Scope::CheckSimSwap, Scope::SimSwap])?;
    let asked: Asked = body::object(request)?;
    let hours = hours(core, asked.max_age.as_ref())?;
    let number = number(&grant, asked.phone_number.as_ref())?;
    let swapped = match last_change(core, &number)? {
        LastChange::At(when) => core.now() - when <= hours * HOUR,
        LastChange::NotWithin { .. } => false,
    };
    Ok(Checked { swapped })
}

/// `POST /sim-swap/v2/retrieve-date`
pub(in crate::camara) fn retrieve_sim_swap_date(core: &Core, request: &Request) -> Result<Dated, Problem> {
    let grant = granted(core, request, &[Scope::RetrieveSimSwapDate, Scope::SimSwap])?;
    let asked: Asked = body::object(request)?;
    let number = number(&grant, asked.phone_number.as_ref())?;
    match last_change(core, &number)? {
        LastChange::At(when) => {
            let date = Timestamp::from_second(when).map_err(|_| Problem::Internal)?;
            Ok(Dated { latest_sim_change: Some(date.to_string()), monitored_period: None })
        }
        LastChange::NotWithin { days } => Ok(Dated { latest_sim_change: None, monitored_period: Some(days) }),
    }
}

/// The number that is meant: the token's, or else the body's, and never both.
fn number(grant: &Grant, given: Option<&Value>) -> Result<PhoneNumber, Problem> {
    let given = given.map(body::phone_number).transpose()?;
    match (&grant.subject, given) {
        (Some(subject), None) => Ok(subject.number.clone()),
        (None, Some(number)) => Ok(number),
        (Some(_), Some(_)) => Err(Problem::UnnecessaryIdentifier),
        (None, None) => Err(Problem::MissingIdentifier),
    }
}

fn hours(core: &Core, given: Option<&Value>) -> Result<i64, Problem> {
    let hours = match given {
        None => return Ok(DEFAULT_HOURS),
        Some(value) => value.as_i64().ok_or(Problem::InvalidArgument("maxAge is a whole number of hours."))?,
    };
    if !(1..=MOST_HOURS).contains(&hours) {
        return Err(Problem::OutOfRange("maxAge is between 1 and 2400 hours."));
    }
    if core.config.monitored_days.is_some_and(|days| hours * HOUR > i64::from(days) * DAY) {
        return Err(Problem::OutOfRange("maxAge is longer than changes may be remembered."));
    }
    Ok(hours)
}

fn last_change(core: &Core, number: &PhoneNumber) -> Result<LastChange, Problem> {
    let now = core.now();
    let swapped_at = core.memory().swaps.get_mut(now, number.as_str()).copied();
    let without_swap = match number.sim_history() {
        SimHistory::NeverChanged => LastChange::At(core.activated_at),
        SimHistory::ChangedRecently => LastChange::At(now - SimHistory::RECENTLY),
        SimHistory::Forgotten { monitored_days } => LastChange::NotWithin { days: monitored_days },
        SimHistory::NotApplicable => return Err(Problem::ServiceNotApplicable),
        SimHistory::UnknownNumber => return Err(Problem::IdentifierNotFound),
        SimHistory::OutOfTime => return Err(Problem::Timeout),
        SimHistory::Unavailable => return Err(Problem::Unavailable),
        SimHistory::Failure => return Err(Problem::Internal),
    };
    let last = swapped_at.map_or(without_swap, LastChange::At);
    Ok(match (last, core.config.monitored_days.map(i64::from)) {
        (LastChange::At(when), Some(days)) if now - when > days * DAY => LastChange::NotWithin { days },
        (last, _) => last,
    })
}
