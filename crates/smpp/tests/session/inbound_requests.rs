use ringtrue_smpp::{
    pdu::{
        AlertNotification, Bind, BindMode, CommandId, CommandStatus, DataSm, MessageResponseBody, Outbind, Request,
        ResponseBody, Tlvs,
    },
    session::{MessageRequest, MessageResponse, SessionAnomaly, SessionConfig, SessionError},
};
use tokio::time::sleep;

use crate::{Fixture, SECOND, message};

#[tokio::test(start_paused = true)]
async fn responses_are_sent_in_order_of_completion() {
    let mut fixture = Fixture::start();
    for sequence in 1..=3 {
        fixture.peer.deliver(sequence).await;
    }
    let (first, second, third) =
        (fixture.next_request().await, fixture.next_request().await, fixture.next_request().await);
    assert_eq!([first.text(), second.text(), third.text()], ["1", "2", "3"]);
    fixture.peer.expect_silence_for(SECOND).await;
    third.respond(CommandStatus::OK);
    fixture.peer.expect_deliver_response(3, CommandStatus::OK).await;
    first.respond(CommandStatus::RECEIVER_TEMPORARY_ERROR);
    fixture.peer.expect_deliver_response(1, CommandStatus::RECEIVER_TEMPORARY_ERROR).await;
    second.respond(CommandStatus::RECEIVER_REJECTED);
    fixture.peer.expect_deliver_response(2, CommandStatus::RECEIVER_REJECTED).await;
}

#[tokio::test(start_paused = true)]
async fn every_operation_gets_its_response() {
    let mut fixture = Fixture::start();
    let response = |id: &str| MessageResponseBody { message_id: id.into(), tlvs: Tlvs::default() };
    fixture.peer.request(1, Request::SubmitSm(message("out"))).await;
    let submitted = fixture.next_request().await;
    assert!(matches!(submitted.request, MessageRequest::SubmitSm(_)));
    submitted.respond(MessageResponse::accepted("m1"));
    fixture.peer.expect_response(1, CommandStatus::OK, ResponseBody::SubmitSm(response("m1"))).await;

    fixture.peer.request(2, Request::DataSm(DataSm::default())).await;
    let data = fixture.next_request().await;
    assert!(matches!(data.request, MessageRequest::DataSm(_)));
    data.respond(CommandStatus::OK);
    fixture.peer.expect_response(2, CommandStatus::OK, ResponseBody::DataSm(response(""))).await;

    fixture.peer.request(3, Request::Bind(BindMode::Receiver, Bind::default())).await;
    fixture
        .peer
        .expect_response(3, CommandStatus::ALREADY_BOUND, ResponseBody::empty_for(CommandId::BIND_RECEIVER))
        .await;

    // `alert_notification` and `outbind` have no response.
    fixture.peer.request(4, Request::AlertNotification(AlertNotification::default())).await;
    fixture.peer.request(5, Request::Outbind(Outbind::default())).await;
    assert_eq!(fixture.events.recv().await, Some(SessionAnomaly::AlertNotification(AlertNotification::default())));
    assert_eq!(fixture.events.recv().await, Some(SessionAnomaly::Outbind(Outbind::default())));
    fixture.expect_working().await;
}

#[tokio::test(start_paused = true)]
async fn unencodable_response_becomes_a_system_error() {
    let mut fixture = Fixture::start();
    fixture.peer.deliver(1).await;
    fixture.next_request().await.respond(MessageResponse::accepted("x".repeat(65)));
    fixture.peer.expect_deliver_response(1, CommandStatus::SYSTEM_ERROR).await;
    assert!(matches!(fixture.events.recv().await, Some(SessionAnomaly::ResponseEncodingFailed { sequence: 1, .. })));
    fixture.expect_working().await;
}

#[tokio::test(start_paused = true)]
async fn slow_handler_causes_a_temporary_error() {
    let mut fixture = Fixture::start();
    fixture.peer.deliver(1).await;
    fixture.peer.request(2, Request::SubmitSm(message("2"))).await;
    let _kept = (fixture.next_request().await, fixture.next_request().await);
    fixture.peer.expect_silence_for(9 * SECOND).await;
    fixture.peer.expect_deliver_response(1, CommandStatus::RECEIVER_TEMPORARY_ERROR).await;
    fixture
        .peer
        .expect_response(2, CommandStatus::MESSAGE_QUEUE_FULL, ResponseBody::empty_for(CommandId::SUBMIT_SM))
        .await;
    let timed_out = SessionAnomaly::HandlerTimedOut { command: CommandId::DELIVER_SM, sequence: 1 };
    assert_eq!(fixture.events.recv().await, Some(timed_out));
    fixture.expect_working().await;
}

