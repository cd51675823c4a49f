use ringtrue_sandbox::smsc::{AttemptFailure, DeliveryOutcome, Sms, SmsAddress, SmscConfig};
use ringtrue_smpp::pdu::CommandStatus;

use crate::{FaultScript, Fixture, HANDSET, SERVICE};

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
