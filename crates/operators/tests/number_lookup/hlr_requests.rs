use std::sync::Arc;

use aws_lc_rs::{rsa::KeyPair as RsaKeyPair, signature::KeyPair as _};
use http::{HeaderValue, Method, header::CONTENT_TYPE};
use jsonwebtoken::{DecodingKey, Validation, decode};
use ringtrue_engine::ports::{entropy::SystemEntropy, lookups::LookupSource};
use ringtrue_operators::{
    client::Client,
    number_lookup::{
        HlrConfig, HttpHlr,
        http_hlr::{
            GenericJson, HlrConfigError, HlrDriver, HlrLookupKind, HlrLookupsCom, Infobip, InfobipCredentials,
            NetworkPointers, Twilio, VonageInsights,
        },
    },
};
use serde_json::Value;
use url::Url;

use crate::{
    fake_vendor::{ANY_PATH, FakeVendor, NOW_SECS, ReceivedRequest, client, clock, json},
    number,
    vendor_configs::{SECRET, all_drivers, generic, hlr_lookups, infobip, rsa, source, twilio, vonage},
};

async fn capture_request(vendor: &FakeVendor, driver: HlrDriver, client: &Arc<Client>) -> ReceivedRequest {
    vendor.respond(ANY_PATH, [json(200, "{}")]);
    let _ = source(driver, client).resolve(&number()).await;
    let mut request = vendor.take_requests();
    assert_eq!(request.len(), 1);
    let request = request.remove(0);
    assert_eq!(request.header("accept"), "application/json");
    request
}

