use jiff::SignedDuration;
use ringtrue_engine::callback::Limits;
use tokio_util::sync::CancellationToken;

use crate::world::World;

#[tokio::test]
async fn dead_receivers_delay_nobody_else() {
    let world = World::new().await;
    for _ in 0..500 {
        world.conclude("hangs.example");
    }
    world.conclude("200.example");
    // The dead one has its few slots, and the other arrives while they hang.
    world.arrivals(9).await;
    let hosts: Vec<_> = world.received().iter().map(|(_, request)| request.url.authority().to_owned()).collect();
    assert_eq!(hosts.iter().filter(|host| *host == "hangs.example").count(), 8);
    assert!(hosts.contains(&"200.example".to_owned()));
    world.receivers.let_go.add_permits(500);
    world.courier.idle().await;
    assert_eq!(world.courier.figures().delivered, 501);
}

#[tokio::test]
async fn what_waited_too_long_is_leased_again_and_not_sent_twice() {
    let world = World::with_limits(Limits { per_destination: 1, ..Limits::default() }).await;
    world.conclude("hangs.example");
    world.conclude("hangs.example");
    world.arrivals(1).await;
    // Too little of the second one's lease is left to send it.
    world.clock.advance(SignedDuration::from_secs(16));
    world.receivers.let_go.add_permits(2);
    world.courier.idle().await;
    assert_eq!((world.received().len(), world.courier.figures().put_off), (1, 1));

    world.clock.advance(SignedDuration::from_secs(14));
    world.tick().await;
    assert_eq!((world.received().len(), world.courier.figures().delivered), (2, 2));
    assert_eq!(world.received()[1].1.headers[6].1, "1", "it is still the first attempt");
}

#[tokio::test]
async fn what_there_is_no_room_for_is_due_at_once() {
    let limits = Limits { per_destination: 1, queued: 4, ..Limits::default() };
    let world = World::with_limits(limits).await;
    for _ in 0..20 {
        world.conclude("hangs.example");
    }
    world.arrivals(1).await;
    world.receivers.let_go.add_permits(20);
    world.courier.idle().await;
    let mut rounds = 0;
    while world.tick().await.is_some() {
        rounds += 1;
        assert!(rounds < 50);
    }
    assert_eq!((world.received().len(), world.courier.figures().delivered), (20, 20));
}

#[tokio::test]
async fn shutdown_finishes_what_is_under_way_and_gives_the_rest_back() {
    let world = World::with_limits(Limits { per_destination: 1, ..Limits::default() }).await;
    let shutdown = CancellationToken::new();
    let run = async {
        world.courier.run(shutdown.clone()).await;
    };
    let stop = async {
        for _ in 0..3 {
            world.conclude("hangs.example");
        }
        world.arrivals(1).await;
        shutdown.cancel();
        tokio::task::yield_now().await;
        let late = world.courier.first_due(ringtrue_domain::tenancy::ProjectId(uuid::Uuid::from_u128(1)), world.now());
        world.receivers.let_go.add_permits(3);
        late
    };
    let ((), late) = tokio::join!(run, stop);
    assert_eq!(late, world.now(), "whoever ends a check now leaves its callback to others");
    assert_eq!((world.received().len(), world.courier.figures().delivered), (1, 1));
    let contents = world.shelf.contents();
    assert_eq!(contents.waiting.len(), 2);
    assert!(contents.waiting.values().all(|(_, due_at)| *due_at == world.now()));
}
