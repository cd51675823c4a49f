use ringtrue_operators::smpp::Outcome;
use ringtrue_smpp::{pdu::CommandStatus, session::Ended};
use tokio::time::advance;

use crate::{
    SECOND, Sandbox, World,
    centre::{Centre, part, sms},
};

#[tokio::test(start_paused = true)]
async fn what_is_in_flight_is_answered_before_it_unbinds() {
    let world = World::new();
    let centre = Centre::start().await;
    let connector = world.start(World::config(centre.port()));
    let bound = centre.bind().await;
    world.inbox.shut(true);
    let whole = bound.send(sms("hello"));
    let alone = bound.send(part(7, 2, 1, "one "));
    world.counted(Outcome::Received, 2).await;
    let open = async {
        // What waits for others is to come again; what is with the inbox is waited for.
        assert_eq!(alone.await.unwrap(), CommandStatus::RECEIVER_TEMPORARY_ERROR);
        assert!(!whole.is_finished());
        world.inbox.shut(false);
        assert_eq!(whole.await.unwrap(), CommandStatus::OK);
    };
    tokio::join!(connector.shutdown(), open);
    assert_eq!(bound.session.await.unwrap().unwrap(), Ended::ByPeer);
    assert_eq!(world.inbox.texts(), ["hello"]);
    assert_eq!((connector.status().binds_up, world.counters.binds_up()), (0, 0));
    // Once more does no harm.
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_inbox_that_does_not_answer_is_not_waited_for_for_ever() {
    let world = World::new();
    let centre = Centre::start().await;
    let connector = world.start(World::config(centre.port()));
    let bound = centre.bind().await;
    world.inbox.shut(true);
    let answer = bound.send(sms("hello"));
    world.inbox.arrivals(1).await;
    let time_passes = async {
        tokio::task::yield_now().await;
        advance(8 * SECOND).await;
        assert_eq!(answer.await.unwrap(), CommandStatus::RECEIVER_TEMPORARY_ERROR);
    };
    tokio::join!(connector.shutdown(), time_passes);
}

#[tokio::test(start_paused = true)]
async fn it_stops_while_it_waits_for_the_next_attempt() {
    let world = World::new();
    let centre = Centre::start().await;
    let port = centre.port();
    drop(centre);
    let connector = world.start(World::config(port));
    connector.wait_until(|status| status.last_error.is_some()).await;
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn it_stops_while_it_binds() {
    let world = World::new();
    let centre = Centre::start().await;
    let connector = world.start(World::config(centre.port()));
    let _never_answered = centre.connection().await;
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_connector_that_is_dropped_unbinds() {
    let Sandbox { smsc, connector, world } = Sandbox::start().await;
    drop(connector);
    smsc.observer().wait_until(|counts| counts.binds == 0).await;
    drop(world);
}
