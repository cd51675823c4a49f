//! Failed logins are throttled by client and address. Valid credentials are always accepted.

use jiff::SignedDuration;
use ringtrue_server::config::Config;

use crate::{
    client::{HttpResponse, Request, token_request},
    on_both_stores,
    world::{World, send_to},
};

/// Ten wrong secrets in a minute return 401, further ones 429. The right one is always accepted.
async fn eleventh_wrong_secret_in_a_minute_returns_429(world: World) {
    let (id, secret) = (&world.acme.client_id, &world.acme.client_secret);
    for guess in 0..10 {
        let response = world.token_request(id, &format!("guess-{guess}"), "management").await;
        response.assert_problem(401, "invalid_client");
    }
    for guess in 10..50 {
        let response = world.token_request(id, &format!("guess-{guess}"), "management").await;
        throttled(&response.assert_problem(429, "too_many_requests"));
    }
    let revoke = |secret: &str| {
        let request = Request { target: "/oauth2/revoke".to_owned(), ..token_request(id, secret, "management") };
        Request { body: Some(b"token=unknown".to_vec()), ..request }
    };
    throttled(&world.send(revoke("wrong")).await.assert_problem(429, "too_many_requests"));
    world.token_request(id, secret, "management").await.assert(200);
    world.send(revoke(secret)).await.assert(200);
    throttled(&world.token_request(id, "wrong", "management").await.assert_problem(429, "too_many_requests"));

    world.advance(SignedDuration::from_secs(60));
    world.token_request(id, "wrong", "management").await.assert_problem(401, "invalid_client");
}

#[tokio::test]
async fn login_throttle_ends_after_retry_after() {
    let world = World::sqlite().await;
    let (id, secret) = (&world.acme.client_id, "wrong");
    world.advance(SignedDuration::from_secs(17));
    for _ in 0..10 {
        world.token_request(id, "wrong", "management").await.assert_problem(401, "invalid_client");
    }
    let wait = throttled(&world.token_request(id, secret, "management").await.assert(429));
    world.advance(SignedDuration::from_secs(wait - 1));
    world.token_request(id, secret, "management").await.assert(429);
    world.advance(SignedDuration::from_secs(1));
    world.token_request(id, secret, "management").await.assert_problem(401, "invalid_client");
}

#[tokio::test]
async fn unknown_client_is_throttled_like_a_known_one() {
    let world = World::sqlite().await;
    for guess in 0..12 {
        let response = world.token_request("prj_unknown", &format!("guess-{guess}"), "sim_swap").await;
        assert_eq!(response.status, if guess < 10 { 401 } else { 429 });
    }
    world.token_request(&world.acme.client_id, &world.acme.client_secret, "management").await.assert(200);
}

#[tokio::test]
async fn successful_logins_are_not_throttled() {
    let world = World::sqlite().await;
    for _ in 0..30 {
        world.token_request(&world.acme.client_id, &world.acme.client_secret, "management").await.assert(200);
        world.token_request(&world.acme.client_id, &world.acme.client_secret, "sim_swap").await.assert(400);
    }
}

#[tokio::test]
async fn failed_logins_are_counted_by_address() {
    let world = World::configured(behind_a_proxy).await;
    let (id, secret) = (&world.acme.client_id, &world.acme.client_secret);
    let from = async |address: &str, secret: &str| {
        let request = token_request(id, secret, "management").header("X-Forwarded-For", address);
        world.send(request).await.status
    };
    for _ in 0..10 {
        assert_eq!(from("203.0.113.66", "wrong").await, 401);
    }
    assert_eq!(from("203.0.113.66", "wrong").await, 429);
    assert_eq!(from("203.0.113.66", secret).await, 200);
    assert_eq!(from("203.0.113.7", secret).await, 200);
    assert_eq!(from("203.0.113.66, 203.0.113.7", "wrong").await, 401, "the last address is used");
    assert_eq!(from("203.0.113.7, 203.0.113.66", "wrong").await, 429, "earlier addresses are ignored");
    assert_eq!(from("203.0.113.7, 203.0.113.66, 127.0.0.9", "wrong").await, 429, "trusted proxies are skipped");
    assert_eq!(from("::ffff:203.0.113.66", "wrong").await, 429, "the same address in IPv6 notation");
    assert_eq!(from("2001:db8:1:2::1", "wrong").await, 401);
}

