//! A message centre that a test plays by hand: it sends what it likes, when it likes.

use ringtrue_smpp::{
    pdu::{Address, BindReply, CommandStatus, EsmClass, ShortMessage},
    session::{Answer, Application, BindOffer, Config, Ended, Fault, Incoming, Link, RequestError, Session},
    text::{DataCoding, Reference},
    udh,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_util::task::TaskTracker;

use crate::{HANDSET, SERVICE};

pub struct Centre {
    listener: TcpListener,
}

/// A bind as the message centre has it.
pub struct Bound {
    pub link: Link,
    pub offer: (ringtrue_smpp::pdu::BindMode, ringtrue_smpp::pdu::Bind),
    pub session: JoinHandle<Result<Ended, Fault>>,
}

struct Nobody;

impl Application for Nobody {
    async fn on_request(&self, _: Incoming) -> Answer {
        CommandStatus::SYSTEM_ERROR.into()
    }
}

impl Centre {
    pub async fn start() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    pub fn port(&self) -> u16 {
        self.listener.local_addr().unwrap().port()
    }

    pub async fn connection(&self) -> TcpStream {
        self.listener.accept().await.unwrap().0
    }

    /// Lets the next one bind.
    pub async fn bind(&self) -> Bound {
        admit(self.connection().await).await
    }

    /// Lets the next one bind, and leaves everything else to the test.
    pub async fn bind_by_hand(&self) -> TcpStream {
        let mut stream = self.connection().await;
        assert!(stream.read(&mut [0; 256]).await.unwrap() > 16);
        stream.write_all(&[header(17, 0x8000_0009, 1), vec![0]].concat()).await.unwrap();
        stream
    }

    /// Refuses the next one.
    pub async fn refuse(&self, status: CommandStatus) {
        let (mut session, _link) = Session::new(self.connection().await, Config::default());
        let offer = session.await_bind().await.unwrap();
        session.refuse(offer, status).await.unwrap();
    }
}

/// The header of a PDU of so many octets.
pub fn header(octets: u8, command: u32, sequence: u8) -> Vec<u8> {
    [&[0, 0, 0, octets][..], &command.to_be_bytes(), &[0, 0, 0, 0, 0, 0, 0, sequence]].concat()
}

pub async fn admit<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(stream: S) -> Bound {
    let (mut session, link) = Session::new(stream, Config { request_window: 256, ..Config::default() });
    let offer: BindOffer = session.await_bind().await.unwrap();
    let kept = (offer.mode, offer.bind.clone());
    session.admit(offer, BindReply::default()).await.unwrap();
    let session = TaskTracker::new().spawn(async move { session.run(&Nobody).await });
    Bound { link, offer: kept, session }
}

impl Bound {
    /// Sends a message, and tells what the answer to it was.
    pub fn send(&self, message: ShortMessage) -> JoinHandle<CommandStatus> {
        let link = self.link.clone();
        TaskTracker::new().spawn(async move {
            match link.deliver_sm(message).await {
                Ok(_) => CommandStatus::OK,
                Err(RequestError::Refused(status)) => status,
                Err(error) => panic!("{error}"),
            }
        })
    }

    pub async fn deliver(&self, message: ShortMessage) -> CommandStatus {
        self.send(message).await.unwrap()
    }
}

pub fn sms(text: &str) -> ShortMessage {
    ShortMessage {
        source: Address::international(&HANDSET[1..]),
        destination: Address::international(&SERVICE[1..]),
        data_coding: DataCoding::DEFAULT,
        short_message: text.as_bytes().to_vec(),
        ..ShortMessage::default()
    }
}

/// One of the parts of an SMS.
pub fn part(reference: u8, total: u8, sequence: u8, text: &str) -> ShortMessage {
    let header = udh::concatenation(Reference::Eight(reference), total, sequence);
    ShortMessage { esm_class: EsmClass::WITH_HEADER, short_message: [&header, text.as_bytes()].concat(), ..sms("") }
}
