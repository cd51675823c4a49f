//! Whom a hint means.

use super::{ErrorCode, Refusal};
use crate::camara::{
    memory::{Authentication, Subject},
    sim::{PhoneNumber, SimHistory},
};

/// Reads a number as hints have it: `tel:+…`, or the number alone.
pub(super) fn number(hint: &str) -> Option<PhoneNumber> {
    hint.strip_prefix("tel:").unwrap_or(hint).parse().ok()
}

/// The user whom a client names without the device's being there.
///
/// A token of the SIM is simulated by the SIM's number: `operatortoken:+…`.
pub(super) fn named(hint: &str) -> Result<Subject, Refusal> {
    let (number, authentication) = match hint.strip_prefix("operatortoken:") {
        Some(token) => (token.parse().ok(), Authentication::Sim),
        None => (number(hint), Authentication::Named),
    };
    let number = number.filter(|number| number.sim_history() != SimHistory::UnknownNumber);
    let number = number.ok_or(Refusal::new(ErrorCode::UnknownUserId, "nobody is known by this hint"))?;
    Ok(Subject { number, authentication })
}
