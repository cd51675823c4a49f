//! Infobip Number Lookup.

use http::header::AUTHORIZATION;
use ringtrue_domain::phone::Msisdn;
use ringtrue_engine::ports::{Resolved, SourceFault};
use serde_json::{Value, json};
use url::Url;

use super::{BadHlrConfig, Dialect, KnownNetworks, Moment, of_codes};
use crate::{
    authentication::{ClientSecret, basic, secret_header},
    number_lookup::asking::{Request, Told, is_web, under},
};

#[derive(Clone, Debug)]
pub struct Infobip {
    /// Each account has its own.
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
            InfobipCredentials::ApiKey(key) => secret_header(&format!("App {}", key.as_str())),
            InfobipCredentials::Basic { user, password } => basic(user, password.as_str()),
        }
    }
}

impl Dialect for Infobip {
    fn check(&self) -> Result<(), BadHlrConfig> {
        if !is_web(&self.base_url) {
            return Err(BadHlrConfig::BaseUrl);
        }
        self.credentials.header().map(|_| ()).ok_or(BadHlrConfig::Credentials)
    }

    fn request(&self, number: &Msisdn, _: Moment<'_>) -> Option<Request> {
        let url = under(&self.base_url, "/number/1/query");
        let mut request = Request::post_json(url, &json!({ "to": [number.digits()] }));
        request.headers.insert(AUTHORIZATION, self.credentials.header()?);
        Some(request)
    }

    /// The network is told of a phone that is off, too, and the one that its number began with of a number that nobody
    /// has: who the subscriber is comes first.
    fn read(&self, told: &Told, known: &KnownNetworks) -> Result<Resolved, SourceFault> {
        let result = told.json.pointer("/results/0").filter(|result| result.is_object());
        let result = result.ok_or(SourceFault::Nonsense)?;
        let error = result.pointer("/error/name").and_then(Value::as_str).unwrap_or("NO_ERROR");
        let is_permanent = result.pointer("/error/permanent") == Some(&Value::Bool(true));
        if is_permanent && error.contains("UNKNOWN_SUBSCRIBER") {
            return Ok(Resolved::NoSubscriber);
        }
        let network = of_codes(result.get("mccMnc"), known)?;
        if network != Resolved::NoData {
            return Ok(network);
        }
        let group = result.pointer("/status/groupName").and_then(Value::as_str);
        let is_told = error == "NO_ERROR" || error.contains("ABSENT") || is_permanent;
        match group {
            Some("REJECTED" | "PENDING") => Err(SourceFault::Refused),
            _ if is_told => Ok(Resolved::NoData),
            _ => Err(SourceFault::Refused),
        }
    }
}
