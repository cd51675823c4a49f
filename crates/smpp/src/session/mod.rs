//! SMPP sessions: requests and responses in both directions over one stream.
//!
//! [`Session::new`] returns a [`Session`] and a [`Link`] for any stream. A session first binds ([`Session::bind`]) or
//! waits for a bind ([`Session::wait_for_bind`]). The future of [`Session::run`] then does all the work. It passes
//! message requests of the peer to a [`RequestHandler`], several at a time, and sends the responses in the order of
//! completion. It sends the requests of the [`Link`] and matches their responses. It sends `enquire_link` to an idle
//! peer. Malformed PDUs do not end the session, except those with an invalid `command_length`.
//!
//! Memory is bounded. Reading pauses while `handler_window` message requests are in the handler and the peer has sent
//! another; this time does not count against the peer's timeouts. Calls of the [`Link`] wait while `request_window`
//! requests are pending.
//!
//! Deliberately absent: spawning (the caller owns the task), reconnecting, logging (see [`SessionAnomaly`]), and checks
//! of operations against the bind mode, which are up to the handler.

mod bind;
mod run;
mod transport;

use std::{io, time::Duration};

use thiserror::Error;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{mpsc, oneshot},
};

pub use self::bind::{BindError, PendingBind};
use self::transport::Transport;
use crate::{
    content::MessageContent,
    esm_class::EsmClass,
    pdu::{
        Address, AlertNotification, CommandId, CommandStatus, DataSm, DecodeError, EncodeError, InvalidPduLength,
        MAX_PDU_OCTETS, MessageResponseBody, Outbind, Request, Response, ResponseBody, ShortMessage, Tlvs,
    },
};

/// Limits and timeouts of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionConfig {
    /// Maximum length of a received PDU.
    pub max_pdu_octets: usize,
    /// Maximum number of our requests without a response; at least 1.
    pub request_window: usize,
    /// Maximum number of concurrent handler calls; at least 1.
    pub handler_window: usize,
    /// Time limit for the bind: for the response to our bind request, or for the bind request of the peer.
    pub bind_timeout: Duration,
    /// Timeout of the peer's responses to our requests.
    pub response_timeout: Duration,
    /// Timeout of the handler. After it, the peer gets a temporary error.
    pub handler_timeout: Duration,
    /// Idle time before `enquire_link` is sent; `None` disables it.
    pub enquire_link_interval: Option<Duration>,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            max_pdu_octets: MAX_PDU_OCTETS,
            request_window: 32,
            handler_window: 128,
            bind_timeout: Duration::from_secs(10),
            response_timeout: Duration::from_secs(10),
            handler_timeout: Duration::from_secs(10),
            enquire_link_interval: Some(Duration::from_secs(30)),
        }
    }
}

/// Handles the peer's message requests.
pub trait RequestHandler: Sync {
    /// Handles a message request; the result is sent to the peer. Up to `handler_window` calls run concurrently. A
    /// handler that must not lose the message stores it before it returns.
    fn on_request(&self, request: MessageRequest) -> impl Future<Output = MessageResponse> + Send;

    /// Receives an anomaly, for example to log it.
    fn on_anomaly(&self, anomaly: SessionAnomaly) {
        let _ = anomaly;
    }
}

/// A request of the peer that carries a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageRequest {
    SubmitSm(ShortMessage),
    DeliverSm(ShortMessage),
    DataSm(DataSm),
}

impl MessageRequest {
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

    pub fn content(&self) -> MessageContent<'_> {
        match self {
            Self::SubmitSm(message) | Self::DeliverSm(message) => message.content(),
            Self::DataSm(message) => message.content(),
        }
    }
}

/// Response to a message request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageResponse {
    pub status: CommandStatus,
    pub body: MessageResponseBody,
}

impl From<CommandStatus> for MessageResponse {
    fn from(status: CommandStatus) -> Self {
        Self { status, body: MessageResponseBody::default() }
    }
}

impl MessageResponse {
    /// Creates a response that accepts the message under this `message_id`.
    pub fn accepted(message_id: impl Into<String>) -> Self {
        let body = MessageResponseBody { message_id: message_id.into(), ..MessageResponseBody::default() };
        Self { status: CommandStatus::OK, body }
    }
}

/// Something unexpected that does not end the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionAnomaly {
    /// The peer sent a malformed PDU. Malformed requests were rejected.
    MalformedPdu(DecodeError),
    /// The peer sent an unsupported request. It was rejected with `generic_nack`.
    UnknownCommand {
        command: CommandId,
        sequence: u32,
    },
    /// The peer sent a response without a pending request, or too late.
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
    /// The handler timed out. The peer got a temporary error.
    HandlerTimedOut {
        command: CommandId,
        sequence: u32,
    },
    /// The handler's response cannot be encoded. The peer got `ESME_RSYSERR`.
    ResponseEncodingFailed {
        command: CommandId,
        sequence: u32,
        error: EncodeError,
    },
    AlertNotification(AlertNotification),
    Outbind(Outbind),
}

/// The side that ended the session with `unbind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnboundBy {
    Us,
    Peer,
}

