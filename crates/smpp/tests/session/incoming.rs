use ringtrue_smpp::{
    pdu::{
        AlertNotification, Bind, BindMode, CommandId, CommandStatus, DataSm, MessageReply, Outbind, Reply, Request,
        Tlvs,
    },
    session::{Answer, Config, Event, Fault, Incoming},
};
use tokio::time::sleep;

use crate::{SECOND, World, message};

#[tokio::test(start_paused = true)]
async fn answers_go_out_as_they_come() {
    let mut world = World::start();
    for sequence in 1..=3 {
        world.peer.deliver(sequence).await;
    }
    let (first, second, third) = (world.received().await, world.received().await, world.received().await);
    assert_eq!([first.text(), second.text(), third.text()], ["1", "2", "3"]);
    world.peer.hears_nothing_for(SECOND).await;
    third.answer(CommandStatus::OK);
    world.peer.hears_delivered(3, CommandStatus::OK).await;
    first.answer(CommandStatus::RECEIVER_TEMPORARY_ERROR);
    world.peer.hears_delivered(1, CommandStatus::RECEIVER_TEMPORARY_ERROR).await;
    second.answer(CommandStatus::RECEIVER_REJECTED);
    world.peer.hears_delivered(2, CommandStatus::RECEIVER_REJECTED).await;
}

