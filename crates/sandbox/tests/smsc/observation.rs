use ringtrue_sandbox::smsc::{Outcome, Party, Setback, Sms, SmscConfig};
use ringtrue_smpp::pdu::CommandStatus;

use crate::{Behaviour, HANDSET, SERVICE, World};

#[tokio::test(start_paused = true)]
async fn the_last_messages_are_remembered_with_their_outcome() {
    let world = World::with(SmscConfig { remembered: 3, attempts: 1, ..SmscConfig::default() }).await;
    let mut esme = world.receiver().await;
    for status in
        [CommandStatus::OK, CommandStatus::OK, CommandStatus::RECEIVER_REJECTED, CommandStatus::MESSAGE_QUEUE_FULL]
    {
        let ticket = world.send("hello", Behaviour::new());
        esme.answer(status).await;
        ticket.delivered().await;
    }
    let observer = world.smsc.observer();
    let messages = observer.messages();
    assert_eq!(messages.iter().map(|message| message.id).collect::<Vec<_>>(), [2, 3, 4]);
    let outcomes: Vec<_> = messages.iter().map(|message| message.outcome).collect();
    let put_off = Setback::PutOff(CommandStatus::MESSAGE_QUEUE_FULL);
    assert_eq!(
        outcomes,
        [
            Some(Outcome::Acknowledged),
            Some(Outcome::Rejected(CommandStatus::RECEIVER_REJECTED)),
            Some(Outcome::GaveUp(put_off)),
        ]
    );
    assert!(messages.iter().all(|message| message.attempts == 1 && message.text == "hello"));
    assert_eq!(messages[0].from.shown(), HANDSET);
    assert_eq!(messages[0].to, Party::from(SERVICE));

    let counts = observer.counts();
    assert_eq!((counts.delivered, counts.refused, counts.given_up), (2, 1, 1));
    assert_eq!((counts.binds, counts.queued, counts.attempts), (1, 0, 4));

    world.smsc.shutdown().await;
    assert_eq!(observer.messages().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_shown_by_accident() {
    let config = SmscConfig { password: "hush".into(), ..SmscConfig::default() };
    let secrets = ["700900001", "700900999", "secret words", "hush", "700900777"];
    let world = World::with(config.clone()).await;
    let sms = Sms::new(HANDSET, SERVICE, "secret words").behaving(Behaviour::new().spoofed("+990700900777"));
    let ticket = world.smsc.send(sms.clone()).unwrap();
    let messages = world.smsc.observer().messages();
    assert_eq!(messages.len(), 1);
    let shown = format!("{config:?} {sms:?} {ticket:?} {messages:?} {:?} {:?}", world.smsc, world.smsc.observer());
    for secret in secrets {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
}
