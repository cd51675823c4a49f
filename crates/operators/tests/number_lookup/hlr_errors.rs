use std::{sync::Arc, time::Duration};

use futures_util::FutureExt;
use jiff::SignedDuration;
use ringtrue_engine::ports::{
    entropy::SystemEntropy,
    lookups::{LookupError, LookupSource},
};
use ringtrue_operators::number_lookup::{BreakerSettings, HlrConfig, HttpHlr};

use crate::{
    fake_vendor::{ANY_PATH, FakeVendor, ScriptedResponse, client, client_with_timeout, clock, json},
    known, network, number,
    vendor_configs::{all_drivers, infobip, source, twilio},
};

const VALID_BODY: &str =
    r#"{"valid":true,"line_type_intelligence":{"mobile_country_code":"234","mobile_network_code":"10"}}"#;

#[tokio::test]
async fn errors_are_the_same_for_every_vendor() {
    let (vendor, client) = (FakeVendor::start().await, client());
    let (refused, timeout) = (LookupError::Refused, LookupError::Timeout);
    let (invalid, unreachable) = (LookupError::InvalidResponse, LookupError::Unreachable);
    for driver in all_drivers(&vendor.url("/")) {
        let source = source(driver, &client);
        for (response, fault) in [
            (json(400, "{}"), refused),
            (json(401, "{}"), refused),
            (json(402, "{}"), refused),
            (json(403, "{}"), refused),
            (json(429, "{}"), refused),
            (json(500, "{}"), refused),
            (json(502, "<html>"), refused),
            (json(503, "{}"), refused),
            (json(504, "{}"), timeout),
            (ScriptedResponse::Plain(302, "location: /elsewhere\r\n", vec![]), invalid),
            (json(204, ""), invalid),
            (json(200, ""), invalid),
            (json(200, "<html>"), invalid),
            (json(200, "{}"), invalid),
            (json(200, "[]"), invalid),
            (json(200, "null"), invalid),
            (json(200, "23410"), invalid),
            (json(200, VALID_BODY.trim_end_matches('}')), invalid),
            (json(200, &"[".repeat(60_000)), invalid),
            (json(200, &"[".repeat(70_000)), invalid),
            (ScriptedResponse::HangUp, unreachable),
        ] {
            vendor.respond(ANY_PATH, [response.clone()]);
            assert_eq!(source.resolve(&number()).await, Err(fault), "{source:?} {response:?}");
        }
        assert!(vendor.take_requests().iter().all(|request| !request.line().contains("elsewhere")));
    }
}

#[tokio::test]
async fn unreachable_and_silent_vendors_are_errors() {
    let vendor = FakeVendor::start().await;
    let short_timeout_client = client_with_timeout(Duration::from_millis(150));
    vendor.respond(ANY_PATH, [ScriptedResponse::Silence]);
    for driver in all_drivers(&vendor.url("/")) {
        assert_eq!(source(driver, &short_timeout_client).resolve(&number()).await, Err(LookupError::Timeout));
    }
    assert_eq!(vendor.take_requests().len(), 6, "requests are not retried after a timeout");
    let client = client();
    for driver in all_drivers(&"http://127.0.0.2:1/".parse().unwrap()) {
        assert_eq!(source(driver, &client).resolve(&number()).await, Err(LookupError::Unreachable));
    }
}

#[tokio::test]
async fn transient_errors_are_retried_once() {
    let (vendor, client) = (FakeVendor::start().await, client());
    let good = json(200, VALID_BODY);
    for (first, expected) in [(ScriptedResponse::HangUp, 2), (json(503, ""), 2), (json(502, ""), 2), (json(504, ""), 2)]
    {
        vendor.respond(ANY_PATH, [first, good.clone()]);
        assert_eq!(source(twilio(vendor.url("/")), &client).resolve(&number()).await, network("23410"));
        assert_eq!(vendor.take_requests().len(), expected);
    }
    vendor.respond(ANY_PATH, [json(500, ""), good]);
    assert_eq!(source(twilio(vendor.url("/")), &client).resolve(&number()).await, Err(LookupError::Refused));
    assert_eq!(vendor.take_requests().len(), 1);
}

