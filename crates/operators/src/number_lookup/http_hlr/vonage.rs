//! Vonage Identity Insights: the insight `current_carrier`.

use http::header::AUTHORIZATION;
use ringtrue_domain::phone::Msisdn;
use ringtrue_engine::ports::{LookupError, LookupResult};
use serde_json::{Value, json};
use url::Url;

use super::{HlrConfigError, HlrVendor, KnownNetworks, SigningContext, resolve_plmn_value};
use crate::{
    authentication::vonage_application_token,
    jwt::SigningKey,
    number_lookup::lookup_client::{LookupRequest, LookupResponse, is_http_url, join_path},
};

#[derive(Clone, Debug)]
pub struct VonageInsights {
    /// Specific to the region.
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
        let token = vonage_application_token(&self.key, &self.application_id, context.now, context.entropy)?;
        request.headers.insert(AUTHORIZATION, token);
        Some(request)
    }

    fn parse(&self, response: &LookupResponse, known_networks: &KnownNetworks) -> Result<LookupResult, LookupError> {
        let carrier = response.json.pointer("/insights/current_carrier").ok_or(LookupError::InvalidResponse)?;
        let code = carrier.pointer("/status/code").and_then(Value::as_str).ok_or(LookupError::InvalidResponse)?;
        match code {
            "OK" | "PARTIAL_SUCCESS" => resolve_plmn_value(carrier.get("network_code"), known_networks),
            "INVALID_NUMBER_FORMAT" => Ok(LookupResult::NoSubscriber),
            // Not found at Vonage's supplier; the number may still have a subscriber.
            "NOT_FOUND" | "NO_COVERAGE" | "UNSUPPORTED_NETWORK_TYPE" => Ok(LookupResult::NoData),
            _ => Err(LookupError::Refused),
        }
    }
}
