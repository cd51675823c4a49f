//! The handle through which requests are sent.

use thiserror::Error;
use tokio::sync::{mpsc, oneshot};

use crate::pdu::{
    AlertNotification, CommandId, CommandStatus, DataSm, DecodeError, EncodeError, MessageReply, Reply, Request,
    Response, ShortMessage,
};

/// Why a request has no good response.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RequestError {
    #[error("the peer refused with {0}")]
    Refused(CommandStatus),
    #[error("the peer did not respond in time")]
    TimedOut,
    #[error("the session has ended")]
    Closed,
    #[error("the peer responded with {0}")]
    Unexpected(CommandId),
    #[error(transparent)]
    Malformed(DecodeError),
    #[error(transparent)]
    Unwritable(EncodeError),
}

/// A request on its way into the session.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) request: Request,
    /// None for a request that has no response.
    pub(super) caller: Option<oneshot::Sender<Result<Response, RequestError>>>,
}

/// What a session is asked to do. Unbinding has a way of its own, past the requests that wait.
#[derive(Debug)]
pub(super) struct Orders {
    pub(super) requests: mpsc::Receiver<Order>,
    pub(super) unbinds: mpsc::Receiver<oneshot::Sender<()>>,
}

/// Sends requests over a running session. Clones share it.
///
/// A call waits while the window is full. Who drops a call does not take the request back.
#[derive(Clone, Debug)]
pub struct Link {
    requests: mpsc::Sender<Order>,
    unbinds: mpsc::Sender<oneshot::Sender<()>>,
}

impl Link {
    pub(super) fn new(requests: mpsc::Sender<Order>, unbinds: mpsc::Sender<oneshot::Sender<()>>) -> Self {
        Self { requests, unbinds }
    }

    pub async fn submit_sm(&self, message: ShortMessage) -> Result<MessageReply, RequestError> {
        match self.ask(Request::SubmitSm(message)).await? {
            Reply::SubmitSm(reply) => Ok(reply),
            other => Err(RequestError::Unexpected(other.command())),
        }
    }

    pub async fn deliver_sm(&self, message: ShortMessage) -> Result<MessageReply, RequestError> {
        match self.ask(Request::DeliverSm(message)).await? {
            Reply::DeliverSm(reply) => Ok(reply),
            other => Err(RequestError::Unexpected(other.command())),
        }
    }

    pub async fn data_sm(&self, message: DataSm) -> Result<MessageReply, RequestError> {
        match self.ask(Request::DataSm(message)).await? {
            Reply::DataSm(reply) => Ok(reply),
            other => Err(RequestError::Unexpected(other.command())),
        }
    }

    pub async fn enquire_link(&self) -> Result<(), RequestError> {
        self.ask(Request::EnquireLink).await.map(drop)
    }

    /// Sends a notification, which has no response.
    pub async fn alert_notification(&self, alert: AlertNotification) -> Result<(), RequestError> {
        let order = Order { request: Request::AlertNotification(alert), caller: None };
        self.requests.send(order).await.map_err(|_| RequestError::Closed)
    }

    /// Ends the session in good order: what the peer has sent is answered first, and what we have sent is waited for;
    /// requests that still wait for the window are given up. Returns when the session has ended, by whatever way.
    pub async fn unbind(&self) {
        let (caller, ended) = oneshot::channel();
        if self.unbinds.send(caller).await.is_ok() {
            // The session drops its side when it ends.
            let _ = ended.await;
        }
    }

    /// Waits until the session has ended, or is about to and does nothing more than answer what it has taken.
    pub async fn closed(&self) {
        self.unbinds.closed().await;
    }

    async fn ask(&self, request: Request) -> Result<Reply, RequestError> {
        let (caller, response) = oneshot::channel();
        let order = Order { request, caller: Some(caller) };
        self.requests.send(order).await.map_err(|_| RequestError::Closed)?;
        let Response { status, reply } = response.await.map_err(|_| RequestError::Closed)??;
        if status.is_ok() { Ok(reply) } else { Err(RequestError::Refused(status)) }
    }
}
