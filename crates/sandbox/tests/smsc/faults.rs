use ringtrue_sandbox::smsc::{Alphabet, DeliveryOutcome, QueueAccount, SendError, Sms, SmscConfig};
use ringtrue_smpp::{
    esm_class::MessageType,
    pdu::{Address, CommandId, CommandStatus, Npi, Ton},
    session::MessageRequest,
    text::DataCoding,
};
use tokio::time::advance;

use crate::{FaultScript, Fixture, HANDSET, SECOND, SERVICE, text};

#[tokio::test(start_paused = true)]
async fn delayed_sms_is_sent_later() {
    let fixture = Fixture::start().await;
    let mut esme = fixture.receiver().await;
    let delayed = fixture.send("late", FaultScript::new().delayed_by(5 * SECOND));
    advance(4 * SECOND).await;
    fixture.send("prompt", FaultScript::new());
    assert_eq!(text(&esme.accept().await), "prompt");
    assert!(esme.is_idle());
    advance(SECOND).await;
    assert_eq!(text(&esme.accept().await), "late");
    assert_eq!(delayed.wait_for_outcome().await, DeliveryOutcome::Acknowledged);
}

#[tokio::test(start_paused = true)]
async fn duplicated_sms_is_sent_again() {
    let fixture = Fixture::start().await;
    let mut esme = fixture.receiver().await;
    let handle = fixture.send("hello", FaultScript::new().duplicated(2));
    let copies = esme.accept_all(3).await;
    assert!(copies.iter().all(|copy| *copy == copies[0]));
    assert_eq!(handle.wait_for_outcome().await, DeliveryOutcome::Acknowledged);
    assert!(esme.is_idle());
    assert_eq!(fixture.smsc.counts().delivered, 1);
}

#[tokio::test(start_paused = true)]
async fn spoofed_sender_replaces_the_address() {
    let fixture = Fixture::start().await;
    let mut esme = fixture.receiver().await;
    fixture.send("hello", FaultScript::new().with_spoofed_sender("+990700900666"));
    assert!(*esme.accept().await.source() == Address::international("990700900666"));
    let national = Address { ton: Ton::NATIONAL, npi: Npi::ISDN, value: "0700900666".into() };
    fixture.send("hello", FaultScript::new().with_spoofed_sender(national.clone()));
    assert!(*esme.accept().await.source() == national);
}

#[tokio::test(start_paused = true)]
async fn garbled_text_depends_on_the_seed() {
    let garbled_octets = async |seed| {
        let fixture = Fixture::with_config(SmscConfig { seed, ..SmscConfig::default() }).await;
        let mut esme = fixture.receiver().await;
        fixture.send("hello", FaultScript::new().garbled());
        esme.accept().await.content().octets.to_vec()
    };
    let octets = garbled_octets(7).await;
    assert!(octets.len() == 5 && octets.iter().zip(b"hello").all(|(garbled, written)| garbled != written));
    assert_eq!(garbled_octets(7).await, octets);
    assert_ne!(garbled_octets(8).await, octets);
}

#[tokio::test(start_paused = true)]
async fn data_sm_replaces_deliver_sm() {
    let fixture = Fixture::start().await;
    let mut esme = fixture.receiver().await;
    let handle = fixture.send("hello", FaultScript::new().by_data_sm());
    let request = esme.respond(CommandStatus::RECEIVER_TEMPORARY_ERROR).await;
    fixture.retry_after_failure(1).await;
    assert_eq!(esme.accept().await, request);
    assert_eq!(request.command(), CommandId::DATA_SM);
    assert_eq!(text(&request), "hello");
    assert_eq!(handle.wait_for_outcome().await, DeliveryOutcome::Acknowledged);
}

