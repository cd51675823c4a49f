use jiff::SignedDuration;
use ringtrue_domain::lifecycle::Sealed;
use ringtrue_engine::{
    callback::{LEASE, UNREADABLE},
    ports::Then,
};

use crate::world::World;

#[tokio::test]
async fn a_store_that_is_away_for_a_moment_is_asked_again() {
    let world = World::new().await;
    world.shelf.contents().failures = 2;
    world.conclude("200.example");
    world.courier.idle().await;
    assert_eq!((world.received().len(), world.shelf.contents().settled.len()), (1, 1));
    assert_eq!(world.courier.figures().unsettled, 0);
}

#[tokio::test]
async fn an_attempt_that_cannot_be_recorded_is_repeated_when_its_lease_ends() {
    let world = World::new().await;
    world.shelf.contents().refusals = 1;
    let check = world.conclude("200.example");
    world.courier.idle().await;
    assert_eq!((world.received().len(), world.courier.figures().unsettled), (1, 1));
    world.tick().await;
    assert_eq!(world.received().len(), 1, "its lease holds");

    world.clock.advance(LEASE);
    world.tick().await;
    assert_eq!(world.received().len(), 2);
    let contents = world.shelf.contents();
    assert_eq!(contents.settled.len(), 1);
    assert_eq!((contents.settled[0].check, contents.settled[0].attempt), (check, 1));
}

#[tokio::test]
async fn what_does_not_open_is_tried_again_and_then_given_up() {
    for broken in ["url", "body"] {
        let world = World::new().await;
        let mut callback = world.callback("200.example");
        match broken {
            "url" => callback.url = Sealed(vec![0; 60]),
            _ => callback.body = callback.url.clone(),
        }
        world.shelf.put(callback, world.now());
        while let Some(due) = world.tick().await {
            world.clock.advance(due.duration_since(world.now()).max(SignedDuration::ZERO));
        }
        assert!(world.received().is_empty());
        let contents = world.shelf.contents();
        assert_eq!(contents.settled.len(), 7, "{broken}");
        assert!(contents.settled.iter().all(|settled| settled.log.failure.as_deref() == Some(UNREADABLE)));
        assert_eq!(contents.settled[6].then, Then::GivenUp);
    }
}

/// A node that died held it; the lease has run out, and the numbering goes on.
#[tokio::test]
async fn what_a_dead_node_held_is_taken_over() {
    let world = World::new().await;
    let mut callback = world.callback("200.example");
    callback.failed_attempts = 3;
    world.shelf.put(callback, world.now() + SignedDuration::from_secs(5));
    world.tick().await;
    assert!(world.received().is_empty());
    world.clock.advance(SignedDuration::from_secs(5));
    world.tick().await;
    assert_eq!(world.received()[0].1.headers[6].1, "4");
}
