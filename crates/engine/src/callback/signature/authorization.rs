//! The `Authorization` header of a callback.

use base64::prelude::{BASE64_STANDARD, Engine as _};

/// Parsed parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorization<'a> {
    pub key_id: &'a str,
    pub algorithm: &'a str,
    pub headers: &'a str,
    pub signature: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAuthorization {
    #[error("the scheme is not `Signature`")]
    Scheme,
    #[error("expected `name=\"value\"` parameters separated by commas without spaces")]
    Malformed,
    #[error("unknown parameter `{0}`")]
    UnknownParameter(String),
    #[error("duplicate parameter `{0}`")]
    DuplicateParameter(&'static str),
    #[error("missing parameter `{0}`")]
    MissingParameter(&'static str),
    #[error("the signature is not valid base64")]
    SignatureNotBase64,
}

const PARAMETERS: [&str; 4] = ["keyId", "algorithm", "headers", "signature"];

impl<'a> Authorization<'a> {
    /// Strict: accepts only the form that the courier sends, with parameters in any order.
    pub fn parse(value: &'a str) -> Result<Self, InvalidAuthorization> {
        let mut rest = value.strip_prefix("Signature ").ok_or(InvalidAuthorization::Scheme)?;
        let mut found: [Option<&'a str>; PARAMETERS.len()] = [None; PARAMETERS.len()];
        loop {
            let (name, after) = rest.split_once("=\"").ok_or(InvalidAuthorization::Malformed)?;
            let (value, after) = after.split_once('"').ok_or(InvalidAuthorization::Malformed)?;
            if !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) || value.contains('\\') {
                return Err(InvalidAuthorization::Malformed);
            }
            let slot = PARAMETERS
                .iter()
                .position(|known| *known == name)
                .ok_or_else(|| InvalidAuthorization::UnknownParameter(name.to_owned()))?;
            if found[slot].replace(value).is_some() {
                return Err(InvalidAuthorization::DuplicateParameter(PARAMETERS[slot]));
            }
            if after.is_empty() {
                break;
            }
            rest = after.strip_prefix(',').ok_or(InvalidAuthorization::Malformed)?;
        }
        let take = |slot: usize| found[slot].ok_or(InvalidAuthorization::MissingParameter(PARAMETERS[slot]));
        let (key_id, algorithm, headers) = (take(0)?, take(1)?, take(2)?);
        let signature = BASE64_STANDARD.decode(take(3)?).map_err(|_| InvalidAuthorization::SignatureNotBase64)?;
        Ok(Authorization { key_id, algorithm, headers, signature })
    }
}
