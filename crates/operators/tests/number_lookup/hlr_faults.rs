use std::{sync::Arc, time::Duration};

use futures_util::FutureExt;
use jiff::SignedDuration;
use ringtrue_engine::ports::{NumberSource, SourceFault, SystemEntropy};
use ringtrue_operators::number_lookup::{BreakerSettings, HlrConfig, HttpHlr};

use crate::{
    known, network, number,
    vendor::{Saying, Vendor, client, clock, json, with_patience},
    vendors::{everybody, infobip, source, twilio},
};

const GOOD: &str =
    r#"{"valid":true,"line_type_intelligence":{"mobile_country_code":"234","mobile_network_code":"10"}}"#;

#[tokio::test]
async fn every_vendor_fails_in_the_same_way() {
    let (vendor, client) = (Vendor::start().await, client());
    let (refused, timeout) = (SourceFault::Refused, SourceFault::Timeout);
    let (nonsense, unreachable) = (SourceFault::Nonsense, SourceFault::Unreachable);
    for driver in everybody(&vendor.url("/")) {
        let source = source(driver, &client);
        for (saying, fault) in [
            (json(400, "{}"), refused),
            (json(401, "{}"), refused),
            (json(402, "{}"), refused),
            (json(403, "{}"), refused),
            (json(429, "{}"), refused),
            (json(500, "{}"), refused),
            (json(502, "<html>"), refused),
            (json(503, "{}"), refused),
            (json(504, "{}"), timeout),
            (Saying::Head(302, "location: /elsewhere"), nonsense),
            (json(204, ""), nonsense),
            (json(200, ""), nonsense),
            (json(200, "<html>"), nonsense),
            (json(200, "{}"), nonsense),
            (json(200, "[]"), nonsense),
            (json(200, "null"), nonsense),
            (json(200, "23410"), nonsense),
            (json(200, GOOD.trim_end_matches('}')), nonsense),
            (json(200, &"[".repeat(60_000)), nonsense),
            (json(200, &"[".repeat(70_000)), nonsense),
            (Saying::HangUp, unreachable),
        ] {
            vendor.says(std::slice::from_ref(&saying));
            assert_eq!(source.resolve(&number()).await, Err(fault), "{source:?} {saying:?}");
        }
        assert!(vendor.heard().iter().all(|heard| !heard.line.contains("elsewhere")));
    }
}

#[tokio::test]
async fn a_vendor_that_is_not_there_or_says_nothing() {
    let vendor = Vendor::start().await;
    let impatient = with_patience(Duration::from_millis(150));
    vendor.says(&[Saying::Silence]);
    for driver in everybody(&vendor.url("/")) {
        assert_eq!(source(driver, &impatient).resolve(&number()).await, Err(SourceFault::Timeout));
    }
    assert_eq!(vendor.heard().len(), 6, "who was slow once is not asked to be slow again");
    let client = client();
    for driver in everybody(&"http://127.0.0.2:1/".parse().unwrap()) {
        assert_eq!(source(driver, &client).resolve(&number()).await, Err(SourceFault::Unreachable));
    }
}

#[tokio::test]
async fn what_may_pass_is_tried_once_more() {
    let (vendor, client) = (Vendor::start().await, client());
    let good = json(200, GOOD);
    for (first, asked) in [(Saying::HangUp, 2), (json(503, ""), 2), (json(502, ""), 2), (json(504, ""), 2)] {
        vendor.says(&[first, good.clone()]);
        assert_eq!(source(twilio(vendor.url("/")), &client).resolve(&number()).await, network("23410"));
        assert_eq!(vendor.heard().len(), asked);
    }
    vendor.says(&[json(500, ""), good]);
    assert_eq!(source(twilio(vendor.url("/")), &client).resolve(&number()).await, Err(SourceFault::Refused));
    assert_eq!(vendor.heard().len(), 1);
}

#[tokio::test]
async fn a_failing_vendor_is_left_alone_for_a_while() {
    let (vendor, client, clock) = (Vendor::start().await, client(), clock());
    let breaker = BreakerSettings { failures: 3, ..BreakerSettings::default() };
    let config = HlrConfig { known: known(), breaker, ..HlrConfig::new("hlr", twilio(vendor.url("/"))) };
    let source = HttpHlr::new(config, Arc::clone(&client), clock.clone(), Arc::new(SystemEntropy::default())).unwrap();
    let resolve = async || source.resolve(&number()).await;

    vendor.says(&[json(500, "")]);
    for _ in 0..5 {
        assert_eq!(resolve().await, Err(SourceFault::Refused));
    }
    assert_eq!(vendor.heard().len(), 3);
    vendor.says(&[json(200, GOOD)]);
    clock.advance(SignedDuration::from_secs(29));
    assert_eq!(resolve().await, Err(SourceFault::Refused));
    clock.advance(SignedDuration::from_secs(1));
    assert_eq!(resolve().await, network("23410"));
    assert_eq!(vendor.heard().len(), 1);

    // Who does not know us, or says when to come back, is believed at once.
    for (saying, seconds) in [(json(401, ""), 30), (json(402, ""), 30), (Saying::Head(429, "retry-after: 90"), 90)] {
        vendor.says(std::slice::from_ref(&saying));
        assert_eq!(resolve().await, Err(SourceFault::Refused));
        vendor.says(&[json(200, GOOD)]);
        clock.advance(SignedDuration::from_secs(seconds - 1));
        assert_eq!(resolve().await, Err(SourceFault::Refused), "{saying:?}");
        clock.advance(SignedDuration::from_secs(1));
        assert_eq!(resolve().await, network("23410"), "{saying:?}");
        assert_eq!(vendor.heard().len(), 2);
    }
}

/// Whoever asks several vendors in a row gives none of them all of its time.
#[tokio::test]
async fn a_vendor_that_is_not_waited_for_to_the_end_was_too_slow() {
    let (vendor, client, clock) = (Vendor::start().await, client(), clock());
    let breaker = BreakerSettings { failures: 2, ..BreakerSettings::default() };
    let config = HlrConfig { known: known(), breaker, ..HlrConfig::new("hlr", twilio(vendor.url("/"))) };
    let source = HttpHlr::new(config, client, clock.clone(), Arc::new(SystemEntropy::default())).unwrap();
    for _ in 0..2 {
        assert_eq!(source.resolve(&number()).now_or_never(), None);
    }
    vendor.says(&[json(200, GOOD)]);
    assert_eq!(source.resolve(&number()).await, Err(SourceFault::Timeout));
    clock.advance(SignedDuration::from_secs(30));
    assert_eq!(source.resolve(&number()).await, network("23410"));
}

#[tokio::test]
async fn one_number_that_is_refused_says_nothing_of_others() {
    let (vendor, client, clock) = (Vendor::start().await, client(), clock());
    let breaker = BreakerSettings { failures: 1, ..BreakerSettings::default() };
    let config = HlrConfig { known: known(), breaker, ..HlrConfig::new("hlr", infobip(vendor.url("/"))) };
    let source = HttpHlr::new(config, client, clock, Arc::new(SystemEntropy::default())).unwrap();
    vendor.says(&[json(200, r#"{"results":[{"status":{"groupName":"REJECTED"}}]}"#)]);
    for _ in 0..3 {
        assert_eq!(source.resolve(&number()).await, Err(SourceFault::Refused));
    }
    assert_eq!(vendor.heard().len(), 3);
}
