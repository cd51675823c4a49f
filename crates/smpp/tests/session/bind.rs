use ringtrue_smpp::{
    pdu::{Bind, BindMode, BindResponseBody, CommandId, CommandStatus, Pdu, Request, ResponseBody, TlvTag, Tlvs},
    session::{
        BindError, MessageRequest, MessageResponse, RequestHandler, Session, SessionConfig, SessionError, UnboundBy,
    },
};
use tokio::{io::duplex, time::Instant};

use crate::{Peer, message, seconds_since};

fn credentials() -> Bind {
    Bind { system_id: "esme".into(), password: "secret".into(), ..Bind::default() }
}

fn smsc_response() -> BindResponseBody {
    BindResponseBody { system_id: "smsc".into(), tlvs: Tlvs::default().with(TlvTag::SC_INTERFACE_VERSION, [0x34]) }
}

#[tokio::test(start_paused = true)]
async fn esme_binds() {
    let (mut peer, stream) = Peer::pair();
    let (mut session, _link) = Session::new(stream, SessionConfig::default());
    let client = session.bind(BindMode::Transceiver, credentials());
    let server = async {
        peer.expect(Pdu::request(1, Request::Bind(BindMode::Transceiver, credentials()))).await;
        // Requests before the bind response are answered.
        peer.request(7, Request::EnquireLink).await;
        peer.expect_response(7, CommandStatus::OK, ResponseBody::EnquireLink).await;
        peer.request(8, Request::DeliverSm(message("early"))).await;
        peer.expect_response(8, CommandStatus::INCORRECT_BIND_STATUS, ResponseBody::empty_for(CommandId::DELIVER_SM))
            .await;
        peer.respond(55, CommandStatus::OK, ResponseBody::EnquireLink).await;
        peer.respond(1, CommandStatus::OK, ResponseBody::Bind(BindMode::Transceiver, smsc_response())).await;
    };
    let (bound, ()) = tokio::join!(client, server);
    let response = bound.unwrap();
    assert_eq!((response.system_id.as_str(), response.tlvs.sc_interface_version()), ("smsc", Some(0x34)));
}

#[tokio::test(start_paused = true)]
async fn bind_failures_are_reported() {
    let rejected = |status| Pdu::response(1, status, ResponseBody::empty_for(CommandId::BIND_RECEIVER));
    let cases = [
        (rejected(CommandStatus::BIND_FAILED), "peer rejected the bind with ESME_RBINDFAIL"),
        (rejected(CommandStatus::INVALID_PASSWORD), "peer rejected the bind with ESME_RINVPASWD"),
        (rejected(CommandStatus::ALREADY_BOUND), "peer rejected the bind with ESME_RALYBND"),
        (
            Pdu::response(1, CommandStatus::INVALID_COMMAND_ID, ResponseBody::GenericNack),
            "peer rejected the bind with ESME_RINVCMDID",
        ),
        (
            Pdu::response(1, CommandStatus::OK, ResponseBody::EnquireLink),
            "unexpected response enquire_link_resp to the bind",
        ),
    ];
    for (response, text) in cases {
        let (mut peer, stream) = Peer::pair();
        let (mut session, _link) = Session::new(stream, SessionConfig::default());
        peer.send(&response).await;
        let error = session.bind(BindMode::Receiver, credentials()).await.unwrap_err();
        assert_eq!(error.to_string(), text);
    }

    let (peer, stream) = Peer::pair();
    let (mut session, _link) = Session::new(stream, SessionConfig::default());
    let start = Instant::now();
    assert!(matches!(session.bind(BindMode::Receiver, credentials()).await, Err(BindError::TimedOut)));
    assert_eq!(seconds_since(start), 10);
    drop(peer);
    let closed = session.bind(BindMode::Receiver, credentials()).await;
    assert!(matches!(closed, Err(BindError::Session(SessionError::Closed | SessionError::Io(_)))), "{closed:?}");
    let too_long = Bind { password: "123456789".into(), ..Bind::default() };
    let error = session.bind(BindMode::Receiver, too_long).await.unwrap_err();
    assert_eq!(error.to_string(), "password exceeds 8 octets");
}

