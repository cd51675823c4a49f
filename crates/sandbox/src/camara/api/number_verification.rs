//! Number Verification: is this the device's number, and which one is it?

use serde::Serialize;
use serde_json::{Map, Value};

use super::{Problem, access::granted, body};
use crate::camara::{
    Core,
    http::Request,
    memory::{Authentication, Grant},
    scope::Scope,
    sim::{PhoneNumber, Recognition},
};

/// What a device is asked about.
enum Claim {
    Number(PhoneNumber),
    /// Its SHA-256, in hexadecimal digits.
    Hash(String),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::camara) struct Verified {
    device_phone_number_verified: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::camara) struct Shared {
    device_phone_number: String,
}

/// `POST /number-verification/v2/verify`
pub(in crate::camara) fn verify_number(core: &Core, request: &Request) -> Result<Verified, Problem> {
    let grant = granted(core, request, &[Scope::VerifyNumber])?;
    let claim = Claim::read(request)?;
    let number = recognised(&grant)?;
    let is_claimed = match claim {
        Claim::Number(claimed) => claimed == *number,
        Claim::Hash(hash) => number.hashes_to(&hash),
    };
    let device_phone_number_verified = is_claimed && number.recognition() == Recognition::Right;
    Ok(Verified { device_phone_number_verified })
}

/// `GET /number-verification/v2/device-phone-number`
pub(in crate::camara) fn device_phone_number(core: &Core, request: &Request) -> Result<Shared, Problem> {
    let grant = granted(core, request, &[Scope::ReadDeviceNumber])?;
    let number = recognised(&grant)?;
    match number.recognition() {
        Recognition::Wrong => Err(Problem::IdentifierNotFound),
        _ => Ok(Shared { device_phone_number: number.as_str().to_owned() }),
    }
}

/// The number that the device was recognised by, if that has worked.
fn recognised(grant: &Grant) -> Result<&PhoneNumber, Problem> {
    let subject = grant.subject.as_ref().filter(|subject| subject.authentication != Authentication::Named);
    let number = &subject.ok_or(Problem::NotAuthenticatedByNetwork)?.number;
    match number.recognition() {
        Recognition::Right | Recognition::Wrong => Ok(number),
        Recognition::NotApplicable => Err(Problem::ServiceNotApplicable),
        Recognition::Silence | Recognition::OutOfTime => Err(Problem::Timeout),
        Recognition::Failure => Err(Problem::Internal),
    }
}

impl Claim {
    fn read(request: &Request) -> Result<Self, Problem> {
        let body: Map<String, Value> = body::object(request)?;
        let mut properties = body.iter();
        match (properties.next(), properties.next()) {
            (Some((name, number)), None) if name == "phoneNumber" => Ok(Self::Number(body::phone_number(number)?)),
            (Some((name, Value::String(hash))), None) if name == "hashedPhoneNumber" && is_sha256(hash) => {
                Ok(Self::Hash(hash.clone()))
            }
            _ => Err(Problem::InvalidArgument("The body has either phoneNumber or hashedPhoneNumber, and no more.")),
        }
    }
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|octet| octet.is_ascii_hexdigit())
}