#[tokio::test(start_paused = true)]
async fn reading_pauses_while_the_handler_window_is_full() {
    let config = SessionConfig { handler_window: 2, handler_timeout: 600 * SECOND, ..SessionConfig::default() };
    let mut fixture = Fixture::with_config(config);
    fixture.peer.deliver(1).await;
    fixture.peer.deliver(2).await;
    let (first, second) = (fixture.next_request().await, fixture.next_request().await);
    // With a full handler window, `enquire_link` is still answered.
    fixture.peer.request(3, Request::EnquireLink).await;
    fixture.peer.expect_response(3, CommandStatus::OK, ResponseBody::EnquireLink).await;
    // A message beyond the window pauses reading and the peer's timeouts.
    fixture.peer.deliver(4).await;
    fixture.peer.request(5, Request::EnquireLink).await;
    fixture.expect_no_request_for(300 * SECOND).await;
    fixture.peer.expect_silence_for(SECOND).await;
    first.respond(CommandStatus::OK);
    fixture.peer.expect_deliver_response(1, CommandStatus::OK).await;
    fixture.peer.expect_response(5, CommandStatus::OK, ResponseBody::EnquireLink).await;
    let fourth = fixture.next_request().await;
    assert_eq!(fourth.text(), "4");
    fourth.respond(CommandStatus::OK);
    second.respond(CommandStatus::OK);
    fixture.peer.expect_deliver_response(4, CommandStatus::OK).await;
    fixture.peer.expect_deliver_response(2, CommandStatus::OK).await;
    fixture.expect_working().await;
}

#[tokio::test(start_paused = true)]
async fn pause_extends_response_timeouts() {
    let config = SessionConfig { handler_window: 1, handler_timeout: 60 * SECOND, ..SessionConfig::default() };
    let mut fixture = Fixture::with_config(config);
    let link = fixture.link.clone();
    fixture.peer.deliver(1).await;
    let first = fixture.next_request().await;
    let our_side = async { link.submit_sm(message("ours")).await.unwrap().message_id };
    let peer_side = async {
        assert!(fixture.peer.receive().await.is_some());
        fixture.peer.deliver(2).await;
        let response = MessageResponseBody { message_id: "id".into(), ..MessageResponseBody::default() };
        fixture.peer.respond(1, CommandStatus::OK, ResponseBody::SubmitSm(response)).await;
        sleep(40 * SECOND).await;
        first.respond(CommandStatus::OK);
        fixture.peer.expect_deliver_response(1, CommandStatus::OK).await;
    };
    assert_eq!(tokio::join!(our_side, peer_side).0, "id");
}

#[tokio::test(start_paused = true)]
async fn malformed_pdus_do_not_end_the_session() {
    let mut fixture = Fixture::start();
    let header = |octets: u8, command: [u8; 4], sequence: u8| {
        [&[0, 0, 0, octets][..], &command, &[0, 0, 0, 0, 0, 0, 0, sequence]].concat()
    };
    // A truncated `deliver_sm`, `query_sm`, a vendor-specific request, and unmatched responses.
    fixture.peer.send_octets(&[header(18, [0, 0, 0, 5], 1), vec![0, 1]].concat()).await;
    fixture.peer.expect_deliver_response(1, CommandStatus::INVALID_COMMAND_LENGTH).await;
    assert!(matches!(fixture.events.recv().await, Some(SessionAnomaly::MalformedPdu(error)) if error.sequence == 1));
    for command in [[0, 0, 0, 3], [0, 1, 2, 3]] {
        fixture.peer.send_octets(&header(16, command, 2)).await;
        fixture.peer.expect_response(2, CommandStatus::INVALID_COMMAND_ID, ResponseBody::GenericNack).await;
        assert!(matches!(fixture.events.recv().await, Some(SessionAnomaly::UnknownCommand { sequence: 2, .. })));
    }
    for command in [[0x80, 1, 2, 3], [0x80, 0, 0, 0], [0x80, 0, 0, 5]] {
        fixture.peer.send_octets(&header(16, command, 3)).await;
        assert!(matches!(fixture.events.recv().await, Some(SessionAnomaly::UnmatchedResponse { sequence: 3, .. })));
    }
    // A malformed notification gets no response.
    fixture.peer.send_octets(&header(16, [0, 0, 1, 2], 4)).await;
    assert!(matches!(fixture.events.recv().await, Some(SessionAnomaly::MalformedPdu(error)) if error.sequence == 4));
    fixture.expect_working().await;
}

#[tokio::test(start_paused = true)]
async fn octets_may_arrive_one_by_one() {
    let mut fixture = Fixture::start();
    let mut octets = bytes::BytesMut::new();
    ringtrue_smpp::pdu::Pdu::request(1, Request::DeliverSm(message("slow"))).encode(&mut octets).unwrap();
    for octet in octets {
        fixture.peer.send_octets(&[octet]).await;
        sleep(SECOND).await;
    }
    let received = fixture.next_request().await;
    assert_eq!(received.text(), "slow");
    received.respond(CommandStatus::OK);
    fixture.peer.expect_deliver_response(1, CommandStatus::OK).await;
}

#[tokio::test(start_paused = true)]
async fn invalid_length_ends_the_session() {
    for length in [[0, 0, 0, 15], [0, 1, 0, 1], [0xFF; 4]] {
        let mut fixture = Fixture::start();
        fixture.peer.send_octets(&length).await;
        fixture.peer.expect_response(0, CommandStatus::INVALID_COMMAND_LENGTH, ResponseBody::GenericNack).await;
        assert_eq!(fixture.peer.receive().await, None);
        assert!(matches!(fixture.wait_for_end().await, Err(SessionError::InvalidLength(_))));
    }
}
