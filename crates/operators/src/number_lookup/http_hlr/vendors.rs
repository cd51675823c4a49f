//! Drivers for providers of HLR lookups: hlr-lookups.com, Infobip, Twilio, Vonage, and any other with a JSON response.

use aws_lc_rs::hmac;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use ringtrue_domain::phone::Msisdn;
use ringtrue_engine::ports::lookups::{LookupError, LookupResult};
use serde_json::{Value, json};
use url::Url;

use super::{HlrConfigError, HlrVendor, SigningContext, resolve_mcc_mnc, resolve_plmn_value};
use crate::{
    client::is_http_url,
    jwt::SigningKey,
    number_lookup::{KnownNetworks, LookupRequest, LookupResponse, join_path, scalar_text},
    oauth::{ClientSecret, basic_header, sensitive_header, vonage_application_header},
};

/// hlr-lookups.com, version 2, with signed requests.
#[derive(Clone, Debug)]
pub struct HlrLookupsCom {
    pub base_url: Url,
    /// Id of the API key.
    pub key: String,
    pub secret: ClientSecret,
    pub lookup: HlrLookupKind,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HlrLookupKind {
    /// Live query to the operator's HLR.
    #[default]
    Hlr,
    /// Query to a copy of the portability database: cheaper than a live query, but does not reveal whether the number
    /// has a subscriber.
    Mnp,
}

impl HlrLookupKind {
    fn path(self) -> &'static str {
        match self {
            HlrLookupKind::Hlr => "/hlr-lookup",
            HlrLookupKind::Mnp => "/mnp-lookup",
        }
    }
}

impl HlrLookupsCom {
    pub const BASE_URL: &str = "https://www.hlr-lookups.com/api/v2";

    /// Signs a request: HMAC over path (below the base URL), timestamp, method and body.
    fn signature(&self, timestamp: &str, body: &[u8]) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.secret.as_str().as_bytes());
        let signed = [self.lookup.path().as_bytes(), timestamp.as_bytes(), b"POST", body].concat();
        hex::encode(hmac::sign(&key, &signed))
    }
}

impl HlrVendor for HlrLookupsCom {
    fn validate(&self) -> Result<(), HlrConfigError> {
        if !is_http_url(&self.base_url) {
            return Err(HlrConfigError::BaseUrl);
        }
        sensitive_header(&self.key).map(|_| ()).ok_or(HlrConfigError::Credentials)
    }

    fn build_request(&self, number: &Msisdn, context: SigningContext<'_>) -> Option<LookupRequest> {
        let url = join_path(&self.base_url, self.lookup.path());
        let mut request = LookupRequest::post_json(url, &json!({ "msisdn": number.as_str() }));
        let timestamp = context.now.as_second().to_string();
        let signature = sensitive_header(&self.signature(&timestamp, &request.body))?;
        request.headers.insert(HeaderName::from_static("x-digest-key"), sensitive_header(&self.key)?);
        request.headers.insert(HeaderName::from_static("x-digest-timestamp"), HeaderValue::from_str(&timestamp).ok()?);
        request.headers.insert(HeaderName::from_static("x-digest-signature"), signature);
        Some(request)
    }

    fn parse(&self, response: &LookupResponse, known_networks: &KnownNetworks) -> Result<LookupResult, LookupError> {
        let text_field = |name: &str| response.json.get(name).and_then(Value::as_str);
        if matches!(text_field("processing_status"), Some("REJECTED" | "FAILED" | "PENDING")) {
            return Err(LookupError::Refused);
        }
        let status = match self.lookup {
            HlrLookupKind::Hlr => text_field("connectivity_status"),
            HlrLookupKind::Mnp => text_field("query_status"),
        };
        match (self.lookup, status) {
            (HlrLookupKind::Hlr, Some("CONNECTED" | "ABSENT")) | (HlrLookupKind::Mnp, Some("OK")) => {
                resolve_plmn_value(response.json.get("mccmnc"), known_networks)
            }
            (HlrLookupKind::Hlr, Some("INVALID_MSISDN")) => Ok(LookupResult::NoSubscriber),
            (HlrLookupKind::Hlr, Some("UNDETERMINED")) | (HlrLookupKind::Mnp, Some("FAILED")) => {
                Err(LookupError::Refused)
            }
            _ => Err(LookupError::InvalidResponse),
        }
    }
}

/// Infobip Number Lookup.
#[derive(Clone, Debug)]
pub struct Infobip {
    /// URL of the API, which is different for each account.
    pub base_url: Url,
    pub credentials: InfobipCredentials,
}

