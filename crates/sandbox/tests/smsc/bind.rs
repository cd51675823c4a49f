use bytes::BytesMut;
use ringtrue_sandbox::smsc::{DeliveryOutcome, SmscConfig};
use ringtrue_smpp::{
    pdu::{Bind, BindMode, Body, CommandStatus, MAX_PDU_OCTETS, Pdu, Request, Response, ShortMessage, next_frame},
    session::{BindError, RequestError, UnboundBy},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::advance,
};

use crate::{FaultScript, Fixture, SECOND, text};

fn status<T>(rejected: &Result<T, BindError>) -> Option<CommandStatus> {
    match rejected {
        Err(BindError::Rejected(status)) => Some(*status),
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn transmitter_receives_no_messages() {
    let fixture = Fixture::start().await;
    let mut transmitter = fixture.bind(BindMode::Transmitter).await;
    let handle = fixture.send("hello", FaultScript::new());
    let mut receiver = fixture.receiver().await;
    assert_eq!(text(&receiver.accept().await), "hello");
    assert_eq!(handle.wait_for_outcome().await, DeliveryOutcome::Acknowledged);
    transmitter.link.enquire_link().await.unwrap();
    assert!(transmitter.is_idle());

    let rejected = transmitter.link.submit_sm(ShortMessage::default()).await;
    assert_eq!(rejected, Err(RequestError::Rejected(CommandStatus::SUBMIT_FAILED)));
    let rejected = receiver.link.submit_sm(ShortMessage::default()).await;
    assert_eq!(rejected, Err(RequestError::Rejected(CommandStatus::INCORRECT_BIND_STATUS)));
}

#[tokio::test(start_paused = true)]
async fn wrong_credentials_are_rejected() {
    let fixture = Fixture::start().await;
    let wrong_password = fixture.try_bind(BindMode::Receiver, "sandbox", "wrong").await;
    assert_eq!(status(&wrong_password), Some(CommandStatus::INVALID_PASSWORD));
    let wrong_name = fixture.try_bind(BindMode::Transceiver, "someone", "sandbox").await;
    assert_eq!(status(&wrong_name), Some(CommandStatus::INVALID_SYSTEM_ID));
    assert_eq!(fixture.smsc.counts().binds_rejected, 2);
    assert_eq!(fixture.smsc.counts().binds, 0);
}

#[tokio::test(start_paused = true)]
async fn binds_are_rejected_while_set() {
    let fixture = Fixture::start().await;
    let mut before = fixture.receiver().await;
    fixture.smsc.set_refuse_binds(true);
    let rejected = fixture.try_bind(BindMode::Receiver, "sandbox", "sandbox").await;
    assert_eq!(status(&rejected), Some(CommandStatus::BIND_FAILED));
    // Existing binds still receive messages.
    fixture.send("hello", FaultScript::new());
    assert_eq!(text(&before.accept().await), "hello");
    fixture.smsc.set_refuse_binds(false);
    fixture.receiver().await;
}

#[tokio::test(start_paused = true)]
async fn binds_above_the_limit_are_rejected() {
    let fixture = Fixture::with_config(SmscConfig { max_binds: 1, ..SmscConfig::default() }).await;
    let mut first = fixture.receiver().await;
    let rejected = fixture.try_bind(BindMode::Transceiver, "sandbox", "sandbox").await;
    assert_eq!(status(&rejected), Some(CommandStatus::ALREADY_BOUND));
    assert_eq!((fixture.smsc.counts().binds, fixture.smsc.counts().binds_rejected), (1, 1));
    fixture.send("hello", FaultScript::new());
    assert_eq!(text(&first.accept().await), "hello");
    first.link.unbind().await;
    first.wait_for_end().await.unwrap();
    fixture.smsc.observer().wait_until(|counts| counts.binds == 0).await;
    fixture.receiver().await;
}

#[tokio::test(start_paused = true)]
async fn unbound_receiver_gets_no_more_messages() {
    let fixture = Fixture::start().await;
    let mut leaving = fixture.receiver().await;
    leaving.link.unbind().await;
    assert_eq!(leaving.wait_for_end().await.unwrap(), UnboundBy::Us);
    fixture.smsc.observer().wait_until(|counts| counts.binds == 0).await;
    let handle = fixture.send("hello", FaultScript::new());
    let mut staying = fixture.receiver().await;
    assert_eq!(text(&staying.accept().await), "hello");
    assert_eq!(handle.wait_for_outcome().await, DeliveryOutcome::Acknowledged);
    assert_eq!(fixture.smsc.counts().failed_attempts, 0);
}

#[tokio::test(start_paused = true)]
async fn connections_above_the_limit_are_closed() {
    let fixture = Fixture::with_config(SmscConfig { max_connections: 1, ..SmscConfig::default() }).await;
    let mut esme = fixture.receiver().await;
    let mut too_many = fixture.connect().await;
    assert_eq!(too_many.read(&mut [0; 16]).await.unwrap(), 0);
    assert_eq!(fixture.smsc.counts().connections_rejected, 1);
    esme.link.unbind().await;
    esme.wait_for_end().await.unwrap();
    // A new connection is accepted after the old one has ended.
    fixture.smsc.observer().wait_until(|counts| counts.binds == 0).await;
    fixture.receiver().await;
}

#[tokio::test(start_paused = true)]
async fn enquire_link_works_in_both_directions() {
    let fixture = Fixture::start().await;
    let esme = fixture.receiver().await;
    esme.link.enquire_link().await.unwrap();

    let mut peer = Peer { stream: fixture.connect().await, buffer: BytesMut::new() };
    let bind = Bind { system_id: "sandbox".into(), password: "sandbox".into(), ..Bind::default() };
    peer.send(&Pdu::request(1, Request::Bind(BindMode::Receiver, bind))).await;
    let Some(Body::Response(Response { status: CommandStatus::OK, .. })) = peer.receive().await else {
        panic!("bind failed")
    };
    fixture.smsc.observer().wait_until(|counts| counts.binds == 2).await;
    advance(30 * SECOND).await;
    assert_eq!(peer.receive().await, Some(Body::Request(Request::EnquireLink)));
    // Without a response, the session ends.
    advance(10 * SECOND).await;
    assert_eq!(peer.receive().await, None);
    fixture.smsc.observer().wait_until(|counts| counts.binds == 1).await;
}

/// A receiver that sends and receives single PDUs, without automatic responses.
struct Peer {
    stream: TcpStream,
    buffer: BytesMut,
}

impl Peer {
    async fn send(&mut self, pdu: &Pdu) {
        let mut octets = BytesMut::new();
        pdu.encode(&mut octets).unwrap();
        self.stream.write_all(&octets).await.unwrap();
    }

    async fn receive(&mut self) -> Option<Body> {
        loop {
            if let Some((header, body)) = next_frame(&mut self.buffer, MAX_PDU_OCTETS).unwrap() {
                return Some(Pdu::decode(header, &body).unwrap().body);
            }
            if self.stream.read_buf(&mut self.buffer).await.unwrap() == 0 {
                return None;
            }
        }
    }
}
