use jiff::SignedDuration;
use ringtrue_engine::{callback::sealing::open_exchange, ports::Then};

use crate::world::{BODY, World};

#[tokio::test]
async fn a_200_settles_it() {
    let world = World::new().await;
    let check = world.conclude("200.example");
    world.courier.idle().await;

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

    let contents = world.shelf.contents();
    let [settled] = contents.settled.as_slice() else { panic!("{} settled", contents.settled.len()) };
    assert_eq!((settled.check, settled.attempt, settled.then), (check, 1, Then::Delivered));
    assert_eq!((settled.log.status, settled.log.failure.as_deref()), (Some(200), None));
    let exchange = open_exchange(&world.keys, check, settled.log.exchange.as_ref().unwrap()).unwrap();
    assert_eq!(exchange.sent.body.as_bytes(), BODY);
    assert_eq!(exchange.sent.url, "https://200.example/hook?token=secret");
    let shown = &exchange.sent.headers.iter().find(|(name, _)| name == "authorization").unwrap().1;
    assert!(shown.ends_with("signature=\"…\""), "{shown}");
    let answer = exchange.received.unwrap();
    assert_eq!((answer.status, answer.body.len()), (200, 4 * 1_024));

    let figures = world.courier.figures();
    assert_eq!((figures.delivered, figures.attempts["ok"], figures.waiting, figures.in_flight), (1, 1, 0, 0));
}

/// Attempts as seconds after the first.
async fn attempts_at(world: &World, host: &str) -> Vec<i64> {
    world.conclude(host);
    world.courier.idle().await;
    while let Some(due) = world.tick().await {
        let wait = due.duration_since(world.now());
        // One millisecond early is too early.
        world.clock.advance(wait - SignedDuration::from_millis(1));
        let before = world.received().len();
        world.tick().await;
        assert_eq!(world.received().len(), before);
        world.clock.advance(SignedDuration::from_millis(1));
        world.tick().await;
    }
    let start = world.received()[0].0;
    world.received().iter().map(|(at, _)| at.duration_since(start).as_secs()).collect()
}

#[tokio::test]
async fn whatever_is_not_200_is_tried_seven_times() {
    for host in
        ["201.example", "204.example", "301.example", "410.example", "429.example", "500.example", "down.example"]
    {
        let world = World::new().await;
        assert_eq!(attempts_at(&world, host).await, [0, 10, 30, 60, 100, 150, 210], "{host}");
        for (index, (at, request)) in world.received().iter().enumerate() {
            assert_eq!(request.headers[6].1, (index + 1).to_string());
            assert_eq!(world.verified(request).date, *at, "signed afresh");
        }
        assert!(world.shelf.contents().waiting.is_empty());
        assert_eq!(world.courier.figures().given_up, 1);
        assert_eq!(world.shelf.contents().settled.last().unwrap().then, Then::GivenUp);
    }
}

#[tokio::test]
async fn gaps_are_counted_from_the_end_of_an_attempt() {
    let world = World::new().await;
    let at = attempts_at(&world, "slow.example").await;
    assert_eq!(at, [0, 17, 44, 81, 128, 185, 252]);
}