#[tokio::test]
async fn failing_vendor_opens_the_breaker() {
    let (vendor, client, clock) = (FakeVendor::start().await, client(), clock());
    let breaker = BreakerSettings { failures: 3, ..BreakerSettings::default() };
    let config = HlrConfig { known_networks: known(), breaker, ..HlrConfig::new("hlr", twilio(vendor.url("/"))) };
    let source = HttpHlr::new(config, Arc::clone(&client), clock.clone(), Arc::new(SystemEntropy::default())).unwrap();
    let resolve = async || source.resolve(&number()).await;

    vendor.respond(ANY_PATH, [json(500, "")]);
    for _ in 0..5 {
        assert_eq!(resolve().await, Err(LookupError::Refused));
    }
    assert_eq!(vendor.take_requests().len(), 3);
    vendor.respond(ANY_PATH, [json(200, VALID_BODY)]);
    clock.advance(SignedDuration::from_secs(29));
    assert_eq!(resolve().await, Err(LookupError::Refused));
    clock.advance(SignedDuration::from_secs(1));
    assert_eq!(resolve().await, network("23410"));
    assert_eq!(vendor.take_requests().len(), 1);

    // Rejected credentials and throttling open the breaker immediately. `Retry-After` sets the pause.
    for (response, seconds) in
        [(json(401, ""), 30), (json(402, ""), 30), (ScriptedResponse::Plain(429, "retry-after: 90\r\n", vec![]), 90)]
    {
        vendor.respond(ANY_PATH, [response.clone()]);
        assert_eq!(resolve().await, Err(LookupError::Refused));
        vendor.respond(ANY_PATH, [json(200, VALID_BODY)]);
        clock.advance(SignedDuration::from_secs(seconds - 1));
        assert_eq!(resolve().await, Err(LookupError::Refused), "{response:?}");
        clock.advance(SignedDuration::from_secs(1));
        assert_eq!(resolve().await, network("23410"), "{response:?}");
        assert_eq!(vendor.take_requests().len(), 2);
    }
}

/// The engine drops a lookup at its deadline to try the next source.
#[tokio::test]
async fn dropped_lookup_counts_as_timeout() {
    let (vendor, client, clock) = (FakeVendor::start().await, client(), clock());
    let breaker = BreakerSettings { failures: 2, ..BreakerSettings::default() };
    let config = HlrConfig { known_networks: known(), breaker, ..HlrConfig::new("hlr", twilio(vendor.url("/"))) };
    let source = HttpHlr::new(config, client, clock.clone(), Arc::new(SystemEntropy::default())).unwrap();
    for _ in 0..2 {
        assert_eq!(source.resolve(&number()).now_or_never(), None);
    }
    vendor.respond(ANY_PATH, [json(200, VALID_BODY)]);
    assert_eq!(source.resolve(&number()).await, Err(LookupError::Timeout));
    clock.advance(SignedDuration::from_secs(30));
    assert_eq!(source.resolve(&number()).await, network("23410"));
}

#[tokio::test]
async fn refused_number_does_not_open_the_breaker() {
    let (vendor, client, clock) = (FakeVendor::start().await, client(), clock());
    let breaker = BreakerSettings { failures: 1, ..BreakerSettings::default() };
    let config = HlrConfig { known_networks: known(), breaker, ..HlrConfig::new("hlr", infobip(vendor.url("/"))) };
    let source = HttpHlr::new(config, client, clock, Arc::new(SystemEntropy::default())).unwrap();
    vendor.respond(ANY_PATH, [json(200, r#"{"results":[{"status":{"groupName":"REJECTED"}}]}"#)]);
    for _ in 0..3 {
        assert_eq!(source.resolve(&number()).await, Err(LookupError::Refused));
    }
    assert_eq!(vendor.take_requests().len(), 3);
}
