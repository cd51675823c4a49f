use ringtrue_smpp::{
    pdu::{AlertNotification, CommandId, CommandStatus, DataSm, MessageResponseBody, Pdu, Request, ResponseBody, Tlvs},
    session::{RequestError, SessionAnomaly, SessionConfig, SessionError},
};
use tokio::time::{Instant, sleep};

use crate::{Fixture, SECOND, message, seconds_since};

fn submit_response(id: &str) -> ResponseBody {
    ResponseBody::SubmitSm(MessageResponseBody { message_id: id.into(), tlvs: Tlvs::default() })
}

#[tokio::test(start_paused = true)]
async fn responses_are_matched_in_any_order() {
    let mut fixture = Fixture::start();
    let link = fixture.link.clone();
    let our_side = async {
        tokio::join!(link.submit_sm(message("a")), link.submit_sm(message("b")), link.data_sm(DataSm::default()))
    };
    let peer_side = async {
        fixture.peer.expect(Pdu::request(1, Request::SubmitSm(message("a")))).await;
        fixture.peer.expect(Pdu::request(2, Request::SubmitSm(message("b")))).await;
        fixture.peer.expect(Pdu::request(3, Request::DataSm(DataSm::default()))).await;
        fixture.peer.respond(3, CommandStatus::OK, ResponseBody::empty_for(CommandId::DATA_SM)).await;
        fixture.peer.respond(2, CommandStatus::OK, submit_response("second")).await;
        fixture.peer.respond(1, CommandStatus::OK, submit_response("first")).await;
    };
    let ((first, second, third), ()) = tokio::join!(our_side, peer_side);
    assert_eq!((first.unwrap().message_id, second.unwrap().message_id), ("first".into(), "second".into()));
    assert_eq!(third, Ok(MessageResponseBody::default()));
}

#[tokio::test(start_paused = true)]
async fn request_errors_are_reported() {
    let mut fixture = Fixture::start();
    let link = fixture.link.clone();
    let throttled = Pdu::response(1, CommandStatus::THROTTLED, ResponseBody::empty_for(CommandId::SUBMIT_SM));
    let nacked = Pdu::response(2, CommandStatus::INVALID_COMMAND_ID, ResponseBody::GenericNack);
    let other = Pdu::response(3, CommandStatus::OK, ResponseBody::Unbind);
    let cases = [
        (throttled, RequestError::Rejected(CommandStatus::THROTTLED)),
        (nacked, RequestError::Rejected(CommandStatus::INVALID_COMMAND_ID)),
        (other, RequestError::UnexpectedResponse(CommandId::UNBIND_RESP)),
    ];
    for (response, error) in cases {
        let peer_side = async {
            assert!(fixture.peer.receive().await.is_some());
            fixture.peer.send(&response).await;
        };
        let (result, ()) = tokio::join!(link.submit_sm(message("a")), peer_side);
        assert_eq!(result, Err(error));
    }
    // A malformed response: `message_id` is not terminated.
    let peer_side = async {
        assert!(fixture.peer.receive().await.is_some());
        fixture.peer.send_octets(&[&b"\0\0\0\x60\x80\0\0\x04\0\0\0\0\0\0\0\x04"[..], &[b'x'; 80]].concat()).await;
    };
    let (result, ()) = tokio::join!(link.submit_sm(message("a")), peer_side);
    assert!(matches!(result, Err(RequestError::Decode(_))));
    // An unencodable request is not sent.
    let result = link.submit_sm(message(&"x".repeat(255))).await;
    assert!(matches!(result, Err(RequestError::Encode(_))));
    fixture.expect_working().await;
}