#[derive(Clone, Debug)]
pub enum InfobipCredentials {
    ApiKey(ClientSecret),
    Basic { user: String, password: ClientSecret },
}

impl InfobipCredentials {
    fn header(&self) -> Option<HeaderValue> {
        match self {
            InfobipCredentials::ApiKey(key) => sensitive_header(&format!("App {}", key.as_str())),
            InfobipCredentials::Basic { user, password } => basic_header(user, password.as_str()),
        }
    }
}

impl HlrVendor for Infobip {
    fn validate(&self) -> Result<(), HlrConfigError> {
        if !is_http_url(&self.base_url) {
            return Err(HlrConfigError::BaseUrl);
        }
        self.credentials.header().map(|_| ()).ok_or(HlrConfigError::Credentials)
    }

    fn build_request(&self, number: &Msisdn, _: SigningContext<'_>) -> Option<LookupRequest> {
        let url = join_path(&self.base_url, "/number/1/query");
        let mut request = LookupRequest::post_json(url, &json!({ "to": [number.digits()] }));
        request.headers.insert(AUTHORIZATION, self.credentials.header()?);
        Some(request)
    }

    /// The response names a network even for numbers without a subscriber, so the error is evaluated first.
    fn parse(&self, response: &LookupResponse, known_networks: &KnownNetworks) -> Result<LookupResult, LookupError> {
        let result = response.json.pointer("/results/0").filter(|result| result.is_object());
        let result = result.ok_or(LookupError::InvalidResponse)?;
        let error = result.pointer("/error/name").and_then(Value::as_str).unwrap_or("NO_ERROR");
        let is_permanent = result.pointer("/error/permanent") == Some(&Value::Bool(true));
        if is_permanent && error.contains("UNKNOWN_SUBSCRIBER") {
            return Ok(LookupResult::NoSubscriber);
        }
        let network = resolve_plmn_value(result.get("mccMnc"), known_networks)?;
        if network != LookupResult::NoData {
            return Ok(network);
        }
        let group = result.pointer("/status/groupName").and_then(Value::as_str);
        let is_conclusive = error == "NO_ERROR" || error.contains("ABSENT") || is_permanent;
        match group {
            Some("REJECTED" | "PENDING") => Err(LookupError::Refused),
            _ if is_conclusive => Ok(LookupResult::NoData),
            _ => Err(LookupError::Refused),
        }
    }
}

/// Error codes with which Twilio reports that it has no data and a retry is pointless: unprovisioned, country without a
/// provider, incomplete.
const NO_DATA_ERRORS: [u64; 3] = [60_600, 60_607, 60_620];

/// Twilio Lookup v2 with Line Type Intelligence.
#[derive(Clone, Debug)]
pub struct Twilio {
    pub base_url: Url,
    /// An API key, or the account SID with its auth token as the secret.
    pub key: String,
    pub secret: ClientSecret,
}

impl Twilio {
    pub const BASE_URL: &str = "https://lookups.twilio.com";
}

impl HlrVendor for Twilio {
    fn validate(&self) -> Result<(), HlrConfigError> {
        if !is_http_url(&self.base_url) {
            return Err(HlrConfigError::BaseUrl);
        }
        // Basic authentication does not allow a colon in the user name.
        let is_valid = !self.key.contains(':') && basic_header(&self.key, self.secret.as_str()).is_some();
        if is_valid { Ok(()) } else { Err(HlrConfigError::Credentials) }
    }

    fn build_request(&self, number: &Msisdn, _: SigningContext<'_>) -> Option<LookupRequest> {
        let mut url = join_path(&self.base_url, &format!("/v2/PhoneNumbers/{}", number.as_str()));
        url.set_query(Some("Fields=line_type_intelligence"));
        let mut request = LookupRequest::get(url);
        request.headers.insert(AUTHORIZATION, basic_header(&self.key, self.secret.as_str())?);
        Some(request)
    }

    fn accepted_statuses(&self) -> &[u16] {
        &[404]
    }

