//! Configurable driver for any provider with a JSON response.

use std::fmt;

use http::{
    HeaderMap, Method,
    header::{CONTENT_TYPE, HeaderValue},
};
use ringtrue_domain::phone::Msisdn;
use ringtrue_engine::ports::{LookupError, LookupResult};
use serde_json::Value;
use url::Url;

use super::{HlrConfigError, HlrVendor, KnownNetworks, SigningContext, resolve_mcc_mnc, resolve_plmn_value};
use crate::number_lookup::lookup_client::{LookupRequest, LookupResponse, is_http_url, scalar_text};

const NUMBER_PLACEHOLDER: &str = "{number}";
const DIGITS_PLACEHOLDER: &str = "{digits}";

#[derive(Clone)]
pub struct GenericJson {
    pub method: Method,
    /// Template with `{number}` (E.164) or `{digits}` (without the plus).
    pub url: String,
    /// Credentials and content type. Sensitive values are masked.
    pub headers: HeaderMap,
    /// Template like `url`.
    pub body: Option<String>,
    pub network: NetworkPointers,
    /// JSON pointer to the subscriber status. The following lists hold its values.
    pub state: Option<String>,
    /// A subscriber exists; the network may be missing.
    pub absent_values: Vec<String>,
    /// No subscriber exists.
    pub invalid_values: Vec<String>,
    /// The provider could not determine the status.
    pub failed_values: Vec<String>,
    /// HTTP statuses that mean "no data for this number".
    pub no_data_statuses: Vec<u16>,
}

/// JSON pointers (RFC 6901) to the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkPointers {
    /// MCC and MNC in one value.
    Codes(String),
    Separate {
        country: String,
        network: String,
    },
}

impl GenericJson {
    /// A GET request without headers.
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

    /// Encodes the plus, which means a space in queries and forms.
    fn url(&self, number: &str) -> Option<Url> {
        Url::parse(&fill_template(&self.url, number, "%2B")).ok().filter(is_http_url)
    }

    fn body(&self, number: &str) -> Option<String> {
        let kind = self.headers.get(CONTENT_TYPE).map_or(&b"application/json"[..], HeaderValue::as_bytes);
        let plus = if kind.starts_with(b"application/x-www-form-urlencoded") { "%2B" } else { "+" };
        self.body.as_ref().map(|body| fill_template(body, number, plus))
    }

    fn pointers(&self) -> Vec<&str> {
        let mut pointers = match &self.network {
            NetworkPointers::Codes(pointer) => vec![pointer.as_str()],
            NetworkPointers::Separate { country, network } => vec![country.as_str(), network.as_str()],
        };
        pointers.extend(self.state.as_deref());
        pointers
    }

    /// `None`: the response lacks the configured pointers.
    fn network(&self, json: &Value, known_networks: &KnownNetworks) -> Option<Result<LookupResult, LookupError>> {
        match &self.network {
            NetworkPointers::Codes(pointer) => Some(resolve_plmn_value(Some(json.pointer(pointer)?), known_networks)),
            NetworkPointers::Separate { country, network } => {
                Some(resolve_mcc_mnc(Some(json.pointer(country)?), Some(json.pointer(network)?), known_networks))
            }
        }
    }
}

fn fill_template(template: &str, digits: &str, plus: &str) -> String {
    template.replace(NUMBER_PLACEHOLDER, &format!("{plus}{digits}")).replace(DIGITS_PLACEHOLDER, digits)
}

impl HlrVendor for GenericJson {
    fn validate(&self) -> Result<(), HlrConfigError> {
        let has_placeholder =
            |template: &str| template.contains(NUMBER_PLACEHOLDER) || template.contains(DIGITS_PLACEHOLDER);
        if !has_placeholder(&self.url) && !self.body.as_deref().is_some_and(has_placeholder) {
            return Err(HlrConfigError::NoNumber);
        }
        // A number in the host name would leak to name servers.
        let origin = |digits| self.url(digits).map(|url| url.origin());
        if origin("447700900123").is_none() || origin("447700900123") != origin("447700900124") {
            return Err(HlrConfigError::Template);
        }
        let are_pointers = self.pointers().iter().all(|pointer| pointer.starts_with('/'));
        if are_pointers { Ok(()) } else { Err(HlrConfigError::Pointer) }
    }

    fn build_request(&self, number: &Msisdn, _: SigningContext<'_>) -> Option<LookupRequest> {
        let body = self.body(number.digits());
        let mut headers = self.headers.clone();
        if body.is_some() {
            headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
        }
        let (url, body) = (self.url(number.digits())?, body.unwrap_or_default().into_bytes());
        Some(LookupRequest { method: self.method.clone(), url, headers, body })
    }

    fn accepted_statuses(&self) -> &[u16] {
        &self.no_data_statuses
    }

    fn parse(&self, response: &LookupResponse, known_networks: &KnownNetworks) -> Result<LookupResult, LookupError> {
        if response.status != 200 {
            return Ok(LookupResult::NoData);
        }
        let state = self.state.as_ref().and_then(|pointer| scalar_text(response.json.pointer(pointer)));
        let is_one_of = |values: &[String]| state.as_ref().is_some_and(|state| values.contains(state));
        if is_one_of(&self.invalid_values) {
            return Ok(LookupResult::NoSubscriber);
        }
        if is_one_of(&self.failed_values) {
            return Err(LookupError::Refused);
        }
        match self.network(&response.json, known_networks) {
            Some(network) => network,
            None if is_one_of(&self.absent_values) => Ok(LookupResult::NoData),
            // The response does not match the configuration: no number would ever resolve.
            None => Err(LookupError::InvalidResponse),
        }
    }
}

/// Masked: URLs and bodies may contain credentials.
impl fmt::Debug for GenericJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GenericJson")
            .field("method", &self.method)
            .field("network", &self.network)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
