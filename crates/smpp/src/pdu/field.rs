//! Fields and optional parameters (TLVs) of PDU bodies: limits, decoding and encoding.
//!
//! Text fields should be ASCII. They are decoded as Latin-1, so that every octet survives a round trip.

use bytes::{BufMut, BytesMut};
use thiserror::Error;

use super::{Address, CommandStatus, Npi, TlvTag, Ton};

/// A C-octet string field. `max_octets` includes the final NUL; `error_status` is the response to an invalid value.
#[derive(Debug, PartialEq, Eq)]
pub struct TextField {
    pub name: &'static str,
    pub max_octets: usize,
    pub error_status: CommandStatus,
}

macro_rules! text_fields {
    ($($constant:ident: $name:literal $max_octets:literal $error_status:ident;)*) => {
        $(pub(super) const $constant: &TextField =
            &TextField { name: $name, max_octets: $max_octets, error_status: CommandStatus::$error_status };)*
    };
}

text_fields! {
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

/// Decoding error of a PDU body.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MalformedBody {
    #[error("body ends before {field}")]
    Truncated { field: &'static str },
    #[error("{} is not terminated within {} octets", .0.name, .0.max_octets)]
    FieldTooLong(&'static TextField),
    #[error("sm_length is {declared}, but {available} octets remain")]
    MessageLength { declared: usize, available: usize },
    #[error("{available} trailing octets after the last TLV")]
    TrailingOctets { available: usize },
    #[error("length of {tag} is {declared}, but {available} octets remain")]
    TlvLength { tag: TlvTag, declared: usize, available: usize },
}

impl MalformedBody {
    /// Returns the `command_status` for the error response.
    pub fn status(&self) -> CommandStatus {
        match self {
            Self::Truncated { .. } => CommandStatus::INVALID_COMMAND_LENGTH,
            Self::FieldTooLong(field) => field.error_status,
            Self::MessageLength { .. } => CommandStatus::INVALID_MESSAGE_LENGTH,
            Self::TrailingOctets { .. } | Self::TlvLength { .. } => CommandStatus::INVALID_TLV_STREAM,
        }
    }
}

/// Encoding error of a PDU.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EncodeError {
    #[error("{} exceeds {} octets", .0.name, .0.max_octets - 1)]
    FieldTooLong(&'static TextField),
    #[error("{} contains a NUL or a character outside Latin-1", .0.name)]
    InvalidCharacter(&'static TextField),
    #[error(
        "short_message has {octets} octets, the maximum is {max}; use message_payload",
        max = super::ShortMessage::MAX_OCTETS
    )]
    MessageTooLong { octets: usize },
    #[error("{tag} has {octets} octets, the maximum of a TLV is 65535")]
    TlvTooLong { tag: TlvTag, octets: usize },
    #[error("PDU of {octets} octets exceeds the maximum length")]
    PduTooLong { octets: usize },
    #[error("invalid sequence_number of a request: must be 1 to 0x7fffffff")]
    InvalidSequenceNumber,
}

/// Reads fields from the front of a body.
pub(super) struct BodyReader<'a> {
    rest: &'a [u8],
}

