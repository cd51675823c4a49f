//! hlr-lookups.com, version 2, with signed requests.

use std::fmt::Write as _;

use aws_lc_rs::hmac;
use http::{HeaderName, HeaderValue};
use ringtrue_domain::phone::Msisdn;
use ringtrue_engine::ports::{LookupError, LookupResult};
use serde_json::{Value, json};
use url::Url;

use super::{HlrConfigError, HlrVendor, KnownNetworks, SigningContext, resolve_plmn_value};
use crate::{
    authentication::{ClientSecret, sensitive_header},
    number_lookup::lookup_client::{LookupRequest, LookupResponse, is_http_url, join_path},
};

#[derive(Clone, Debug)]
pub struct HlrLookups {
    pub base_url: Url,
    /// Id of the API key.
    pub key: String,
    pub secret: ClientSecret,
    pub lookup: HlrLookupKind,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HlrLookupKind {
    /// Live query to the operator.
    #[default]
    Hlr,
    /// Copy of the portability database: cheaper, but does not reveal whether the number has a subscriber.
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

impl HlrLookups {
    pub const BASE_URL: &str = "https://www.hlr-lookups.com/api/v2";

    /// HMAC over path (below the base), timestamp, method and body.
    fn signature(&self, timestamp: &str, body: &[u8]) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.secret.as_str().as_bytes());
        let signed = [self.lookup.path().as_bytes(), timestamp.as_bytes(), b"POST", body].concat();
        hmac::sign(&key, &signed).as_ref().iter().fold(String::new(), |mut hex, octet| {
            // Writing to a string is infallible.
            let _ = write!(hex, "{octet:02x}");
            hex
        })
    }
}

impl HlrVendor for HlrLookups {
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
