//! Handle for sending requests over a running session.

use thiserror::Error;
use tokio::sync::{mpsc, oneshot};

use crate::pdu::{
    AlertNotification, CommandId, CommandStatus, DataSm, DecodeError, EncodeError, MessageResponseBody, Request,
    Response, ResponseBody, ShortMessage,
};

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
pub(super) struct OutboundRequest {
    pub(super) request: Request,
    /// `None` for `alert_notification`, which has no response.
    pub(super) response_sender: Option<oneshot::Sender<Result<Response, RequestError>>>,
}

/// Commands from [`Link`]s. Unbinds have their own channel, so that they overtake queued requests.
#[derive(Debug)]
pub(super) struct SessionCommands {
    pub(super) requests: mpsc::Receiver<OutboundRequest>,
    pub(super) unbinds: mpsc::Receiver<oneshot::Sender<()>>,
}

/// Sends requests over a running session. Clones share the session.
///
/// Calls wait while the request window is full. Dropping a call's future does not cancel a request that was sent.
#[derive(Clone, Debug)]
pub struct Link {
    requests: mpsc::Sender<OutboundRequest>,
    unbinds: mpsc::Sender<oneshot::Sender<()>>,
}

impl Link {
    pub(super) fn new(requests: mpsc::Sender<OutboundRequest>, unbinds: mpsc::Sender<oneshot::Sender<()>>) -> Self {
        Self { requests, unbinds }
    }

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
        let request = OutboundRequest { request: Request::AlertNotification(alert), response_sender: None };
        self.requests.send(request).await.map_err(|_| RequestError::Closed)
    }

    /// Unbinds gracefully: responds to received requests and waits for pending responses first. Requests that wait for
    /// the window fail. Returns when the session has ended for any reason.
    pub async fn unbind(&self) {
        let (waiter, ended) = oneshot::channel();
        if self.unbinds.send(waiter).await.is_ok() {
            // The session drops the sender when it ends.
            let _ = ended.await;
        }
    }

    /// Waits until the session has ended, or only completes handler calls before it ends.
    pub async fn closed(&self) {
        self.unbinds.closed().await;
    }

    async fn send_request(&self, request: Request) -> Result<ResponseBody, RequestError> {
        let (response_sender, response) = oneshot::channel();
        let request = OutboundRequest { request, response_sender: Some(response_sender) };
        self.requests.send(request).await.map_err(|_| RequestError::Closed)?;
        let Response { status, body } = response.await.map_err(|_| RequestError::Closed)??;
        if status.is_ok() { Ok(body) } else { Err(RequestError::Rejected(status)) }
    }
}
