use jiff::SignedDuration;
use ringtrue_domain::lifecycle::Sealed;
use ringtrue_engine::{
    courier::{LEASE_DURATION, UNREADABLE_FAILURE},
    ports::callbacks::AttemptOutcome,
};

use crate::world::World;

#[tokio::test]
async fn settling_is_retried_after_transient_errors() {
    let world = World::new().await;
    world.store.state().transient_failures = 2;
    world.conclude("200.example");
    world.courier.wait_until_idle().await;
    assert_eq!((world.received().len(), world.store.state().settled.len()), (1, 1));
    assert_eq!(world.courier.metrics().unrecorded, 0);
}

#[tokio::test]
async fn unrecorded_attempt_is_repeated_after_its_lease() {
    let world = World::new().await;
    world.store.state().permanent_failures = 1;
    let check = world.conclude("200.example");
    world.courier.wait_until_idle().await;
    assert_eq!((world.received().len(), world.courier.metrics().unrecorded), (1, 1));
    world.send_due().await;
    assert_eq!(world.received().len(), 1, "still leased");

    world.clock.advance(LEASE_DURATION);
    world.send_due().await;
    assert_eq!(world.received().len(), 2);
    let state = world.store.state();
    assert_eq!(state.settled.len(), 1);
    assert_eq!((state.settled[0].check, state.settled[0].attempt), (check, 1));
}

#[tokio::test]
async fn unreadable_callback_is_retried_and_given_up() {
    for broken in ["url", "body"] {
        let world = World::new().await;
        let mut callback = world.callback("200.example");
        match broken {
            "url" => callback.url = Sealed(vec![0; 60]),
            _ => callback.body = callback.url.clone(),
        }
        world.store.put(callback, world.now());
        while let Some(due) = world.send_due().await {
            world.clock.advance(due.duration_since(world.now()).max(SignedDuration::ZERO));
        }
        assert!(world.received().is_empty());
        let state = world.store.state();
        assert_eq!(state.settled.len(), 7, "{broken}");
        assert!(state.settled.iter().all(|settled| settled.log.failure.as_deref() == Some(UNREADABLE_FAILURE)));
        assert_eq!(state.settled[6].outcome, AttemptOutcome::GivenUp);
    }
}

/// The node that takes over a callback continues the attempt numbers of the dead node.
#[tokio::test]
async fn leases_of_a_dead_node_are_taken_over() {
    let world = World::new().await;
    let mut callback = world.callback("200.example");
    callback.failed_attempts = 3;
    world.store.put(callback, world.now() + SignedDuration::from_secs(5));
    world.send_due().await;
    assert!(world.received().is_empty());
    world.clock.advance(SignedDuration::from_secs(5));
    world.send_due().await;
    assert_eq!(world.received()[0].1.headers[6].1, "4");
}
