//! Number Verification 2.1.

use serde::Serialize;
use serde_json::{Map, Value};

use super::{CamaraError, access_token::authorize, body};
use crate::camara::{
    OperatorState,
    http::Request,
    scope::Scope,
    sim::{PhoneNumber, Recognition},
    store::{AuthenticationMethod, Grant},
};

/// The number to verify.
enum ClaimedNumber {
    Number(PhoneNumber),
    /// SHA-256 in hexadecimal digits.
    Hash(String),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::camara) struct VerifyResponse {
    device_phone_number_verified: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::camara) struct DevicePhoneNumberResponse {
    device_phone_number: String,
}

/// `POST /number-verification/v2/verify`
pub(in crate::camara) fn verify_number(
    state: &OperatorState,
    request: &Request,
) -> Result<VerifyResponse, CamaraError> {
    let grant = authorize(state, request, &[Scope::VerifyNumber])?;
    let claim = ClaimedNumber::parse(request)?;
    let number = recognised_number(&grant)?;
    let is_match = match claim {
        ClaimedNumber::Number(claimed) => claimed == *number,
        ClaimedNumber::Hash(hash) => number.hashes_to(&hash),
    };
    let device_phone_number_verified = is_match && number.recognition() == Recognition::Recognised;
    Ok(VerifyResponse { device_phone_number_verified })
}

/// `GET /number-verification/v2/device-phone-number`
pub(in crate::camara) fn device_phone_number(
    state: &OperatorState,
    request: &Request,
) -> Result<DevicePhoneNumberResponse, CamaraError> {
    let grant = authorize(state, request, &[Scope::ReadDeviceNumber])?;
    let number = recognised_number(&grant)?;
    match number.recognition() {
        Recognition::OtherDevice => Err(CamaraError::IdentifierNotFound),
        _ => Ok(DevicePhoneNumberResponse { device_phone_number: number.as_str().to_owned() }),
    }
}

/// The number of the recognised device, or the error of its recognition.
fn recognised_number(grant: &Grant) -> Result<&PhoneNumber, CamaraError> {
    let subject = grant.subject.as_ref().filter(|subject| subject.authentication != AuthenticationMethod::Named);
    let number = &subject.ok_or(CamaraError::NotAuthenticatedByNetwork)?.number;
    match number.recognition() {
        Recognition::Recognised | Recognition::OtherDevice => Ok(number),
        Recognition::NotApplicable => Err(CamaraError::ServiceNotApplicable),
        Recognition::NoResponse | Recognition::Timeout => Err(CamaraError::Timeout),
        Recognition::Failure => Err(CamaraError::Internal),
    }
}

impl ClaimedNumber {
    fn parse(request: &Request) -> Result<Self, CamaraError> {
        let body: Map<String, Value> = body::parse_object(request)?;
        let mut properties = body.iter();
        match (properties.next(), properties.next()) {
            (Some((name, number)), None) if name == "phoneNumber" => {
                Ok(Self::Number(body::parse_phone_number(number)?))
            }
            (Some((name, Value::String(hash))), None) if name == "hashedPhoneNumber" && is_sha256(hash) => {
                Ok(Self::Hash(hash.clone()))
            }
            _ => {
                Err(CamaraError::InvalidArgument("The request body must have either phoneNumber or hashedPhoneNumber."))
            }
        }
    }
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|octet| octet.is_ascii_hexdigit())
}
