//! Bodies of requests, and the properties that several of them have.

use serde_json::{Map, Value};

use super::Problem;
use crate::camara::{http::Request, sim::PhoneNumber};

pub(super) type Body = Map<String, Value>;

/// The body, which must be there and be an object.
pub(super) fn object(request: &Request) -> Result<Body, Problem> {
    if request.body.is_empty() {
        return Err(Problem::InvalidArgument("There is no body."));
    }
    if !request.is_of_type("application/json") {
        return Err(Problem::UnsupportedMediaType);
    }
    serde_json::from_slice(&request.body).map_err(|_| Problem::InvalidArgument("The body is not a JSON object."))
}

pub(super) fn phone_number(value: &Value) -> Result<PhoneNumber, Problem> {
    let number = value.as_str().and_then(|text| text.parse().ok());
    number.ok_or(Problem::InvalidArgument("phoneNumber is a plus sign and 5 to 15 digits."))
}