impl<'a> BodyReader<'a> {
    pub(super) fn new(body: &'a [u8]) -> Self {
        Self { rest: body }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub(super) fn octet(&mut self, field: &'static str) -> Result<u8, MalformedBody> {
        let (&first, rest) = self.rest.split_first().ok_or(MalformedBody::Truncated { field })?;
        self.rest = rest;
        Ok(first)
    }

    /// Reads `count` octets; reads nothing if fewer remain.
    pub(super) fn octets(&mut self, count: usize) -> Option<&'a [u8]> {
        let (octets, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(octets)
    }

    /// Reads a text field. At the end of a body the final NUL may be missing, because some peers omit it.
    pub(super) fn text(&mut self, field: &'static TextField) -> Result<String, MalformedBody> {
        if self.rest.is_empty() {
            return Err(MalformedBody::Truncated { field: field.name });
        }
        let window = &self.rest[..self.rest.len().min(field.max_octets)];
        if let Some(end) = window.iter().position(|&octet| octet == 0) {
            self.rest = &self.rest[end + 1..];
            return Ok(latin1(&window[..end]));
        }
        if self.rest.len() < field.max_octets {
            self.rest = &[];
            return Ok(latin1(window));
        }
        Err(MalformedBody::FieldTooLong(field))
    }

    pub(super) fn address(&mut self, field: &'static TextField) -> Result<Address, MalformedBody> {
        let ton = Ton(self.octet(field.name)?);
        let npi = Npi(self.octet(field.name)?);
        Ok(Address { ton, npi, value: self.text(field)? })
    }
}

fn latin1(octets: &[u8]) -> String {
    octets.iter().copied().map(char::from).collect()
}

/// Writes a text field and its final NUL.
pub(super) fn put_text(out: &mut BytesMut, field: &'static TextField, text: &str) -> Result<(), EncodeError> {
    let mut octets = 0;
    for character in text.chars() {
        match u8::try_from(character) {
            Ok(octet) if octet != 0 => out.put_u8(octet),
            _ => return Err(EncodeError::InvalidCharacter(field)),
        }
        octets += 1;
    }
    if octets >= field.max_octets {
        return Err(EncodeError::FieldTooLong(field));
    }
    out.put_u8(0);
    Ok(())
}

pub(super) fn put_address(out: &mut BytesMut, field: &'static TextField, address: &Address) -> Result<(), EncodeError> {
    out.put_u8(address.ton.0);
    out.put_u8(address.npi.0);
    put_text(out, field, &address.value)
}

#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("{tag}[{} octets]", value.len())]
pub struct Tlv {
    pub tag: TlvTag,
    pub value: Vec<u8>,
}

/// Optional parameters in their order, including repeated and unknown tags. Getters of 16-bit values also accept one
/// octet, because some peers send small references in one octet. Longer values count as missing.
#[derive(Clone, Default, PartialEq, Eq, derive_more::Debug)]
#[debug("{_0:?}")]
pub struct Tlvs(Vec<Tlv>);

impl FromIterator<(TlvTag, Vec<u8>)> for Tlvs {
    fn from_iter<I: IntoIterator<Item = (TlvTag, Vec<u8>)>>(items: I) -> Self {
        Self(items.into_iter().map(|(tag, value)| Tlv { tag, value }).collect())
    }
}

impl Tlvs {
    /// Appends a TLV.
    #[must_use]
    pub fn with(mut self, tag: TlvTag, value: impl Into<Vec<u8>>) -> Self {
        self.0.push(Tlv { tag, value: value.into() });
        self
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Tlv> {
        self.0.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the value of the first TLV with this tag.
    pub fn get(&self, tag: TlvTag) -> Option<&[u8]> {
        self.iter().find(|tlv| tlv.tag == tag).map(|tlv| tlv.value.as_slice())
    }

    pub fn message_payload(&self) -> Option<&[u8]> {
        self.get(TlvTag::MESSAGE_PAYLOAD)
    }

    pub fn user_message_reference(&self) -> Option<u16> {
        self.get_u16(TlvTag::USER_MESSAGE_REFERENCE)
    }

    pub fn sar_msg_ref_num(&self) -> Option<u16> {
        self.get_u16(TlvTag::SAR_MSG_REF_NUM)
    }

    pub fn sar_total_segments(&self) -> Option<u8> {
        self.get_u8(TlvTag::SAR_TOTAL_SEGMENTS)
    }

    pub fn sar_segment_seqnum(&self) -> Option<u8> {
        self.get_u8(TlvTag::SAR_SEGMENT_SEQNUM)
    }

    pub fn source_network_type(&self) -> Option<u8> {
        self.get_u8(TlvTag::SOURCE_NETWORK_TYPE)
    }

    pub fn message_state(&self) -> Option<u8> {
        self.get_u8(TlvTag::MESSAGE_STATE)
    }

    pub fn sc_interface_version(&self) -> Option<u8> {
        self.get_u8(TlvTag::SC_INTERFACE_VERSION)
    }

    /// Returns the message id in a delivery receipt. The final NUL is optional.
    pub fn receipted_message_id(&self) -> Option<String> {
        let value = self.get(TlvTag::RECEIPTED_MESSAGE_ID)?;
        Some(value.iter().copied().take_while(|&octet| octet != 0).map(char::from).collect())
    }

    fn get_u8(&self, tag: TlvTag) -> Option<u8> {
        match *self.get(tag)? {
            [value] => Some(value),
            _ => None,
        }
    }

    fn get_u16(&self, tag: TlvTag) -> Option<u16> {
        match *self.get(tag)? {
            [low] => Some(low.into()),
            [high, low] => Some(u16::from_be_bytes([high, low])),
            _ => None,
        }
    }

    /// Decodes the rest of a body, which consists of TLVs.
    pub(super) fn decode(reader: &mut BodyReader<'_>) -> Result<Self, MalformedBody> {
        let mut tlvs = vec![];
        while !reader.is_empty() {
            let available = reader.remaining();
            let Some(&[tag_high, tag_low, high, low]) = reader.octets(4) else {
                return Err(MalformedBody::TrailingOctets { available });
            };
            let tag = TlvTag(u16::from_be_bytes([tag_high, tag_low]));
            let (declared, available) = (usize::from(u16::from_be_bytes([high, low])), reader.remaining());
            let value = reader.octets(declared).ok_or(MalformedBody::TlvLength { tag, declared, available })?;
            tlvs.push(Tlv { tag, value: value.to_vec() });
        }
        Ok(Self(tlvs))
    }

    pub(super) fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        for Tlv { tag, value } in &self.0 {
            let octets = value.len();
            let length = u16::try_from(octets).map_err(|_| EncodeError::TlvTooLong { tag: *tag, octets })?;
            out.put_u16(tag.0);
            out.put_u16(length);
            out.put_slice(value);
        }
        Ok(())
    }
}

impl<'a> IntoIterator for &'a Tlvs {
    type Item = &'a Tlv;
    type IntoIter = std::slice::Iter<'a, Tlv>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
