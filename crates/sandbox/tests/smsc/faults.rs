use ringtrue_sandbox::smsc::{Account, Alphabet, Outcome, SendError, Sms, SmscConfig};
use ringtrue_smpp::{
    pdu::{Address, CommandId, CommandStatus, MessageType, Npi, Ton},
    session::Incoming,
    text::{DataCoding, DefaultAlphabet},
};
use tokio::time::advance;

use crate::{Behaviour, HANDSET, SECOND, SERVICE, World, text};

#[tokio::test(start_paused = true)]
async fn late() {
    let world = World::start().await;
    let mut esme = world.receiver().await;
    let late = world.send("late", Behaviour::new().late(5 * SECOND));
    advance(4 * SECOND).await;
    world.send("prompt", Behaviour::new());
    assert_eq!(text(&esme.take().await), "prompt");
    assert!(esme.has_nothing());
    advance(SECOND).await;
    assert_eq!(text(&esme.take().await), "late");
    assert_eq!(late.delivered().await, Outcome::Acknowledged);
}

#[tokio::test(start_paused = true)]
async fn duplicated() {
    let world = World::start().await;
    let mut esme = world.receiver().await;
    let ticket = world.send("hello", Behaviour::new().duplicated(2));
    let copies = esme.take_all(3).await;
    assert!(copies.iter().all(|copy| *copy == copies[0]));
    assert_eq!(ticket.delivered().await, Outcome::Acknowledged);
    assert!(esme.has_nothing());
    assert_eq!(world.smsc.counts().delivered, 1);
}

#[tokio::test(start_paused = true)]
async fn spoofed() {
    let world = World::start().await;
    let mut esme = world.receiver().await;
    world.send("hello", Behaviour::new().spoofed("+990700900666"));
    assert!(*esme.take().await.source() == Address::international("990700900666"));
    let national = Address { ton: Ton::NATIONAL, npi: Npi::ISDN, value: "0700900666".into() };
    world.send("hello", Behaviour::new().spoofed(national.clone()));
    assert!(*esme.take().await.source() == national);
}

#[tokio::test(start_paused = true)]
async fn garbled() {
    let garbled_octets = async |seed| {
        let world = World::with(SmscConfig { seed, ..SmscConfig::default() }).await;
        let mut esme = world.receiver().await;
        world.send("hello", Behaviour::new().garbled());
        esme.take().await.content().octets.to_vec()
    };
    let octets = garbled_octets(7).await;
    assert!(octets.len() == 5 && octets.iter().zip(b"hello").all(|(garbled, written)| garbled != written));
    assert_eq!(garbled_octets(7).await, octets);
    assert_ne!(garbled_octets(8).await, octets);
}

