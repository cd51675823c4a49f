//! Twilio Lookup v2 with Line Type Intelligence.

use http::header::AUTHORIZATION;
use ringtrue_domain::phone::Msisdn;
use ringtrue_engine::ports::{LookupError, LookupResult};
use serde_json::Value;
use url::Url;

use super::{HlrConfigError, HlrVendor, KnownNetworks, SigningContext, resolve_mcc_mnc};
use crate::{
    authentication::{ClientSecret, basic_header},
    number_lookup::lookup_client::{LookupRequest, LookupResponse, is_http_url, join_path},
};

/// Unprovisioned, country without a provider, incomplete: no data, also not after a retry.
const NO_DATA_ERRORS: [u64; 3] = [60_600, 60_607, 60_620];

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