/// `X-Forwarded-For` is read from right to left. To the left of an unparsable entry, all entries may be forged.
#[tokio::test]
async fn unparsable_forwarded_hop_stops_the_search() {
    let world = World::configured(behind_a_proxy).await;
    for guess in 0..10 {
        let request = token_request(&world.acme.client_id, "wrong", "management")
            .header("X-Forwarded-For", format!("198.51.100.{guess}"))
            .header("X-Forwarded-For", b"\xff");
        world.send(request).await.assert(401);
    }
    let request = token_request(&world.acme.client_id, "wrong", "management")
        .header("X-Forwarded-For", "198.51.100.200")
        .header("X-Forwarded-For", b"\xff");
    world.send(request).await.assert(429);
}

#[tokio::test]
async fn forwarded_hop_may_have_a_port() {
    let world = World::configured(behind_a_proxy).await;
    let from = async |address: &str, secret: &str| {
        let request = token_request(&world.acme.client_id, secret, "management").header("X-Forwarded-For", address);
        world.send(request).await.status
    };
    for port in 1..=10 {
        assert_eq!(from(&format!("203.0.113.66:{port}"), "wrong").await, 401);
    }
    for (address, status) in [("203.0.113.66", 429), ("203.0.113.7:55", 401), ("[2001:db8::1]:443", 401)] {
        assert_eq!(from(address, "wrong").await, status, "{address}");
    }
}

#[tokio::test]
async fn ipv6_network_counts_as_one_address() {
    let world = World::configured(behind_a_proxy).await;
    let from = async |address: &str, secret: &str| {
        let request = token_request(&world.acme.client_id, secret, "management").header("X-Forwarded-For", address);
        world.send(request).await.status
    };
    for host in 1..=10 {
        assert_eq!(from(&format!("2001:db8:1:2::{host:x}"), "wrong").await, 401);
    }
    assert_eq!(from("2001:db8:1:2:ffff::", "wrong").await, 429);
    assert_eq!(from("2001:db8:1:3::1", "wrong").await, 401);
}

/// `X-Forwarded-For` of an untrusted peer is ignored.
#[tokio::test]
async fn forged_forwarded_address_is_ignored() {
    let world = World::sqlite().await;
    let from = async |address: &str, secret: &str| {
        let request = token_request(&world.acme.client_id, secret, "management").header("X-Forwarded-For", address);
        world.send(request).await.status
    };
    for host in 0..10 {
        assert_eq!(from(&format!("203.0.113.{host}"), "wrong").await, 401);
    }
    assert_eq!(from("203.0.113.200", "wrong").await, 429);
    assert_eq!(from("127.0.0.1", "wrong").await, 429);
    assert_eq!(from("nonsense", "wrong").await, 429);
}

/// Two nodes together admit no more failed logins than one.
async fn nodes_share_the_login_throttle(world: World) {
    let second = world.second_node().await;
    world.node.engine.node.send_heartbeat().await.unwrap();
    let mut answered = 0;
    for guess in 0..60 {
        let request = token_request(&world.acme.client_id, "wrong", "management");
        let address = if guess % 2 == 0 { world.node.address } else { second.address };
        answered += usize::from(send_to(address, request).await.status == 401);
        for node in [&world.node, &second, &world.node] {
            node.engine.node.exchange_demand().await.unwrap();
        }
    }
    assert_eq!(answered, 10);
}

on_both_stores!(eleventh_wrong_secret_in_a_minute_returns_429, nodes_share_the_login_throttle);

pub fn behind_a_proxy(config: &mut Config) {
    config.http.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
}

/// Asserts that the response reports `too_many_requests`, and returns the value of `Retry-After`.
#[track_caller]
fn throttled(response: &HttpResponse) -> i64 {
    let seconds = response.header("retry-after").expect("Retry-After").parse().expect("whole seconds");
    assert!((1..=60).contains(&seconds), "{seconds}");
    assert_eq!(response.json()["error"], "too_many_requests");
    seconds
}