#[tokio::test(start_paused = true)]
async fn smsc_rejects_then_accepts_a_bind() {
    let (mut peer, stream) = Peer::pair();
    let (mut session, _link) = Session::new(stream, SessionConfig::default());
    let server = async {
        let first = session.wait_for_bind().await.unwrap();
        assert_eq!((first.mode, first.bind.system_id.as_str()), (BindMode::Receiver, "esme"));
        session.reject_bind(first, CommandStatus::INVALID_PASSWORD).await.unwrap();
        let second = session.wait_for_bind().await.unwrap();
        session.accept_bind(second, smsc_response()).await.unwrap();
    };
    let client = async {
        peer.request(1, Request::SubmitSm(message("early"))).await;
        peer.expect_response(1, CommandStatus::INCORRECT_BIND_STATUS, ResponseBody::empty_for(CommandId::SUBMIT_SM))
            .await;
        // An unsupported request (`query_sm`), then a truncated bind request.
        peer.send_octets(b"\0\0\0\x10\0\0\0\x03\0\0\0\0\0\0\0\x02").await;
        peer.expect_response(2, CommandStatus::INVALID_COMMAND_ID, ResponseBody::GenericNack).await;
        peer.send_octets(b"\0\0\0\x12\0\0\0\x01\0\0\0\0\0\0\0\x03a\0").await;
        peer.expect_response(
            3,
            CommandStatus::INVALID_COMMAND_LENGTH,
            ResponseBody::empty_for(CommandId::BIND_RECEIVER),
        )
        .await;
        peer.request(4, Request::Bind(BindMode::Receiver, credentials())).await;
        peer.expect_response(4, CommandStatus::INVALID_PASSWORD, ResponseBody::empty_for(CommandId::BIND_RECEIVER))
            .await;
        peer.request(5, Request::Bind(BindMode::Receiver, credentials())).await;
        peer.expect_response(5, CommandStatus::OK, ResponseBody::Bind(BindMode::Receiver, smsc_response())).await;
    };
    tokio::join!(server, client);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_bind_times_out() {
    let (mut peer, stream) = Peer::pair();
    let (mut session, _link) = Session::new(stream, SessionConfig::default());
    assert!(matches!(session.wait_for_bind().await, Err(BindError::TimedOut)));
    peer.request(1, Request::Unbind).await;
    assert!(matches!(session.wait_for_bind().await, Err(BindError::Session(SessionError::Closed))));
    peer.expect_response(1, CommandStatus::OK, ResponseBody::Unbind).await;
}

/// Handler that responds with the text of the message as `message_id`.
struct Echo;

impl RequestHandler for Echo {
    async fn on_request(&self, request: MessageRequest) -> MessageResponse {
        MessageResponse::accepted(String::from_utf8_lossy(request.content().octets))
    }
}

#[tokio::test(start_paused = true)]
async fn esme_and_smsc_sessions_interoperate() {
    let (near, far) = duplex(1024);
    let client = async {
        let (mut session, link) = Session::new(near, SessionConfig::default());
        session.bind(BindMode::Transceiver, credentials()).await.unwrap();
        let requests = async {
            for number in 0..100 {
                let response = link.submit_sm(message(&format!("id-{number}"))).await.unwrap();
                assert_eq!(response.message_id, format!("id-{number}"));
            }
            link.unbind().await;
        };
        tokio::join!(session.run(&Echo), requests).0
    };
    let server = async {
        let (mut session, link) = Session::new(far, SessionConfig::default());
        let pending = session.wait_for_bind().await.unwrap();
        session.accept_bind(pending, smsc_response()).await.unwrap();
        let requests = async {
            for number in 0..50 {
                link.deliver_sm(message(&number.to_string())).await.unwrap();
            }
        };
        tokio::join!(session.run(&Echo), requests).0
    };
    let (client, server) = tokio::join!(client, server);
    assert_eq!((client.unwrap(), server.unwrap()), (UnboundBy::Us, UnboundBy::Peer));
}
