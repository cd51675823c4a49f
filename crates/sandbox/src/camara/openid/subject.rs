//! Resolves login hints to users.

use super::{OAuthError, OAuthErrorCode};
use crate::camara::{
    sim::{PhoneNumber, SimHistory},
    store::{AuthenticationMethod, Subject},
};

/// Parses `tel:+…` or a plain number.
pub(super) fn parse_phone_hint(hint: &str) -> Option<PhoneNumber> {
    hint.strip_prefix("tel:").unwrap_or(hint).parse().ok()
}

/// Resolves the hint of a backchannel request.
///
/// An operator token of a SIM is simulated as `operatortoken:+…`.
pub(super) fn resolve_subject(hint: &str) -> Result<Subject, OAuthError> {
    let (number, authentication) = match hint.strip_prefix("operatortoken:") {
        Some(token) => (token.parse().ok(), AuthenticationMethod::Sim),
        None => (parse_phone_hint(hint), AuthenticationMethod::Named),
    };
    let number = number.filter(|number| number.sim_history() != SimHistory::UnknownNumber);
    let number = number.ok_or(OAuthError::new(OAuthErrorCode::UnknownUserId, "no user matches the hint"))?;
    Ok(Subject { number, authentication })
}
