use ringtrue_smpp::{
    pdu::{CommandId, CommandStatus, MessageResponseBody, Pdu, Request, ResponseBody},
    session::{RequestError, SessionError, UnboundBy},
};
use tokio::time::Instant;

use crate::{Fixture, SECOND, message, seconds_since};

#[tokio::test(start_paused = true)]
async fn unbind_waits_for_handlers() {
    let mut fixture = Fixture::start();
    let link = fixture.link.clone();
    fixture.peer.deliver(1).await;
    let received = fixture.next_request().await;
    let peer_side = async {
        fixture.peer.expect_silence_for(SECOND).await;
        // While the session waits for the handler before it unbinds, new requests get a temporary error.
        fixture.peer.deliver(2).await;
        fixture.peer.expect_deliver_response(2, CommandStatus::RECEIVER_TEMPORARY_ERROR).await;
        received.respond(CommandStatus::OK);
        fixture.peer.expect_deliver_response(1, CommandStatus::OK).await;
        fixture.peer.expect(Pdu::request(1, Request::Unbind)).await;
        fixture.peer.respond(1, CommandStatus::OK, ResponseBody::Unbind).await;
        assert_eq!(fixture.peer.receive().await, None);
    };
    tokio::join!(link.unbind(), peer_side);
    assert_eq!(fixture.wait_for_end().await.unwrap(), UnboundBy::Us);
    assert_eq!(link.submit_sm(message("late")).await, Err(RequestError::Closed));
    link.closed().await;
    link.unbind().await;
}

#[tokio::test(start_paused = true)]
async fn unbind_waits_for_pending_requests() {
    let mut fixture = Fixture::start();
    let link = fixture.link.clone();
    let peer_side = async {
        fixture.peer.expect(Pdu::request(1, Request::SubmitSm(message("a")))).await;
        fixture.peer.expect_silence_for(SECOND).await;
        fixture.peer.respond(1, CommandStatus::OK, ResponseBody::empty_for(CommandId::SUBMIT_SM)).await;
        fixture.peer.expect(Pdu::request(2, Request::Unbind)).await;
        // Closing the connection counts as the response to the unbind.
        drop(fixture.peer);
    };
    let unbind = async {
        tokio::time::sleep(SECOND / 2).await;
        link.unbind().await;
    };
    let (submitted, (), ()) = tokio::join!(link.submit_sm(message("a")), unbind, peer_side);
    assert_eq!(submitted, Ok(MessageResponseBody::default()));
    assert_eq!(fixture.session.join_next().await.unwrap().unwrap().unwrap(), UnboundBy::Us);
}

#[tokio::test(start_paused = true)]
async fn unbind_times_out() {
    let mut fixture = Fixture::start();
    let start = Instant::now();
    fixture.link.unbind().await;
    assert_eq!(seconds_since(start), 10);
    assert_eq!(fixture.wait_for_end().await.unwrap(), UnboundBy::Us);
}

#[tokio::test(start_paused = true)]
async fn unbind_of_the_peer_is_answered_after_pending_responses() {
    let mut fixture = Fixture::start();
    let link = fixture.link.clone();
    fixture.peer.deliver(1).await;
    let received = fixture.next_request().await;
    fixture.peer.request(2, Request::Unbind).await;
    fixture.peer.expect_silence_for(SECOND).await;
    received.respond(CommandStatus::OK);
    fixture.peer.expect_deliver_response(1, CommandStatus::OK).await;
    fixture.peer.expect_response(2, CommandStatus::OK, ResponseBody::Unbind).await;
    assert_eq!(fixture.peer.receive().await, None);
    assert_eq!(fixture.wait_for_end().await.unwrap(), UnboundBy::Peer);
    assert_eq!(link.deliver_sm(message("late")).await, Err(RequestError::Closed));
}

#[tokio::test(start_paused = true)]
async fn simultaneous_unbinds_end_the_session() {
    let mut fixture = Fixture::start();
    let link = fixture.link.clone();
    let peer_side = async {
        fixture.peer.expect(Pdu::request(1, Request::Unbind)).await;
        fixture.peer.request(9, Request::Unbind).await;
        fixture.peer.expect_response(9, CommandStatus::OK, ResponseBody::Unbind).await;
    };
    tokio::join!(link.unbind(), peer_side);
    assert_eq!(fixture.wait_for_end().await.unwrap(), UnboundBy::Peer);
}

#[tokio::test(start_paused = true)]
async fn lost_connection_fails_pending_requests() {
    let mut fixture = Fixture::start();
    let link = fixture.link.clone();
    fixture.peer.deliver(1).await;
    let received = fixture.next_request().await;
    let waiting = link.submit_sm(message("a"));
    let lose = async {
        assert!(fixture.peer.receive().await.is_some());
        drop(fixture.peer);
    };
    assert_eq!(tokio::join!(waiting, lose).0, Err(RequestError::Closed));
    // The session waits for the running handler before it ends.
    assert!(fixture.session.try_join_next().is_none());
    received.respond(CommandStatus::OK);
    let ended = fixture.session.join_next().await.unwrap().unwrap();
    assert!(matches!(ended, Err(SessionError::Closed | SessionError::Io(_))), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn session_runs_after_its_link_is_dropped() {
    let mut fixture = Fixture::start();
    drop(std::mem::replace(&mut fixture.link, Fixture::start().link));
    fixture.expect_working().await;
    fixture.peer.request(1, Request::Unbind).await;
    assert_eq!(fixture.wait_for_end().await.unwrap(), UnboundBy::Peer);
}

#[tokio::test(start_paused = true)]
async fn reading_pauses_while_the_peer_does_not_read() {
    let mut fixture = Fixture::start();
    let mut sent = 0;
    let flood = async {
        loop {
            fixture.peer.request(1, Request::EnquireLink).await;
            sent += 1;
        }
    };
    assert!(tokio::time::timeout(SECOND, flood).await.is_err());
    assert!(sent < 40_000, "{sent} responses were buffered");
    assert!(matches!(fixture.wait_for_end().await, Err(SessionError::EnquireLinkTimeout)));
}
