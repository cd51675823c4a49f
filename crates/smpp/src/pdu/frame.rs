//! Finding the PDUs in a stream of octets.
//!
//! The length in a header is the only thing that cannot be wrong without losing the stream: after it, nobody knows
//! where the next PDU begins.

use bytes::{Buf, Bytes, BytesMut};
use thiserror::Error;

use super::{CommandId, CommandStatus};

/// The largest PDU that is read or written unless told otherwise.
pub const MAX_PDU: usize = 64 * 1024;

/// The octets of a header.
pub const HEADER: usize = 16;

/// What every PDU begins with, after its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub command: CommandId,
    pub status: CommandStatus,
    pub sequence: u32,
}

/// A length that no PDU can have. The stream is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a PDU cannot have {octets} octets, only {HEADER} to {most}")]
pub struct ImpossibleLength {
    pub octets: usize,
    pub most: usize,
}

/// Takes the next whole PDU off the front of a buffer; none when it has not arrived yet.
pub fn next(buffer: &mut BytesMut, most: usize) -> Result<Option<(Header, Bytes)>, ImpossibleLength> {
    let Some(length) = buffer.first_chunk::<4>() else { return Ok(None) };
    let octets = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    if octets < HEADER || octets > most {
        return Err(ImpossibleLength { octets, most });
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
