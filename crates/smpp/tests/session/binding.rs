use ringtrue_smpp::{
    pdu::{Bind, BindMode, BindReply, CommandId, CommandStatus, Pdu, Reply, Request, Tag, Tlvs},
    session::{Answer, Application, BindError, Config, Ended, Fault, Incoming, Session},
};
use tokio::{io::duplex, time::Instant};

use crate::{Peer, message, seconds_since};

fn credentials() -> Bind {
    Bind { system_id: "esme".into(), password: "secret".into(), ..Bind::default() }
}

fn centre() -> BindReply {
    BindReply { system_id: "smsc".into(), tlvs: Tlvs::default().with(Tag::SC_INTERFACE_VERSION, [0x34]) }
}

#[tokio::test(start_paused = true)]
async fn a_client_binds() {
    let (mut peer, stream) = Peer::pair();
    let (mut session, _link) = Session::new(stream, Config::default());
    let client = session.bind(BindMode::Transceiver, credentials());
    let server = async {
        peer.hears(Pdu::request(1, Request::Bind(BindMode::Transceiver, credentials()))).await;
        // What comes before is answered, and does no harm.
        peer.ask(7, Request::EnquireLink).await;
        peer.hears_answer(7, CommandStatus::OK, Reply::EnquireLink).await;
        peer.ask(8, Request::DeliverSm(message("early"))).await;
        peer.hears_answer(8, CommandStatus::INCORRECT_BIND_STATUS, Reply::to(CommandId::DELIVER_SM)).await;
        peer.answer(55, CommandStatus::OK, Reply::EnquireLink).await;
        peer.answer(1, CommandStatus::OK, Reply::Bind(BindMode::Transceiver, centre())).await;
    };
    let (bound, ()) = tokio::join!(client, server);
    let reply = bound.unwrap();
    assert_eq!((reply.system_id.as_str(), reply.tlvs.sc_interface_version()), ("smsc", Some(0x34)));
}

#[tokio::test(start_paused = true)]
async fn a_client_learns_why_it_is_not_bound() {
    let refused = |status| Pdu::response(1, status, Reply::to(CommandId::BIND_RECEIVER));
    let cases = [
        (refused(CommandStatus::BIND_FAILED), "the peer refused with ESME_RBINDFAIL"),
        (refused(CommandStatus::INVALID_PASSWORD), "the peer refused with ESME_RINVPASWD"),
        (refused(CommandStatus::ALREADY_BOUND), "the peer refused with ESME_RALYBND"),
        (
            Pdu::response(1, CommandStatus::INVALID_COMMAND_ID, Reply::GenericNack),
            "the peer refused with ESME_RINVCMDID",
        ),
        (Pdu::response(1, CommandStatus::OK, Reply::EnquireLink), "the peer responded with enquire_link_resp"),
    ];
    for (response, text) in cases {
        let (mut peer, stream) = Peer::pair();
        let (mut session, _link) = Session::new(stream, Config::default());
        peer.say(&response).await;
        let error = session.bind(BindMode::Receiver, credentials()).await.unwrap_err();
        assert_eq!(error.to_string(), text);
    }

    let (peer, stream) = Peer::pair();
    let (mut session, _link) = Session::new(stream, Config::default());
    let start = Instant::now();
    assert!(matches!(session.bind(BindMode::Receiver, credentials()).await, Err(BindError::TimedOut)));
    assert_eq!(seconds_since(start), 10);
    drop(peer);
    let closed = session.bind(BindMode::Receiver, credentials()).await;
    assert!(matches!(closed, Err(BindError::Fault(Fault::Closed | Fault::Stream(_)))), "{closed:?}");
    let too_long = Bind { password: "123456789".into(), ..Bind::default() };
    let error = session.bind(BindMode::Receiver, too_long).await.unwrap_err();
    assert_eq!(error.to_string(), "password takes at most 8 octets");
}

#[tokio::test(start_paused = true)]
async fn a_server_admits_and_refuses() {
    let (mut peer, stream) = Peer::pair();
    let (mut session, _link) = Session::new(stream, Config::default());
    let server = async {
        let first = session.await_bind().await.unwrap();
        assert_eq!((first.mode, first.bind.system_id.as_str()), (BindMode::Receiver, "esme"));
        session.refuse(first, CommandStatus::INVALID_PASSWORD).await.unwrap();
        let second = session.await_bind().await.unwrap();
        session.admit(second, centre()).await.unwrap();
    };
    let client = async {
        peer.ask(1, Request::SubmitSm(message("early"))).await;
        peer.hears_answer(1, CommandStatus::INCORRECT_BIND_STATUS, Reply::to(CommandId::SUBMIT_SM)).await;
        // A query, and a bind without its end.
        peer.say_octets(b"\0\0\0\x10\0\0\0\x03\0\0\0\0\0\0\0\x02").await;
        peer.hears_answer(2, CommandStatus::INVALID_COMMAND_ID, Reply::GenericNack).await;
        peer.say_octets(b"\0\0\0\x12\0\0\0\x01\0\0\0\0\0\0\0\x03a\0").await;
        peer.hears_answer(3, CommandStatus::INVALID_COMMAND_LENGTH, Reply::to(CommandId::BIND_RECEIVER)).await;
        peer.ask(4, Request::Bind(BindMode::Receiver, credentials())).await;
        peer.hears_answer(4, CommandStatus::INVALID_PASSWORD, Reply::to(CommandId::BIND_RECEIVER)).await;
        peer.ask(5, Request::Bind(BindMode::Receiver, credentials())).await;
        peer.hears_answer(5, CommandStatus::OK, Reply::Bind(BindMode::Receiver, centre())).await;
    };
    tokio::join!(server, client);
}

#[tokio::test(start_paused = true)]
async fn a_server_does_not_wait_for_ever() {
    let (mut peer, stream) = Peer::pair();
    let (mut session, _link) = Session::new(stream, Config::default());
    assert!(matches!(session.await_bind().await, Err(BindError::TimedOut)));
    peer.ask(1, Request::Unbind).await;
    assert!(matches!(session.await_bind().await, Err(BindError::Fault(Fault::Closed))));
    peer.hears_answer(1, CommandStatus::OK, Reply::Unbind).await;
}

/// Gives every message the id of its text.
struct Echo;

impl Application for Echo {
    async fn on_request(&self, request: Incoming) -> Answer {
        Answer::taken_as(String::from_utf8_lossy(request.content().octets))
    }
}

#[tokio::test(start_paused = true)]
async fn both_sides_are_ours() {
    let (near, far) = duplex(1024);
    let client = async {
        let (mut session, link) = Session::new(near, Config::default());
        session.bind(BindMode::Transceiver, credentials()).await.unwrap();
        let use_it = async {
            for number in 0..100 {
                let reply = link.submit_sm(message(&format!("id-{number}"))).await.unwrap();
                assert_eq!(reply.message_id, format!("id-{number}"));
            }
            link.unbind().await;
        };
        tokio::join!(session.run(&Echo), use_it).0
    };
    let server = async {
        let (mut session, link) = Session::new(far, Config::default());
        let offer = session.await_bind().await.unwrap();
        session.admit(offer, centre()).await.unwrap();
        let use_it = async {
            for number in 0..50 {
                link.deliver_sm(message(&number.to_string())).await.unwrap();
            }
        };
        tokio::join!(session.run(&Echo), use_it).0
    };
    let (client, server) = tokio::join!(client, server);
    assert_eq!((client.unwrap(), server.unwrap()), (Ended::ByUs, Ended::ByPeer));
}
