//! Bodies of the PDUs: binds, messages and their responses, `outbind` and `alert_notification`.

use bytes::{BufMut, BytesMut};

use super::{
    CommandId, Npi, Tlvs, Ton,
    field::{
        ADDRESS_RANGE, BodyReader, DESTINATION_ADDR, ESME_ADDR, EncodeError, LONG_DESTINATION_ADDR, LONG_SOURCE_ADDR,
        MESSAGE_ID, MalformedBody, PASSWORD, SCHEDULE_DELIVERY_TIME, SERVICE_TYPE, SOURCE_ADDR, SYSTEM_ID, SYSTEM_TYPE,
        VALIDITY_PERIOD, put_address, put_text,
    },
};
use crate::{esm_class::EsmClass, text::DataCoding};

/// Direction of messages on a bind, as seen by the ESME.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BindMode {
    Receiver,
    Transmitter,
    Transceiver,
}

impl BindMode {
    pub(super) fn request_command(self) -> CommandId {
        match self {
            Self::Receiver => CommandId::BIND_RECEIVER,
            Self::Transmitter => CommandId::BIND_TRANSMITTER,
            Self::Transceiver => CommandId::BIND_TRANSCEIVER,
        }
    }

    pub(super) fn response_command(self) -> CommandId {
        match self {
            Self::Receiver => CommandId::BIND_RECEIVER_RESP,
            Self::Transmitter => CommandId::BIND_TRANSMITTER_RESP,
            Self::Transceiver => CommandId::BIND_TRANSCEIVER_RESP,
        }
    }
}

/// Body of `bind_receiver`, `bind_transmitter` and `bind_transceiver`.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
pub struct Bind {
    pub system_id: String,
    #[debug(skip)]
    pub password: String,
    pub system_type: String,
    pub interface_version: u8,
    pub addr_ton: Ton,
    pub addr_npi: Npi,
    pub address_range: String,
}

/// `interface_version` of SMPP 3.4.
pub const VERSION_3_4: u8 = 0x34;
/// `interface_version` of SMPP 5.0.
pub const VERSION_5_0: u8 = 0x50;

impl Default for Bind {
    fn default() -> Self {
        Self {
            system_id: String::new(),
            password: String::new(),
            system_type: String::new(),
            interface_version: VERSION_3_4,
            addr_ton: Ton::UNKNOWN,
            addr_npi: Npi::UNKNOWN,
            address_range: String::new(),
        }
    }
}

impl Bind {
    pub(super) fn decode(reader: &mut BodyReader<'_>) -> Result<Self, MalformedBody> {
        Ok(Self {
            system_id: reader.text(SYSTEM_ID)?,
            password: reader.text(PASSWORD)?,
            system_type: reader.text(SYSTEM_TYPE)?,
            interface_version: reader.octet("interface_version")?,
            addr_ton: Ton(reader.octet("addr_ton")?),
            addr_npi: Npi(reader.octet("addr_npi")?),
            address_range: reader.text(ADDRESS_RANGE)?,
        })
    }

    pub(super) fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        put_text(out, SYSTEM_ID, &self.system_id)?;
        put_text(out, PASSWORD, &self.password)?;
        put_text(out, SYSTEM_TYPE, &self.system_type)?;
        out.put_u8(self.interface_version);
        out.put_u8(self.addr_ton.0);
        out.put_u8(self.addr_npi.0);
        put_text(out, ADDRESS_RANGE, &self.address_range)
    }
}

/// Body of the bind responses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BindResponseBody {
    pub system_id: String,
    pub tlvs: Tlvs,
}

impl BindResponseBody {
    pub(super) fn decode(reader: &mut BodyReader<'_>) -> Result<Self, MalformedBody> {
        if reader.is_empty() {
            return Ok(Self::default());
        }
        Ok(Self { system_id: reader.text(SYSTEM_ID)?, tlvs: Tlvs::decode(reader)? })
    }

    pub(super) fn encode(&self, out: &mut BytesMut, is_error: bool) -> Result<(), EncodeError> {
        if is_error && *self == Self::default() {
            return Ok(());
        }
        put_text(out, SYSTEM_ID, &self.system_id)?;
        self.tlvs.encode(out)
    }
}

/// Body of `outbind`: the SMSC requests a bind.
#[derive(Clone, Default, PartialEq, Eq, derive_more::Debug)]
pub struct Outbind {
    pub system_id: String,
    #[debug(skip)]
    pub password: String,
}

impl Outbind {
    pub(super) fn decode(reader: &mut BodyReader<'_>) -> Result<Self, MalformedBody> {
        Ok(Self { system_id: reader.text(SYSTEM_ID)?, password: reader.text(PASSWORD)? })
    }

