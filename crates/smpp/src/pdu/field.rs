//! The fields of a PDU: their limits, and how they are read and written.
//!
//! Text fields hold octets that are meant to be ASCII. They are kept as the characters of Latin-1, so that every octet
//! that a peer sends survives a round trip.

use bytes::{BufMut, BytesMut};
use thiserror::Error;

use super::{Address, CommandStatus, Npi, Tag, Ton};

/// A text field: its name, the most octets it may have with its final NUL, and the status that refuses a bad one.
#[derive(Debug, PartialEq, Eq)]
pub struct Field {
    pub name: &'static str,
    pub limit: usize,
    pub refusal: CommandStatus,
}

macro_rules! fields {
    ($($constant:ident: $name:literal $limit:literal $refusal:ident;)*) => {
        $(pub(super) const $constant: &Field =
            &Field { name: $name, limit: $limit, refusal: CommandStatus::$refusal };)*
    };
}

fields! {
    SYSTEM_ID: "system_id" 16 INVALID_SYSTEM_ID;
    PASSWORD: "password" 9 INVALID_PASSWORD;
    SYSTEM_TYPE: "system_type" 13 INVALID_SYSTEM_TYPE;
    ADDRESS_RANGE: "address_range" 41 INVALID_COMMAND_LENGTH;
    SERVICE_TYPE: "service_type" 6 INVALID_SERVICE_TYPE;
    SOURCE_ADDR: "source_addr" 21 INVALID_SOURCE_ADDRESS;
    DESTINATION_ADDR: "destination_addr" 21 INVALID_DESTINATION_ADDRESS;
    SCHEDULE_DELIVERY_TIME: "schedule_delivery_time" 17 INVALID_SCHEDULE;
    VALIDITY_PERIOD: "validity_period" 17 INVALID_VALIDITY;
    MESSAGE_ID: "message_id" 65 INVALID_MESSAGE_ID;
    LONG_SOURCE_ADDR: "source_addr" 65 INVALID_SOURCE_ADDRESS;
    LONG_DESTINATION_ADDR: "destination_addr" 65 INVALID_DESTINATION_ADDRESS;
    ESME_ADDR: "esme_addr" 65 INVALID_DESTINATION_ADDRESS;
}

/// What is wrong with the body of a PDU.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    #[error("the body ends before {field}")]
    Truncated { field: &'static str },
    #[error("{} does not end within {} octets", .0.name, .0.limit)]
    TooLong(&'static Field),
    #[error("sm_length says {said} octets, {left} are left")]
    MessageLength { said: usize, left: usize },
    #[error("the TLVs end with {left} octets that are none")]
    TlvHeader { left: usize },
    #[error("{tag} says {said} octets, {left} are left")]
    TlvLength { tag: Tag, said: usize, left: usize },
}

impl Malformed {
    /// The status that tells the peer.
    pub fn status(&self) -> CommandStatus {
        match self {
            Self::Truncated { .. } => CommandStatus::INVALID_COMMAND_LENGTH,
            Self::TooLong(field) => field.refusal,
            Self::MessageLength { .. } => CommandStatus::INVALID_MESSAGE_LENGTH,
            Self::TlvHeader { .. } | Self::TlvLength { .. } => CommandStatus::INVALID_TLV_STREAM,
        }
    }
}

/// Why a PDU cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EncodeError {
    #[error("{} takes at most {} octets", .0.name, .0.limit - 1)]
    TooLong(&'static Field),
    #[error("{} cannot hold a NUL, or a character outside Latin-1", .0.name)]
    Character(&'static Field),
    #[error("short_message has {octets} octets, it takes at most {most}: use message_payload", most = super::ShortMessage::LIMIT)]
    MessageTooLong { octets: usize },
    #[error("{tag} has {octets} octets, a TLV takes at most 65535")]
    TlvTooLong { tag: Tag, octets: usize },
    #[error("the PDU would have {octets} octets")]
    PduTooLong { octets: usize },
    #[error("0 and numbers above 0x7fffffff are not sequence numbers of requests")]
    Sequence,
}

/// Reads fields off the front of a body.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(body: &'a [u8]) -> Self {
        Self { rest: body }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }

    pub(super) fn octet(&mut self, field: &'static str) -> Result<u8, Malformed> {
        let (&first, rest) = self.rest.split_first().ok_or(Malformed::Truncated { field })?;
        self.rest = rest;
        Ok(first)
    }

    /// Takes `count` octets, or none when there are fewer.
    pub(super) fn octets(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    /// Takes a text field. At the very end of a body, its final NUL may be missing: some peers forget it.
    pub(super) fn text(&mut self, field: &'static Field) -> Result<String, Malformed> {
        if self.rest.is_empty() {
            return Err(Malformed::Truncated { field: field.name });
        }
        let window = &self.rest[..self.rest.len().min(field.limit)];
        if let Some(end) = window.iter().position(|&octet| octet == 0) {
            self.rest = &self.rest[end + 1..];
            return Ok(latin1(&window[..end]));
        }
        if self.rest.len() < field.limit {
            self.rest = &[];
            return Ok(latin1(window));
        }
        Err(Malformed::TooLong(field))
    }

    pub(super) fn address(&mut self, field: &'static Field) -> Result<Address, Malformed> {
        let ton = Ton(self.octet(field.name)?);
        let npi = Npi(self.octet(field.name)?);
        Ok(Address { ton, npi, value: self.text(field)? })
    }
}

fn latin1(octets: &[u8]) -> String {
    octets.iter().copied().map(char::from).collect()
}

/// Writes a text field with its final NUL.
pub(super) fn put_text(out: &mut BytesMut, field: &'static Field, text: &str) -> Result<(), EncodeError> {
    let mut octets = 0;
    for character in text.chars() {
        match u8::try_from(character) {
            Ok(octet) if octet != 0 => out.put_u8(octet),
            _ => return Err(EncodeError::Character(field)),
        }
        octets += 1;
    }
    if octets >= field.limit {
        return Err(EncodeError::TooLong(field));
    }
    out.put_u8(0);
    Ok(())
}

pub(super) fn put_address(out: &mut BytesMut, field: &'static Field, address: &Address) -> Result<(), EncodeError> {
    out.put_u8(address.ton.0);
    out.put_u8(address.npi.0);
    put_text(out, field, &address.value)
}
