use std::sync::Arc;

use ringtrue_domain::product::Product;
use ringtrue_operators::header_enrichment::HeaderEnrichmentConfigError;

use super::*;

#[tokio::test]
async fn device_is_redirected_to_the_enrichment_listener() {
    let route = HeaderEnrichment::new(config()).unwrap();
    let request = OperatorAuthorizationRequest {
        check: CHECK.parse().unwrap(),
        operation: SilentOperation::DiscoverNumber,
        state: "a_B-9",
        simulated_sim: None,
        device_ip: DEVICE.parse().unwrap(),
        now: Timestamp::UNIX_EPOCH,
    };
    let redirect = route.begin_authorization(request).await.unwrap();
    assert_eq!(redirect.location, "http://he.example.com/he/example/a_B-9");
    assert_eq!(route.name(), "example");
    for (product, serves) in [
        (Product::SecureSna, true),
        (Product::Discovery, true),
        (Product::ReverseSms, false),
        (Product::SimSwap, false),
    ] {
        assert_eq!(route.supports(product), serves);
    }
}

#[test]
fn both_operations_are_supported() {
    let (same, other) = (number(NUMBER), number("+447700900124"));
    let round_trip = RoundTrip::with_value("447700900123");
    assert_eq!(round_trip.run(config(), SilentOperation::DiscoverNumber), Ok(SilentResult::Number(same.clone())));
    assert_eq!(round_trip.run(config(), SilentOperation::VerifyNumber(&same)), Ok(SilentResult::Match(true)));
    assert_eq!(round_trip.run(config(), SilentOperation::VerifyNumber(&other)), Ok(SilentResult::Match(false)));
}

#[test]
fn only_operator_addresses_are_trusted() {
    let behind_a_proxy = || HeaderEnrichmentConfig { trusted_proxies: vec!["10.0.0.0/8".parse().unwrap()], ..config() };
    let at = |from, peer, device| RoundTrip { from, peer, device, ..RoundTrip::with_value("447700900123") };
    let found_number = Ok(NUMBER.to_owned());
    let untrusted = Err(ErrorCode::NotMobileIp);
    for (config, round_trip, expected) in [
        (config(), at(DEVICE, DEVICE, DEVICE), found_number.clone()),
        (config(), at(DEVICE, "::ffff:192.0.2.7", DEVICE), found_number.clone()),
        (config(), at("::ffff:192.0.2.7", DEVICE, DEVICE), found_number.clone()),
        (config(), at("198.51.100.7", "198.51.100.7", "198.51.100.7"), untrusted.clone()),
        // The peer is no trusted proxy, so the device address that it forwards is ignored.
        (config(), at(DEVICE, "198.51.100.7", DEVICE), untrusted.clone()),
        (behind_a_proxy(), at(DEVICE, "198.51.100.7", DEVICE), untrusted.clone()),
        // If the peer is a trusted proxy, the device address that it forwards is used.
        (behind_a_proxy(), at(DEVICE, "10.0.0.1", DEVICE), found_number.clone()),
        (behind_a_proxy(), at("198.51.100.7", "10.0.0.1", "198.51.100.7"), untrusted.clone()),
        (config(), at(DEVICE, "10.0.0.1", DEVICE), untrusted),
        (behind_a_proxy(), at(DEVICE, DEVICE, DEVICE), found_number),
    ] {
        assert_eq!(
            round_trip.found_number(config),
            expected,
            "{} {} {}",
            round_trip.from,
            round_trip.peer,
            round_trip.device
        );
    }
}

#[test]
fn device_address_must_not_change() {
    let at = |from, device| RoundTrip { from, peer: device, device, ..RoundTrip::with_value("447700900123") };
    assert_eq!(at("192.0.2.8", DEVICE).found_number(config()), Err(ErrorCode::IpMismatch));
    assert_eq!(at("198.51.100.7", DEVICE).found_number(config()), Err(ErrorCode::IpMismatch));
    assert_eq!(at("2001:db8::1", DEVICE).found_number(config()), Err(ErrorCode::IpMismatch));
    assert_eq!(at("2001:db8:0:1::1", "2001:db8:0:2::1").found_number(config()), Err(ErrorCode::IpMismatch));
    // In IPv6 a subscriber has a whole /64, so a device may change its address within it.
    assert_eq!(at("2001:db8:0:1::1", "2001:db8:0:1::2").found_number(config()).as_deref(), Ok(NUMBER));
}

#[test]
fn late_requests_are_rejected() {
    let elapsed = |elapsed| RoundTrip { elapsed, ..RoundTrip::with_value("447700900123") }.found_number(config());
    assert_eq!(elapsed(SignedDuration::ZERO).as_deref(), Ok(NUMBER));
    assert_eq!(elapsed(SignedDuration::from_secs(30)).as_deref(), Ok(NUMBER));
    assert_eq!(elapsed(SignedDuration::from_millis(30_001)), Err(ErrorCode::MnoTimeout));
    // The request may reach another node than the one that redirected the device, with a clock that is behind.
    assert_eq!(elapsed(SignedDuration::from_secs(-1)).as_deref(), Ok(NUMBER));
}

