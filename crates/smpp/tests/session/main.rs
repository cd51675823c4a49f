//! Sessions against a peer that the test plays itself, over a stream in memory, in time that moves when nothing else
//! does.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod binding;
mod ending;
mod incoming;
mod outgoing;

use std::time::Duration;

use bytes::BytesMut;
use ringtrue_smpp::{
    pdu::{Address, CommandStatus, MAX_PDU, Pdu, Reply, Request, ShortMessage, next},
    session::{Answer, Application, Config, Ended, Event, Fault, Incoming, Link, Session},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::{Instant, timeout},
};

const SECOND: Duration = Duration::from_secs(1);

/// The other end of the stream, which says and hears single PDUs.
struct Peer {
    stream: DuplexStream,
    buffer: BytesMut,
}

impl Peer {
    fn pair() -> (Peer, DuplexStream) {
        let (ours, theirs) = duplex(64 * 1024);
        (Peer { stream: ours, buffer: BytesMut::new() }, theirs)
    }

    async fn say(&mut self, pdu: &Pdu) {
        let mut octets = BytesMut::new();
        pdu.encode(&mut octets).unwrap();
        self.say_octets(&octets).await;
    }

    async fn say_octets(&mut self, octets: &[u8]) {
        self.stream.write_all(octets).await.unwrap();
    }

    async fn ask(&mut self, sequence: u32, request: Request) {
        self.say(&Pdu::request(sequence, request)).await;
    }

    async fn answer(&mut self, sequence: u32, status: CommandStatus, reply: Reply) {
        self.say(&Pdu::response(sequence, status, reply)).await;
    }

    async fn deliver(&mut self, sequence: u32) {
        self.ask(sequence, Request::DeliverSm(message(&sequence.to_string()))).await;
    }

    /// The next PDU; none when the stream has ended.
    async fn hear(&mut self) -> Option<Pdu> {
        loop {
            if let Some((header, body)) = next(&mut self.buffer, MAX_PDU).unwrap() {
                return Some(Pdu::decode(header, &body).unwrap());
            }
            if self.stream.read_buf(&mut self.buffer).await.unwrap() == 0 {
                return None;
            }
        }
    }

    async fn hears(&mut self, expected: Pdu) {
        assert_eq!(self.hear().await, Some(expected));
    }

    async fn hears_answer(&mut self, sequence: u32, status: CommandStatus, reply: Reply) {
        self.hears(Pdu::response(sequence, status, reply)).await;
    }

    /// The answer to `deliver`.
    async fn hears_delivered(&mut self, sequence: u32, status: CommandStatus) {
        self.hears_answer(sequence, status, Reply::DeliverSm(ringtrue_smpp::pdu::MessageReply::default())).await;
    }

    async fn hears_nothing_for(&mut self, duration: Duration) {
        assert!(timeout(duration, self.hear()).await.is_err());
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

/// An application whose answers the test gives.
struct Desk {
    requests: mpsc::UnboundedSender<Received>,
    events: mpsc::UnboundedSender<Event>,
}

/// A message that waits for its answer.
struct Received {
    request: Incoming,
    answer: oneshot::Sender<Answer>,
}

impl Received {
    fn text(&self) -> String {
        String::from_utf8(self.request.content().octets.to_vec()).unwrap()
    }

    fn answer(self, answer: impl Into<Answer>) {
        self.answer.send(answer.into()).unwrap();
    }
}

impl Application for Desk {
    async fn on_request(&self, request: Incoming) -> Answer {
        let (answer, answered) = oneshot::channel();
        self.requests.send(Received { request, answer }).unwrap();
        answered.await.unwrap_or_else(|_| CommandStatus::RECEIVER_PERMANENT_ERROR.into())
    }

    fn on_event(&self, event: Event) {
        // The test may have ended.
        let _ = self.events.send(event);
    }
}

/// A session that runs, its peer, and what its application is asked.
struct World {
    peer: Peer,
    link: Link,
    requests: mpsc::UnboundedReceiver<Received>,
    events: mpsc::UnboundedReceiver<Event>,
    session: JoinSet<Result<Ended, Fault>>,
}

impl World {
    fn start() -> Self {
        Self::with(Config::default())
    }

    fn with(config: Config) -> Self {
        let (peer, stream) = Peer::pair();
        let (session, link) = Session::new(stream, config);
        let (to_requests, requests) = mpsc::unbounded_channel();
        let (to_events, events) = mpsc::unbounded_channel();
        let desk = Desk { requests: to_requests, events: to_events };
        let mut running = JoinSet::new();
        running.spawn(async move { session.run(&desk).await });
        Self { peer, link, requests, events, session: running }
    }

    async fn received(&mut self) -> Received {
        self.requests.recv().await.unwrap()
    }

    async fn ended(&mut self) -> Result<Ended, Fault> {
        self.session.join_next().await.unwrap().unwrap()
    }

    /// The application has been asked nothing more.
    async fn is_idle_for(&mut self, duration: Duration) {
        assert!(timeout(duration, self.requests.recv()).await.is_err());
    }

    /// One more message goes through as it should.
    async fn is_well(&mut self) {
        self.peer.deliver(99).await;
        self.received().await.answer(CommandStatus::OK);
        self.peer.hears_delivered(99, CommandStatus::OK).await;
    }
}

fn seconds_since(start: Instant) -> u64 {
    start.elapsed().as_secs()
}
