//! hlr-lookups.com, version 2, with signed requests.

use std::fmt::Write as _;

use aws_lc_rs::hmac;
use http::{HeaderName, HeaderValue};
use ringtrue_domain::phone::Msisdn;
use ringtrue_engine::ports::{Resolved, SourceFault};
use serde_json::{Value, json};
use url::Url;

use super::{BadHlrConfig, Dialect, KnownNetworks, Moment, of_codes};
use crate::{
    authentication::{ClientSecret, secret_header},
    number_lookup::asking::{Request, Told, is_web, under},
};

#[derive(Clone, Debug)]
pub struct HlrLookups {
    pub base_url: Url,
    /// Which of our keys signs.
    pub key: String,
    pub secret: ClientSecret,
    pub lookup: Lookup,
}

/// What is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lookup {
    /// The operator, now.
    #[default]
    Hlr,
    /// A copy of the ported numbers: cheaper, and says nothing of whether anybody has the number.
    Mnp,
}

impl Lookup {
    fn path(self) -> &'static str {
        match self {
            Lookup::Hlr => "/hlr-lookup",
            Lookup::Mnp => "/mnp-lookup",
        }
    }
}

impl HlrLookups {
    pub const BASE_URL: &str = "https://www.hlr-lookups.com/api/v2";

    /// Over the path below the base, the second, the method and the body.
    fn signature(&self, second: &str, body: &[u8]) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.secret.as_str().as_bytes());
        let signed = [self.lookup.path().as_bytes(), second.as_bytes(), b"POST", body].concat();
        hmac::sign(&key, &signed).as_ref().iter().fold(String::new(), |mut hex, octet| {
            // Writing to a string does not fail.
            let _ = write!(hex, "{octet:02x}");
            hex
        })
    }
}

impl Dialect for HlrLookups {
    fn check(&self) -> Result<(), BadHlrConfig> {
        if !is_web(&self.base_url) {
            return Err(BadHlrConfig::BaseUrl);
        }
        secret_header(&self.key).map(|_| ()).ok_or(BadHlrConfig::Credentials)
    }

    fn request(&self, number: &Msisdn, moment: Moment<'_>) -> Option<Request> {
        let url = under(&self.base_url, self.lookup.path());
        let mut request = Request::post_json(url, &json!({ "msisdn": number.as_str() }));
        let second = moment.now.as_second().to_string();
        let signature = secret_header(&self.signature(&second, &request.body))?;
        request.headers.insert(HeaderName::from_static("x-digest-key"), secret_header(&self.key)?);
        request.headers.insert(HeaderName::from_static("x-digest-timestamp"), HeaderValue::from_str(&second).ok()?);
        request.headers.insert(HeaderName::from_static("x-digest-signature"), signature);
        Some(request)
    }

    fn read(&self, told: &Told, known: &KnownNetworks) -> Result<Resolved, SourceFault> {
        let said = |name: &str| told.json.get(name).and_then(Value::as_str);
        if matches!(said("processing_status"), Some("REJECTED" | "FAILED" | "PENDING")) {
            return Err(SourceFault::Refused);
        }
        let status = match self.lookup {
            Lookup::Hlr => said("connectivity_status"),
            Lookup::Mnp => said("query_status"),
        };
        match (self.lookup, status) {
            (Lookup::Hlr, Some("CONNECTED" | "ABSENT")) | (Lookup::Mnp, Some("OK")) => {
                of_codes(told.json.get("mccmnc"), known)
            }
            (Lookup::Hlr, Some("INVALID_MSISDN")) => Ok(Resolved::NoSubscriber),
            (Lookup::Hlr, Some("UNDETERMINED")) | (Lookup::Mnp, Some("FAILED")) => Err(SourceFault::Refused),
            _ => Err(SourceFault::Nonsense),
        }
    }
}
