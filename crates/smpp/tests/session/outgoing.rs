use ringtrue_smpp::{
    pdu::{AlertNotification, CommandId, CommandStatus, DataSm, MessageReply, Pdu, Reply, Request, Tlvs},
    session::{Config, Event, Fault, RequestError},
};
use tokio::time::{Instant, sleep};

use crate::{SECOND, World, message, seconds_since};

fn taken_as(id: &str) -> Reply {
    Reply::SubmitSm(MessageReply { message_id: id.into(), tlvs: Tlvs::default() })
}

#[tokio::test(start_paused = true)]
async fn responses_find_their_requests_in_any_order() {
    let mut world = World::start();
    let link = world.link.clone();
    let ours = async {
        tokio::join!(link.submit_sm(message("a")), link.submit_sm(message("b")), link.data_sm(DataSm::default()))
    };
    let theirs = async {
        world.peer.hears(Pdu::request(1, Request::SubmitSm(message("a")))).await;
        world.peer.hears(Pdu::request(2, Request::SubmitSm(message("b")))).await;
        world.peer.hears(Pdu::request(3, Request::DataSm(DataSm::default()))).await;
        world.peer.answer(3, CommandStatus::OK, Reply::to(CommandId::DATA_SM)).await;
        world.peer.answer(2, CommandStatus::OK, taken_as("second")).await;
        world.peer.answer(1, CommandStatus::OK, taken_as("first")).await;
    };
    let ((first, second, third), ()) = tokio::join!(ours, theirs);
    assert_eq!((first.unwrap().message_id, second.unwrap().message_id), ("first".into(), "second".into()));
    assert_eq!(third, Ok(MessageReply::default()));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_says_why() {
    let mut world = World::start();
    let link = world.link.clone();
    let throttled = Pdu::response(1, CommandStatus::THROTTLED, Reply::to(CommandId::SUBMIT_SM));
    let nacked = Pdu::response(2, CommandStatus::INVALID_COMMAND_ID, Reply::GenericNack);
    let other = Pdu::response(3, CommandStatus::OK, Reply::Unbind);
    let cases = [
        (throttled, RequestError::Refused(CommandStatus::THROTTLED)),
        (nacked, RequestError::Refused(CommandStatus::INVALID_COMMAND_ID)),
        (other, RequestError::Unexpected(CommandId::UNBIND_RESP)),
    ];
    for (response, error) in cases {
        let theirs = async {
            assert!(world.peer.hear().await.is_some());
            world.peer.say(&response).await;
        };
        let (result, ()) = tokio::join!(link.submit_sm(message("a")), theirs);
        assert_eq!(result, Err(error));
    }
    // A response that cannot be read: an id without end.
    let theirs = async {
        assert!(world.peer.hear().await.is_some());
        world.peer.say_octets(&[&b"\0\0\0\x60\x80\0\0\x04\0\0\0\0\0\0\0\x04"[..], &[b'x'; 80]].concat()).await;
    };
    let (result, ()) = tokio::join!(link.submit_sm(message("a")), theirs);
    assert!(matches!(result, Err(RequestError::Malformed(_))));
    // A request that cannot be written never leaves.
    let result = link.submit_sm(message(&"x".repeat(255))).await;
    assert!(matches!(result, Err(RequestError::Unwritable(_))));
    world.is_well().await;
}

#[tokio::test(start_paused = true)]
async fn the_window_bounds_what_waits_for_a_response() {
    let mut world = World::with(Config { request_window: 2, ..Config::default() });
    let link = world.link.clone();
    let ours = async {
        let texts = [message("a"), message("b"), message("c")];
        let [a, b, c] = texts.map(|text| link.submit_sm(text));
        let (a, b, c) = tokio::join!(a, b, c);
        [a, b, c].map(|reply| reply.unwrap().message_id)
    };
    let theirs = async {
        for sequence in [1, 2] {
            assert_eq!(world.peer.hear().await.unwrap().sequence, sequence);
        }
        world.peer.hears_nothing_for(5 * SECOND).await;
        world.peer.answer(2, CommandStatus::OK, taken_as("2")).await;
        assert_eq!(world.peer.hear().await.unwrap().sequence, 3);
        for (sequence, id) in [(3, "3"), (1, "1")] {
            world.peer.answer(sequence, CommandStatus::OK, taken_as(id)).await;
        }
    };
    assert_eq!(tokio::join!(ours, theirs).0, ["1", "2", "3"]);
}

#[tokio::test(start_paused = true)]
async fn a_response_that_does_not_come_is_not_waited_for() {
    let mut world = World::start();
    let link = world.link.clone();
    let start = Instant::now();
    assert_eq!(link.submit_sm(message("a")).await, Err(RequestError::TimedOut));
    assert_eq!(seconds_since(start), 10);
    let timed_out = Event::ResponseTimedOut { command: CommandId::SUBMIT_SM, sequence: 1 };
    assert_eq!(world.events.recv().await, Some(timed_out));
    assert!(world.peer.hear().await.is_some());
    world.peer.answer(1, CommandStatus::OK, taken_as("late")).await;
    assert!(matches!(world.events.recv().await, Some(Event::UnmatchedResponse { sequence: 1, .. })));
    world.is_well().await;
}

#[tokio::test(start_paused = true)]
async fn a_caller_may_lose_interest() {
    let mut world = World::start();
    let link = world.link.clone();
    assert!(tokio::time::timeout(SECOND, link.submit_sm(message("a"))).await.is_err());
    assert!(world.peer.hear().await.is_some());
    world.peer.answer(1, CommandStatus::OK, taken_as("id")).await;
    world.is_well().await;
}

#[tokio::test(start_paused = true)]
async fn what_has_no_response_is_not_waited_for() {
    let mut world = World::with(Config { request_window: 1, ..Config::default() });
    for sequence in 1..=3 {
        world.link.alert_notification(AlertNotification::default()).await.unwrap();
        world.peer.hears(Pdu::request(sequence, Request::AlertNotification(AlertNotification::default()))).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_peer_is_asked_and_then_given_up() {
    let mut world = World::start();
    let start = Instant::now();
    world.peer.hears(Pdu::request(1, Request::EnquireLink)).await;
    assert_eq!(seconds_since(start), 30);
    world.peer.answer(1, CommandStatus::OK, Reply::EnquireLink).await;
    world.peer.hears(Pdu::request(2, Request::EnquireLink)).await;
    assert_eq!(seconds_since(start), 60);
    // Anything is a sign of life, not only the response.
    sleep(9 * SECOND).await;
    world.peer.deliver(1).await;
    world.received().await.answer(CommandStatus::OK);
    world.peer.hears_delivered(1, CommandStatus::OK).await;
    world.peer.hears(Pdu::request(3, Request::EnquireLink)).await;
    assert_eq!(seconds_since(start), 99);
    assert!(matches!(world.ended().await, Err(Fault::Silent)));
    assert_eq!(seconds_since(start), 109);
    assert!(world.events.is_empty());
}

#[tokio::test(start_paused = true)]
async fn nobody_is_asked_unless_configured() {
    let mut world = World::with(Config { enquire_link_interval: None, ..Config::default() });
    world.peer.hears_nothing_for(100_000 * SECOND).await;
    let link = world.link.clone();
    let theirs = async {
        world.peer.hears(Pdu::request(1, Request::EnquireLink)).await;
        world.peer.answer(1, CommandStatus::OK, Reply::EnquireLink).await;
    };
    assert_eq!(tokio::join!(link.enquire_link(), theirs).0, Ok(()));
}
