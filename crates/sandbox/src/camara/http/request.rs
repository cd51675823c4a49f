//! Requests, read whole.

use std::collections::{BTreeMap, btree_map::Entry};

use bytes::Bytes;
use http::{
    HeaderName,
    header::{AUTHORIZATION, CONTENT_TYPE},
    request::Parts,
};
use serde_json::Value;
use url::form_urlencoded;

use crate::camara::jose::Claims;

#[derive(Debug)]
pub(in crate::camara) struct Request {
    pub head: Parts,
    pub body: Bytes,
}

impl Request {
    /// A header's value. One that is no text is as good as none, save that it is not a good one.
    pub(in crate::camara) fn header(&self, name: &HeaderName) -> Option<&str> {
        self.head.headers.get(name).map(|value| value.to_str().unwrap_or("\u{fffd}"))
    }

    /// What follows this scheme in `Authorization`.
    pub(in crate::camara) fn credentials(&self, scheme: &str) -> Option<&str> {
        let (found, credentials) = self.header(&AUTHORIZATION)?.split_once(' ')?;
        found.eq_ignore_ascii_case(scheme).then(|| credentials.trim())
    }

    pub(in crate::camara) fn is_of_type(&self, media_type: &str) -> bool {
        let found = self.header(&CONTENT_TYPE).and_then(|value| value.split(';').next());
        found.is_some_and(|found| found.trim().eq_ignore_ascii_case(media_type))
    }

    pub(in crate::camara) fn query(&self) -> Parameters {
        Parameters::parse(self.head.uri.query().unwrap_or_default().as_bytes())
    }

    /// The body, if it is a form.
    pub(in crate::camara) fn form(&self) -> Option<Parameters> {
        self.is_of_type("application/x-www-form-urlencoded").then(|| Parameters::parse(&self.body))
    }
}

/// Parameters of OAuth. One without a value counts as left out.
#[derive(Default)]
pub(in crate::camara) struct Parameters {
    values: BTreeMap<String, String>,
    repeated: bool,
}

impl Parameters {
    fn parse(encoded: &[u8]) -> Self {
        let mut parameters = Self::default();
        for (name, value) in form_urlencoded::parse(encoded).filter(|(_, value)| !value.is_empty()) {
            match parameters.values.entry(name.into_owned()) {
                Entry::Vacant(place) => drop(place.insert(value.into_owned())),
                Entry::Occupied(_) => parameters.repeated = true,
            }
        }
        parameters
    }

    pub(in crate::camara) fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Whether some parameter was there twice, which none may be.
    pub(in crate::camara) fn are_repeated(&self) -> bool {
        self.repeated
    }
}

/// The parameters of a request object. Numbers count as their digits.
impl From<Claims> for Parameters {
    fn from(claims: Claims) -> Self {
        let text = |value| match value {
            Value::String(text) => Some(text),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let values = claims.into_iter().filter_map(|(name, value)| Some((name, text(value)?)));
        Self { values: values.collect(), repeated: false }
    }
}
