//! PDUs as types.
//!
//! A request has no status and a response has one, so the two are different types. What is not known is kept as it
//! came. Reading never fails without saying whose PDU it was: [`DecodeError`] has the command and the sequence number.
//! Only an [`ImpossibleLength`] cannot be survived.
//!
//! Reading is generous where peers are known to be careless (no NUL at the very end, no body in a response, octets
//! after an operation that has no body) and exact otherwise; writing is always exact.

mod bind;
mod field;
mod frame;
mod message;
mod names;
mod tlv;

use bytes::{BufMut, BytesMut};
use thiserror::Error;

pub use self::{
    bind::{AlertNotification, Bind, BindMode, BindReply, Outbind, VERSION_3_4, VERSION_5_0},
    field::{EncodeError, Field, Malformed},
    frame::{HEADER, Header, ImpossibleLength, MAX_PDU, next},
    message::{Address, DataSm, EsmClass, MessageReply, MessageType, ShortMessage},
    names::{CommandId, CommandStatus, Npi, Tag, Ton},
    tlv::{Tlv, Tlvs},
};
use field::Reader;

/// One message of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pdu {
    pub sequence: u32,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    Request(Request),
    Response(Response),
    Unknown(Unknown),
}

/// What one side asks of the other. `outbind` and `alert_notification` are never answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    Bind(BindMode, Bind),
    Unbind,
    EnquireLink,
    SubmitSm(ShortMessage),
    DeliverSm(ShortMessage),
    DataSm(DataSm),
    Outbind(Outbind),
    AlertNotification(AlertNotification),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub status: CommandStatus,
    pub reply: Reply,
}

/// What an answer says besides its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    GenericNack,
    Bind(BindMode, BindReply),
    Unbind,
    EnquireLink,
    SubmitSm(MessageReply),
    DeliverSm(MessageReply),
    DataSm(MessageReply),
}

/// A PDU that this crate has no type for.
#[derive(Clone, PartialEq, Eq)]
pub struct Unknown {
    pub command: CommandId,
    pub status: CommandStatus,
    pub body: Vec<u8>,
}

impl std::fmt::Debug for Unknown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Unknown({}, {}, {} octets)", self.command, self.status, self.body.len())
    }
}

/// A PDU whose body could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("malformed {command}: {what}")]
pub struct DecodeError {
    pub command: CommandId,
    pub sequence: u32,
    pub what: Malformed,
}

impl Pdu {
    pub fn request(sequence: u32, request: Request) -> Self {
        Self { sequence, body: Body::Request(request) }
    }

    pub fn response(sequence: u32, status: CommandStatus, reply: Reply) -> Self {
        Self { sequence, body: Body::Response(Response { status, reply }) }
    }

    /// Reads the body that follows a header.
    pub fn decode(header: Header, body: &[u8]) -> Result<Self, DecodeError> {
        let Header { command, sequence, .. } = header;
        let body = decode_body(header, body).map_err(|what| DecodeError { command, sequence, what })?;
        Ok(Self { sequence, body })
    }

    /// Writes it at the end of a buffer, or leaves the buffer as it was.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        let start = out.len();
        let (command, status) = match &self.body {
            Body::Request(request) => (request.command(), CommandStatus::OK),
            Body::Response(response) => (response.reply.command(), response.status),
            Body::Unknown(unknown) => (unknown.command, unknown.status),
        };
        out.put_u32(0);
        out.put_u32(command.0);
        out.put_u32(status.0);
        out.put_u32(self.sequence);
        let written = self.put_body(out).and_then(|()| {
            let octets = out.len() - start;
            u32::try_from(octets).map_err(|_| EncodeError::PduTooLong { octets })
        });
        match written {
            Ok(length) => {
                out[start..start + 4].copy_from_slice(&length.to_be_bytes());
                Ok(())
            }
            Err(error) => {
                out.truncate(start);
                Err(error)
            }
        }
    }

    fn put_body(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        match &self.body {
            Body::Request(_) if !(1..=0x7FFF_FFFF).contains(&self.sequence) => Err(EncodeError::Sequence),
            Body::Request(request) => request.put(out),
            Body::Response(response) => response.put(out),
            Body::Unknown(unknown) => {
                out.put_slice(&unknown.body);
                Ok(())
            }
        }
    }
}

impl Request {
    pub fn command(&self) -> CommandId {
        match self {
            Self::Bind(mode, _) => mode.request(),
            Self::Unbind => CommandId::UNBIND,
            Self::EnquireLink => CommandId::ENQUIRE_LINK,
            Self::SubmitSm(_) => CommandId::SUBMIT_SM,
            Self::DeliverSm(_) => CommandId::DELIVER_SM,
            Self::DataSm(_) => CommandId::DATA_SM,
            Self::Outbind(_) => CommandId::OUTBIND,
            Self::AlertNotification(_) => CommandId::ALERT_NOTIFICATION,
        }
    }