#[tokio::test(start_paused = true)]
async fn coded() {
    let world = World::start().await;
    let mut esme = world.receiver().await;
    for (alphabet, data_coding, expected) in [
        (None, DataCoding::UCS2, "é€Ж😀"),
        (Some(Alphabet::Gsm), DataCoding::DEFAULT, "é€??"),
        (Some(Alphabet::Ascii), DataCoding::ASCII, "????"),
        (Some(Alphabet::Latin1), DataCoding::LATIN1, "é???"),
        (Some(Alphabet::Ucs2), DataCoding::UCS2, "é€Ж😀"),
        (Some(Alphabet::Octets), DataCoding::OCTETS, "é€Ж😀"),
    ] {
        let behaviour = alphabet.map_or_else(Behaviour::new, |alphabet| Behaviour::new().coded(alphabet));
        world.send("é€Ж😀", behaviour);
        let request = esme.take().await;
        assert_eq!(request.content().data_coding, data_coding);
        assert_eq!(text(&request), expected, "{alphabet:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn announced_as_something_else() {
    let world = World::start().await;
    let mut esme = world.receiver().await;
    world.send("@é", Behaviour::new().coded(Alphabet::Latin1).announced_as(DataCoding::DEFAULT));
    let request = esme.take().await;
    assert_eq!(request.content().data_coding, DataCoding::DEFAULT);
    assert_eq!(request.content().text(DefaultAlphabet::Latin1), "@é");
}

#[tokio::test(start_paused = true)]
async fn by_data_sm() {
    let world = World::start().await;
    let mut esme = world.receiver().await;
    let ticket = world.send("hello", Behaviour::new().by_data_sm());
    let request = esme.answer(CommandStatus::RECEIVER_TEMPORARY_ERROR).await;
    world.retry_after_setback(1).await;
    assert_eq!(esme.take().await, request);
    assert_eq!(request.command(), CommandId::DATA_SM);
    assert_eq!(text(&request), "hello");
    assert_eq!(ticket.delivered().await, Outcome::Acknowledged);
}

#[tokio::test(start_paused = true)]
async fn the_answer_is_lost_with_the_link() {
    let world = World::start().await;
    let ticket = world.send("hello", Behaviour::new().losing_links(2));
    for setbacks in 1..=2 {
        let mut esme = world.receiver().await;
        assert_eq!(text(&esme.take().await), "hello");
        assert!(esme.ended().await.is_err());
        world.retry_after_setback(setbacks).await;
        world.smsc.observer().wait_until(|counts| counts.binds == 0).await;
    }
    let mut esme = world.receiver().await;
    assert_eq!(text(&esme.take().await), "hello");
    assert_eq!(ticket.delivered().await, Outcome::Acknowledged);
    assert_eq!(world.smsc.observer().messages()[0].attempts, 3);
}

#[tokio::test(start_paused = true)]
async fn the_answer_is_lost_and_the_link_stays() {
    let world = World::start().await;
    let mut esme = world.receiver().await;
    let ticket = world.send("hello", Behaviour::new().losing_answers(2));
    for setbacks in 1..=2 {
        assert_eq!(text(&esme.take().await), "hello");
        world.retry_after_setback(setbacks).await;
    }
    assert_eq!(text(&esme.take().await), "hello");
    assert_eq!(ticket.delivered().await, Outcome::Acknowledged);
    assert_eq!((world.smsc.observer().messages()[0].attempts, world.smsc.counts().binds), (3, 1));
}

/// An account with many SMS has eight delivered at a time, and keeps nobody else waiting.
#[tokio::test(start_paused = true)]
async fn one_account_does_not_delay_another() {
    let world = World::start().await;
    let mut esme = world.receiver().await;
    let [busy, other] = [1, 2].map(|id| Account { id, group: id });
    let sms = |text: &str| Sms::new(HANDSET, SERVICE, text);
    let slow = || sms("slow").behaving(Behaviour::new().losing_answers(9)).of_account(busy);
    let slow: Vec<_> = (0..500).map(|_| world.smsc.send(slow()).unwrap()).collect();
    assert_eq!(world.smsc.send(sms("one more").of_account(busy)).unwrap_err(), SendError::AccountFull);
    let ticket = world.smsc.send(sms("other").of_account(other)).unwrap();
    let taken = esme.take_all(9).await;
    assert_eq!(taken.iter().filter(|request| text(request) == "other").count(), 1);
    assert_eq!(ticket.delivered().await, Outcome::Acknowledged);
    drop(slow);
}

#[tokio::test(start_paused = true)]
async fn a_receipt_in_place_of_a_message() {
    let world = World::start().await;
    let mut esme = world.receiver().await;
    world.send("RT 1234", Behaviour::new().as_receipt());
    let request = esme.take().await;
    assert_eq!(request.esm_class().message_type(), MessageType::DeliveryReceipt);
    let receipt = text(&request);
    assert!(
        receipt.starts_with("id:0001 sub:001 dlvrd:001 ") && receipt.ends_with(" stat:DELIVRD err:000 text:RT 1234")
    );
    let Incoming::DeliverSm(message) = request else { panic!("{request:?}") };
    assert_eq!(message.tlvs.receipted_message_id().as_deref(), Some("0001"));
    assert_eq!(message.tlvs.message_state(), Some(2));
}

#[tokio::test(start_paused = true)]
async fn everything_at_once() {
    let world = World::start().await;
    let mut esme = world.receiver().await;
    let behaviour = Behaviour::new()
        .late(SECOND)
        .duplicated(1)
        .spoofed("+990700900666")
        .garbled()
        .coded(Alphabet::Ucs2)
        .split_into(3)
        .parts_reversed()
        .by_data_sm()
        .as_receipt()
        .losing_links(1);
    let ticket = world.send("hello", behaviour);
    advance(SECOND).await;
    esme.take().await;
    assert!(esme.ended().await.is_err());
    world.retry_after_setback(1).await;
    let mut esme = world.receiver().await;
    let requests = esme.take_all(6).await;
    assert_eq!(ticket.delivered().await, Outcome::Acknowledged);
    assert_eq!(requests[..3], requests[3..]);
    let sequences: Vec<_> = requests.iter().filter_map(|one| Some(one.content().segment?.sequence)).collect();
    assert_eq!(sequences, [3, 2, 1, 3, 2, 1]);
    for request in &requests {
        assert!(*request.source() == Address::international("990700900666"));
        assert_eq!(request.command(), CommandId::DATA_SM);
        assert_eq!(request.content().data_coding, DataCoding::UCS2);
        assert_eq!(request.esm_class().message_type(), MessageType::DeliveryReceipt);
        assert!(request.esm_class().has_header());
    }
}
