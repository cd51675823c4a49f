use ringtrue_sandbox::smsc::{DeliveryOutcome, SendError, Sms, Smsc, SmscConfig};
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