#[tokio::test]
async fn requests_follow_each_vendor_format() {
    let (vendor, client) = (FakeVendor::start().await, client());
    let request = capture_request(&vendor, infobip(vendor.url("/")), &client).await;
    assert_eq!(request.line(), "POST /number/1/query");
    assert_eq!(request.header("authorization"), "App secret of ours");
    assert_eq!(request.header("content-type"), "application/json");
    assert_eq!(request.text(), r#"{"to":["447700900123"]}"#);

    let credentials = InfobipCredentials::Basic { user: "user".to_owned(), password: SECRET.into() };
    let basic = HlrDriver::Infobip(Infobip { base_url: vendor.url("/gateway/"), credentials });
    let request = capture_request(&vendor, basic, &client).await;
    assert_eq!(request.line(), "POST /gateway/number/1/query");
    assert_eq!(request.header("authorization"), "Basic dXNlcjpzZWNyZXQgb2Ygb3Vycw==");

    // Signatures by an independent implementation.
    for (lookup, path, signature) in [
        (HlrLookupKind::Hlr, "/hlr-lookup", "df5f385e17d93ab6e6be665749a96b667adf67bae1e552d87eefe36030a6ccf1"),
        (HlrLookupKind::Mnp, "/mnp-lookup", "edd26a69fe86d8547fc0e3eb12600186a5cf6f629e122598854565a78f5fecf0"),
    ] {
        let request = capture_request(&vendor, hlr_lookups(vendor.url("/api/v2"), lookup), &client).await;
        assert_eq!(request.line(), format!("POST /api/v2{path}"));
        assert_eq!(request.header("x-digest-key"), "key-1");
        assert_eq!(request.header("x-digest-timestamp"), NOW_SECS.to_string());
        assert_eq!(request.header("x-digest-signature"), signature);
        assert_eq!(request.text(), r#"{"msisdn":"+447700900123"}"#);
    }

    let request = capture_request(&vendor, twilio(vendor.url("/")), &client).await;
    assert_eq!(request.line(), "GET /v2/PhoneNumbers/+447700900123?Fields=line_type_intelligence");
    assert_eq!(request.header("authorization"), "Basic U0sxMjM6c2VjcmV0IG9mIG91cnM=");
    assert_eq!(request.text(), "");
}

#[tokio::test]
async fn vonage_request_carries_an_application_token() {
    let (vendor, pair) = (FakeVendor::start().await, rsa());
    let request = capture_request(&vendor, vonage(vendor.url("/"), &pair), &client()).await;
    assert_eq!(request.line(), "POST /identity-insights/v1/requests");
    let body: Value = request.json();
    let operation = serde_json::json!({
        "phone_number": "+447700900123", "purpose": "FraudPreventionAndDetection", "insights": { "current_carrier": {} },
    });
    assert_eq!(body, operation);

    let public = RsaKeyPair::from_pkcs8(&pair.serialize_der()).unwrap();
    let (n, e) = (public.public_key().modulus(), public.public_key().exponent());
    let key =
        DecodingKey::from_rsa_raw_components(n.big_endian_without_leading_zero(), e.big_endian_without_leading_zero());
    let mut validation = Validation::new(jsonwebtoken::Algorithm::RS256);
    // The token's times are those of the manual clock, so its expiry is not checked.
    validation.validate_exp = false;
    let token = request.header("authorization").strip_prefix("Bearer ").unwrap().to_owned();
    let claims = decode::<Value>(&token, &key, &validation).unwrap().claims;
    assert_eq!(claims["application_id"], "0199d2c4-application");
    assert_eq!((claims["iat"].as_i64(), claims["exp"].as_i64()), (Some(NOW_SECS), Some(NOW_SECS + 300)));
    assert!(claims["jti"].as_str().is_some_and(|id| id.len() >= 16));
}

#[tokio::test]
async fn generic_request_follows_the_configuration() {
    let (vendor, client) = (FakeVendor::start().await, client());
    let request = capture_request(&vendor, HlrDriver::GenericJson(generic(&vendor.url("/"))), &client).await;
    assert_eq!(request.line(), "GET /mnpjson?key=secret&number=%2B447700900123&id=447700900123");
    assert_eq!(request.header("authorization"), "Token secret-of-ours");

    let posted = |kind: Option<&'static str>, body: &str| {
        let mut posted = GenericJson { method: Method::POST, ..generic(&vendor.url("/")) };
        posted.headers.extend(kind.map(|kind| (CONTENT_TYPE, HeaderValue::from_static(kind))));
        posted.body = Some(body.to_owned());
        HlrDriver::GenericJson(posted)
    };
    for (kind, template, sent_kind, body) in [
        (None, r#"{"n":"{number}"}"#, "application/json", r#"{"n":"+447700900123"}"#),
        (Some("text/plain"), "{digits}", "text/plain", "447700900123"),
        (
            Some("application/x-www-form-urlencoded"),
            "msisdn={number}",
            "application/x-www-form-urlencoded",
            "msisdn=%2B447700900123",
        ),
    ] {
        let request = capture_request(&vendor, posted(kind, template), &client).await;
        assert!(request.line().starts_with("POST "));
        assert_eq!((request.header("content-type"), request.text()), (sent_kind, body));
    }
}

#[tokio::test]
async fn invalid_settings_are_rejected() {
    let (client, base) = (client(), Url::parse("https://vendor.example/").unwrap());
    let refused = |driver: HlrDriver| {
        let config = HlrConfig::new("hlr", driver);
        HttpHlr::new(config, Arc::clone(&client), clock(), Arc::new(SystemEntropy::default())).err()
    };
    for driver in all_drivers(&Url::parse("ftp://vendor.example/").unwrap()) {
        let name = driver.into_str();
        assert!(refused(driver).is_some(), "{name}");
    }
    for driver in all_drivers(&base) {
        assert_eq!(refused(driver), None);
    }
    let changed = |change: fn(&mut GenericJson)| {
        let mut generic = generic(&base);
        change(&mut generic);
        refused(HlrDriver::GenericJson(generic))
    };
    assert_eq!(changed(|driver| driver.url = "https://vendor.example/".to_owned()), Some(HlrConfigError::NoNumber));
    assert_eq!(changed(|driver| driver.url = "{number}".to_owned()), Some(HlrConfigError::Template));
    assert_eq!(changed(|driver| driver.url = "https://{number}/".to_owned()), Some(HlrConfigError::Template));
    assert_eq!(changed(|driver| driver.state = Some("state".to_owned())), Some(HlrConfigError::Pointer));
    let pointer = |driver: &mut GenericJson| driver.network = NetworkPointers::Codes("mccmnc".to_owned());
    assert_eq!(changed(pointer), Some(HlrConfigError::Pointer));
    let key = InfobipCredentials::ApiKey("a\nb".into());
    let infobip = HlrDriver::Infobip(Infobip { base_url: base.clone(), credentials: key });
    assert_eq!(refused(infobip), Some(HlrConfigError::Credentials));
    let twilio = HlrDriver::Twilio(Twilio { base_url: base, key: "a:b".to_owned(), secret: SECRET.into() });
    assert_eq!(refused(twilio), Some(HlrConfigError::Credentials));
    for usual in [HlrLookupsCom::BASE_URL, Twilio::BASE_URL, VonageInsights::BASE_URL] {
        assert_eq!(Url::parse(usual).unwrap().scheme(), "https");
    }
}

#[tokio::test]
async fn debug_output_masks_secrets() {
    let client = client();
    for driver in all_drivers(&Url::parse("https://vendor.example/").unwrap()) {
        let (name, shown) = (driver.into_str(), format!("{driver:?}"));
        let secrets = [SECRET, "secret-of-ours", "key=secret"];
        assert!(!secrets.iter().any(|secret| shown.contains(secret)), "{shown}");
        let source = source(driver, &client);
        assert_eq!(format!("{source:?}"), format!("HttpHlr(hlr, {name})"));
        assert_eq!(source.name(), "hlr");
    }
}
