//! Framing: extracts PDUs from a stream of octets.
//!
//! An invalid `command_length` is the only fatal error: the start of the next PDU is then unknown.

use bytes::{Buf, Bytes, BytesMut};
use thiserror::Error;

use super::{CommandId, CommandStatus};

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

/// Invalid `command_length`. The stream cannot be resynchronised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("invalid command_length {octets}: must be {HEADER_OCTETS} to {max}")]
pub struct InvalidPduLength {
    pub octets: usize,
    pub max: usize,
}

/// Removes the next complete PDU from the front of a buffer; `None` if it is incomplete.
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