    pub(super) fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        put_text(out, SYSTEM_ID, &self.system_id)?;
        put_text(out, PASSWORD, &self.password)
    }
}

/// Body of `alert_notification`: a subscriber is reachable again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlertNotification {
    pub source: Address,
    pub esme: Address,
    pub tlvs: Tlvs,
}

impl AlertNotification {
    pub(super) fn decode(reader: &mut BodyReader<'_>) -> Result<Self, MalformedBody> {
        Ok(Self {
            source: reader.address(LONG_SOURCE_ADDR)?,
            esme: reader.address(ESME_ADDR)?,
            tlvs: Tlvs::decode(reader)?,
        })
    }

    pub(super) fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        put_address(out, LONG_SOURCE_ADDR, &self.source)?;
        put_address(out, ESME_ADDR, &self.esme)?;
        self.tlvs.encode(out)
    }
}

/// Phone number, short code or alphanumeric sender, as in the PDU. `Debug` shows only the length of the value, so that
/// a number never reaches a log by accident.
#[derive(Clone, Default, PartialEq, Eq, Hash, derive_more::Debug)]
#[debug("Address({ton}/{npi}, {} octets)", value.chars().count())]
pub struct Address {
    pub ton: Ton,
    pub npi: Npi,
    pub value: String,
}

impl Address {
    /// Creates the address of an international number, which is given without its `+`.
    pub fn international(digits: impl Into<String>) -> Self {
        Self { ton: Ton::INTERNATIONAL, npi: Npi::ISDN, value: digits.into() }
    }
}

/// Body of `submit_sm` and `deliver_sm`. `Debug` shows the length of the message, never the message.
#[derive(Clone, Default, PartialEq, Eq, derive_more::Debug)]
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
    /// Ignored if the TLV `message_payload` holds the message; [`content`](Self::content) reads the right one.
    #[debug("{} octets", short_message.len())]
    pub short_message: Vec<u8>,
    pub tlvs: Tlvs,
}

impl ShortMessage {
    /// Maximum length of `short_message`.
    pub const MAX_OCTETS: usize = 254;

    pub(super) fn decode(reader: &mut BodyReader<'_>) -> Result<Self, MalformedBody> {
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
                let (declared, available) = (usize::from(reader.octet("sm_length")?), reader.remaining());
                reader.octets(declared).ok_or(MalformedBody::MessageLength { declared, available })?.to_vec()
            },
            tlvs: Tlvs::decode(reader)?,
        })
    }

    pub(super) fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        let octets = self.short_message.len();
        let length = u8::try_from(octets).ok().filter(|_| octets <= Self::MAX_OCTETS);
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
        self.tlvs.encode(out)
    }
}

/// Body of `data_sm`; the message is in the TLV `message_payload`.
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
    pub(super) fn decode(reader: &mut BodyReader<'_>) -> Result<Self, MalformedBody> {
        Ok(Self {
            service_type: reader.text(SERVICE_TYPE)?,
            source: reader.address(LONG_SOURCE_ADDR)?,
            destination: reader.address(LONG_DESTINATION_ADDR)?,
            esm_class: EsmClass(reader.octet("esm_class")?),
            registered_delivery: reader.octet("registered_delivery")?,
            data_coding: DataCoding(reader.octet("data_coding")?),
            tlvs: Tlvs::decode(reader)?,
        })
    }

    pub(super) fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        put_text(out, SERVICE_TYPE, &self.service_type)?;
        put_address(out, LONG_SOURCE_ADDR, &self.source)?;
        put_address(out, LONG_DESTINATION_ADDR, &self.destination)?;
        out.put_slice(&[self.esm_class.0, self.registered_delivery, self.data_coding.0]);
        self.tlvs.encode(out)
    }
}

/// Body of `submit_sm_resp`, `deliver_sm_resp` and `data_sm_resp`. `message_id` is empty in `deliver_sm_resp`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageResponseBody {
    pub message_id: String,
    pub tlvs: Tlvs,
}

impl MessageResponseBody {
    /// Accepts a missing body: error responses have none, and some peers never send one.
    pub(super) fn decode(reader: &mut BodyReader<'_>) -> Result<Self, MalformedBody> {
        if reader.is_empty() {
            return Ok(Self::default());
        }
        Ok(Self { message_id: reader.text(MESSAGE_ID)?, tlvs: Tlvs::decode(reader)? })
    }

    pub(super) fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        put_text(out, MESSAGE_ID, &self.message_id)?;
        self.tlvs.encode(out)
    }
}
