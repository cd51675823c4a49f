//! PDU types and codec.
//!
//! Requests and responses are different types, because only responses have a `command_status`. Unknown PDUs keep their
//! octets. A [`DecodeError`] has the command and the sequence number; only an [`InvalidPduLength`] is fatal.
//!
//! Decoding tolerates known deviations of peers (no NUL at the end of the body, no body in a response, octets after an
//! operation without a body) and is strict otherwise. Encoding is always strict.

mod body;
mod constants;
mod field;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use thiserror::Error;

pub use self::{
    body::{
        Address, AlertNotification, Bind, BindMode, BindResponseBody, DataSm, MessageResponseBody, Outbind,
        ShortMessage, VERSION_3_4, VERSION_5_0,
    },
    constants::{CommandId, CommandStatus, Npi, TlvTag, Ton},
    field::{EncodeError, MalformedBody, TextField, Tlv, Tlvs},
};
use field::BodyReader;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pdu {
    pub sequence: u32,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    Request(Request),
    Response(Response),
    Unknown(UnknownPdu),
}

/// Request PDU. `outbind` and `alert_notification` have no response.
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
    pub body: ResponseBody,
}

/// Response PDU without its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResponseBody {
    GenericNack,
    Bind(BindMode, BindResponseBody),
    Unbind,
    EnquireLink,
    SubmitSm(MessageResponseBody),
    DeliverSm(MessageResponseBody),
    DataSm(MessageResponseBody),
}

/// PDU with an unsupported `command_id`.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("UnknownPdu({command}, {status}, {} octets)", body.len())]
pub struct UnknownPdu {
    pub command: CommandId,
    pub status: CommandStatus,
    pub body: Vec<u8>,
}

/// Decoding error, with the command and sequence number of the PDU.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("malformed {command}: {reason}")]
pub struct DecodeError {
    pub command: CommandId,
    pub sequence: u32,
    pub reason: MalformedBody,
}

impl Pdu {
    pub fn request(sequence: u32, request: Request) -> Self {
        Self { sequence, body: Body::Request(request) }
    }

    pub fn response(sequence: u32, status: CommandStatus, body: ResponseBody) -> Self {
        Self { sequence, body: Body::Response(Response { status, body }) }
    }

    /// Decodes the body of a frame that [`next_frame`] returned.
    pub fn decode(header: Header, body: &[u8]) -> Result<Self, DecodeError> {
        let Header { command, sequence, .. } = header;
        let body = decode_body(header, body).map_err(|reason| DecodeError { command, sequence, reason })?;
        Ok(Self { sequence, body })
    }

    /// Appends the PDU to a buffer. On an error the buffer is unchanged.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        let start = out.len();
        let (command, status) = match &self.body {
            Body::Request(request) => (request.command(), CommandStatus::OK),
            Body::Response(response) => (response.body.command(), response.status),
            Body::Unknown(unknown) => (unknown.command, unknown.status),
        };
        out.put_u32(0);
        out.put_u32(command.0);
        out.put_u32(status.0);
        out.put_u32(self.sequence);
        let written = self.encode_body(out).and_then(|()| {
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

    fn encode_body(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        match &self.body {
            Body::Request(_) if !(1..=0x7FFF_FFFF).contains(&self.sequence) => Err(EncodeError::InvalidSequenceNumber),
            Body::Request(request) => request.encode(out),
            Body::Response(response) => response.encode(out),
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
            Self::Bind(mode, _) => mode.request_command(),
            Self::Unbind => CommandId::UNBIND,
            Self::EnquireLink => CommandId::ENQUIRE_LINK,
            Self::SubmitSm(_) => CommandId::SUBMIT_SM,
            Self::DeliverSm(_) => CommandId::DELIVER_SM,
            Self::DataSm(_) => CommandId::DATA_SM,
            Self::Outbind(_) => CommandId::OUTBIND,
            Self::AlertNotification(_) => CommandId::ALERT_NOTIFICATION,
        }
    }

    fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        match self {
            Self::Bind(_, bind) => bind.encode(out),
            Self::Unbind | Self::EnquireLink => Ok(()),
            Self::SubmitSm(message) | Self::DeliverSm(message) => message.encode(out),
            Self::DataSm(message) => message.encode(out),
            Self::Outbind(outbind) => outbind.encode(out),
            Self::AlertNotification(alert) => alert.encode(out),
        }
    }
}

impl Response {
    fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        let is_error = !self.status.is_ok();
        match &self.body {
            ResponseBody::GenericNack | ResponseBody::Unbind | ResponseBody::EnquireLink => Ok(()),
            ResponseBody::Bind(_, body) => body.encode(out, is_error),
            ResponseBody::SubmitSm(body) if is_error && *body == MessageResponseBody::default() => Ok(()),
            ResponseBody::SubmitSm(body) | ResponseBody::DeliverSm(body) | ResponseBody::DataSm(body) => {
                body.encode(out)
            }
        }
    }
}

impl ResponseBody {
    pub fn command(&self) -> CommandId {
        match self {
            Self::GenericNack => CommandId::GENERIC_NACK,
            Self::Bind(mode, _) => mode.response_command(),
            Self::Unbind => CommandId::UNBIND_RESP,
            Self::EnquireLink => CommandId::ENQUIRE_LINK_RESP,
            Self::SubmitSm(_) => CommandId::SUBMIT_SM_RESP,
            Self::DeliverSm(_) => CommandId::DELIVER_SM_RESP,
            Self::DataSm(_) => CommandId::DATA_SM_RESP,
        }
    }

