//! Requests and answers in both directions over one stream.
//!
//! [`Session::new`] takes any stream and gives a [`Session`] and a [`Link`]. Before it runs, a session binds
//! ([`Session::bind`]) or waits to be bound to ([`Session::await_bind`]). Then [`Session::run`] is one future that does
//! everything: it hands the peer's messages to an [`Application`], several at a time, and sends each answer as soon as
//! there is one, in whatever order; it sends what the [`Link`] is asked to, and pairs the responses; it sees to it
//! that the peer is alive. The link survives whatever the peer sends, except a length that no PDU can have.
//!
//! Everything is bounded. When as many messages are with the application as `answer_window` allows and the peer sends
//! another, the session stops reading until one is answered; the waiting does not count against the peer's time. When
//! `request_window` requests have no response yet, the [`Link`] waits.
//!
//! Deliberately absent: spawning (who runs the session owns its task), reconnecting, logging (see [`Event`]), and a
//! judgement on which operation suits which kind of bind, which is the application's.

mod binding;
mod desk;
mod link;
mod outstanding;
mod pulse;
mod run;
mod wire;

use std::{io, time::Duration};

use thiserror::Error;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
};

pub use self::{
    binding::{BindError, BindOffer},
    link::{Link, RequestError},
};
use self::{link::Orders, wire::Wire};
use crate::{
    content::Content,
    pdu::{
        Address, AlertNotification, CommandId, CommandStatus, DataSm, DecodeError, EncodeError, EsmClass,
        ImpossibleLength, MAX_PDU, MessageReply, Outbind, ShortMessage, Tlvs,
    },
};

/// Limits and patience.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The largest PDU that is read.
    pub max_pdu: usize,
    /// How many of our requests may wait for their responses; at least one.
    pub request_window: usize,
    /// How many of the peer's messages may be with the application; at least one.
    pub answer_window: usize,
    /// How long a bind may take, for either side.
    pub bind_timeout: Duration,
    /// How long the peer may take to respond.
    pub response_timeout: Duration,
    /// How long the application may take, before the peer is told to send the message again later.
    pub answer_timeout: Duration,
    /// How long the peer may be silent, before it is asked whether it is there.
    pub enquire_link_interval: Option<Duration>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_pdu: MAX_PDU,
            request_window: 32,
            answer_window: 128,
            bind_timeout: Duration::from_secs(10),
            response_timeout: Duration::from_secs(10),
            answer_timeout: Duration::from_secs(10),
            enquire_link_interval: Some(Duration::from_secs(30)),
        }
    }
}

/// What gives a session its meaning.
pub trait Application: Sync {
    /// Answers a message of the peer. Called again before it has returned, up to `answer_window` times; the peer gets
    /// the answer once it has, so who must not lose the message stores it first.
    fn on_request(&self, request: Incoming) -> impl Future<Output = Answer> + Send;

    /// Learns of something that needs no answer.
    fn on_event(&self, event: Event) {
        let _ = event;
    }
}

/// A message of the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    SubmitSm(ShortMessage),
    DeliverSm(ShortMessage),
    DataSm(DataSm),
}

impl Incoming {
    pub fn command(&self) -> CommandId {
        match self {
            Self::SubmitSm(_) => CommandId::SUBMIT_SM,
            Self::DeliverSm(_) => CommandId::DELIVER_SM,
            Self::DataSm(_) => CommandId::DATA_SM,
        }
    }

    pub fn source(&self) -> &Address {
        match self {
            Self::SubmitSm(message) | Self::DeliverSm(message) => &message.source,
            Self::DataSm(message) => &message.source,
        }
    }

    pub fn destination(&self) -> &Address {
        match self {
            Self::SubmitSm(message) | Self::DeliverSm(message) => &message.destination,
            Self::DataSm(message) => &message.destination,
        }
    }

    pub fn esm_class(&self) -> EsmClass {
        match self {
            Self::SubmitSm(message) | Self::DeliverSm(message) => message.esm_class,
            Self::DataSm(message) => message.esm_class,
        }
    }

    pub fn tlvs(&self) -> &Tlvs {
        match self {
            Self::SubmitSm(message) | Self::DeliverSm(message) => &message.tlvs,
            Self::DataSm(message) => &message.tlvs,
        }
    }

    pub fn content(&self) -> Content<'_> {
        match self {
            Self::SubmitSm(message) | Self::DeliverSm(message) => message.content(),
            Self::DataSm(message) => message.content(),
        }
    }
}

/// What the peer is told about its message; a status alone will often do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub status: CommandStatus,
    pub reply: MessageReply,
}

impl From<CommandStatus> for Answer {
    fn from(status: CommandStatus) -> Self {
        Self { status, reply: MessageReply::default() }
    }
}

impl Answer {
    /// The message was taken, and has this id from now on.
    pub fn taken_as(message_id: impl Into<String>) -> Self {
        let reply = MessageReply { message_id: message_id.into(), ..MessageReply::default() };
        Self { status: CommandStatus::OK, reply }
    }
}

/// What happened on a link that goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The peer sent something that cannot be read. It was told, unless it was a response.
    Malformed(DecodeError),
    /// The peer asked for something that is not known here. It was told.
    UnknownCommand {
        command: CommandId,
        sequence: u32,
    },
    /// The peer responded to nothing, or too late.
    UnmatchedResponse {
        command: CommandId,
        status: CommandStatus,
        sequence: u32,
    },
    /// The peer did not respond in time.
    ResponseTimedOut {
        command: CommandId,
        sequence: u32,
    },
    /// The application did not answer in time. The peer was told to send again.
    AnswerTimedOut {
        command: CommandId,
        sequence: u32,
    },
    /// The application's answer cannot be written. The peer was told of a system error.
    UnwritableAnswer {
        command: CommandId,
        sequence: u32,
        what: EncodeError,
    },
    Alert(AlertNotification),
    Outbind(Outbind),
}

/// How a session came to an end that someone asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// We unbound.
    ByUs,
    /// The peer unbound.
    ByPeer,
}

/// How a session came to an end that nobody asked for.
#[derive(Debug, Error)]
pub enum Fault {
    #[error("the peer closed the stream without unbinding")]
    Closed,
    #[error("the peer did not answer enquire_link")]
    Silent,
    #[error(transparent)]
    Length(#[from] ImpossibleLength),
    #[error("the stream failed")]
    Stream(#[from] io::Error),
}

/// One side of a link, before it runs.
#[derive(Debug)]
pub struct Session<S> {
    wire: Wire<S>,
    orders: Orders,
    config: Config,
    sequence: Sequence,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Session<S> {
    pub fn new(stream: S, config: Config) -> (Self, Link) {
        let config = Config {
            request_window: config.request_window.max(1),
            answer_window: config.answer_window.max(1),
            ..config
        };
        let (requests, requests_taken) = mpsc::channel(config.request_window);
        let (unbinds, unbinds_taken) = mpsc::channel(1);
        let orders = Orders { requests: requests_taken, unbinds: unbinds_taken };
        let wire = Wire::new(stream, config.max_pdu);
        (Self { wire, orders, config, sequence: Sequence::default() }, Link::new(requests, unbinds))
    }
}

/// The numbers of our requests: 1 to 0x7FFFFFFF, and round again.
#[derive(Debug, Default)]
struct Sequence(u32);

impl Sequence {
    fn next(&mut self) -> u32 {
        self.0 = self.0 % 0x7FFF_FFFF + 1;
        self.0
    }
}
