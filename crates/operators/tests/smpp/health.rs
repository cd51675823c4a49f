use ringtrue_engine::ports::connectors::{ConnectorState, MonitoredConnector as _};
use ringtrue_operators::smpp::{SmppConfig, SmppOutcome};
use ringtrue_smpp::{pdu::CommandStatus, session::UnboundBy};
use tokio::time::advance;

use crate::{
    Fixture, SECOND, Sandbox,
    peers::{ManualSmsc, sms},
    start_with_manual_smsc,
};

#[tokio::test(start_paused = true)]
async fn receivers_become_unavailable_after_the_grace_period() {
    let sandbox = Sandbox::with(|config| SmppConfig { binds: 2, ..config }).await;
    let (fixture, connector) = (&sandbox.fixture, &sandbox.connector);
    let status = connector.wait_until(|status| status.binds_up == 2).await;
    assert!(fixture.receivers_available() && status.receivers_available && status.last_error.is_none());
    assert_eq!(fixture.counters.binds_up(), 2);
    let report = connector.connector_status();
    assert_eq!(
        (report.state, report.link_summary.map(|links| (links.up, links.configured))),
        (ConnectorState::Up, Some((2, 2)))
    );

    sandbox.smsc.set_refuse_binds(true);
    sandbox.smsc.drop_connections();
    connector.wait_until(|status| status.binds_up == 0).await;
    assert!(fixture.receivers_available());
    advance(29 * SECOND).await;
    tokio::task::yield_now().await;
    assert!(fixture.receivers_available());
    advance(SECOND).await;
    connector.wait_until(|status| !status.receivers_available).await;
    assert!(!fixture.receivers_available());
    assert_eq!(connector.connector_status().state, ConnectorState::Down);
    assert!(connector.connector_status().health.last_error.is_some());

    sandbox.smsc.set_refuse_binds(false);
    advance(60 * SECOND).await;
    connector.wait_until(|status| status.receivers_available && status.binds_up > 0).await;
    assert!(fixture.receivers_available());
}

#[tokio::test(start_paused = true)]
async fn short_outage_keeps_receivers_available() {
    let sandbox = Sandbox::start().await;
    sandbox.smsc.drop_connections();
    sandbox.connector.wait_until(|status| status.binds_up == 0 && status.last_error.is_some()).await;
    advance(SECOND).await;
    sandbox.connector.wait_until(|status| status.binds_up == 1).await;
    advance(29 * SECOND).await;
    assert!(sandbox.fixture.receivers_available() && sandbox.connector.status().receivers_available);
}

#[tokio::test(start_paused = true)]
async fn wrong_password_is_reported_immediately_and_retried_slowly() {
    let fixture = Fixture::new();
    let smsc = ManualSmsc::start().await;
    let config = SmppConfig { password: "guessed!".into(), ..Fixture::config(smsc.port()) };
    let connector = fixture.start(config);
    smsc.refuse(CommandStatus::INVALID_PASSWORD).await;
    let status = connector.wait_until(|status| !status.receivers_available).await;
    assert!(!fixture.receivers_available());
    let message = status.last_error.unwrap().message;
    assert!(message.contains("ESME_RINVPASWD") && !message.contains("guessed"), "{message}");
    assert!(!format!("{connector:?}").contains("guessed"));
    // The connector retries after the maximum delay of 60 seconds, which jitter shortens by at most half.
    advance(29 * SECOND).await;
    assert_eq!(connector.status().binds_up, 0);
    advance(31 * SECOND).await;
    smsc.bind().await;
    connector.wait_until(|status| status.receivers_available && status.binds_up == 1).await;
    assert!(fixture.receivers_available());
}

#[tokio::test(start_paused = true)]
async fn one_bind_keeps_receivers_available() {
    let (fixture, smsc, connector) = start_with_manual_smsc(|config| SmppConfig { binds: 2, ..config }).await;
    let _bound = smsc.bind().await;
    smsc.refuse(CommandStatus::ALREADY_BOUND).await;
    connector.wait_until(|status| status.binds_up == 1 && status.last_error.is_some()).await;
    advance(60 * SECOND).await;
    assert!(fixture.receivers_available() && connector.status().receivers_available);
}

#[test]
fn debug_output_masks_secrets() {
    let config = SmppConfig { password: "hush".into(), ..Fixture::config(2775) };
    let shown = format!("{config:?}");
    assert!(!shown.contains("hush") && !shown.contains("7700900999"), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn pending_messages_are_answered_before_the_unbind() {
    let (fixture, smsc, connector) = start_with_manual_smsc(|config| config).await;
    let bound = smsc.bind().await;
    fixture.inbox.set_blocked(true);
    let whole = bound.send(sms("hello"));
    fixture.wait_for_count(SmppOutcome::Received, 1).await;
    let open = async {
        tokio::task::yield_now().await;
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
    let (fixture, smsc, connector) = start_with_manual_smsc(|config| config).await;
    let bound = smsc.bind().await;
    fixture.inbox.set_blocked(true);
    let response = bound.send(sms("hello"));
    fixture.inbox.wait_for_deliveries(1).await;
    let advance_clock = async {
        tokio::task::yield_now().await;
        advance(8 * SECOND).await;
        assert_eq!(response.await.unwrap(), CommandStatus::RECEIVER_TEMPORARY_ERROR);
    };
    tokio::join!(connector.shutdown(), advance_clock);
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
    let (_fixture, smsc, connector) = start_with_manual_smsc(|config| config).await;
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