    /// Returns the empty response to a command, or `generic_nack` if the command has no response.
    pub fn empty_for(command: CommandId) -> Self {
        match command {
            CommandId::BIND_RECEIVER => Self::Bind(BindMode::Receiver, BindResponseBody::default()),
            CommandId::BIND_TRANSMITTER => Self::Bind(BindMode::Transmitter, BindResponseBody::default()),
            CommandId::BIND_TRANSCEIVER => Self::Bind(BindMode::Transceiver, BindResponseBody::default()),
            CommandId::UNBIND => Self::Unbind,
            CommandId::ENQUIRE_LINK => Self::EnquireLink,
            CommandId::SUBMIT_SM => Self::SubmitSm(MessageResponseBody::default()),
            CommandId::DELIVER_SM => Self::DeliverSm(MessageResponseBody::default()),
            CommandId::DATA_SM => Self::DataSm(MessageResponseBody::default()),
            _ => Self::GenericNack,
        }
    }
}

fn decode_body(header: Header, body: &[u8]) -> Result<Body, MalformedBody> {
    let reader = &mut BodyReader::new(body);
    let response = |body| Body::Response(Response { status: header.status, body });
    Ok(match header.command {
        CommandId::BIND_RECEIVER => Body::Request(Request::Bind(BindMode::Receiver, Bind::decode(reader)?)),
        CommandId::BIND_TRANSMITTER => Body::Request(Request::Bind(BindMode::Transmitter, Bind::decode(reader)?)),
        CommandId::BIND_TRANSCEIVER => Body::Request(Request::Bind(BindMode::Transceiver, Bind::decode(reader)?)),
        CommandId::UNBIND => Body::Request(Request::Unbind),
        CommandId::ENQUIRE_LINK => Body::Request(Request::EnquireLink),
        CommandId::SUBMIT_SM => Body::Request(Request::SubmitSm(ShortMessage::decode(reader)?)),
        CommandId::DELIVER_SM => Body::Request(Request::DeliverSm(ShortMessage::decode(reader)?)),
        CommandId::DATA_SM => Body::Request(Request::DataSm(DataSm::decode(reader)?)),
        CommandId::OUTBIND => Body::Request(Request::Outbind(Outbind::decode(reader)?)),
        CommandId::ALERT_NOTIFICATION => Body::Request(Request::AlertNotification(AlertNotification::decode(reader)?)),
        CommandId::GENERIC_NACK => response(ResponseBody::GenericNack),
        CommandId::BIND_RECEIVER_RESP => {
            response(ResponseBody::Bind(BindMode::Receiver, BindResponseBody::decode(reader)?))
        }
        CommandId::BIND_TRANSMITTER_RESP => {
            response(ResponseBody::Bind(BindMode::Transmitter, BindResponseBody::decode(reader)?))
        }
        CommandId::BIND_TRANSCEIVER_RESP => {
            response(ResponseBody::Bind(BindMode::Transceiver, BindResponseBody::decode(reader)?))
        }
        CommandId::UNBIND_RESP => response(ResponseBody::Unbind),
        CommandId::ENQUIRE_LINK_RESP => response(ResponseBody::EnquireLink),
        CommandId::SUBMIT_SM_RESP => response(ResponseBody::SubmitSm(MessageResponseBody::decode(reader)?)),
        CommandId::DELIVER_SM_RESP => response(ResponseBody::DeliverSm(MessageResponseBody::decode(reader)?)),
        CommandId::DATA_SM_RESP => response(ResponseBody::DataSm(MessageResponseBody::decode(reader)?)),
        command => Body::Unknown(UnknownPdu { command, status: header.status, body: body.to_vec() }),
    })
}

/// Default maximum length of a PDU.
pub const MAX_PDU_OCTETS: usize = 64 * 1024;

pub const HEADER_OCTETS: usize = 16;

/// PDU header without `command_length`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub command: CommandId,
    pub status: CommandStatus,
    pub sequence: u32,
}

/// Invalid `command_length`: the start of the next PDU is unknown, so the stream cannot be resynchronised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("invalid command_length {octets}: must be {HEADER_OCTETS} to {max}")]
pub struct InvalidPduLength {
    pub octets: usize,
    pub max: usize,
}

/// Removes the next PDU from the front of a buffer. `None`: the PDU is incomplete.
pub fn next_frame(buffer: &mut BytesMut, max: usize) -> Result<Option<(Header, Bytes)>, InvalidPduLength> {
    let Some(length) = buffer.first_chunk::<4>() else { return Ok(None) };
    let octets = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    if octets < HEADER_OCTETS || octets > max {
        return Err(InvalidPduLength { octets, max });
    }
    if buffer.len() < octets {
        buffer.reserve(octets - buffer.len());
        return Ok(None);
    }
    let mut frame = buffer.split_to(octets).freeze();
    frame.advance(4);
    let command = CommandId(frame.get_u32());
    let status = CommandStatus(frame.get_u32());
    let sequence = frame.get_u32();
    Ok(Some((Header { command, status, sequence }, frame)))
}
