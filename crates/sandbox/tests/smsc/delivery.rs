use ringtrue_domain::tenancy::ReverseSmsTtl;
use ringtrue_sandbox::smsc::{AttemptFailure, DeliveryOutcome, QueueLimits, SendError, Sms, SmscConfig};
use ringtrue_smpp::{
    esm_class::MessageType,
    pdu::{Address, CommandId, CommandStatus, Npi, Ton},
    session::SessionConfig,
    text::DataCoding,
};
use tokio::time::advance;

use crate::{FaultScript, Fixture, HANDSET, SECOND, SERVICE, text};

const TEMPORARY: [CommandStatus; 3] =
    [CommandStatus::RECEIVER_TEMPORARY_ERROR, CommandStatus::MESSAGE_QUEUE_FULL, CommandStatus::THROTTLED];

#[tokio::test(start_paused = true)]
async fn sms_is_delivered_unchanged() {
    let fixture = Fixture::start().await;
    let mut esme = fixture.receiver().await;
    let handle = fixture.send("RT 12-34 @{€}", FaultScript::new());
    let request = esme.accept().await;
    assert_eq!(handle.wait_for_outcome().await, DeliveryOutcome::Acknowledged);
    assert_eq!(request.command(), CommandId::DELIVER_SM);
    assert!(*request.source() == Address::international("990700900001"));
    assert!(*request.destination() == Address::international("990700900999"));
    assert_eq!(request.esm_class().message_type(), MessageType::Ordinary);
    assert_eq!(request.content().data_coding, DataCoding::DEFAULT);
    assert_eq!(request.content().segment, None);
    assert_eq!(text(&request), "RT 12-34 @{€}");
}

#[tokio::test(start_paused = true)]
async fn raw_addresses_are_sent_unchanged() {
    let fixture = Fixture::start().await;
    let mut esme = fixture.receiver().await;
    let name = Address { ton: Ton::ALPHANUMERIC, npi: Npi::UNKNOWN, value: "ACME".into() };
    let code = Address { ton: Ton::ABBREVIATED, npi: Npi::ISDN, value: "12345".into() };
    fixture.smsc.send(Sms::new(name.clone(), code.clone(), "hello")).unwrap();
    let request = esme.accept().await;
    assert!(*request.source() == name && *request.destination() == code);
}

#[tokio::test(start_paused = true)]
async fn invalid_sms_is_rejected_immediately() {
    let fixture = Fixture::start().await;
    let refusal = |from: &str| fixture.smsc.send(Sms::new(from, SERVICE, "hello")).err();
    for number in ["990700900001", "+", "+99070090000a", "+1234567890123456"] {
        assert_eq!(refusal(number), Some(SendError::NotE164), "{number}");
    }
    let long = Address::international("1".repeat(21));
    let rejected = fixture.smsc.send(Sms::new(long, SERVICE, "hello")).unwrap_err();
    assert!(matches!(rejected, SendError::Encode(_)), "{rejected:?}");
    let rejected = fixture.smsc.send(Sms::new(HANDSET, SERVICE, "a".repeat(153 * 255 + 1))).unwrap_err();
    assert_eq!(rejected, SendError::TooLong);
    assert_eq!(fixture.smsc.counts().queued, 0);
}

#[tokio::test(start_paused = true)]
async fn sms_waits_for_a_bind() {
    let fixture = Fixture::start().await;
    let handles = [fixture.send("one", FaultScript::new()), fixture.send("two", FaultScript::new())];
    advance(3600 * SECOND).await;
    assert_eq!(fixture.smsc.counts().attempts, 0);
    let mut esme = fixture.receiver().await;
    let mut texts = esme.accept_all(2).await.iter().map(text).collect::<Vec<_>>();
    texts.sort();
    assert_eq!(texts, ["one", "two"]);
    for handle in handles {
        assert_eq!(handle.wait_for_outcome().await, DeliveryOutcome::Acknowledged);
    }
}

#[tokio::test(start_paused = true)]
async fn temporary_error_is_retried() {
    let fixture = Fixture::start().await;
    let mut esme = fixture.receiver().await;
    let handle = fixture.send("hello", FaultScript::new());
    for (failures, status) in (1..).zip(TEMPORARY) {
        assert_eq!(text(&esme.respond(status).await), "hello");
        fixture.retry_after_failure(failures).await;
    }
    assert_eq!(text(&esme.accept().await), "hello");
    assert_eq!(handle.wait_for_outcome().await, DeliveryOutcome::Acknowledged);
    assert_eq!(fixture.smsc.counts().attempts, 4);
}

#[tokio::test(start_paused = true)]
async fn retry_waits_for_the_delay() {
    let fixture = Fixture::start().await;
    let mut esme = fixture.receiver().await;
    fixture.send("first", FaultScript::new());
    esme.respond(CommandStatus::RECEIVER_TEMPORARY_ERROR).await;
    fixture.smsc.observer().wait_until(|counts| counts.failed_attempts == 1).await;
    advance(SECOND / 100 * 99).await;
    fixture.send("second", FaultScript::new());
    assert_eq!(text(&esme.accept().await), "second");
    advance(SECOND / 100).await;
    assert_eq!(text(&esme.accept().await), "first");
}

