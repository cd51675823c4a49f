//! The `Authorization` header of a callback.

use base64::prelude::{BASE64_STANDARD, Engine as _};

/// The four parameters, taken apart.
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
    #[error("not a list of `name=\"value\"`, separated by commas without spaces")]
    Form,
    #[error("there is no parameter of the name `{0}`")]
    Unknown(String),
    #[error("the parameter `{0}` is there twice")]
    Twice(&'static str),
    #[error("the parameter `{0}` is missing")]
    Missing(&'static str),
    #[error("the signature is not base64")]
    Signature,
}

const PARAMETERS: [&str; 4] = ["keyId", "algorithm", "headers", "signature"];

impl<'a> Authorization<'a> {
    /// Takes what we send and nothing else, except that parameters may come in any order.
    pub fn parse(value: &'a str) -> Result<Self, InvalidAuthorization> {
        let mut rest = value.strip_prefix("Signature ").ok_or(InvalidAuthorization::Scheme)?;
        let mut found: [Option<&'a str>; PARAMETERS.len()] = [None; PARAMETERS.len()];
        loop {
            let (name, after) = rest.split_once("=\"").ok_or(InvalidAuthorization::Form)?;
            let (value, after) = after.split_once('"').ok_or(InvalidAuthorization::Form)?;
            if !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) || value.contains('\\') {
                return Err(InvalidAuthorization::Form);
            }
            let slot = PARAMETERS
                .iter()
                .position(|known| *known == name)
                .ok_or_else(|| InvalidAuthorization::Unknown(name.to_owned()))?;
            if found[slot].replace(value).is_some() {
                return Err(InvalidAuthorization::Twice(PARAMETERS[slot]));
            }
            if after.is_empty() {
                break;
            }
            rest = after.strip_prefix(',').ok_or(InvalidAuthorization::Form)?;
        }
        let take = |slot: usize| found[slot].ok_or(InvalidAuthorization::Missing(PARAMETERS[slot]));
        let (key_id, algorithm, headers) = (take(0)?, take(1)?, take(2)?);
        let signature = BASE64_STANDARD.decode(take(3)?).map_err(|_| InvalidAuthorization::Signature)?;
        Ok(Authorization { key_id, algorithm, headers, signature })
    }
}
