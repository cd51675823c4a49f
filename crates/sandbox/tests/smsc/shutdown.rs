use ringtrue_sandbox::smsc::{AttemptFailure, DeliveryOutcome, SendError, Sms, SmsAddress, Smsc, SmscConfig};
use ringtrue_smpp::{
    pdu::{BindMode, CommandStatus},
    session::UnboundBy,
};
use tokio::{io::AsyncReadExt, net::TcpStream, time::advance};

use crate::{FaultScript, Fixture, HANDSET, SECOND, SERVICE};

#[tokio::test(start_paused = true)]
async fn shutdown_unbinds() {
    let fixture = Fixture::start().await;
    let mut receiver = fixture.receiver().await;
    let mut transmitter = fixture.bind(BindMode::Transmitter).await;
    let mut unbound = fixture.connect().await;
    fixture.smsc.shutdown().await;
    assert_eq!(receiver.wait_for_end().await.unwrap(), UnboundBy::Peer);
    assert_eq!(transmitter.wait_for_end().await.unwrap(), UnboundBy::Peer);
    assert_eq!(unbound.read(&mut [0; 16]).await.unwrap_or(0), 0);
    assert_eq!(fixture.smsc.counts().binds, 0);
    assert!(TcpStream::connect(fixture.smsc.address()).await.is_err());
    // A second shutdown has no effect.
    fixture.smsc.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn shutdown_stops_queued_sms() {
    let fixture = Fixture::start().await;
    let waiting = fixture.send("no receiver", FaultScript::new());
    let delayed = fixture.send("late", FaultScript::new().delayed_by(60 * SECOND));
    fixture.smsc.shutdown().await;
    assert_eq!(waiting.wait_for_outcome().await, DeliveryOutcome::Stopped);
    assert_eq!(delayed.wait_for_outcome().await, DeliveryOutcome::Stopped);
    assert_eq!(fixture.smsc.counts().queued, 0);
    let rejected = fixture.smsc.send(Sms::new(HANDSET, SERVICE, "too late"));
    assert_eq!(rejected.unwrap_err(), SendError::Stopped);
}

#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_pending_responses() {
    let fixture = Fixture::start().await;
    let mut esme = fixture.receiver().await;
    fixture.send("hello", FaultScript::new());
    let received = esme.receive().await;
    let respond = async {
        tokio::task::yield_now().await;
        received.respond(CommandStatus::OK);
        esme.wait_for_end().await
    };
    let ((), ended) = tokio::join!(fixture.smsc.shutdown(), respond);
    assert_eq!(ended.unwrap(), UnboundBy::Peer);
}

#[tokio::test(start_paused = true)]
async fn shutdown_does_not_wait_for_unresponsive_receivers() {
    let fixture = Fixture::start().await;
    let mut esme = fixture.receiver().await;
    fixture.send("hello", FaultScript::new());
    let _unanswered = esme.receive().await;
    let advance_clock = async {
        tokio::task::yield_now().await;
        advance(SECOND).await;
    };
    tokio::join!(fixture.smsc.shutdown(), advance_clock);
}

#[tokio::test(start_paused = true)]
async fn dropping_stops_the_smsc() {
    let mut fixture = Fixture::start().await;
    let mut esme = fixture.receiver().await;
    let handle = fixture.send("late", FaultScript::new().delayed_by(60 * SECOND));
    let observer = fixture.smsc.observer();
    fixture.smsc = Smsc::start(SmscConfig::default()).await.unwrap();
    assert_eq!(esme.wait_for_end().await.unwrap(), UnboundBy::Peer);
    assert_eq!(handle.wait_for_outcome().await, DeliveryOutcome::Stopped);
    observer.wait_until(|counts| counts.binds == 0 && counts.queued == 0).await;
}

#[tokio::test(start_paused = true)]
async fn recent_sms_are_recorded_with_their_outcome() {
    let fixture = Fixture::with_config(SmscConfig { max_records: 3, max_attempts: 1, ..SmscConfig::default() }).await;
    let mut esme = fixture.receiver().await;
    for status in
        [CommandStatus::OK, CommandStatus::OK, CommandStatus::RECEIVER_REJECTED, CommandStatus::MESSAGE_QUEUE_FULL]
    {
        let handle = fixture.send("hello", FaultScript::new());
        esme.respond(status).await;
        handle.wait_for_outcome().await;
    }
    let observer = fixture.smsc.observer();
    let messages = observer.sent_sms();
    assert_eq!(messages.iter().map(|message| message.id).collect::<Vec<_>>(), [2, 3, 4]);
    let outcomes: Vec<_> = messages.iter().map(|message| message.outcome).collect();
    let temporary_error = AttemptFailure::TemporaryError(CommandStatus::MESSAGE_QUEUE_FULL);
    assert_eq!(
        outcomes,
        [
            Some(DeliveryOutcome::Acknowledged),
            Some(DeliveryOutcome::Rejected(CommandStatus::RECEIVER_REJECTED)),
            Some(DeliveryOutcome::RetriesExhausted(temporary_error)),
        ]
    );
    assert!(messages.iter().all(|message| message.attempts == 1 && message.text == "hello"));
    assert_eq!(messages[0].from.as_str(), HANDSET);
    assert_eq!(messages[0].to, SmsAddress::from(SERVICE));

    let counts = observer.counts();
    assert_eq!((counts.delivered, counts.rejected, counts.retries_exhausted), (2, 1, 1));
    assert_eq!((counts.binds, counts.queued, counts.attempts), (1, 0, 4));

    fixture.smsc.shutdown().await;
    assert_eq!(observer.sent_sms().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn debug_hides_secrets() {
    let config = SmscConfig { password: "hush".into(), ..SmscConfig::default() };
    let secrets = ["700900001", "700900999", "secret words", "hush", "700900777"];
    let fixture = Fixture::with_config(config.clone()).await;
    let sms =
        Sms::new(HANDSET, SERVICE, "secret words").with_faults(FaultScript::new().with_spoofed_sender("+990700900777"));
    let handle = fixture.smsc.send(sms.clone()).unwrap();
    let messages = fixture.smsc.observer().sent_sms();
    assert_eq!(messages.len(), 1);
    let shown = format!("{config:?} {sms:?} {handle:?} {messages:?} {:?} {:?}", fixture.smsc, fixture.smsc.observer());
    for secret in secrets {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
}
