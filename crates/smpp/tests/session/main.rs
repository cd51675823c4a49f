//! Session tests against a scripted peer over an in-memory stream, with Tokio's paused clock.

#![expect(clippy::unwrap_used, reason = "tests report failures by panics")]

mod bind;
mod inbound_requests;
mod outbound_requests;
mod unbind;

use std::time::Duration;

use bytes::BytesMut;
use ringtrue_smpp::{
    pdu::{Address, CommandStatus, MAX_PDU_OCTETS, Pdu, Request, ResponseBody, ShortMessage, next_frame},
    session::{
        Link, MessageRequest, MessageResponse, RequestHandler, Session, SessionAnomaly, SessionConfig, SessionError,
        UnboundBy,
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::{Instant, timeout},
};

const SECOND: Duration = Duration::from_secs(1);

/// The other end of the stream; sends and receives single PDUs.
struct Peer {
    stream: DuplexStream,
    buffer: BytesMut,
}

impl Peer {
    fn pair() -> (Peer, DuplexStream) {
        let (peer_stream, session_stream) = duplex(64 * 1024);
        (Peer { stream: peer_stream, buffer: BytesMut::new() }, session_stream)
    }

    async fn send(&mut self, pdu: &Pdu) {
        let mut octets = BytesMut::new();
        pdu.encode(&mut octets).unwrap();
        self.send_octets(&octets).await;
    }

    async fn send_octets(&mut self, octets: &[u8]) {
        self.stream.write_all(octets).await.unwrap();
    }

    async fn request(&mut self, sequence: u32, request: Request) {
        self.send(&Pdu::request(sequence, request)).await;
    }

    async fn respond(&mut self, sequence: u32, status: CommandStatus, response: ResponseBody) {
        self.send(&Pdu::response(sequence, status, response)).await;
    }

    async fn deliver(&mut self, sequence: u32) {
        self.request(sequence, Request::DeliverSm(message(&sequence.to_string()))).await;
    }

    /// Waits for the next PDU. `None`: the stream has ended.
    async fn receive(&mut self) -> Option<Pdu> {
        loop {
            if let Some((header, body)) = next_frame(&mut self.buffer, MAX_PDU_OCTETS).unwrap() {
                return Some(Pdu::decode(header, &body).unwrap());
            }
            if self.stream.read_buf(&mut self.buffer).await.unwrap() == 0 {
                return None;
            }
        }
    }

    async fn expect(&mut self, expected: Pdu) {
        assert_eq!(self.receive().await, Some(expected));
    }

    async fn expect_response(&mut self, sequence: u32, status: CommandStatus, response: ResponseBody) {
        self.expect(Pdu::response(sequence, status, response)).await;
    }

    /// Expects the response to `deliver`.
    async fn expect_deliver_response(&mut self, sequence: u32, status: CommandStatus) {
        self.expect_response(
            sequence,
            status,
            ResponseBody::DeliverSm(ringtrue_smpp::pdu::MessageResponseBody::default()),
        )
        .await;
    }

    async fn expect_silence_for(&mut self, duration: Duration) {
        assert!(timeout(duration, self.receive()).await.is_err());
    }
}

fn message(text: &str) -> ShortMessage {
    ShortMessage {
        source: Address::international("447700900001"),
        destination: Address::international("447700900999"),
        short_message: text.into(),
        ..ShortMessage::default()
    }
}

/// Handler whose responses the test determines.
struct TestHandler {
    requests: mpsc::UnboundedSender<ReceivedRequest>,
    events: mpsc::UnboundedSender<SessionAnomaly>,
}

/// A received message request that has no response yet.
struct ReceivedRequest {
    request: MessageRequest,
    response_sender: oneshot::Sender<MessageResponse>,
}

impl ReceivedRequest {
    fn text(&self) -> String {
        String::from_utf8(self.request.content().octets.to_vec()).unwrap()
    }

    fn respond(self, response: impl Into<MessageResponse>) {
        self.response_sender.send(response.into()).unwrap();
    }
}

impl RequestHandler for TestHandler {
    async fn on_request(&self, request: MessageRequest) -> MessageResponse {
        let (response_sender, response) = oneshot::channel();
        self.requests.send(ReceivedRequest { request, response_sender }).unwrap();
        response.await.unwrap_or_else(|_| CommandStatus::RECEIVER_PERMANENT_ERROR.into())
    }

    fn on_anomaly(&self, event: SessionAnomaly) {
        // Sending fails after the end of the test.
        let _ = self.events.send(event);
    }
}

/// A running session, its peer, and the requests and events of its handler.
struct Fixture {
    peer: Peer,
    link: Link,
    requests: mpsc::UnboundedReceiver<ReceivedRequest>,
    events: mpsc::UnboundedReceiver<SessionAnomaly>,
    session: JoinSet<Result<UnboundBy, SessionError>>,
}

impl Fixture {
    fn start() -> Self {
        Self::with_config(SessionConfig::default())
    }

    fn with_config(config: SessionConfig) -> Self {
        let (peer, stream) = Peer::pair();
        let (session, link) = Session::new(stream, config);
        let (to_requests, requests) = mpsc::unbounded_channel();
        let (to_events, events) = mpsc::unbounded_channel();
        let handler = TestHandler { requests: to_requests, events: to_events };
        let mut running = JoinSet::new();
        running.spawn(async move { session.run(&handler).await });
        Self { peer, link, requests, events, session: running }
    }

    async fn next_request(&mut self) -> ReceivedRequest {
        self.requests.recv().await.unwrap()
    }

    async fn wait_for_end(&mut self) -> Result<UnboundBy, SessionError> {
        self.session.join_next().await.unwrap().unwrap()
    }

    /// Checks that no further message request arrives for a while.
    async fn expect_no_request_for(&mut self, duration: Duration) {
        assert!(timeout(duration, self.requests.recv()).await.is_err());
    }

    /// Checks that the session still handles a message.
    async fn expect_working(&mut self) {
        self.peer.deliver(99).await;
        self.next_request().await.respond(CommandStatus::OK);
        self.peer.expect_deliver_response(99, CommandStatus::OK).await;
    }
}

fn seconds_since(start: Instant) -> u64 {
    start.elapsed().as_secs()
}
