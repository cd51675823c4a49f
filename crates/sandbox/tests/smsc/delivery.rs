use ringtrue_sandbox::smsc::{Outcome, QueueLimits, SendError, Setback, Sms, SmscConfig};
use ringtrue_smpp::{
    pdu::{Address, CommandId, CommandStatus, MessageType, Npi, Ton},
    session::Config,
    text::DataCoding,
};
use tokio::time::advance;

use crate::{Behaviour, HANDSET, SECOND, SERVICE, World, text};

const TEMPORARY: [CommandStatus; 3] =
    [CommandStatus::RECEIVER_TEMPORARY_ERROR, CommandStatus::MESSAGE_QUEUE_FULL, CommandStatus::THROTTLED];

#[tokio::test(start_paused = true)]
async fn an_sms_arrives_as_it_was_written() {
    let world = World::start().await;
    let mut esme = world.receiver().await;
    let ticket = world.send("RT 12-34 @{€}", Behaviour::new());
    let request = esme.take().await;
    assert_eq!(ticket.delivered().await, Outcome::Acknowledged);
    assert_eq!(request.command(), CommandId::DELIVER_SM);
    assert!(*request.source() == Address::international("990700900001"));
    assert!(*request.destination() == Address::international("990700900999"));
    assert_eq!(request.esm_class().message_type(), MessageType::Ordinary);
    assert_eq!(request.content().data_coding, DataCoding::DEFAULT);
    assert_eq!(request.content().segment, None);
    assert_eq!(text(&request), "RT 12-34 @{€}");
}

