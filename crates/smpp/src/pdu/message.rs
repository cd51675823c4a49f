//! The operations that carry a message, and the answer to them.

use std::fmt;

use bytes::{BufMut, BytesMut};

use super::{
    Npi, Tlvs, Ton,
    field::{
        DESTINATION_ADDR, EncodeError, LONG_DESTINATION_ADDR, LONG_SOURCE_ADDR, MESSAGE_ID, Malformed, Reader,
        SCHEDULE_DELIVERY_TIME, SERVICE_TYPE, SOURCE_ADDR, VALIDITY_PERIOD, put_address, put_text,
    },
};
use crate::text::DataCoding;

/// A number, a short code or a name, as the peer wrote it.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Address {
    pub ton: Ton,
    pub npi: Npi,
    pub value: String,
}

impl Address {
    /// An international number, without its `+`.
    pub fn international(digits: impl Into<String>) -> Self {
        Self { ton: Ton::INTERNATIONAL, npi: Npi::ISDN, value: digits.into() }
    }
}

/// Masked, so that a number never reaches a log by accident.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({}/{}, {} octets)", self.ton, self.npi, self.value.chars().count())
    }
}

/// What kind of message it is, and whether its octets begin with a header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EsmClass(pub u8);

/// The kinds of message that `esm_class` tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageType {
    Ordinary,
    DeliveryReceipt,
    SmeAcknowledgement,
    UserAcknowledgement,
    ConversationAbort,
    IntermediateNotification,
    Reserved,
}

impl EsmClass {
    /// An ordinary message whose octets begin with a user data header.
    pub const WITH_HEADER: Self = Self(Self::HEADER);

    const HEADER: u8 = 0x40;
    const REPLY_PATH: u8 = 0x80;
    const TYPE: u8 = 0x3C;

    pub fn message_type(self) -> MessageType {
        match self.0 & Self::TYPE {
            0x00 => MessageType::Ordinary,
            0x04 => MessageType::DeliveryReceipt,
            0x08 => MessageType::SmeAcknowledgement,
            0x10 => MessageType::UserAcknowledgement,
            0x18 => MessageType::ConversationAbort,
            0x20 => MessageType::IntermediateNotification,
            _ => MessageType::Reserved,
        }
    }

    pub fn has_header(self) -> bool {
        self.0 & Self::HEADER != 0
    }

    pub fn has_reply_path(self) -> bool {
        self.0 & Self::REPLY_PATH != 0
    }
}

/// The body of `submit_sm` and of `deliver_sm`: the same fields, in opposite directions.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ShortMessage {
    pub service_type: String,
    pub source: Address,
    pub destination: Address,
    pub esm_class: EsmClass,
    pub protocol_id: u8,
    pub priority_flag: u8,
    pub schedule_delivery_time: String,
    pub validity_period: String,
    pub registered_delivery: u8,
    pub replace_if_present: u8,
    pub data_coding: DataCoding,
    pub default_message_id: u8,
    /// Empty when the TLV `message_payload` holds the message; [`content`](Self::content) knows.
    pub short_message: Vec<u8>,
    pub tlvs: Tlvs,
}

/// Tells of the message how long it is, never what it says.
impl fmt::Debug for ShortMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShortMessage")
            .field("source", &self.source)
            .field("destination", &self.destination)
            .field("esm_class", &self.esm_class)
            .field("data_coding", &self.data_coding)
            .field("octets", &self.short_message.len())
            .field("tlvs", &self.tlvs)
            .finish_non_exhaustive()
    }
}

impl ShortMessage {
    /// The most octets of `short_message` itself.
    pub const LIMIT: usize = 254;

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            service_type: reader.text(SERVICE_TYPE)?,
            source: reader.address(SOURCE_ADDR)?,
            destination: reader.address(DESTINATION_ADDR)?,
            esm_class: EsmClass(reader.octet("esm_class")?),
            protocol_id: reader.octet("protocol_id")?,
            priority_flag: reader.octet("priority_flag")?,
            schedule_delivery_time: reader.text(SCHEDULE_DELIVERY_TIME)?,
            validity_period: reader.text(VALIDITY_PERIOD)?,
            registered_delivery: reader.octet("registered_delivery")?,
            replace_if_present: reader.octet("replace_if_present_flag")?,
            data_coding: DataCoding(reader.octet("data_coding")?),
            default_message_id: reader.octet("sm_default_msg_id")?,
            short_message: {
                let (said, left) = (usize::from(reader.octet("sm_length")?), reader.left());
                reader.octets(said).ok_or(Malformed::MessageLength { said, left })?.to_vec()
            },
            tlvs: Tlvs::read(reader)?,
        })
    }

    pub(super) fn put(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        let octets = self.short_message.len();
        let length = u8::try_from(octets).ok().filter(|_| octets <= Self::LIMIT);
        let length = length.ok_or(EncodeError::MessageTooLong { octets })?;
        put_text(out, SERVICE_TYPE, &self.service_type)?;
        put_address(out, SOURCE_ADDR, &self.source)?;
        put_address(out, DESTINATION_ADDR, &self.destination)?;
        out.put_slice(&[self.esm_class.0, self.protocol_id, self.priority_flag]);
        put_text(out, SCHEDULE_DELIVERY_TIME, &self.schedule_delivery_time)?;
        put_text(out, VALIDITY_PERIOD, &self.validity_period)?;
        out.put_slice(&[self.registered_delivery, self.replace_if_present]);
        out.put_slice(&[self.data_coding.0, self.default_message_id, length]);
        out.put_slice(&self.short_message);
        self.tlvs.put(out)
    }
}

/// The body of `data_sm`, whose message is in the TLV `message_payload`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataSm {
    pub service_type: String,
    pub source: Address,
    pub destination: Address,
    pub esm_class: EsmClass,
    pub registered_delivery: u8,
    pub data_coding: DataCoding,
    pub tlvs: Tlvs,
}

impl DataSm {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            service_type: reader.text(SERVICE_TYPE)?,
            source: reader.address(LONG_SOURCE_ADDR)?,
            destination: reader.address(LONG_DESTINATION_ADDR)?,
            esm_class: EsmClass(reader.octet("esm_class")?),
            registered_delivery: reader.octet("registered_delivery")?,
            data_coding: DataCoding(reader.octet("data_coding")?),
            tlvs: Tlvs::read(reader)?,
        })
    }

    pub(super) fn put(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        put_text(out, SERVICE_TYPE, &self.service_type)?;
        put_address(out, LONG_SOURCE_ADDR, &self.source)?;
        put_address(out, LONG_DESTINATION_ADDR, &self.destination)?;
        out.put_slice(&[self.esm_class.0, self.registered_delivery, self.data_coding.0]);
        self.tlvs.put(out)
    }
}

/// The answer to a message. To `deliver_sm` its id is empty: one NUL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageReply {
    pub message_id: String,
    pub tlvs: Tlvs,
}

impl MessageReply {
    /// A body may be missing: with an error it should be, and some peers never send one.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        if reader.is_empty() {
            return Ok(Self::default());
        }
        Ok(Self { message_id: reader.text(MESSAGE_ID)?, tlvs: Tlvs::read(reader)? })
    }

    pub(super) fn put(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        put_text(out, MESSAGE_ID, &self.message_id)?;
        self.tlvs.put(out)
    }
}