#[test]
fn exactly_one_header_with_a_value_is_required() {
    let header = |value: &'static str| ("x-msisdn", value.as_bytes());
    let absent = Err(ErrorCode::MnoNoDataAvailable);
    let invalid = Err(ErrorCode::MnoResponseError);
    for (headers, expected) in [
        (vec![header("447700900123")], Ok(NUMBER.to_owned())),
        (vec![], absent.clone()),
        (vec![("msisdn", &b"447700900123"[..])], absent.clone()),
        (vec![header("")], absent.clone()),
        (vec![header(" ")], absent),
        (vec![header("447700900123"), header("447700900123")], invalid.clone()),
        (vec![header("447700900123"), header("")], invalid.clone()),
        (vec![header("447700900123, 447700900123")], invalid),
    ] {
        assert_eq!(RoundTrip::with(&headers).found_number(config()), expected, "{headers:?}");
    }
    // The number may be in a cookie instead, but not in both.
    let either = || HeaderEnrichmentConfig {
        msisdn_location: MsisdnLocation {
            cookie: Some("User-Identity-Forward-msisdn".to_owned()),
            ..config().msisdn_location
        },
        ..config()
    };
    let cookie = ("cookie", &b"a=1; User-Identity-Forward-msisdn=447700900123"[..]);
    assert_eq!(RoundTrip::with(&[cookie]).found_number(either()).as_deref(), Ok(NUMBER));
    assert_eq!(
        RoundTrip::with(&[cookie, header("447700900123")]).found_number(either()),
        Err(ErrorCode::MnoResponseError)
    );
    assert_eq!(RoundTrip::with(&[cookie]).found_number(config()), Err(ErrorCode::MnoNoDataAvailable));
}

#[tokio::test]
async fn invalid_redirect_state_is_an_internal_error() {
    let route = HeaderEnrichment::new(config()).unwrap();
    for connector_data in [&b""[..], &[0; 7], &[0xff; 9], &[0x7f; 8]] {
        let response = OperatorAuthorizationResponse {
            check: CHECK.parse().unwrap(),
            operation: SilentOperation::DiscoverNumber,
            connector_data,
            initial_ip: DEVICE.parse().unwrap(),
            peer: SocketAddr::new(DEVICE.parse().unwrap(), 1),
            device_ip: DEVICE.parse().unwrap(),
            query: &[],
            headers: &RoundTrip::with_value("447700900123").headers,
            now: Timestamp::UNIX_EPOCH,
        };
        assert_eq!(route.complete_authorization(response).await, Err(ErrorCode::InternalError));
    }
}

#[test]
fn insecure_configurations_are_rejected() {
    type Change = fn(&mut HeaderEnrichmentConfig);
    type Problem = fn(Arc<str>) -> HeaderEnrichmentConfigError;
    let cases: [(Change, Problem); 13] = [
        (|config| config.base_url = "https://he.example.com".parse().unwrap(), HeaderEnrichmentConfigError::BaseUrl),
        (
            |config| config.base_url = "http://he.example.com/path".parse().unwrap(),
            HeaderEnrichmentConfigError::BaseUrl,
        ),
        (|config| config.base_url = "http://u:p@he.example.com".parse().unwrap(), HeaderEnrichmentConfigError::BaseUrl),
        (
            |config| config.base_url = "http://he.example.com/?a=b".parse().unwrap(),
            HeaderEnrichmentConfigError::BaseUrl,
        ),
        (|config| config.networks.clear(), HeaderEnrichmentConfigError::NoNetwork),
        (|config| config.egress.clear(), HeaderEnrichmentConfigError::NoEgress),
        (|config| config.egress.push("0.0.0.0/0".parse().unwrap()), HeaderEnrichmentConfigError::CatchAllRange),
        (|config| config.trusted_proxies.push("::/0".parse().unwrap()), HeaderEnrichmentConfigError::CatchAllRange),
        (
            |config| config.msisdn_location = MsisdnLocation { header: None, cookie: None },
            HeaderEnrichmentConfigError::MsisdnLocation,
        ),
        (|config| config.msisdn_location = MsisdnLocation::in_header(""), HeaderEnrichmentConfigError::MsisdnLocation),
        (
            |config| config.msisdn_location = MsisdnLocation::in_header("x msisdn"),
            HeaderEnrichmentConfigError::MsisdnLocation,
        ),
        (
            |config| config.msisdn_location = MsisdnLocation::in_cookie("a=b"),
            HeaderEnrichmentConfigError::MsisdnLocation,
        ),
        (
            |config| config.cipher = Cipher::aes256_gcm(vec![0; 32].into()).unwrap(),
            HeaderEnrichmentConfigError::Encoding,
        ),
    ];
    for (change, problem) in cases {
        let mut config = config();
        change(&mut config);
        assert_eq!(HeaderEnrichment::new(config).err(), Some(problem("example".into())));
    }
    assert!(HeaderEnrichment::new(config()).is_ok());
}
