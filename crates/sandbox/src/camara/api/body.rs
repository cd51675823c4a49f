//! Bodies of requests, and the properties that several of them have.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

use super::Problem;
use crate::camara::{http::Request, sim::PhoneNumber};

/// The body, which must be there and be an object.
pub(super) fn object<T: DeserializeOwned>(request: &Request) -> Result<T, Problem> {
    if request.body.is_empty() {
        return Err(Problem::InvalidArgument("There is no body."));
    }
    if !request.is_of_type("application/json") {
        return Err(Problem::UnsupportedMediaType);
    }
    // A list would do for a type with fields, too.
    let is_object = request.body.trim_ascii_start().first() == Some(&b'{');
    let parsed = is_object.then(|| serde_json::from_slice(&request.body).ok()).flatten();
    parsed.ok_or(Problem::InvalidArgument("The body is not a JSON object."))
}

/// For properties that may be missing: what is there is told apart from what is not, even if it is `null`.
pub(super) fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

pub(super) fn phone_number(value: &Value) -> Result<PhoneNumber, Problem> {
    let number = value.as_str().and_then(|text| text.parse().ok());
    number.ok_or(Problem::InvalidArgument("phoneNumber is a plus sign and 5 to 15 digits."))
}
