//! Parsing of request bodies.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

use super::CamaraError;
use crate::camara::{http::Request, sim::PhoneNumber};

/// Parses the body, which must be a JSON object.
pub(super) fn parse_object<T: DeserializeOwned>(request: &Request) -> Result<T, CamaraError> {
    if request.body.is_empty() {
        return Err(CamaraError::InvalidArgument("The request body is missing."));
    }
    if !request.has_media_type("application/json") {
        return Err(CamaraError::UnsupportedMediaType);
    }
    // serde would accept an array for a struct, too.
    let is_object = request.body.trim_ascii_start().first() == Some(&b'{');
    let parsed = is_object.then(|| serde_json::from_slice(&request.body).ok()).flatten();
    parsed.ok_or(CamaraError::InvalidArgument("The request body is not a JSON object."))
}

/// For optional properties: distinguishes `null` from a missing property.
pub(super) fn deserialize_present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

pub(super) fn parse_phone_number(value: &Value) -> Result<PhoneNumber, CamaraError> {
    let number = value.as_str().and_then(|text| text.parse().ok());
    number.ok_or(CamaraError::InvalidArgument("phoneNumber must be a plus sign and 5 to 15 digits."))
}