#[tokio::test(start_paused = true)]
async fn lost_response_keeps_the_connection() {
    let fixture = Fixture::start().await;
    let mut esme = fixture.receiver().await;
    let handle = fixture.send("hello", FaultScript::new().losing_responses(2));
    for failures in 1..=2 {
        assert_eq!(text(&esme.accept().await), "hello");
        fixture.retry_after_failure(failures).await;
    }
    assert_eq!(text(&esme.accept().await), "hello");
    assert_eq!(handle.wait_for_outcome().await, DeliveryOutcome::Acknowledged);
    assert_eq!((fixture.smsc.observer().sent_sms()[0].attempts, fixture.smsc.counts().binds), (3, 1));
}

/// An account has at most eight concurrent deliveries, so that a slow one does not delay other accounts.
#[tokio::test(start_paused = true)]
async fn accounts_do_not_delay_each_other() {
    let fixture = Fixture::start().await;
    let mut esme = fixture.receiver().await;
    let [busy, other] = [1, 2].map(|id| QueueAccount { id, group: id });
    let sms = |text: &str| Sms::new(HANDSET, SERVICE, text);
    let slow = || sms("slow").with_faults(FaultScript::new().losing_responses(9)).with_account(busy);
    let slow: Vec<_> = (0..500).map(|_| fixture.smsc.send(slow()).unwrap()).collect();
    assert_eq!(fixture.smsc.send(sms("one more").with_account(busy)).unwrap_err(), SendError::AccountFull);
    let handle = fixture.smsc.send(sms("other").with_account(other)).unwrap();
    let accepted = esme.accept_all(9).await;
    assert_eq!(accepted.iter().filter(|request| text(request) == "other").count(), 1);
    assert_eq!(handle.wait_for_outcome().await, DeliveryOutcome::Acknowledged);
    drop(slow);
}

#[tokio::test(start_paused = true)]
async fn delivery_receipt_replaces_the_message() {
    let fixture = Fixture::start().await;
    let mut esme = fixture.receiver().await;
    fixture.send("RT 1234", FaultScript::new().as_delivery_receipt());
    let request = esme.accept().await;
    assert_eq!(request.esm_class().message_type(), MessageType::DeliveryReceipt);
    let receipt = text(&request);
    assert!(
        receipt.starts_with("id:0001 sub:001 dlvrd:001 ") && receipt.ends_with(" stat:DELIVRD err:000 text:RT 1234")
    );
    let MessageRequest::DeliverSm(message) = request else { panic!("{request:?}") };
    assert_eq!(message.tlvs.receipted_message_id().as_deref(), Some("0001"));
    assert_eq!(message.tlvs.message_state(), Some(2));
}

#[tokio::test(start_paused = true)]
async fn faults_can_be_combined() {
    let fixture = Fixture::start().await;
    let mut esme = fixture.receiver().await;
    let faults = FaultScript::new()
        .delayed_by(SECOND)
        .duplicated(1)
        .with_spoofed_sender("+990700900666")
        .garbled()
        .encoded_in(Alphabet::Ucs2)
        .split_into(3)
        .parts_reversed()
        .by_data_sm()
        .as_delivery_receipt()
        .dropping_connections(1);
    let handle = fixture.send("hello", faults);
    advance(SECOND).await;
    esme.accept().await;
    assert!(esme.wait_for_end().await.is_err());
    fixture.retry_after_failure(1).await;
    let mut esme = fixture.receiver().await;
    let requests = esme.accept_all(6).await;
    assert_eq!(handle.wait_for_outcome().await, DeliveryOutcome::Acknowledged);
    assert_eq!(requests[..3], requests[3..]);
    let sequences: Vec<_> = requests.iter().filter_map(|one| Some(one.content().segment?.sequence)).collect();
    assert_eq!(sequences, [3, 2, 1, 3, 2, 1]);
    for request in &requests {
        assert!(*request.source() == Address::international("990700900666"));
        assert_eq!(request.command(), CommandId::DATA_SM);
        assert_eq!(request.content().data_coding, DataCoding::UCS2);
        assert_eq!(request.esm_class().message_type(), MessageType::DeliveryReceipt);
        assert!(request.esm_class().has_udh());
    }
}