#[tokio::test(start_paused = true)]
async fn permanent_error_is_not_retried() {
    let fixture = Fixture::start().await;
    let mut esme = fixture.receiver().await;
    for status in [
        CommandStatus::RECEIVER_PERMANENT_ERROR,
        CommandStatus::RECEIVER_REJECTED,
        CommandStatus::SYSTEM_ERROR,
        CommandStatus(0x1234),
    ] {
        let handle = fixture.send("hello", FaultScript::new().split_into(3));
        esme.respond(status).await;
        assert_eq!(handle.wait_for_outcome().await, DeliveryOutcome::Rejected(status));
    }
    assert_eq!((fixture.smsc.counts().rejected, fixture.smsc.counts().attempts), (4, 4));
}

/// The SMSC retries for as long as a check waits, so that an outage of the receiver may last that long.
#[tokio::test(start_paused = true)]
async fn message_is_retried_as_long_as_a_check_can_wait() {
    assert!(
        ReverseSmsTtl::try_from(900).is_ok() && ReverseSmsTtl::try_from(901).is_err(),
        "the longest lifetime is 900 s"
    );
    let config = SmscConfig::default();
    assert!(config.retry_delay * config.max_attempts >= 900 * SECOND);
    let fixture = Fixture::with_config(config).await;
    let mut esme = fixture.receiver().await;
    let handle = fixture.send("hello", FaultScript::new());
    for failures in 1..=30 {
        esme.respond(CommandStatus::RECEIVER_TEMPORARY_ERROR).await;
        fixture.retry_after_failure(failures).await;
    }
    esme.accept().await;
    assert_eq!(handle.wait_for_outcome().await, DeliveryOutcome::Acknowledged);
}

#[tokio::test(start_paused = true)]
async fn attempts_are_limited() {
    let fixture = Fixture::with_config(SmscConfig { max_attempts: 3, ..SmscConfig::default() }).await;
    let mut esme = fixture.receiver().await;
    let handle = fixture.send("hello", FaultScript::new());
    for failures in 1..=3 {
        esme.respond(CommandStatus::THROTTLED).await;
        fixture.retry_after_failure(failures).await;
    }
    assert_eq!(
        handle.wait_for_outcome().await,
        DeliveryOutcome::RetriesExhausted(AttemptFailure::TemporaryError(CommandStatus::THROTTLED))
    );
    assert_eq!((fixture.smsc.counts().retries_exhausted, fixture.smsc.counts().queued), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn missing_response_is_retried() {
    let session = SessionConfig { response_timeout: 2 * SECOND, ..SessionConfig::default() };
    let fixture = Fixture::with_config(SmscConfig { session, max_attempts: 2, ..SmscConfig::default() }).await;
    let mut esme = fixture.receiver().await;
    let handle = fixture.send("hello", FaultScript::new());
    let _unanswered = esme.receive().await;
    advance(2 * SECOND).await;
    fixture.retry_after_failure(1).await;
    let _unanswered = esme.receive().await;
    advance(2 * SECOND).await;
    assert_eq!(handle.wait_for_outcome().await, DeliveryOutcome::RetriesExhausted(AttemptFailure::NoResponse));
}

#[tokio::test(start_paused = true)]
async fn receivers_are_used_in_round_robin() {
    let fixture = Fixture::start().await;
    let (mut first, mut second) = (fixture.receiver().await, fixture.receiver().await);
    for _ in 0..3 {
        for esme in [&mut first, &mut second] {
            let handle = fixture.send("hello", FaultScript::new());
            esme.accept().await;
            assert_eq!(handle.wait_for_outcome().await, DeliveryOutcome::Acknowledged);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn many_sms_are_delivered_concurrently() {
    let fixture = Fixture::start().await;
    let mut esmes = [fixture.receiver().await, fixture.receiver().await, fixture.receiver().await];
    let handles: Vec<_> = (0..999).map(|number| fixture.send(&number.to_string(), FaultScript::new())).collect();
    let [first, second, third] = &mut esmes;
    let (first, second, third) = tokio::join!(first.accept_all(333), second.accept_all(333), third.accept_all(333));
    let mut numbers: Vec<u32> = [first, second, third].concat().iter().map(|one| text(one).parse().unwrap()).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..999));
    for handle in handles {
        assert_eq!(handle.wait_for_outcome().await, DeliveryOutcome::Acknowledged);
    }
}

#[tokio::test(start_paused = true)]
async fn queue_is_bounded() {
    let fixture = Fixture::with_config(SmscConfig {
        queue: QueueLimits { total: 2, ..QueueLimits::default() },
        ..SmscConfig::default()
    })
    .await;
    let handles = [fixture.send("one", FaultScript::new()), fixture.send("two", FaultScript::new())];
    let three = || fixture.smsc.send(Sms::new(HANDSET, SERVICE, "three"));
    assert_eq!(three().unwrap_err(), SendError::QueueFull);
    let mut esme = fixture.receiver().await;
    esme.accept_all(2).await;
    for handle in handles {
        assert_eq!(handle.wait_for_outcome().await, DeliveryOutcome::Acknowledged);
    }
    three().unwrap();
    assert_eq!(text(&esme.accept().await), "three");
}

#[tokio::test(start_paused = true)]
async fn lost_connection_is_retried() {
    let fixture = Fixture::start().await;
    let mut esme = fixture.receiver().await;
    let handle = fixture.send("hello", FaultScript::new());
    let unanswered = esme.receive().await;
    fixture.smsc.drop_connections();
    drop(unanswered);
    assert!(esme.wait_for_end().await.is_err());
    let mut again = fixture.receiver().await;
    fixture.retry_after_failure(1).await;
    assert_eq!(text(&again.accept().await), "hello");
    assert_eq!(handle.wait_for_outcome().await, DeliveryOutcome::Acknowledged);
}