#[tokio::test(start_paused = true)]
async fn every_operation_has_its_own_answer() {
    let mut world = World::start();
    let reply = |id: &str| MessageReply { message_id: id.into(), tlvs: Tlvs::default() };
    world.peer.ask(1, Request::SubmitSm(message("out"))).await;
    let submitted = world.received().await;
    assert!(matches!(submitted.request, Incoming::SubmitSm(_)));
    submitted.answer(Answer::taken_as("m1"));
    world.peer.hears_answer(1, CommandStatus::OK, Reply::SubmitSm(reply("m1"))).await;

    world.peer.ask(2, Request::DataSm(DataSm::default())).await;
    let data = world.received().await;
    assert!(matches!(data.request, Incoming::DataSm(_)));
    data.answer(CommandStatus::OK);
    world.peer.hears_answer(2, CommandStatus::OK, Reply::DataSm(reply(""))).await;

    world.peer.ask(3, Request::Bind(BindMode::Receiver, Bind::default())).await;
    world.peer.hears_answer(3, CommandStatus::ALREADY_BOUND, Reply::to(CommandId::BIND_RECEIVER)).await;

    // These two have none.
    world.peer.ask(4, Request::AlertNotification(AlertNotification::default())).await;
    world.peer.ask(5, Request::Outbind(Outbind::default())).await;
    assert_eq!(world.events.recv().await, Some(Event::Alert(AlertNotification::default())));
    assert_eq!(world.events.recv().await, Some(Event::Outbind(Outbind::default())));
    world.is_well().await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_cannot_be_written_is_a_system_error() {
    let mut world = World::start();
    world.peer.deliver(1).await;
    world.received().await.answer(Answer::taken_as("x".repeat(65)));
    world.peer.hears_delivered(1, CommandStatus::SYSTEM_ERROR).await;
    assert!(matches!(world.events.recv().await, Some(Event::UnwritableAnswer { sequence: 1, .. })));
    world.is_well().await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_application_makes_the_peer_send_again() {
    let mut world = World::start();
    world.peer.deliver(1).await;
    world.peer.ask(2, Request::SubmitSm(message("2"))).await;
    let _kept = (world.received().await, world.received().await);
    world.peer.hears_nothing_for(9 * SECOND).await;
    world.peer.hears_delivered(1, CommandStatus::RECEIVER_TEMPORARY_ERROR).await;
    world.peer.hears_answer(2, CommandStatus::MESSAGE_QUEUE_FULL, Reply::to(CommandId::SUBMIT_SM)).await;
    let late = Event::AnswerTimedOut { command: CommandId::DELIVER_SM, sequence: 1 };
    assert_eq!(world.events.recv().await, Some(late));
    world.is_well().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_read_while_the_application_is_behind() {
    let config = Config { answer_window: 2, answer_timeout: 600 * SECOND, ..Config::default() };
    let mut world = World::with(config);
    world.peer.deliver(1).await;
    world.peer.deliver(2).await;
    let (first, second) = (world.received().await, world.received().await);
    // With the application full, the link itself still works.
    world.peer.ask(3, Request::EnquireLink).await;
    world.peer.hears_answer(3, CommandStatus::OK, Reply::EnquireLink).await;
    // A message that there is no room for stops it, and time stands still for the peer.
    world.peer.deliver(4).await;
    world.peer.ask(5, Request::EnquireLink).await;
    world.is_idle_for(300 * SECOND).await;
    world.peer.hears_nothing_for(SECOND).await;
    first.answer(CommandStatus::OK);
    world.peer.hears_delivered(1, CommandStatus::OK).await;
    world.peer.hears_answer(5, CommandStatus::OK, Reply::EnquireLink).await;
    let fourth = world.received().await;
    assert_eq!(fourth.text(), "4");
    fourth.answer(CommandStatus::OK);
    second.answer(CommandStatus::OK);
    world.peer.hears_delivered(4, CommandStatus::OK).await;
    world.peer.hears_delivered(2, CommandStatus::OK).await;
    world.is_well().await;
}

#[tokio::test(start_paused = true)]
async fn a_pause_of_ours_does_not_cost_the_peer_its_response() {
    let config = Config { answer_window: 1, answer_timeout: 60 * SECOND, ..Config::default() };
    let mut world = World::with(config);
    let link = world.link.clone();
    world.peer.deliver(1).await;
    let first = world.received().await;
    let ours = async { link.submit_sm(message("ours")).await.unwrap().message_id };
    let theirs = async {
        assert!(world.peer.hear().await.is_some());
        world.peer.deliver(2).await;
        let reply = MessageReply { message_id: "id".into(), ..MessageReply::default() };
        world.peer.answer(1, CommandStatus::OK, Reply::SubmitSm(reply)).await;
        sleep(40 * SECOND).await;
        first.answer(CommandStatus::OK);
        world.peer.hears_delivered(1, CommandStatus::OK).await;
    };
    assert_eq!(tokio::join!(ours, theirs).0, "id");
}

#[tokio::test(start_paused = true)]
async fn the_link_survives_what_cannot_be_read() {
    let mut world = World::start();
    let header = |octets: u8, command: [u8; 4], sequence: u8| {
        [&[0, 0, 0, octets][..], &command, &[0, 0, 0, 0, 0, 0, 0, sequence]].concat()
    };
    // A deliver_sm that ends too soon, a query, a vendor's own request, and a response to nothing.
    world.peer.say_octets(&[header(18, [0, 0, 0, 5], 1), vec![0, 1]].concat()).await;
    world.peer.hears_delivered(1, CommandStatus::INVALID_COMMAND_LENGTH).await;
    assert!(matches!(world.events.recv().await, Some(Event::Malformed(error)) if error.sequence == 1));
    for command in [[0, 0, 0, 3], [0, 1, 2, 3]] {
        world.peer.say_octets(&header(16, command, 2)).await;
        world.peer.hears_answer(2, CommandStatus::INVALID_COMMAND_ID, Reply::GenericNack).await;
        assert!(matches!(world.events.recv().await, Some(Event::UnknownCommand { sequence: 2, .. })));
    }
    for command in [[0x80, 1, 2, 3], [0x80, 0, 0, 0], [0x80, 0, 0, 5]] {
        world.peer.say_octets(&header(16, command, 3)).await;
        assert!(matches!(world.events.recv().await, Some(Event::UnmatchedResponse { sequence: 3, .. })));
    }
    // A malformed notification is not answered at all.
    world.peer.say_octets(&header(16, [0, 0, 1, 2], 4)).await;
    assert!(matches!(world.events.recv().await, Some(Event::Malformed(error)) if error.sequence == 4));
    world.is_well().await;
}

#[tokio::test(start_paused = true)]
async fn octets_may_come_one_by_one() {
    let mut world = World::start();
    let mut octets = bytes::BytesMut::new();
    ringtrue_smpp::pdu::Pdu::request(1, Request::DeliverSm(message("slow"))).encode(&mut octets).unwrap();
    for octet in octets {
        world.peer.say_octets(&[octet]).await;
        sleep(SECOND).await;
    }
    let received = world.received().await;
    assert_eq!(received.text(), "slow");
    received.answer(CommandStatus::OK);
    world.peer.hears_delivered(1, CommandStatus::OK).await;
}

#[tokio::test(start_paused = true)]
async fn an_impossible_length_ends_the_session() {
    for length in [[0, 0, 0, 15], [0, 1, 0, 1], [0xFF; 4]] {
        let mut world = World::start();
        world.peer.say_octets(&length).await;
        world.peer.hears_answer(0, CommandStatus::INVALID_COMMAND_LENGTH, Reply::GenericNack).await;
        assert_eq!(world.peer.hear().await, None);
        assert!(matches!(world.ended().await, Err(Fault::Length(_))));
    }
}
