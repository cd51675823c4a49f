//! Fully read HTTP requests.

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
    /// A header's value; an invalid one becomes U+FFFD, which matches nothing.
    pub(in crate::camara) fn header(&self, name: &HeaderName) -> Option<&str> {
        self.head.headers.get(name).map(|value| value.to_str().unwrap_or("\u{fffd}"))
    }

    /// Credentials in `Authorization` with this scheme.
    pub(in crate::camara) fn credentials(&self, scheme: &str) -> Option<&str> {
        let (found, credentials) = self.header(&AUTHORIZATION)?.split_once(' ')?;
        found.eq_ignore_ascii_case(scheme).then(|| credentials.trim())
    }

    pub(in crate::camara) fn has_media_type(&self, media_type: &str) -> bool {
        let found = self.header(&CONTENT_TYPE).and_then(|value| value.split(';').next());
        found.is_some_and(|found| found.trim().eq_ignore_ascii_case(media_type))
    }

    pub(in crate::camara) fn query(&self) -> OAuthParameters {
        OAuthParameters::parse(self.head.uri.query().unwrap_or_default().as_bytes())
    }

    pub(in crate::camara) fn form(&self) -> Option<OAuthParameters> {
        self.has_media_type("application/x-www-form-urlencoded").then(|| OAuthParameters::parse(&self.body))
    }
}

/// OAuth parameters. Empty values are treated as missing (RFC 6749, 3.1).
#[derive(Default)]
pub(in crate::camara) struct OAuthParameters {
    values: BTreeMap<String, String>,
    repeated: bool,
}

impl OAuthParameters {
    fn parse(encoded: &[u8]) -> Self {
        let mut parameters = Self::default();
        for (name, value) in form_urlencoded::parse(encoded).filter(|(_, value)| !value.is_empty()) {
            match parameters.values.entry(name.into_owned()) {
                Entry::Vacant(entry) => drop(entry.insert(value.into_owned())),
                Entry::Occupied(_) => parameters.repeated = true,
            }
        }
        parameters
    }

    pub(in crate::camara) fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Repeated parameters are not allowed (RFC 6749, 3.1).
    pub(in crate::camara) fn has_repeated(&self) -> bool {
        self.repeated
    }
}

/// Parameters of a request object. Numbers become their digits.
impl From<Claims> for OAuthParameters {
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
