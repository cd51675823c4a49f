//! How a session begins, seen from either side.
//!
//! Until there is a bind, `enquire_link` is answered and everything else is refused, and none of it ends the session.

use thiserror::Error;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};

use super::{Fault, Session};
use crate::pdu::{
    Bind, BindMode, BindReply, Body, CommandId, CommandStatus, DecodeError, EncodeError, Pdu, Reply, Request, Response,
};

/// Why there is no bind.
#[derive(Debug, Error)]
pub enum BindError {
    #[error("the peer refused with {0}")]
    Refused(CommandStatus),
    #[error("there was no bind in time")]
    TimedOut,
    #[error("the peer responded with {0}")]
    Unexpected(CommandId),
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    #[error(transparent)]
    Unwritable(#[from] EncodeError),
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// A peer that wants to bind, and waits to hear whether it may.
#[derive(Debug)]
#[must_use = "the peer waits to be admitted or refused"]
pub struct BindOffer {
    pub mode: BindMode,
    pub bind: Bind,
    sequence: u32,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Session<S> {
    /// Binds to the peer.
    pub async fn bind(&mut self, mode: BindMode, bind: Bind) -> Result<BindReply, BindError> {
        let sequence = self.sequence.next();
        self.wire.writer.push(&Pdu::request(sequence, Request::Bind(mode, bind)))?;
        let patience = self.config.bind_timeout;
        timeout(patience, self.bind_response(mode, sequence)).await.unwrap_or(Err(BindError::TimedOut))
    }

    /// Waits for the peer to bind.
    pub async fn await_bind(&mut self) -> Result<BindOffer, BindError> {
        let patience = self.config.bind_timeout;
        timeout(patience, self.bind_request()).await.unwrap_or(Err(BindError::TimedOut))
    }

    /// Tells the peer that it is bound.
    pub async fn admit(&mut self, offer: BindOffer, reply: BindReply) -> Result<(), BindError> {
        self.answer(offer.sequence, CommandStatus::OK, Reply::Bind(offer.mode, reply)).await
    }

    /// Tells the peer that it is not bound, and why. It may try again.
    pub async fn refuse(&mut self, offer: BindOffer, status: CommandStatus) -> Result<(), BindError> {
        self.answer(offer.sequence, status, Reply::Bind(offer.mode, BindReply::default())).await
    }

    async fn bind_response(&mut self, mode: BindMode, expected: u32) -> Result<BindReply, BindError> {
        self.finish().await?;
        loop {
            let Pdu { sequence, body } = self.receive().await?;
            let Body::Response(Response { status, reply }) = body else {
                self.refuse_unbound(sequence, &body).await?;
                continue;
            };
            match reply {
                _ if sequence != expected => {}
                Reply::Bind(..) | Reply::GenericNack if !status.is_ok() => return Err(BindError::Refused(status)),
                Reply::Bind(bound, reply) if bound == mode => return Ok(reply),
                other => return Err(BindError::Unexpected(other.command())),
            }
        }
    }

    async fn bind_request(&mut self) -> Result<BindOffer, BindError> {
        loop {
            let Pdu { sequence, body } = self.receive().await?;
            match body {
                Body::Request(Request::Bind(mode, bind)) => return Ok(BindOffer { mode, bind, sequence }),
                Body::Request(Request::Unbind) => {
                    self.answer(sequence, CommandStatus::OK, Reply::Unbind).await?;
                    return Err(BindError::Fault(Fault::Closed));
                }
                body => self.refuse_unbound(sequence, &body).await?,
            }
        }
    }

    /// Waits for a PDU that can be read. A request that cannot is refused, a response that cannot is an error.
    async fn receive(&mut self) -> Result<Pdu, BindError> {
        loop {
            let (header, body) = self.wire.reader.receive().await?;
            match Pdu::decode(header, &body) {
                Ok(pdu) => return Ok(pdu),
                Err(error) if header.command.is_response() => return Err(BindError::Malformed(error)),
                Err(error) => self.answer(header.sequence, error.what.status(), Reply::to(header.command)).await?,
            }
        }
    }

    async fn refuse_unbound(&mut self, sequence: u32, body: &Body) -> Result<(), BindError> {
        let (status, reply) = match body {
            Body::Response(_) | Body::Request(Request::Outbind(_) | Request::AlertNotification(_)) => return Ok(()),
            Body::Unknown(unknown) if unknown.command.is_response() => return Ok(()),
            Body::Unknown(_) => (CommandStatus::INVALID_COMMAND_ID, Reply::GenericNack),
            Body::Request(Request::EnquireLink) => (CommandStatus::OK, Reply::EnquireLink),
            Body::Request(request) => (CommandStatus::INCORRECT_BIND_STATUS, Reply::to(request.command())),
        };
        self.answer(sequence, status, reply).await
    }

    async fn answer(&mut self, sequence: u32, status: CommandStatus, reply: Reply) -> Result<(), BindError> {
        self.wire.writer.push(&Pdu::response(sequence, status, reply))?;
        self.finish().await
    }

    async fn finish(&mut self) -> Result<(), BindError> {
        self.wire.writer.finish().await.map_err(|error| BindError::Fault(error.into()))
    }
}
