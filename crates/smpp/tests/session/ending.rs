use ringtrue_smpp::{
    pdu::{CommandId, CommandStatus, MessageReply, Pdu, Reply, Request},
    session::{Ended, Fault, RequestError},
};
use tokio::time::Instant;

use crate::{SECOND, World, message, seconds_since};

#[tokio::test(start_paused = true)]
async fn we_unbind_when_everything_is_answered() {
    let mut world = World::start();
    let link = world.link.clone();
    world.peer.deliver(1).await;
    let received = world.received().await;
    let theirs = async {
        world.peer.hears_nothing_for(SECOND).await;
        // What comes now is put off.
        world.peer.deliver(2).await;
        world.peer.hears_delivered(2, CommandStatus::RECEIVER_TEMPORARY_ERROR).await;
        received.answer(CommandStatus::OK);
        world.peer.hears_delivered(1, CommandStatus::OK).await;
        world.peer.hears(Pdu::request(1, Request::Unbind)).await;
        world.peer.answer(1, CommandStatus::OK, Reply::Unbind).await;
        assert_eq!(world.peer.hear().await, None);
    };
    tokio::join!(link.unbind(), theirs);
    assert_eq!(world.ended().await.unwrap(), Ended::ByUs);
    assert_eq!(link.submit_sm(message("late")).await, Err(RequestError::Closed));
    link.closed().await;
    link.unbind().await;
}

#[tokio::test(start_paused = true)]
async fn our_own_requests_are_waited_for_before_we_unbind() {
    let mut world = World::start();
    let link = world.link.clone();
    let theirs = async {
        world.peer.hears(Pdu::request(1, Request::SubmitSm(message("a")))).await;
        world.peer.hears_nothing_for(SECOND).await;
        world.peer.answer(1, CommandStatus::OK, Reply::to(CommandId::SUBMIT_SM)).await;
        world.peer.hears(Pdu::request(2, Request::Unbind)).await;
        // Closing is as good as a response.
        drop(world.peer);
    };
    let unbind = async {
        tokio::time::sleep(SECOND / 2).await;
        link.unbind().await;
    };
    let (submitted, (), ()) = tokio::join!(link.submit_sm(message("a")), unbind, theirs);
    assert_eq!(submitted, Ok(MessageReply::default()));
    assert_eq!(world.session.join_next().await.unwrap().unwrap().unwrap(), Ended::ByUs);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_let_go_is_left() {
    let mut world = World::start();
    let start = Instant::now();
    world.link.unbind().await;
    assert_eq!(seconds_since(start), 10);
    assert_eq!(world.ended().await.unwrap(), Ended::ByUs);
}

#[tokio::test(start_paused = true)]
async fn the_peer_unbinds_and_gets_its_answers_first() {
    let mut world = World::start();
    let link = world.link.clone();
    world.peer.deliver(1).await;
    let received = world.received().await;
    world.peer.ask(2, Request::Unbind).await;
    world.peer.hears_nothing_for(SECOND).await;
    received.answer(CommandStatus::OK);
    world.peer.hears_delivered(1, CommandStatus::OK).await;
    world.peer.hears_answer(2, CommandStatus::OK, Reply::Unbind).await;
    assert_eq!(world.peer.hear().await, None);
    assert_eq!(world.ended().await.unwrap(), Ended::ByPeer);
    assert_eq!(link.deliver_sm(message("late")).await, Err(RequestError::Closed));
}

#[tokio::test(start_paused = true)]
async fn both_may_unbind_at_once() {
    let mut world = World::start();
    let link = world.link.clone();
    let theirs = async {
        world.peer.hears(Pdu::request(1, Request::Unbind)).await;
        world.peer.ask(9, Request::Unbind).await;
        world.peer.hears_answer(9, CommandStatus::OK, Reply::Unbind).await;
    };
    tokio::join!(link.unbind(), theirs);
    assert_eq!(world.ended().await.unwrap(), Ended::ByPeer);
}

#[tokio::test(start_paused = true)]
async fn a_lost_peer_is_told_to_those_who_wait() {
    let mut world = World::start();
    let link = world.link.clone();
    world.peer.deliver(1).await;
    let received = world.received().await;
    let waiting = link.submit_sm(message("a"));
    let lose = async {
        assert!(world.peer.hear().await.is_some());
        drop(world.peer);
    };
    assert_eq!(tokio::join!(waiting, lose).0, Err(RequestError::Closed));
    // The application is not interrupted: what it has begun to store, it stores.
    assert!(world.session.try_join_next().is_none());
    received.answer(CommandStatus::OK);
    let ended = world.session.join_next().await.unwrap().unwrap();
    assert!(matches!(ended, Err(Fault::Closed | Fault::Stream(_))), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn a_session_runs_without_anyone_holding_its_link() {
    let mut world = World::start();
    drop(std::mem::replace(&mut world.link, World::start().link));
    world.is_well().await;
    world.peer.ask(1, Request::Unbind).await;
    assert_eq!(world.ended().await.unwrap(), Ended::ByPeer);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_read_is_not_read_either() {
    let mut world = World::start();
    let mut said = 0;
    let flood = async {
        loop {
            world.peer.ask(1, Request::EnquireLink).await;
            said += 1;
        }
    };
    assert!(tokio::time::timeout(SECOND, flood).await.is_err());
    assert!(said < 40_000, "{said} answers were kept for a peer that does not want them");
    assert!(matches!(world.ended().await, Err(Fault::Silent)));
}
