//! The dialects of those who sell look-ups, as an account of each would be configured.

use std::sync::Arc;

use http::{HeaderValue, Method, header::AUTHORIZATION};
use rcgen::{KeyPair, PKCS_RSA_SHA256};
use ringtrue_engine::ports::{NumberSource, SystemEntropy};
use ringtrue_operators::{
    client::Client,
    number_lookup::{
        Algorithm, HlrConfig, HttpHlr, SigningKey,
        http_hlr::{
            Driver, GenericJson, HlrLookups, Infobip, InfobipCredentials, Lookup, NetworkPointers, Twilio,
            VonageInsights,
        },
    },
};
use url::Url;

use crate::{
    Outcome, known, number,
    vendor::{NO_BREAKER, Saying, Vendor, clock},
};

pub const SECRET: &str = "secret of ours";

pub fn infobip(base_url: Url) -> Driver {
    Driver::Infobip(Infobip { base_url, credentials: InfobipCredentials::ApiKey(SECRET.into()) })
}

pub fn hlr_lookups(base_url: Url, lookup: Lookup) -> Driver {
    Driver::HlrLookups(HlrLookups { base_url, key: "key-1".to_owned(), secret: SECRET.into(), lookup })
}

pub fn twilio(base_url: Url) -> Driver {
    Driver::Twilio(Twilio { base_url, key: "SK123".to_owned(), secret: SECRET.into() })
}

pub fn vonage(base_url: Url, pair: &KeyPair) -> Driver {
    let key = SigningKey::from_pem(pair.serialize_pem().as_bytes(), Algorithm::Rs256, "key-1").unwrap();
    Driver::VonageIdentityInsights(VonageInsights {
        base_url,
        application_id: "0199d2c4-application".to_owned(),
        key,
        purpose: Some(VonageInsights::PURPOSE.to_owned()),
    })
}

pub fn rsa() -> KeyPair {
    KeyPair::generate_for(&PKCS_RSA_SHA256).unwrap()
}

pub fn generic(base_url: &Url) -> GenericJson {
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect();
    let mut token = HeaderValue::from_static("Token secret-of-ours");
    token.set_sensitive(true);
    let pointers = NetworkPointers::Separate { country: "/imm/mcc".to_owned(), network: "/imm/mnc".to_owned() };
    GenericJson {
        headers: [(AUTHORIZATION, token)].into_iter().collect(),
        state: Some("/imm/errcode".to_owned()),
        absent_values: words(&["27"]),
        invalid_values: words(&["1", "INVALID"]),
        failed_values: words(&["151"]),
        no_data_statuses: vec![404],
        method: Method::GET,
        ..GenericJson::new(format!("{base_url}mnpjson?key=secret&number={{number}}&id={{digits}}"), pointers)
    }
}

/// One of each, at the same place.
pub fn everybody(base_url: &Url) -> Vec<Driver> {
    vec![
        infobip(base_url.clone()),
        hlr_lookups(base_url.clone(), Lookup::Hlr),
        hlr_lookups(base_url.clone(), Lookup::Mnp),
        twilio(base_url.clone()),
        vonage(base_url.clone(), &rsa()),
        Driver::GenericJson(generic(base_url)),
    ]
}

pub fn source(driver: Driver, client: &Arc<Client>) -> HttpHlr {
    let config = HlrConfig { known: known(), breaker: NO_BREAKER, ..HlrConfig::new("hlr", driver) };
    HttpHlr::new(config, Arc::clone(client), clock(), Arc::new(SystemEntropy::default())).unwrap()
}

/// What each saying of a vendor comes to.
pub async fn means(vendor: &Vendor, driver: Driver, client: &Arc<Client>, cases: &[(Saying, Outcome)]) {
    let source = source(driver, client);
    for (saying, outcome) in cases {
        vendor.says(std::slice::from_ref(saying));
        assert_eq!(source.resolve(&number()).await, *outcome, "{source:?} {saying:?}");
    }
}