#[tokio::test(start_paused = true)]
async fn request_window_limits_pending_requests() {
    let mut fixture = Fixture::with_config(SessionConfig { request_window: 2, ..SessionConfig::default() });
    let link = fixture.link.clone();
    let our_side = async {
        let texts = [message("a"), message("b"), message("c")];
        let [a, b, c] = texts.map(|text| link.submit_sm(text));
        let (a, b, c) = tokio::join!(a, b, c);
        [a, b, c].map(|response| response.unwrap().message_id)
    };
    let peer_side = async {
        for sequence in [1, 2] {
            assert_eq!(fixture.peer.receive().await.unwrap().sequence, sequence);
        }
        fixture.peer.expect_silence_for(5 * SECOND).await;
        fixture.peer.respond(2, CommandStatus::OK, submit_response("2")).await;
        assert_eq!(fixture.peer.receive().await.unwrap().sequence, 3);
        for (sequence, id) in [(3, "3"), (1, "1")] {
            fixture.peer.respond(sequence, CommandStatus::OK, submit_response(id)).await;
        }
    };
    assert_eq!(tokio::join!(our_side, peer_side).0, ["1", "2", "3"]);
}

#[tokio::test(start_paused = true)]
async fn missing_response_times_out() {
    let mut fixture = Fixture::start();
    let link = fixture.link.clone();
    let start = Instant::now();
    assert_eq!(link.submit_sm(message("a")).await, Err(RequestError::TimedOut));
    assert_eq!(seconds_since(start), 10);
    let timed_out = SessionAnomaly::ResponseTimedOut { command: CommandId::SUBMIT_SM, sequence: 1 };
    assert_eq!(fixture.events.recv().await, Some(timed_out));
    assert!(fixture.peer.receive().await.is_some());
    fixture.peer.respond(1, CommandStatus::OK, submit_response("late")).await;
    assert!(matches!(fixture.events.recv().await, Some(SessionAnomaly::UnmatchedResponse { sequence: 1, .. })));
    fixture.expect_working().await;
}

#[tokio::test(start_paused = true)]
async fn dropped_call_does_not_disturb_the_session() {
    let mut fixture = Fixture::start();
    let link = fixture.link.clone();
    assert!(tokio::time::timeout(SECOND, link.submit_sm(message("a"))).await.is_err());
    assert!(fixture.peer.receive().await.is_some());
    fixture.peer.respond(1, CommandStatus::OK, submit_response("id")).await;
    fixture.expect_working().await;
}

#[tokio::test(start_paused = true)]
async fn alert_notification_expects_no_response() {
    let mut fixture = Fixture::with_config(SessionConfig { request_window: 1, ..SessionConfig::default() });
    for sequence in 1..=3 {
        fixture.link.alert_notification(AlertNotification::default()).await.unwrap();
        fixture.peer.expect(Pdu::request(sequence, Request::AlertNotification(AlertNotification::default()))).await;
    }
}

#[tokio::test(start_paused = true)]
async fn idle_peer_gets_enquire_link_and_then_times_out() {
    let mut fixture = Fixture::start();
    let start = Instant::now();
    fixture.peer.expect(Pdu::request(1, Request::EnquireLink)).await;
    assert_eq!(seconds_since(start), 30);
    fixture.peer.respond(1, CommandStatus::OK, ResponseBody::EnquireLink).await;
    fixture.peer.expect(Pdu::request(2, Request::EnquireLink)).await;
    assert_eq!(seconds_since(start), 60);
    // Any PDU counts as activity, not only the response.
    sleep(9 * SECOND).await;
    fixture.peer.deliver(1).await;
    fixture.next_request().await.respond(CommandStatus::OK);
    fixture.peer.expect_deliver_response(1, CommandStatus::OK).await;
    fixture.peer.expect(Pdu::request(3, Request::EnquireLink)).await;
    assert_eq!(seconds_since(start), 99);
    assert!(matches!(fixture.wait_for_end().await, Err(SessionError::EnquireLinkTimeout)));
    assert_eq!(seconds_since(start), 109);
    assert!(fixture.events.is_empty());
}

#[tokio::test(start_paused = true)]
async fn enquire_link_can_be_disabled() {
    let mut fixture = Fixture::with_config(SessionConfig { enquire_link_interval: None, ..SessionConfig::default() });
    fixture.peer.expect_silence_for(100_000 * SECOND).await;
    let link = fixture.link.clone();
    let peer_side = async {
        fixture.peer.expect(Pdu::request(1, Request::EnquireLink)).await;
        fixture.peer.respond(1, CommandStatus::OK, ResponseBody::EnquireLink).await;
    };
    assert_eq!(tokio::join!(link.enquire_link(), peer_side).0, Ok(()));
}
