use ringtrue_sandbox::smsc::{Outcome, SendError, Sms, Smsc, SmscConfig};
use ringtrue_smpp::{
    pdu::{BindMode, CommandStatus},
    session::Ended,
};
use tokio::{io::AsyncReadExt, net::TcpStream, time::advance};

use crate::{Behaviour, HANDSET, SECOND, SERVICE, World};

#[tokio::test(start_paused = true)]
async fn a_centre_that_stops_unbinds() {
    let world = World::start().await;
    let mut receiver = world.receiver().await;
    let mut transmitter = world.bind(BindMode::Transmitter).await;
    let mut unbound = world.connect().await;
    world.smsc.shutdown().await;
    assert_eq!(receiver.ended().await.unwrap(), Ended::ByPeer);
    assert_eq!(transmitter.ended().await.unwrap(), Ended::ByPeer);
    assert_eq!(unbound.read(&mut [0; 16]).await.unwrap_or(0), 0);
    assert_eq!(world.smsc.counts().binds, 0);
    assert!(TcpStream::connect(world.smsc.address()).await.is_err());
    // Once more does no harm.
    world.smsc.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_on_its_way_is_told() {
    let world = World::start().await;
    let waiting = world.send("nobody is there", Behaviour::new());
    let late = world.send("late", Behaviour::new().late(60 * SECOND));
    world.smsc.shutdown().await;
    assert_eq!(waiting.delivered().await, Outcome::Stopped);
    assert_eq!(late.delivered().await, Outcome::Stopped);
    assert_eq!(world.smsc.counts().queued, 0);
    let refused = world.smsc.send(Sms::new(HANDSET, SERVICE, "too late"));
    assert_eq!(refused.unwrap_err(), SendError::Stopped);
}

#[tokio::test(start_paused = true)]
async fn an_answer_on_its_way_is_waited_for() {
    let world = World::start().await;
    let mut esme = world.receiver().await;
    world.send("hello", Behaviour::new());
    let received = esme.receive().await;
    let answer = async {
        tokio::task::yield_now().await;
        received.answer(CommandStatus::OK);
        esme.ended().await
    };
    let ((), ended) = tokio::join!(world.smsc.shutdown(), answer);
    assert_eq!(ended.unwrap(), Ended::ByPeer);
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_does_not_let_go_is_left() {
    let world = World::start().await;
    let mut esme = world.receiver().await;
    world.send("hello", Behaviour::new());
    let _unanswered = esme.receive().await;
    let patience = async {
        tokio::task::yield_now().await;
        advance(SECOND).await;
    };
    tokio::join!(world.smsc.shutdown(), patience);
}

#[tokio::test(start_paused = true)]
async fn a_centre_that_is_dropped_stops() {
    let mut world = World::start().await;
    let mut esme = world.receiver().await;
    let ticket = world.send("late", Behaviour::new().late(60 * SECOND));
    let observer = world.smsc.observer();
    world.smsc = Smsc::start(SmscConfig::default()).await.unwrap();
    assert_eq!(esme.ended().await.unwrap(), Ended::ByPeer);
    assert_eq!(ticket.delivered().await, Outcome::Stopped);
    observer.wait_until(|counts| counts.binds == 0 && counts.queued == 0).await;
}
