use jiff::SignedDuration;
use ringtrue_engine::{courier::sealing::unseal_exchange, ports::callbacks::AttemptOutcome};

use crate::world::{BODY, World};

#[tokio::test]
async fn status_200_is_delivered() {
    let world = World::new().await;
    let check = world.conclude("200.example");
    world.courier.wait_until_idle().await;

    let received = world.received();
    let [(at, request)] = received.as_slice() else { panic!("{} requests", received.len()) };
    assert_eq!(*at, "2026-11-14T09:30:00Z".parse().unwrap());
    let names: Vec<_> = request.headers.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        names,
        [
            "x-service-callback",
            "authorization",
            "digest",
            "date",
            "content-type",
            "user-agent",
            "x-service-callback-attempt"
        ]
    );
    let value = |name: &str| request.headers.iter().find(|(header, _)| *header == name).unwrap().1.as_str();
    assert_eq!(value("x-service-callback"), "reverse_sms");
    assert_eq!(value("date"), "Sat, 14 Nov 2026 09:30:00 GMT");
    assert_eq!(value("content-type"), "application/json");
    assert_eq!(value("user-agent"), concat!("Ringtrue/", env!("CARGO_PKG_VERSION")));
    assert_eq!(value("x-service-callback-attempt"), "1");
    assert_eq!(request.body, BODY);
    world.verified(request);

    let state = world.store.state();
    let [settled] = state.settled.as_slice() else { panic!("{} settled", state.settled.len()) };
    assert_eq!((settled.check, settled.attempt, settled.outcome), (check, 1, AttemptOutcome::Delivered));
    assert_eq!((settled.log.status, settled.log.failure.as_deref()), (Some(200), None));
    let exchange = unseal_exchange(&world.keys, check, settled.log.exchange.as_ref().unwrap()).unwrap();
    assert_eq!(exchange.sent.body.as_bytes(), BODY);
    assert_eq!(exchange.sent.url, "https://200.example/hook?token=secret");
    let shown = &exchange.sent.headers.iter().find(|(name, _)| name == "authorization").unwrap().1;
    assert!(shown.ends_with("signature=\"…\""), "{shown}");
    let response = exchange.received.unwrap();
    assert_eq!((response.status, response.body.len()), (200, 4 * 1_024));

    let metrics = world.courier.metrics();
    assert_eq!((metrics.delivered, metrics.attempts["ok"], metrics.waiting, metrics.in_flight), (1, 1, 0, 0));
}

/// Returns the times of all attempts, in seconds after the first one.
async fn attempts_at(world: &World, host: &str) -> Vec<i64> {
    world.conclude(host);
    world.courier.wait_until_idle().await;
    while let Some(due) = world.send_due().await {
        let wait = due.duration_since(world.now());
        // Nothing is sent one millisecond before the due time.
        world.clock.advance(wait - SignedDuration::from_millis(1));
        let before = world.received().len();
        world.send_due().await;
        assert_eq!(world.received().len(), before);
        world.clock.advance(SignedDuration::from_millis(1));
        world.send_due().await;
    }
    let start = world.received()[0].0;
    world.received().iter().map(|(at, _)| at.duration_since(start).as_secs()).collect()
}

#[tokio::test]
async fn other_results_are_retried_up_to_seven_attempts() {
    for host in
        ["201.example", "204.example", "301.example", "410.example", "429.example", "500.example", "down.example"]
    {
        let world = World::new().await;
        assert_eq!(attempts_at(&world, host).await, [0, 10, 30, 60, 100, 150, 210], "{host}");
        for (index, (at, request)) in world.received().iter().enumerate() {
            assert_eq!(request.headers[6].1, (index + 1).to_string());
            assert_eq!(world.verified(request).date, *at, "each attempt has a new signature");
        }
        assert!(world.store.state().waiting.is_empty());
        assert_eq!(world.courier.metrics().given_up, 1);
        assert_eq!(world.store.state().settled.last().unwrap().outcome, AttemptOutcome::GivenUp);
    }
}

#[tokio::test]
async fn retries_continue_as_long_as_the_project_wants() {
    let world = World::retrying_for(1_100).await;
    assert_eq!(attempts_at(&world, "500.example").await, [0, 10, 30, 60, 100, 150, 210, 330, 570, 1_050]);
    assert_eq!(world.received().last().unwrap().1.headers[6].1, "10");
    assert_eq!(world.store.state().settled.last().unwrap().outcome, AttemptOutcome::GivenUp);
}

#[tokio::test]
async fn retry_interval_starts_at_the_end_of_an_attempt() {
    let world = World::new().await;
    let at = attempts_at(&world, "slow.example").await;
    assert_eq!(at, [0, 17, 44, 81, 128, 185, 252]);
}
