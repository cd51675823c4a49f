//! How a user has proved a phone number, as an ID token reports it.

use jiff::Timestamp;
use strum::{EnumString, IntoStaticStr};

use crate::{phone::Msisdn, verification::Method};

/// How a number was proved (the claims `acr` and `amr`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum AuthenticationContext {
    /// The mobile operator recognised the phone.
    Silent,
    /// The user sent a text message from the number.
    Sms,
}

impl AuthenticationContext {
    pub const ALL: [AuthenticationContext; 2] = [AuthenticationContext::Silent, AuthenticationContext::Sms];

    pub const fn of_method(method: Method) -> Self {
        match method {
            Method::SecureSna => AuthenticationContext::Silent,
            Method::ReverseSms => AuthenticationContext::Sms,
        }
    }

    /// The value of the claim `acr`.
    pub const fn acr(self) -> &'static str {
        match self {
            AuthenticationContext::Silent => "urn:ringtrue:silent",
            AuthenticationContext::Sms => "urn:ringtrue:sms",
        }
    }

    /// The values of the claim `amr` (RFC 8176). Empty: no registered value describes the method.
    pub const fn amr(self) -> &'static [&'static str] {
        match self {
            AuthenticationContext::Silent => &[],
            AuthenticationContext::Sms => &["sms"],
        }
    }
}

/// A number that a user has proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInProof {
    pub number: Msisdn,
    pub context: AuthenticationContext,
    pub at: Timestamp,
    /// Whether the number's SIM was changed within the project's period. `None`: the client did not ask, or the
    /// operator did not answer.
    pub sim_change: Option<bool>,
}
