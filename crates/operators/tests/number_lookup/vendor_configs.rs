//! Driver configurations of all vendors.

use std::sync::Arc;

use http::{HeaderValue, Method, header::AUTHORIZATION};
use rcgen::{KeyPair, PKCS_RSA_SHA256};
use ringtrue_engine::ports::{entropy::SystemEntropy, lookups::LookupSource};
use ringtrue_operators::{
    client::Client,
    number_lookup::{
        Algorithm, HlrConfig, HttpHlr, SigningKey,
        http_hlr::{
            GenericJson, HlrDriver, HlrLookupKind, HlrLookupsCom, Infobip, InfobipCredentials, NetworkPointers, Twilio,
            VonageInsights,
        },
    },
};
use url::Url;

use crate::{
    LookupOutcome,
    fake_vendor::{ANY_PATH, FakeVendor, NO_BREAKER, ScriptedResponse, clock},
    known, number,
};

pub const SECRET: &str = "secret of ours";

pub fn infobip(base_url: Url) -> HlrDriver {
    HlrDriver::Infobip(Infobip { base_url, credentials: InfobipCredentials::ApiKey(SECRET.into()) })
}

pub fn hlr_lookups(base_url: Url, lookup: HlrLookupKind) -> HlrDriver {
    HlrDriver::HlrLookups(HlrLookupsCom { base_url, key: "key-1".to_owned(), secret: SECRET.into(), lookup })
}

pub fn twilio(base_url: Url) -> HlrDriver {
    HlrDriver::Twilio(Twilio { base_url, key: "SK123".to_owned(), secret: SECRET.into() })
}

pub fn vonage(base_url: Url, pair: &KeyPair) -> HlrDriver {
    let key = SigningKey::from_pem(pair.serialize_pem().as_bytes(), Algorithm::RS256, "key-1").unwrap();
    HlrDriver::VonageIdentityInsights(VonageInsights {
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

/// Returns one driver of each kind, all with the same base URL.
pub fn all_drivers(base_url: &Url) -> Vec<HlrDriver> {
    vec![
        infobip(base_url.clone()),
        hlr_lookups(base_url.clone(), HlrLookupKind::Hlr),
        hlr_lookups(base_url.clone(), HlrLookupKind::Mnp),
        twilio(base_url.clone()),
        vonage(base_url.clone(), &rsa()),
        HlrDriver::GenericJson(generic(base_url)),
    ]
}

pub fn source(driver: HlrDriver, client: &Arc<Client>) -> HttpHlr {
    let config = HlrConfig { known_networks: known(), breaker: NO_BREAKER, ..HlrConfig::new("hlr", driver) };
    HttpHlr::new(config, Arc::clone(client), clock(), Arc::new(SystemEntropy::default())).unwrap()
}

/// Checks the lookup result for each response of the vendor.
pub async fn assert_results(
    vendor: &FakeVendor,
    driver: HlrDriver,
    client: &Arc<Client>,
    cases: &[(ScriptedResponse, LookupOutcome)],
) {
    let source = source(driver, client);
    for (response, outcome) in cases {
        vendor.respond(ANY_PATH, [response.clone()]);
        assert_eq!(source.resolve(&number()).await, *outcome, "{source:?} {response:?}");
    }
}
