use ringtrue_operators::smpp::SmppOutcome;
use ringtrue_smpp::{pdu::CommandStatus, session::UnboundBy};
use tokio::time::advance;

use crate::{
    Fixture, SECOND, Sandbox,
    manual_smsc::{ManualSmsc, part, sms},
};

#[tokio::test(start_paused = true)]
async fn pending_messages_are_answered_before_the_unbind() {
    let fixture = Fixture::new();
    let smsc = ManualSmsc::start().await;
    let connector = fixture.start(Fixture::config(smsc.port()));
    let bound = smsc.bind().await;
    fixture.inbox.set_blocked(true);
    let whole = bound.send(sms("hello"));
    let alone = bound.send(part(7, 2, 1, "one "));
    fixture.wait_for_count(SmppOutcome::Received, 2).await;
    let open = async {
        // Waiting parts are rejected; the delivery in the inbox is awaited.
        assert_eq!(alone.await.unwrap(), CommandStatus::RECEIVER_TEMPORARY_ERROR);
        assert!(!whole.is_finished());
        fixture.inbox.set_blocked(false);
        assert_eq!(whole.await.unwrap(), CommandStatus::OK);
    };
    tokio::join!(connector.shutdown(), open);
    assert_eq!(bound.session.await.unwrap().unwrap(), UnboundBy::Peer);
    assert_eq!(fixture.inbox.texts(), ["hello"]);
    assert_eq!((connector.status().binds_up, fixture.counters.binds_up()), (0, 0));
    // Shutdown is idempotent.
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn shutdown_does_not_wait_for_a_blocked_inbox() {
    let fixture = Fixture::new();
    let smsc = ManualSmsc::start().await;
    let connector = fixture.start(Fixture::config(smsc.port()));
    let bound = smsc.bind().await;
    fixture.inbox.set_blocked(true);
    let response = bound.send(sms("hello"));
    fixture.inbox.wait_for_deliveries(1).await;
    let time_passes = async {
        tokio::task::yield_now().await;
        advance(8 * SECOND).await;
        assert_eq!(response.await.unwrap(), CommandStatus::RECEIVER_TEMPORARY_ERROR);
    };
    tokio::join!(connector.shutdown(), time_passes);
}

#[tokio::test(start_paused = true)]
async fn shutdown_interrupts_the_reconnect_delay() {
    let fixture = Fixture::new();
    let smsc = ManualSmsc::start().await;
    let port = smsc.port();
    drop(smsc);
    let connector = fixture.start(Fixture::config(port));
    connector.wait_until(|status| status.last_error.is_some()).await;
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn shutdown_interrupts_a_pending_bind() {
    let fixture = Fixture::new();
    let smsc = ManualSmsc::start().await;
    let connector = fixture.start(Fixture::config(smsc.port()));
    let _never_answered = smsc.connection().await;
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn dropped_connector_unbinds() {
    let Sandbox { smsc, connector, fixture } = Sandbox::start().await;
    drop(connector);
    smsc.observer().wait_until(|counts| counts.binds == 0).await;
    drop(fixture);
}
