//! Bodies of the bind operations, `outbind` and `alert_notification`.

use std::fmt;

use bytes::{BufMut, BytesMut};

use super::{
    Address, CommandId, Npi, Tlvs, Ton,
    field::{
        ADDRESS_RANGE, BodyReader, ESME_ADDR, EncodeError, LONG_SOURCE_ADDR, MalformedBody, PASSWORD, SYSTEM_ID,
        SYSTEM_TYPE, put_address, put_text,
    },
};

/// Direction of messages on a bind.
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
#[derive(Clone, PartialEq, Eq)]
pub struct Bind {
    pub system_id: String,
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

impl fmt::Debug for Bind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bind")
            .field("system_id", &self.system_id)
            .field("system_type", &self.system_type)
            .field("interface_version", &self.interface_version)
            .finish_non_exhaustive()
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
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Outbind {
    pub system_id: String,
    pub password: String,
}

impl fmt::Debug for Outbind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbind").field("system_id", &self.system_id).finish_non_exhaustive()
    }
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
