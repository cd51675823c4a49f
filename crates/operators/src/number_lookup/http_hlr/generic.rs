//! Anybody who answers in JSON: where the number goes and where the network stands is configured.

use std::fmt;

use http::{
    HeaderMap, Method,
    header::{CONTENT_TYPE, HeaderValue},
};
use ringtrue_domain::phone::Msisdn;
use ringtrue_engine::ports::{Resolved, SourceFault};
use serde_json::Value;
use url::Url;

use super::{BadHlrConfig, Dialect, KnownNetworks, Moment, of_codes, of_two_codes};
use crate::number_lookup::asking::{Request, Told, is_web, text};

const WITH_PLUS: &str = "{number}";
const WITHOUT_PLUS: &str = "{digits}";

#[derive(Clone)]
pub struct GenericJson {
    pub method: Method,
    /// With a place for the number: `{number}` in E.164 form, `{digits}` without its plus.
    pub url: String,
    /// Credentials, and what kind the body is of. Those marked as sensitive are not shown.
    pub headers: HeaderMap,
    /// With a place for the number, too.
    pub body: Option<String>,
    pub network: NetworkPointers,
    /// Where it stands whether the number has a subscriber. The lists below are of what stands there.
    pub state: Option<String>,
    /// There is a subscriber, and it may be that no network is told.
    pub absent_values: Vec<String>,
    /// There is no subscriber.
    pub invalid_values: Vec<String>,
    /// They cannot tell.
    pub failed_values: Vec<String>,
    /// Statuses that say that they have nothing on the number.
    pub no_data_statuses: Vec<u16>,
}

/// Where in an answer the network stands (RFC 6901).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkPointers {
    /// Both codes in a row.
    Codes(String),
    Separate {
        country: String,
        network: String,
    },
}

impl GenericJson {
    /// Asks by GET.
    pub fn new(url: impl Into<String>, network: NetworkPointers) -> Self {
        GenericJson {
            method: Method::GET,
            url: url.into(),
            headers: HeaderMap::new(),
            body: None,
            network,
            state: None,
            absent_values: vec![],
            invalid_values: vec![],
            failed_values: vec![],
            no_data_statuses: vec![],
        }
    }

    /// In a query and in a form, a plus is a space.
    fn url(&self, number: &str) -> Option<Url> {
        Url::parse(&filled(&self.url, number, "%2B")).ok().filter(is_web)
    }

    fn body(&self, number: &str) -> Option<String> {
        let kind = self.headers.get(CONTENT_TYPE).map_or(&b"application/json"[..], HeaderValue::as_bytes);
        let plus = if kind.starts_with(b"application/x-www-form-urlencoded") { "%2B" } else { "+" };
        self.body.as_ref().map(|body| filled(body, number, plus))
    }

    fn pointers(&self) -> Vec<&str> {
        let mut pointers = match &self.network {
            NetworkPointers::Codes(pointer) => vec![pointer.as_str()],
            NetworkPointers::Separate { country, network } => vec![country.as_str(), network.as_str()],
        };
        pointers.extend(self.state.as_deref());
        pointers
    }

    /// Whether there is a place for the network in an answer, with or without one in it.
    fn network(&self, json: &Value, known: &KnownNetworks) -> Option<Result<Resolved, SourceFault>> {
        match &self.network {
            NetworkPointers::Codes(pointer) => Some(of_codes(Some(json.pointer(pointer)?), known)),
            NetworkPointers::Separate { country, network } => {
                Some(of_two_codes(Some(json.pointer(country)?), Some(json.pointer(network)?), known))
            }
        }
    }
}

fn filled(template: &str, digits: &str, plus: &str) -> String {
    template.replace(WITH_PLUS, &format!("{plus}{digits}")).replace(WITHOUT_PLUS, digits)
}

impl Dialect for GenericJson {
    fn check(&self) -> Result<(), BadHlrConfig> {
        let has_place = |template: &str| template.contains(WITH_PLUS) || template.contains(WITHOUT_PLUS);
        if !has_place(&self.url) && !self.body.as_deref().is_some_and(has_place) {
            return Err(BadHlrConfig::NoNumber);
        }
        // A number in the name of a host would be told to every name server.
        let origin = |digits| self.url(digits).map(|url| url.origin());
        if origin("447700900123").is_none() || origin("447700900123") != origin("447700900124") {
            return Err(BadHlrConfig::Template);
        }
        let are_pointers = self.pointers().iter().all(|pointer| pointer.starts_with('/'));
        if are_pointers { Ok(()) } else { Err(BadHlrConfig::Pointer) }
    }

    fn request(&self, number: &Msisdn, _: Moment<'_>) -> Option<Request> {
        let body = self.body(number.digits());
        let mut headers = self.headers.clone();
        if body.is_some() {
            headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
        }
        let (url, body) = (self.url(number.digits())?, body.unwrap_or_default().into_bytes());
        Some(Request { method: self.method.clone(), url, headers, body })
    }

    fn reads(&self) -> &[u16] {
        &self.no_data_statuses
    }

    fn read(&self, told: &Told, known: &KnownNetworks) -> Result<Resolved, SourceFault> {
        if told.status != 200 {
            return Ok(Resolved::NoData);
        }
        let state = self.state.as_ref().and_then(|pointer| text(told.json.pointer(pointer)));
        let is_among = |values: &[String]| state.as_ref().is_some_and(|state| values.contains(state));
        if is_among(&self.invalid_values) {
            return Ok(Resolved::NoSubscriber);
        }
        if is_among(&self.failed_values) {
            return Err(SourceFault::Refused);
        }
        match self.network(&told.json, known) {
            Some(network) => network,
            None if is_among(&self.absent_values) => Ok(Resolved::NoData),
            // An answer of another form than is configured: no number would ever have a network.
            None => Err(SourceFault::Nonsense),
        }
    }
}

/// Masked: URLs and bodies hold credentials in some places.
impl fmt::Debug for GenericJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GenericJson")
            .field("method", &self.method)
            .field("network", &self.network)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