/// Failure that ends a session.
#[derive(Debug, Error)]
pub enum SessionError {
    #[error("peer closed the connection without unbind")]
    Closed,
    #[error("peer did not respond to enquire_link")]
    EnquireLinkTimeout,
    #[error(transparent)]
    InvalidLength(#[from] InvalidPduLength),
    #[error("connection failed")]
    Io(#[from] io::Error),
}

/// One end of an SMPP connection, before [`run`](Self::run).
#[derive(Debug)]
pub struct Session<S> {
    transport: Transport<S>,
    commands: SessionCommands,
    config: SessionConfig,
    sequence: SequenceNumbers,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Session<S> {
    pub fn new(stream: S, config: SessionConfig) -> (Self, Link) {
        let config = SessionConfig {
            request_window: config.request_window.max(1),
            handler_window: config.handler_window.max(1),
            ..config
        };
        let (request_sender, requests) = mpsc::channel(config.request_window);
        let (unbind_sender, unbinds) = mpsc::channel(1);
        let commands = SessionCommands { requests, unbinds };
        let transport = Transport::new(stream, config.max_pdu_octets);
        (
            Self { transport, commands, config, sequence: SequenceNumbers::default() },
            Link { requests: request_sender, unbinds: unbind_sender },
        )
    }
}

/// Generates the sequence numbers of our requests: 1 to 0x7FFFFFFF, then 1 again.
#[derive(Debug, Default)]
struct SequenceNumbers(u32);

impl SequenceNumbers {
    fn next(&mut self) -> u32 {
        self.0 = self.0 % 0x7FFF_FFFF + 1;
        self.0
    }
}

/// Failure of a request.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RequestError {
    #[error("peer rejected the request with {0}")]
    Rejected(CommandStatus),
    #[error("peer did not respond in time")]
    TimedOut,
    #[error("session has ended")]
    Closed,
    #[error("unexpected response {0}")]
    UnexpectedResponse(CommandId),
    #[error(transparent)]
    Decode(DecodeError),
    #[error(transparent)]
    Encode(EncodeError),
}

/// A request queued for sending.
#[derive(Debug)]
struct QueuedRequest {
    request: Request,
    /// `None` for `alert_notification`, which has no response.
    response_sender: Option<oneshot::Sender<Result<Response, RequestError>>>,
}

/// Commands from [`Link`]s. Unbinds have their own channel, so that they overtake queued requests.
#[derive(Debug)]
struct SessionCommands {
    requests: mpsc::Receiver<QueuedRequest>,
    unbinds: mpsc::Receiver<oneshot::Sender<()>>,
}

/// Sends requests over a running session. Clones share the session.
///
/// Calls wait while the request window is full. Dropping a call's future does not cancel a request that was sent.
#[derive(Clone, Debug)]
pub struct Link {
    requests: mpsc::Sender<QueuedRequest>,
    unbinds: mpsc::Sender<oneshot::Sender<()>>,
}

impl Link {
    pub async fn submit_sm(&self, message: ShortMessage) -> Result<MessageResponseBody, RequestError> {
        match self.send_request(Request::SubmitSm(message)).await? {
            ResponseBody::SubmitSm(body) => Ok(body),
            other => Err(RequestError::UnexpectedResponse(other.command())),
        }
    }

    pub async fn deliver_sm(&self, message: ShortMessage) -> Result<MessageResponseBody, RequestError> {
        match self.send_request(Request::DeliverSm(message)).await? {
            ResponseBody::DeliverSm(body) => Ok(body),
            other => Err(RequestError::UnexpectedResponse(other.command())),
        }
    }

    pub async fn data_sm(&self, message: DataSm) -> Result<MessageResponseBody, RequestError> {
        match self.send_request(Request::DataSm(message)).await? {
            ResponseBody::DataSm(body) => Ok(body),
            other => Err(RequestError::UnexpectedResponse(other.command())),
        }
    }

    pub async fn enquire_link(&self) -> Result<(), RequestError> {
        self.send_request(Request::EnquireLink).await.map(drop)
    }

    /// Sends `alert_notification`, which has no response.
    pub async fn alert_notification(&self, alert: AlertNotification) -> Result<(), RequestError> {
        let request = QueuedRequest { request: Request::AlertNotification(alert), response_sender: None };
        self.requests.send(request).await.map_err(|_| RequestError::Closed)
    }

    /// Unbinds gracefully: responds to received requests and waits for pending responses first. Requests that wait for
    /// room in the request window fail. Returns when the session has ended for any reason.
    pub async fn unbind(&self) {
        let (waiter, ended) = oneshot::channel();
        if self.unbinds.send(waiter).await.is_ok() {
            // The session never sends a value. It drops the sender when it ends, which ends this wait.
            let _ = ended.await;
        }
    }

    /// Waits until the session sends no more requests: it has ended, or only completes handler calls before it ends.
    pub async fn closed(&self) {
        self.unbinds.closed().await;
    }

    async fn send_request(&self, request: Request) -> Result<ResponseBody, RequestError> {
        let (response_sender, response) = oneshot::channel();
        let request = QueuedRequest { request, response_sender: Some(response_sender) };
        self.requests.send(request).await.map_err(|_| RequestError::Closed)?;
        let Response { status, body } = response.await.map_err(|_| RequestError::Closed)??;
        if status.is_ok() { Ok(body) } else { Err(RequestError::Rejected(status)) }
    }
}
