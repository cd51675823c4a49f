use bytes::BytesMut;
use ringtrue_sandbox::smsc::{Outcome, SmscConfig};
use ringtrue_smpp::{
    pdu::{Bind, BindMode, Body, CommandStatus, MAX_PDU, Pdu, Request, Response, ShortMessage, next},
    session::{BindError, Ended, RequestError},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::advance,
};

use crate::{Behaviour, SECOND, World, text};

fn status<T>(refused: &Result<T, BindError>) -> Option<CommandStatus> {
    match refused {
        Err(BindError::Refused(status)) => Some(*status),
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn receivers_and_transceivers_get_messages() {
    for mode in [BindMode::Receiver, BindMode::Transceiver] {
        let world = World::start().await;
        let mut esme = world.bind(mode).await;
        let ticket = world.send("hello", Behaviour::new());
        assert_eq!(text(&esme.take().await), "hello");
        assert_eq!(ticket.delivered().await, Outcome::Acknowledged);
    }
}

#[tokio::test(start_paused = true)]
async fn a_transmitter_is_welcome_and_gets_nothing() {
    let world = World::start().await;
    let mut transmitter = world.bind(BindMode::Transmitter).await;
    let ticket = world.send("hello", Behaviour::new());
    let mut receiver = world.receiver().await;
    assert_eq!(text(&receiver.take().await), "hello");
    assert_eq!(ticket.delivered().await, Outcome::Acknowledged);
    transmitter.link.enquire_link().await.unwrap();
    assert!(transmitter.has_nothing());

    let refused = transmitter.link.submit_sm(ShortMessage::default()).await;
    assert_eq!(refused, Err(RequestError::Refused(CommandStatus::SUBMIT_FAILED)));
    let refused = receiver.link.submit_sm(ShortMessage::default()).await;
    assert_eq!(refused, Err(RequestError::Refused(CommandStatus::INCORRECT_BIND_STATUS)));
}

#[tokio::test(start_paused = true)]
async fn strangers_are_told_what_is_wrong() {
    let world = World::start().await;
    let wrong_password = world.try_bind(BindMode::Receiver, "sandbox", "wrong").await;
    assert_eq!(status(&wrong_password), Some(CommandStatus::INVALID_PASSWORD));
    let wrong_name = world.try_bind(BindMode::Transceiver, "someone", "sandbox").await;
    assert_eq!(status(&wrong_name), Some(CommandStatus::INVALID_SYSTEM_ID));
    assert_eq!(world.smsc.counts().binds_refused, 2);
    assert_eq!(world.smsc.counts().binds, 0);
}

#[tokio::test(start_paused = true)]
async fn binds_are_refused_while_that_is_wished() {
    let world = World::start().await;
    let mut before = world.receiver().await;
    world.smsc.refuse_binds(true);
    let refused = world.try_bind(BindMode::Receiver, "sandbox", "sandbox").await;
    assert_eq!(status(&refused), Some(CommandStatus::BIND_FAILED));
    // Who was bound stays so.
    world.send("hello", Behaviour::new());
    assert_eq!(text(&before.take().await), "hello");
    world.smsc.refuse_binds(false);
    world.receiver().await;
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_unbinds_gets_no_more() {
    let world = World::start().await;
    let mut leaving = world.receiver().await;
    leaving.link.unbind().await;
    assert_eq!(leaving.ended().await.unwrap(), Ended::ByUs);
    world.smsc.observer().wait_until(|counts| counts.binds == 0).await;
    let ticket = world.send("hello", Behaviour::new());
    let mut staying = world.receiver().await;
    assert_eq!(text(&staying.take().await), "hello");
    assert_eq!(ticket.delivered().await, Outcome::Acknowledged);
    assert_eq!(world.smsc.counts().setbacks, 0);
}

#[tokio::test(start_paused = true)]
async fn connections_are_bounded() {
    let world = World::with(SmscConfig { connections: 1, ..SmscConfig::default() }).await;
    let mut esme = world.receiver().await;
    let mut too_many = world.connect().await;
    assert_eq!(too_many.read(&mut [0; 16]).await.unwrap(), 0);
    assert_eq!(world.smsc.counts().turned_away, 1);
    esme.link.unbind().await;
    esme.ended().await.unwrap();
    // A place is free once the centre has let go of the one before.
    world.smsc.observer().wait_until(|counts| counts.binds == 0).await;
    world.receiver().await;
}

#[tokio::test(start_paused = true)]
async fn both_sides_may_ask_whether_the_other_is_there() {
    let world = World::start().await;
    let esme = world.receiver().await;
    esme.link.enquire_link().await.unwrap();

    let mut peer = Peer { stream: world.connect().await, buffer: BytesMut::new() };
    let bind = Bind { system_id: "sandbox".into(), password: "sandbox".into(), ..Bind::default() };
    peer.say(&Pdu::request(1, Request::Bind(BindMode::Receiver, bind))).await;
    let Some(Body::Response(Response { status: CommandStatus::OK, .. })) = peer.hear().await else { panic!("no bind") };
    world.smsc.observer().wait_until(|counts| counts.binds == 2).await;
    advance(30 * SECOND).await;
    assert_eq!(peer.hear().await, Some(Body::Request(Request::EnquireLink)));
    // Who does not answer is given up.
    advance(10 * SECOND).await;
    assert_eq!(peer.hear().await, None);
    world.smsc.observer().wait_until(|counts| counts.binds == 1).await;
}

/// A receiver that answers nothing by itself.
struct Peer {
    stream: TcpStream,
    buffer: BytesMut,
}

impl Peer {
    async fn say(&mut self, pdu: &Pdu) {
        let mut octets = BytesMut::new();
        pdu.encode(&mut octets).unwrap();
        self.stream.write_all(&octets).await.unwrap();
    }

    async fn hear(&mut self) -> Option<Body> {
        loop {
            if let Some((header, body)) = next(&mut self.buffer, MAX_PDU).unwrap() {
                return Some(Pdu::decode(header, &body).unwrap().body);
            }
            if self.stream.read_buf(&mut self.buffer).await.unwrap() == 0 {
                return None;
            }
        }
    }
}