#[tokio::test(start_paused = true)]
async fn raw_addresses_go_as_they_are() {
    let world = World::start().await;
    let mut esme = world.receiver().await;
    let name = Address { ton: Ton::ALPHANUMERIC, npi: Npi::UNKNOWN, value: "ACME".into() };
    let code = Address { ton: Ton::ABBREVIATED, npi: Npi::ISDN, value: "12345".into() };
    world.smsc.send(Sms::new(name.clone(), code.clone(), "hello")).unwrap();
    let request = esme.take().await;
    assert!(*request.source() == name && *request.destination() == code);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_sent_is_refused_at_once() {
    let world = World::start().await;
    let refusal = |from: &str| world.smsc.send(Sms::new(from, SERVICE, "hello")).err();
    for number in ["990700900001", "+", "+99070090000a", "+1234567890123456"] {
        assert_eq!(refusal(number), Some(SendError::NotE164), "{number}");
    }
    let long = Address::international("1".repeat(21));
    let refused = world.smsc.send(Sms::new(long, SERVICE, "hello")).unwrap_err();
    assert!(matches!(refused, SendError::Unwritable(_)), "{refused:?}");
    let refused = world.smsc.send(Sms::new(HANDSET, SERVICE, "a".repeat(153 * 255 + 1))).unwrap_err();
    assert_eq!(refused, SendError::TooLong);
    assert_eq!(world.smsc.counts().queued, 0);
}

#[tokio::test(start_paused = true)]
async fn messages_wait_until_somebody_binds() {
    let world = World::start().await;
    let tickets = [world.send("one", Behaviour::new()), world.send("two", Behaviour::new())];
    advance(3600 * SECOND).await;
    assert_eq!(world.smsc.counts().attempts, 0);
    let mut esme = world.receiver().await;
    let mut texts = esme.take_all(2).await.iter().map(text).collect::<Vec<_>>();
    texts.sort();
    assert_eq!(texts, ["one", "two"]);
    for ticket in tickets {
        assert_eq!(ticket.delivered().await, Outcome::Acknowledged);
    }
}

#[tokio::test(start_paused = true)]
async fn a_temporary_error_makes_it_come_again() {
    let world = World::start().await;
    let mut esme = world.receiver().await;
    let ticket = world.send("hello", Behaviour::new());
    for (setbacks, status) in (1..).zip(TEMPORARY) {
        assert_eq!(text(&esme.answer(status).await), "hello");
        world.retry_after_setback(setbacks).await;
    }
    assert_eq!(text(&esme.take().await), "hello");
    assert_eq!(ticket.delivered().await, Outcome::Acknowledged);
    assert_eq!(world.smsc.counts().attempts, 4);
}

#[tokio::test(start_paused = true)]
async fn it_does_not_come_again_too_soon() {
    let world = World::start().await;
    let mut esme = world.receiver().await;
    world.send("first", Behaviour::new());
    esme.answer(CommandStatus::RECEIVER_TEMPORARY_ERROR).await;
    world.smsc.observer().wait_until(|counts| counts.setbacks == 1).await;
    advance(SECOND / 100 * 99).await;
    world.send("second", Behaviour::new());
    assert_eq!(text(&esme.take().await), "second");
    advance(SECOND / 100).await;
    assert_eq!(text(&esme.take().await), "first");
}

#[tokio::test(start_paused = true)]
async fn a_permanent_error_ends_it() {
    let world = World::start().await;
    let mut esme = world.receiver().await;
    for status in [
        CommandStatus::RECEIVER_PERMANENT_ERROR,
        CommandStatus::RECEIVER_REJECTED,
        CommandStatus::SYSTEM_ERROR,
        CommandStatus(0x1234),
    ] {
        let ticket = world.send("hello", Behaviour::new().split_into(3));
        esme.answer(status).await;
        assert_eq!(ticket.delivered().await, Outcome::Rejected(status));
    }
    assert_eq!((world.smsc.counts().refused, world.smsc.counts().attempts), (4, 4));
}

#[tokio::test(start_paused = true)]
async fn it_is_given_up_after_so_many_attempts() {
    let world = World::with(SmscConfig { attempts: 3, ..SmscConfig::default() }).await;
    let mut esme = world.receiver().await;
    let ticket = world.send("hello", Behaviour::new());
    for setbacks in 1..=3 {
        esme.answer(CommandStatus::THROTTLED).await;
        world.retry_after_setback(setbacks).await;
    }
    assert_eq!(ticket.delivered().await, Outcome::GaveUp(Setback::PutOff(CommandStatus::THROTTLED)));
    assert_eq!((world.smsc.counts().given_up, world.smsc.counts().queued), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn silence_makes_it_come_again() {
    let session = Config { response_timeout: 2 * SECOND, ..Config::default() };
    let world = World::with(SmscConfig { session, attempts: 2, ..SmscConfig::default() }).await;
    let mut esme = world.receiver().await;
    let ticket = world.send("hello", Behaviour::new());
    let _unanswered = esme.receive().await;
    advance(2 * SECOND).await;
    world.retry_after_setback(1).await;
    let _unanswered = esme.receive().await;
    advance(2 * SECOND).await;
    assert_eq!(ticket.delivered().await, Outcome::GaveUp(Setback::NoResponse));
}

#[tokio::test(start_paused = true)]
async fn receivers_take_turns() {
    let world = World::start().await;
    let (mut first, mut second) = (world.receiver().await, world.receiver().await);
    for _ in 0..3 {
        for esme in [&mut first, &mut second] {
            let ticket = world.send("hello", Behaviour::new());
            esme.take().await;
            assert_eq!(ticket.delivered().await, Outcome::Acknowledged);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn many_may_be_on_their_way() {
    let world = World::start().await;
    let mut esmes = [world.receiver().await, world.receiver().await, world.receiver().await];
    let tickets: Vec<_> = (0..999).map(|number| world.send(&number.to_string(), Behaviour::new())).collect();
    let [first, second, third] = &mut esmes;
    let (first, second, third) = tokio::join!(first.take_all(333), second.take_all(333), third.take_all(333));
    let mut numbers: Vec<u32> = [first, second, third].concat().iter().map(|one| text(one).parse().unwrap()).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..999));
    for ticket in tickets {
        assert_eq!(ticket.delivered().await, Outcome::Acknowledged);
    }
}

#[tokio::test(start_paused = true)]
async fn the_queue_is_bounded() {
    let world =
        World::with(SmscConfig { queue: QueueLimits { total: 2, ..QueueLimits::default() }, ..SmscConfig::default() })
            .await;
    let tickets = [world.send("one", Behaviour::new()), world.send("two", Behaviour::new())];
    let three = || world.smsc.send(Sms::new(HANDSET, SERVICE, "three"));
    assert_eq!(three().unwrap_err(), SendError::QueueFull);
    let mut esme = world.receiver().await;
    esme.take_all(2).await;
    for ticket in tickets {
        assert_eq!(ticket.delivered().await, Outcome::Acknowledged);
    }
    three().unwrap();
    assert_eq!(text(&esme.take().await), "three");
}

#[tokio::test(start_paused = true)]
async fn lost_links_make_it_come_again() {
    let world = World::start().await;
    let mut esme = world.receiver().await;
    let ticket = world.send("hello", Behaviour::new());
    let unanswered = esme.receive().await;
    world.smsc.drop_links();
    drop(unanswered);
    assert!(esme.ended().await.is_err());
    let mut again = world.receiver().await;
    world.retry_after_setback(1).await;
    assert_eq!(text(&again.take().await), "hello");
    assert_eq!(ticket.delivered().await, Outcome::Acknowledged);
}