    fn put(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        match self {
            Self::Bind(_, bind) => bind.put(out),
            Self::Unbind | Self::EnquireLink => Ok(()),
            Self::SubmitSm(message) | Self::DeliverSm(message) => message.put(out),
            Self::DataSm(message) => message.put(out),
            Self::Outbind(outbind) => outbind.put(out),
            Self::AlertNotification(alert) => alert.put(out),
        }
    }
}

impl Response {
    fn put(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        let refused = !self.status.is_ok();
        match &self.reply {
            Reply::GenericNack | Reply::Unbind | Reply::EnquireLink => Ok(()),
            Reply::Bind(_, reply) => reply.put(out, refused),
            Reply::SubmitSm(reply) if refused && *reply == MessageReply::default() => Ok(()),
            Reply::SubmitSm(reply) | Reply::DeliverSm(reply) | Reply::DataSm(reply) => reply.put(out),
        }
    }
}

impl Reply {
    pub fn command(&self) -> CommandId {
        match self {
            Self::GenericNack => CommandId::GENERIC_NACK,
            Self::Bind(mode, _) => mode.response(),
            Self::Unbind => CommandId::UNBIND_RESP,
            Self::EnquireLink => CommandId::ENQUIRE_LINK_RESP,
            Self::SubmitSm(_) => CommandId::SUBMIT_SM_RESP,
            Self::DeliverSm(_) => CommandId::DELIVER_SM_RESP,
            Self::DataSm(_) => CommandId::DATA_SM_RESP,
        }
    }

    /// The empty answer to a command: its own response, or `generic_nack` to what has none.
    pub fn to(command: CommandId) -> Self {
        match command {
            CommandId::BIND_RECEIVER => Self::Bind(BindMode::Receiver, BindReply::default()),
            CommandId::BIND_TRANSMITTER => Self::Bind(BindMode::Transmitter, BindReply::default()),
            CommandId::BIND_TRANSCEIVER => Self::Bind(BindMode::Transceiver, BindReply::default()),
            CommandId::UNBIND => Self::Unbind,
            CommandId::ENQUIRE_LINK => Self::EnquireLink,
            CommandId::SUBMIT_SM => Self::SubmitSm(MessageReply::default()),
            CommandId::DELIVER_SM => Self::DeliverSm(MessageReply::default()),
            CommandId::DATA_SM => Self::DataSm(MessageReply::default()),
            _ => Self::GenericNack,
        }
    }
}

fn decode_body(header: Header, body: &[u8]) -> Result<Body, Malformed> {
    let reader = &mut Reader::new(body);
    let reply = |reply| Body::Response(Response { status: header.status, reply });
    Ok(match header.command {
        CommandId::BIND_RECEIVER => Body::Request(Request::Bind(BindMode::Receiver, Bind::read(reader)?)),
        CommandId::BIND_TRANSMITTER => Body::Request(Request::Bind(BindMode::Transmitter, Bind::read(reader)?)),
        CommandId::BIND_TRANSCEIVER => Body::Request(Request::Bind(BindMode::Transceiver, Bind::read(reader)?)),
        CommandId::UNBIND => Body::Request(Request::Unbind),
        CommandId::ENQUIRE_LINK => Body::Request(Request::EnquireLink),
        CommandId::SUBMIT_SM => Body::Request(Request::SubmitSm(ShortMessage::read(reader)?)),
        CommandId::DELIVER_SM => Body::Request(Request::DeliverSm(ShortMessage::read(reader)?)),
        CommandId::DATA_SM => Body::Request(Request::DataSm(DataSm::read(reader)?)),
        CommandId::OUTBIND => Body::Request(Request::Outbind(Outbind::read(reader)?)),
        CommandId::ALERT_NOTIFICATION => Body::Request(Request::AlertNotification(AlertNotification::read(reader)?)),
        CommandId::GENERIC_NACK => reply(Reply::GenericNack),
        CommandId::BIND_RECEIVER_RESP => reply(Reply::Bind(BindMode::Receiver, BindReply::read(reader)?)),
        CommandId::BIND_TRANSMITTER_RESP => reply(Reply::Bind(BindMode::Transmitter, BindReply::read(reader)?)),
        CommandId::BIND_TRANSCEIVER_RESP => reply(Reply::Bind(BindMode::Transceiver, BindReply::read(reader)?)),
        CommandId::UNBIND_RESP => reply(Reply::Unbind),
        CommandId::ENQUIRE_LINK_RESP => reply(Reply::EnquireLink),
        CommandId::SUBMIT_SM_RESP => reply(Reply::SubmitSm(MessageReply::read(reader)?)),
        CommandId::DELIVER_SM_RESP => reply(Reply::DeliverSm(MessageReply::read(reader)?)),
        CommandId::DATA_SM_RESP => reply(Reply::DataSm(MessageReply::read(reader)?)),
        command => Body::Unknown(Unknown { command, status: header.status, body: body.to_vec() }),
    })
}
