//! A message centre that is controlled by the test.

use ringtrue_smpp::{
    pdu::{Address, BindResponseBody, CommandStatus, EsmClass, ShortMessage},
    session::{
        Link, MessageRequest, MessageResponse, PendingBind, RequestError, RequestHandler, Session, SessionConfig,
        SessionError, UnboundBy,
    },
    text::{ConcatenationReference, DataCoding},
    udh,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_util::task::TaskTracker;

use crate::{HANDSET, SERVICE};

pub struct ManualSmsc {
    listener: TcpListener,
}

/// A bind, as seen by the message centre.
pub struct Bound {
    pub link: Link,
    pub bind_request: (ringtrue_smpp::pdu::BindMode, ringtrue_smpp::pdu::Bind),
    pub session: JoinHandle<Result<UnboundBy, SessionError>>,
}

struct RejectAll;

impl RequestHandler for RejectAll {
    async fn on_request(&self, _: MessageRequest) -> MessageResponse {
        CommandStatus::SYSTEM_ERROR.into()
    }
}

impl ManualSmsc {
    pub async fn start() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    pub fn port(&self) -> u16 {
        self.listener.local_addr().unwrap().port()
    }

    pub async fn connection(&self) -> TcpStream {
        self.listener.accept().await.unwrap().0
    }

    /// Accepts the next bind.
    pub async fn bind(&self) -> Bound {
        accept_bind(self.connection().await).await
    }

    /// Accepts the next bind and returns the raw stream.
    pub async fn bind_by_hand(&self) -> TcpStream {
        let mut stream = self.connection().await;
        assert!(stream.read(&mut [0; 256]).await.unwrap() > 16);
        stream.write_all(&[header(17, 0x8000_0009, 1), vec![0]].concat()).await.unwrap();
        stream
    }

    /// Rejects the next bind.
    pub async fn refuse(&self, status: CommandStatus) {
        let (mut session, _link) = Session::new(self.connection().await, SessionConfig::default());
        let pending = session.wait_for_bind().await.unwrap();
        session.reject_bind(pending, status).await.unwrap();
    }
}

/// PDU header with the given total length.
pub fn header(octets: u8, command: u32, sequence: u8) -> Vec<u8> {
    [&[0, 0, 0, octets][..], &command.to_be_bytes(), &[0, 0, 0, 0, 0, 0, 0, sequence]].concat()
}

pub async fn accept_bind<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(stream: S) -> Bound {
    let (mut session, link) = Session::new(stream, SessionConfig { request_window: 256, ..SessionConfig::default() });
    let pending: PendingBind = session.wait_for_bind().await.unwrap();
    let bind_request = (pending.mode, pending.bind.clone());
    session.accept_bind(pending, BindResponseBody::default()).await.unwrap();
    let session = TaskTracker::new().spawn(async move { session.run(&RejectAll).await });
    Bound { link, bind_request, session }
}

impl Bound {
    /// Sends a message; the task returns the response status.
    pub fn send(&self, message: ShortMessage) -> JoinHandle<CommandStatus> {
        let link = self.link.clone();
        TaskTracker::new().spawn(async move {
            match link.deliver_sm(message).await {
                Ok(_) => CommandStatus::OK,
                Err(RequestError::Rejected(status)) => status,
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

/// One part of a concatenated SMS.
pub fn part(reference: u8, total: u8, sequence: u8, text: &str) -> ShortMessage {
    let header = udh::encode_concatenation(ConcatenationReference::EightBit(reference), total, sequence);
    ShortMessage { esm_class: EsmClass::WITH_UDH, short_message: [&header, text.as_bytes()].concat(), ..sms("") }
}
