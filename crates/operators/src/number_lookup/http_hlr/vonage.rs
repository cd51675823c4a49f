//! Vonage Identity Insights: the insight `current_carrier`.

use http::header::AUTHORIZATION;
use ringtrue_domain::phone::Msisdn;
use ringtrue_engine::ports::{Resolved, SourceFault};
use serde_json::{Value, json};
use url::Url;

use super::{BadHlrConfig, Dialect, KnownNetworks, Moment, of_codes};
use crate::{
    authentication::application_token,
    jwt::SigningKey,
    number_lookup::asking::{Request, Told, is_web, under},
};

#[derive(Clone, Debug)]
pub struct VonageInsights {
    /// The region's.
    pub base_url: Url,
    pub application_id: String,
    /// The application's, for RS256.
    pub key: SigningKey,
    /// Why we ask, where the network wants to know.
    pub purpose: Option<String>,
}

impl VonageInsights {
    pub const BASE_URL: &str = "https://api-eu.vonage.com";
    pub const PURPOSE: &str = "FraudPreventionAndDetection";
}

impl Dialect for VonageInsights {
    fn check(&self) -> Result<(), BadHlrConfig> {
        if is_web(&self.base_url) { Ok(()) } else { Err(BadHlrConfig::BaseUrl) }
    }

    fn request(&self, number: &Msisdn, moment: Moment<'_>) -> Option<Request> {
        let mut question = json!({ "phone_number": number.as_str(), "insights": { "current_carrier": {} } });
        if let Some(purpose) = &self.purpose {
            question["purpose"] = json!(purpose);
        }
        let mut request = Request::post_json(under(&self.base_url, "/identity-insights/v1/requests"), &question);
        let token = application_token(&self.key, &self.application_id, moment.now, moment.entropy)?;
        request.headers.insert(AUTHORIZATION, token);
        Some(request)
    }

    fn read(&self, told: &Told, known: &KnownNetworks) -> Result<Resolved, SourceFault> {
        let carrier = told.json.pointer("/insights/current_carrier").ok_or(SourceFault::Nonsense)?;
        let code = carrier.pointer("/status/code").and_then(Value::as_str).ok_or(SourceFault::Nonsense)?;
        match code {
            "OK" | "PARTIAL_SUCCESS" => of_codes(carrier.get("network_code"), known),
            "INVALID_NUMBER_FORMAT" => Ok(Resolved::NoSubscriber),
            // Not found by whom they asked: not the same as nobody's.
            "NOT_FOUND" | "NO_COVERAGE" | "UNSUPPORTED_NETWORK_TYPE" => Ok(Resolved::NoData),
            _ => Err(SourceFault::Refused),
        }
    }
}