    fn parse(&self, response: &LookupResponse, known_networks: &KnownNetworks) -> Result<LookupResult, LookupError> {
        if response.status == 404 {
            return Ok(LookupResult::NoData);
        }
        match response.json.get("valid") {
            Some(Value::Bool(true)) => {}
            Some(Value::Bool(false)) => return Ok(LookupResult::NoSubscriber),
            _ => return Err(LookupError::InvalidResponse),
        }
        let line_type = response.json.get("line_type_intelligence").unwrap_or(&Value::Null);
        let network = resolve_mcc_mnc(
            line_type.get("mobile_country_code"),
            line_type.get("mobile_network_code"),
            known_networks,
        )?;
        let error = line_type.get("error_code").and_then(Value::as_u64);
        let is_conclusive =
            network != LookupResult::NoData || error.is_none_or(|error| NO_DATA_ERRORS.contains(&error));
        if is_conclusive { Ok(network) } else { Err(LookupError::Refused) }
    }
}

/// Vonage Identity Insights: the insight `current_carrier`.
#[derive(Clone, Debug)]
pub struct VonageInsights {
    /// URL of the API, which is different for each region.
    pub base_url: Url,
    pub application_id: String,
    /// Private key of the application (RS256).
    pub key: SigningKey,
    /// Purpose of the lookup, which some networks require.
    pub purpose: Option<String>,
}

impl VonageInsights {
    pub const BASE_URL: &str = "https://api-eu.vonage.com";
    pub const PURPOSE: &str = "FraudPreventionAndDetection";
}

impl HlrVendor for VonageInsights {
    fn validate(&self) -> Result<(), HlrConfigError> {
        if is_http_url(&self.base_url) { Ok(()) } else { Err(HlrConfigError::BaseUrl) }
    }

    fn build_request(&self, number: &Msisdn, context: SigningContext<'_>) -> Option<LookupRequest> {
        let mut body = json!({ "phone_number": number.as_str(), "insights": { "current_carrier": {} } });
        if let Some(purpose) = &self.purpose {
            body["purpose"] = json!(purpose);
        }
        let mut request = LookupRequest::post_json(join_path(&self.base_url, "/identity-insights/v1/requests"), &body);
        let header = vonage_application_header(&self.key, &self.application_id, context.now, context.entropy)?;
        request.headers.insert(AUTHORIZATION, header);
        Some(request)
    }

    fn parse(&self, response: &LookupResponse, known_networks: &KnownNetworks) -> Result<LookupResult, LookupError> {
        let carrier = response.json.pointer("/insights/current_carrier").ok_or(LookupError::InvalidResponse)?;
        let code = carrier.pointer("/status/code").and_then(Value::as_str).ok_or(LookupError::InvalidResponse)?;
        match code {
            "OK" | "PARTIAL_SUCCESS" => resolve_plmn_value(carrier.get("network_code"), known_networks),
            "INVALID_NUMBER_FORMAT" => Ok(LookupResult::NoSubscriber),
            // Vonage's suppliers have no data, but the number may still have a subscriber.
            "NOT_FOUND" | "NO_COVERAGE" | "UNSUPPORTED_NETWORK_TYPE" => Ok(LookupResult::NoData),
            _ => Err(LookupError::Refused),
        }
    }
}

const NUMBER_PLACEHOLDER: &str = "{number}";
const DIGITS_PLACEHOLDER: &str = "{digits}";

/// Configurable driver for any provider with a JSON response. `Debug` omits URL, headers and body, which may contain
/// credentials.
#[derive(Clone, derive_more::Debug)]
pub struct GenericJson {
    pub method: Method,
    /// Template with `{number}` (E.164) or `{digits}` (without the plus).
    #[debug(skip)]
    pub url: String,
    /// Request headers: credentials and content type.
    #[debug(skip)]
    pub headers: HeaderMap,
    /// Request body: a template like `url`.
    #[debug(skip)]
    pub body: Option<String>,
    pub network: NetworkPointers,
    /// JSON pointer to the subscriber status in the response. The next three lists say what its values mean.
    pub state: Option<String>,
    /// Statuses of numbers that have a subscriber although the response may not contain the network.
    pub absent_values: Vec<String>,
    /// Statuses of numbers without a subscriber.
    pub invalid_values: Vec<String>,
    /// Statuses of numbers that the provider could not look up.
    pub failed_values: Vec<String>,
    /// HTTP statuses that mean "no data for this number".
    pub no_data_statuses: Vec<u16>,
}

/// JSON pointers (RFC 6901) to the network in a response.
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
    /// Creates a driver that sends GET requests without headers.
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

    /// Fills the URL template. Encodes the plus sign, which means a space in queries and forms.
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

    /// Resolves the network in a response. `None`: the response has no value at a configured pointer.
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
            // The configured pointers probably do not match the provider's format. An error shows this, while "no data"
            // would hide it.
            None => Err(LookupError::InvalidResponse),
        }
    }
}
