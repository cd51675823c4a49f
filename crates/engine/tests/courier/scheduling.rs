use jiff::SignedDuration;
use ringtrue_engine::courier::CourierLimits;
use tokio_util::sync::CancellationToken;

use crate::world::World;

#[tokio::test]
async fn hanging_receiver_does_not_delay_others() {
    let world = World::new().await;
    for _ in 0..500 {
        world.conclude("hangs.example");
    }
    world.conclude("200.example");
    // At most eight attempts to a new destination run at the same time, so callbacks to the hanging receiver do not
    // block the callback to the other one.
    world.wait_for_requests(9).await;
    let hosts: Vec<_> = world.received().iter().map(|(_, request)| request.url.authority().to_owned()).collect();
    assert_eq!(hosts.iter().filter(|host| *host == "hangs.example").count(), 8);
    assert!(hosts.contains(&"200.example".to_owned()));
    world.receivers.hang_permits.add_permits(500);
    world.courier.wait_until_idle().await;
    assert_eq!(world.courier.metrics().delivered, 501);
}

#[tokio::test]
async fn callback_with_short_lease_is_leased_again() {
    let world = World::with_limits(CourierLimits { concurrency_per_destination: 1, ..CourierLimits::default() }).await;
    world.conclude("hangs.example");
    world.conclude("hangs.example");
    world.wait_for_requests(1).await;
    // 14 seconds are left of the second callback's lease. The courier starts no attempt if less than 15 seconds are
    // left.
    world.clock.advance(SignedDuration::from_secs(16));
    world.receivers.hang_permits.add_permits(2);
    world.courier.wait_until_idle().await;
    assert_eq!((world.received().len(), world.courier.metrics().deferred), (1, 1));

    world.clock.advance(SignedDuration::from_secs(14));
    world.send_due().await;
    assert_eq!((world.received().len(), world.courier.metrics().delivered), (2, 2));
    assert_eq!(world.received()[1].1.headers[6].1, "1", "still the first attempt");
}

#[tokio::test]
async fn callback_without_room_is_due_immediately() {
    let limits = CourierLimits { concurrency_per_destination: 1, queue: 4, ..CourierLimits::default() };
    let world = World::with_limits(limits).await;
    for _ in 0..20 {
        world.conclude("hangs.example");
    }
    world.wait_for_requests(1).await;
    world.receivers.hang_permits.add_permits(20);
    world.courier.wait_until_idle().await;
    let mut rounds = 0;
    while world.send_due().await.is_some() {
        rounds += 1;
        assert!(rounds < 50);
    }
    assert_eq!((world.received().len(), world.courier.metrics().delivered), (20, 20));
}

#[tokio::test]
async fn shutdown_completes_running_attempts_and_releases_leases() {
    let world = World::with_limits(CourierLimits { concurrency_per_destination: 1, ..CourierLimits::default() }).await;
    let shutdown = CancellationToken::new();
    let run = async {
        world.courier.run(shutdown.clone()).await;
    };
    let stop = async {
        for _ in 0..3 {
            world.conclude("hangs.example");
        }
        world.wait_for_requests(1).await;
        shutdown.cancel();
        tokio::task::yield_now().await;
        let late =
            world.courier.initial_due_at(ringtrue_domain::tenancy::ProjectId(uuid::Uuid::from_u128(1)), world.now());
        world.receivers.hang_permits.add_permits(3);
        late
    };
    let ((), late) = tokio::join!(run, stop);
    assert_eq!(late, world.now(), "new callbacks are left to other nodes");
    assert_eq!((world.received().len(), world.courier.metrics().delivered), (1, 1));
    let state = world.store.state();
    assert_eq!(state.waiting.len(), 2);
    assert!(state.waiting.values().all(|(_, due_at)| *due_at == world.now()));
}
