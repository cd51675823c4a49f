//! Infobip Number Lookup.

use http::header::AUTHORIZATION;
use ringtrue_domain::phone::Msisdn;
use ringtrue_engine::ports::{LookupError, LookupResult};
use serde_json::{Value, json};
use url::Url;

use super::{HlrConfigError, HlrVendor, KnownNetworks, SigningContext, resolve_plmn_value};
use crate::{
    authentication::{ClientSecret, basic_header, sensitive_header},
    number_lookup::lookup_client::{LookupRequest, LookupResponse, is_http_url, join_path},
};

#[derive(Clone, Debug)]
pub struct Infobip {
    /// Specific to the account.
    pub base_url: Url,
    pub credentials: InfobipCredentials,
}

#[derive(Clone, Debug)]
pub enum InfobipCredentials {
    ApiKey(ClientSecret),
    Basic { user: String, password: ClientSecret },
}

impl InfobipCredentials {
    fn header(&self) -> Option<http::HeaderValue> {
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
