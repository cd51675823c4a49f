//! The bind phase, for ESME and SMSC.
//!
//! Before the bind, `enquire_link` is answered and every other request is rejected; neither ends the session.

use thiserror::Error;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};

use super::{Session, SessionError};
use crate::pdu::{
    Bind, BindMode, BindResponseBody, Body, CommandId, CommandStatus, DecodeError, EncodeError, Pdu, Request, Response,
    ResponseBody,
};

/// Why a bind failed.
#[derive(Debug, Error)]
pub enum BindError {
    #[error("peer rejected the bind with {0}")]
    Rejected(CommandStatus),
    #[error("bind timed out")]
    TimedOut,
    #[error("unexpected response {0} to the bind")]
    UnexpectedResponse(CommandId),
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error(transparent)]
    Encode(#[from] EncodeError),
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// A received bind request that has not been answered yet.
#[derive(Debug)]
#[must_use = "the peer waits for a bind response"]
pub struct PendingBind {
    pub mode: BindMode,
    pub bind: Bind,
    sequence: u32,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Session<S> {
    /// Sends a bind request and waits for the response.
    pub async fn bind(&mut self, mode: BindMode, bind: Bind) -> Result<BindResponseBody, BindError> {
        let sequence = self.sequence.next();
        self.transport.writer.write_pdu(&Pdu::request(sequence, Request::Bind(mode, bind)))?;
        timeout(self.config.bind_timeout, self.wait_for_bind_response(mode, sequence))
            .await
            .unwrap_or(Err(BindError::TimedOut))
    }

    /// Waits for a bind request of the peer.
    pub async fn wait_for_bind(&mut self) -> Result<PendingBind, BindError> {
        timeout(self.config.bind_timeout, self.wait_for_bind_request()).await.unwrap_or(Err(BindError::TimedOut))
    }

    /// Accepts the bind with this response.
    pub async fn accept_bind(&mut self, pending: PendingBind, body: BindResponseBody) -> Result<(), BindError> {
        self.send_response(pending.sequence, CommandStatus::OK, ResponseBody::Bind(pending.mode, body)).await
    }

    /// Rejects the bind. The peer may try again on the same stream.
    pub async fn reject_bind(&mut self, pending: PendingBind, status: CommandStatus) -> Result<(), BindError> {
        self.send_response(pending.sequence, status, ResponseBody::Bind(pending.mode, BindResponseBody::default()))
            .await
    }

    async fn wait_for_bind_response(&mut self, mode: BindMode, expected: u32) -> Result<BindResponseBody, BindError> {
        self.flush().await?;
        loop {
            let Pdu { sequence, body } = self.receive_pdu().await?;
            let Body::Response(Response { status, body: response }) = body else {
                self.respond_before_bind(sequence, &body).await?;
                continue;
            };
            match response {
                _ if sequence != expected => {}
                ResponseBody::Bind(..) | ResponseBody::GenericNack if !status.is_ok() => {
                    return Err(BindError::Rejected(status));
                }
                ResponseBody::Bind(bound, response) if bound == mode => return Ok(response),
                other => return Err(BindError::UnexpectedResponse(other.command())),
            }
        }
    }

    async fn wait_for_bind_request(&mut self) -> Result<PendingBind, BindError> {
        loop {
            let Pdu { sequence, body } = self.receive_pdu().await?;
            match body {
                Body::Request(Request::Bind(mode, bind)) => return Ok(PendingBind { mode, bind, sequence }),
                Body::Request(Request::Unbind) => {
                    self.send_response(sequence, CommandStatus::OK, ResponseBody::Unbind).await?;
                    return Err(BindError::Session(SessionError::Closed));
                }
                body => self.respond_before_bind(sequence, &body).await?,
            }
        }
    }

    /// Waits for a well-formed PDU. Rejects malformed requests; a malformed response is an error.
    async fn receive_pdu(&mut self) -> Result<Pdu, BindError> {
        loop {
            let (header, body) = self.transport.reader.next_pdu().await?;
            match Pdu::decode(header, &body) {
                Ok(pdu) => return Ok(pdu),
                Err(error) if header.command.is_response() => return Err(BindError::Decode(error)),
                Err(error) => {
                    self.send_response(header.sequence, error.reason.status(), ResponseBody::empty_for(header.command))
                        .await?;
                }
            }
        }
    }

    async fn respond_before_bind(&mut self, sequence: u32, body: &Body) -> Result<(), BindError> {
        let (status, response) = match body {
            Body::Response(_) | Body::Request(Request::Outbind(_) | Request::AlertNotification(_)) => return Ok(()),
            Body::Unknown(unknown) if unknown.command.is_response() => return Ok(()),
            Body::Unknown(_) => (CommandStatus::INVALID_COMMAND_ID, ResponseBody::GenericNack),
            Body::Request(Request::EnquireLink) => (CommandStatus::OK, ResponseBody::EnquireLink),
            Body::Request(request) => {
                (CommandStatus::INCORRECT_BIND_STATUS, ResponseBody::empty_for(request.command()))
            }
        };
        self.send_response(sequence, status, response).await
    }

    async fn send_response(
        &mut self,
        sequence: u32,
        status: CommandStatus,
        body: ResponseBody,
    ) -> Result<(), BindError> {
        self.transport.writer.write_pdu(&Pdu::response(sequence, status, body))?;
        self.flush().await
    }

    async fn flush(&mut self) -> Result<(), BindError> {
        self.transport.writer.flush().await.map_err(|error| BindError::Session(error.into()))
    }
}
