//! The peers of a connector: an SMSC that is controlled by the test, and an inbox that records messages, and can
//! fail or block.

use async_trait::async_trait;
use parking_lot::Mutex;
use ringtrue_domain::reverse_sms::InboundSms;
use ringtrue_engine::ports::{
    sms::{Inbox, PartialSms, SmsOutcome},
    store::StoreError,
};
use ringtrue_smpp::{
    esm_class::EsmClass,
    pdu::{Address, BindResponseBody, CommandStatus, ShortMessage},
    session::{
        Link, MessageRequest, MessageResponse, PendingBind, RequestError, RequestHandler, Session, SessionConfig,
        SessionError, UnboundBy,
    },
    text::DataCoding,
    udh::{self, ConcatenationReference},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};
use tokio_util::task::TaskTracker;

use crate::{HANDSET, SERVICE};

pub struct ManualSmsc {
    listener: TcpListener,
}

/// A bind, as seen by the SMSC.
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

/// Encodes a PDU header with this total length.
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
    /// Sends a message. The returned task yields the response status.
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

/// Creates one part of a concatenated SMS, with a reference of eight bits.
pub fn part(reference: u8, total: u8, sequence: u8, text: &str) -> ShortMessage {
    part_with(ConcatenationReference::EightBit(reference), total, sequence, text)
}

pub fn part_with(reference: ConcatenationReference, total: u8, sequence: u8, text: &str) -> ShortMessage {
    let header = udh::encode_concatenation(reference, total, sequence);
    ShortMessage { esm_class: EsmClass::WITH_UDH, short_message: [&header, text.as_bytes()].concat(), ..sms("") }
}

#[derive(Default)]
pub struct FakeInbox {
    received: Mutex<Vec<InboundSms>>,
    partials: Mutex<Vec<PartialSms>>,
    /// Number of deliveries, including failed ones.
    deliveries: watch::Sender<usize>,
    failures: Mutex<usize>,
    blocked: watch::Sender<bool>,
}

impl FakeInbox {
    pub fn fail_next(&self, times: usize) {
        *self.failures.lock() = times;
    }

    pub fn set_blocked(&self, blocked: bool) {
        self.blocked.send_replace(blocked);
    }

    pub fn received(&self) -> Vec<InboundSms> {
        self.received.lock().clone()
    }

    pub fn texts(&self) -> Vec<String> {
        self.received().into_iter().map(|sms| sms.text).collect()
    }

    pub fn partials(&self) -> Vec<PartialSms> {
        self.partials.lock().clone()
    }

    pub async fn wait_for_deliveries(&self, count: usize) {
        self.deliveries.subscribe().wait_for(|deliveries| *deliveries >= count).await.unwrap();
    }
}

#[async_trait]
impl Inbox for FakeInbox {
    async fn receive(&self, sms: InboundSms) -> Result<SmsOutcome, StoreError> {
        self.deliveries.send_modify(|deliveries| *deliveries += 1);
        self.blocked.subscribe().wait_for(|blocked| !blocked).await.unwrap();
        let mut failures = self.failures.lock();
        if *failures > 0 {
            *failures -= 1;
            return Err(StoreError::Unavailable("scripted failure".to_owned()));
        }
        self.received.lock().push(sms);
        Ok(SmsOutcome::Concluded)
    }

    async fn receive_partial(&self, partial: PartialSms) -> Result<(), StoreError> {
        self.partials.lock().push(partial);
        Ok(())
    }
}
