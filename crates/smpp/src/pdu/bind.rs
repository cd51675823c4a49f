//! Binding: how a session begins.

use std::fmt;

use bytes::{BufMut, BytesMut};

use super::{
    Address, CommandId, Npi, Tlvs, Ton,
    field::{
        ADDRESS_RANGE, ESME_ADDR, EncodeError, LONG_SOURCE_ADDR, Malformed, PASSWORD, Reader, SYSTEM_ID, SYSTEM_TYPE,
        put_address, put_text,
    },
};

/// Which way messages go on a bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BindMode {
    Receiver,
    Transmitter,
    Transceiver,
}

impl BindMode {
    pub(super) fn request(self) -> CommandId {
        match self {
            Self::Receiver => CommandId::BIND_RECEIVER,
            Self::Transmitter => CommandId::BIND_TRANSMITTER,
            Self::Transceiver => CommandId::BIND_TRANSCEIVER,
        }
    }

    pub(super) fn response(self) -> CommandId {
        match self {
            Self::Receiver => CommandId::BIND_RECEIVER_RESP,
            Self::Transmitter => CommandId::BIND_TRANSMITTER_RESP,
            Self::Transceiver => CommandId::BIND_TRANSCEIVER_RESP,
        }
    }
}

/// Who wants to bind.
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

/// The interface version of SMPP 3.4.
pub const VERSION_3_4: u8 = 0x34;
/// The interface version of SMPP 5.0.
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
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
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

    pub(super) fn put(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        put_text(out, SYSTEM_ID, &self.system_id)?;
        put_text(out, PASSWORD, &self.password)?;
        put_text(out, SYSTEM_TYPE, &self.system_type)?;
        out.put_u8(self.interface_version);
        out.put_u8(self.addr_ton.0);
        out.put_u8(self.addr_npi.0);
        put_text(out, ADDRESS_RANGE, &self.address_range)
    }
}

/// Who was bound to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BindReply {
    pub system_id: String,
    pub tlvs: Tlvs,
}

impl BindReply {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        if reader.is_empty() {
            return Ok(Self::default());
        }
        Ok(Self { system_id: reader.text(SYSTEM_ID)?, tlvs: Tlvs::read(reader)? })
    }

    pub(super) fn put(&self, out: &mut BytesMut, refused: bool) -> Result<(), EncodeError> {
        if refused && *self == Self::default() {
            return Ok(());
        }
        put_text(out, SYSTEM_ID, &self.system_id)?;
        self.tlvs.put(out)
    }
}

/// A message centre that asks to be bound to.
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
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { system_id: reader.text(SYSTEM_ID)?, password: reader.text(PASSWORD)? })
    }

    pub(super) fn put(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        put_text(out, SYSTEM_ID, &self.system_id)?;
        put_text(out, PASSWORD, &self.password)
    }
}

/// A subscriber whom a message could not reach can be reached again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlertNotification {
    pub source: Address,
    pub esme: Address,
    pub tlvs: Tlvs,
}

impl AlertNotification {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            source: reader.address(LONG_SOURCE_ADDR)?,
            esme: reader.address(ESME_ADDR)?,
            tlvs: Tlvs::read(reader)?,
        })
    }

    pub(super) fn put(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        put_address(out, LONG_SOURCE_ADDR, &self.source)?;
        put_address(out, ESME_ADDR, &self.esme)?;
        self.tlvs.put(out)
    }
}
