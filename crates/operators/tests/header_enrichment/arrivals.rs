use ringtrue_domain::product::Product;

use super::*;

#[tokio::test]
async fn a_device_is_sent_to_the_listener_for_enriched_requests() {
    let route = HeaderEnrichment::new(config()).unwrap();
    let departure = Departure {
        check: CHECK.parse().unwrap(),
        question: Question::WhichNumber,
        ticket: "a_B-9",
        sim: None,
        device: DEVICE.parse().unwrap(),
        now: Timestamp::UNIX_EPOCH,
    };
    let journey = route.depart(departure).await.unwrap();
    assert_eq!(journey.location, "http://he.example.com/he/example/a_B-9");
    assert_eq!(route.name(), "example");
    for (product, serves) in [
        (Product::SecureSna, true),
        (Product::Discovery, true),
        (Product::ReverseSms, false),
        (Product::SimSwap, false),
    ] {
        assert_eq!(route.serves(product), serves);
    }
}

#[test]
fn both_questions_are_answered() {
    let (same, other) = (number(NUMBER), number("+447700900124"));
    let trip = Trip::bringing("447700900123");
    assert_eq!(trip.asked(config(), Question::WhichNumber), Ok(Reply::Number(same.clone())));
    assert_eq!(trip.asked(config(), Question::IsNumber(&same)), Ok(Reply::Match(true)));
    assert_eq!(trip.asked(config(), Question::IsNumber(&other)), Ok(Reply::Match(false)));
}

#[test]
fn only_the_operators_own_addresses_are_believed() {
    let behind_a_proxy = || HeaderEnrichmentConfig { trusted_proxies: vec!["10.0.0.0/8".parse().unwrap()], ..config() };
    let at = |from, peer, device| Trip { from, peer, device, ..Trip::bringing("447700900123") };
    let found = Ok(NUMBER.to_owned());
    let stranger = Err(ErrorCode::NotMobileIp);
    for (config, trip, expected) in [
        (config(), at(DEVICE, DEVICE, DEVICE), found.clone()),
        (config(), at(DEVICE, "::ffff:192.0.2.7", DEVICE), found.clone()),
        (config(), at("::ffff:192.0.2.7", DEVICE, DEVICE), found.clone()),
        (config(), at("198.51.100.7", "198.51.100.7", "198.51.100.7"), stranger.clone()),
        // A stranger who says whom he speaks for.
        (config(), at(DEVICE, "198.51.100.7", DEVICE), stranger.clone()),
        (behind_a_proxy(), at(DEVICE, "198.51.100.7", DEVICE), stranger.clone()),
        // A proxy of ours.
        (behind_a_proxy(), at(DEVICE, "10.0.0.1", DEVICE), found.clone()),
        (behind_a_proxy(), at("198.51.100.7", "10.0.0.1", "198.51.100.7"), stranger.clone()),
        (config(), at(DEVICE, "10.0.0.1", DEVICE), stranger),
        (behind_a_proxy(), at(DEVICE, DEVICE, DEVICE), found),
    ] {
        assert_eq!(trip.found(config), expected, "{} {} {}", trip.from, trip.peer, trip.device);
    }
}

#[test]
fn the_device_comes_from_where_it_left() {
    let at = |from, device| Trip { from, peer: device, device, ..Trip::bringing("447700900123") };
    assert_eq!(at("192.0.2.8", DEVICE).found(config()), Err(ErrorCode::IpMismatch));
    assert_eq!(at("198.51.100.7", DEVICE).found(config()), Err(ErrorCode::IpMismatch));
    assert_eq!(at("2001:db8::1", DEVICE).found(config()), Err(ErrorCode::IpMismatch));
    assert_eq!(at("2001:db8:0:1::1", "2001:db8:0:2::1").found(config()), Err(ErrorCode::IpMismatch));
    // A subscriber has a whole /64 of IPv6 addresses.
    assert_eq!(at("2001:db8:0:1::1", "2001:db8:0:1::2").found(config()).as_deref(), Ok(NUMBER));
}

#[test]
fn the_device_comes_in_time() {
    let took = |took| Trip { took, ..Trip::bringing("447700900123") }.found(config());
    assert_eq!(took(SignedDuration::ZERO).as_deref(), Ok(NUMBER));
    assert_eq!(took(SignedDuration::from_secs(30)).as_deref(), Ok(NUMBER));
    assert_eq!(took(SignedDuration::from_millis(30_001)), Err(ErrorCode::MnoTimeout));
    // The clocks of two nodes differ.
    assert_eq!(took(SignedDuration::from_secs(-1)).as_deref(), Ok(NUMBER));
}

#[test]
fn there_is_one_header_and_it_says_something() {
    let header = |value: &'static str| ("x-msisdn", value.as_bytes());
    let absent = Err(ErrorCode::MnoNoDataAvailable);
    let senseless = Err(ErrorCode::MnoResponseError);
    for (headers, expected) in [
        (vec![header("447700900123")], Ok(NUMBER.to_owned())),
        (vec![], absent.clone()),
        (vec![("msisdn", &b"447700900123"[..])], absent.clone()),
        (vec![header("")], absent.clone()),
        (vec![header(" ")], absent),
        (vec![header("447700900123"), header("447700900123")], senseless.clone()),
        (vec![header("447700900123"), header("")], senseless.clone()),
        (vec![header("447700900123, 447700900123")], senseless),
    ] {
        assert_eq!(Trip::with(&headers).found(config()), expected, "{headers:?}");
    }
    // A cookie in place of the header, and both together.
    let either = || HeaderEnrichmentConfig {
        carrier: Carrier { cookie: Some("User-Identity-Forward-msisdn".to_owned()), ..config().carrier },
        ..config()
    };
    let cookie = ("cookie", &b"a=1; User-Identity-Forward-msisdn=447700900123"[..]);
    assert_eq!(Trip::with(&[cookie]).found(either()).as_deref(), Ok(NUMBER));
    assert_eq!(Trip::with(&[cookie, header("447700900123")]).found(either()), Err(ErrorCode::MnoResponseError));
    assert_eq!(Trip::with(&[cookie]).found(config()), Err(ErrorCode::MnoNoDataAvailable));
}

#[tokio::test]
async fn a_device_that_never_left_is_not_known() {
    let route = HeaderEnrichment::new(config()).unwrap();
    for memory in [&b""[..], &[0; 7], &[0xff; 9], &[0x7f; 8]] {
        let arrival = Arrival {
            check: CHECK.parse().unwrap(),
            question: Question::WhichNumber,
            memory,
            departed_from: DEVICE.parse().unwrap(),
            peer: SocketAddr::new(DEVICE.parse().unwrap(), 1),
            device: DEVICE.parse().unwrap(),
            query: &[],
            headers: &Trip::bringing("447700900123").headers,
            now: Timestamp::UNIX_EPOCH,
        };
        assert_eq!(route.arrive(arrival).await, Err(ErrorCode::InternalError));
    }
}
