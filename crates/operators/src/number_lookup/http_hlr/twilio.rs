//! Twilio Lookup, version 2, with the package Line Type Intelligence.

use http::header::AUTHORIZATION;
use ringtrue_domain::phone::Msisdn;
use ringtrue_engine::ports::{Resolved, SourceFault};
use serde_json::Value;
use url::Url;

use super::{BadHlrConfig, Dialect, KnownNetworks, Moment, of_two_codes};
use crate::{
    authentication::{ClientSecret, basic},
    number_lookup::asking::{Request, Told, is_web, under},
};

/// Unprovisioned, a country without a provider, and incomplete: there is nothing on this number, and asking again gives
/// nothing either.
const WITHOUT_DATA: [u64; 3] = [60_600, 60_607, 60_620];

#[derive(Clone, Debug)]
pub struct Twilio {
    pub base_url: Url,
    /// An API key, or the account with its token as the secret.
    pub key: String,
    pub secret: ClientSecret,
}

impl Twilio {
    pub const BASE_URL: &str = "https://lookups.twilio.com";
}

impl Dialect for Twilio {
    fn check(&self) -> Result<(), BadHlrConfig> {
        if !is_web(&self.base_url) {
            return Err(BadHlrConfig::BaseUrl);
        }
        // A colon would end the name.
        let can_be_sent = !self.key.contains(':') && basic(&self.key, self.secret.as_str()).is_some();
        if can_be_sent { Ok(()) } else { Err(BadHlrConfig::Credentials) }
    }

    fn request(&self, number: &Msisdn, _: Moment<'_>) -> Option<Request> {
        let mut url = under(&self.base_url, &format!("/v2/PhoneNumbers/{}", number.as_str()));
        url.set_query(Some("Fields=line_type_intelligence"));
        let mut request = Request::get(url);
        request.headers.insert(AUTHORIZATION, basic(&self.key, self.secret.as_str())?);
        Some(request)
    }

    fn reads(&self) -> &[u16] {
        &[404]
    }

    fn read(&self, told: &Told, known: &KnownNetworks) -> Result<Resolved, SourceFault> {
        if told.status == 404 {
            return Ok(Resolved::NoData);
        }
        match told.json.get("valid") {
            Some(Value::Bool(true)) => {}
            Some(Value::Bool(false)) => return Ok(Resolved::NoSubscriber),
            _ => return Err(SourceFault::Nonsense),
        }
        let line = told.json.get("line_type_intelligence").unwrap_or(&Value::Null);
        let network = of_two_codes(line.get("mobile_country_code"), line.get("mobile_network_code"), known)?;
        let error = line.get("error_code").and_then(Value::as_u64);
        let is_told = network != Resolved::NoData || error.is_none_or(|error| WITHOUT_DATA.contains(&error));
        if is_told { Ok(network) } else { Err(SourceFault::Refused) }
    }
}
