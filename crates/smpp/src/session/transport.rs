//! PDU reader and writer over the halves of a stream, with their buffers.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};

use super::SessionError;
use crate::pdu::{self, EncodeError, Header, InvalidPduLength, Pdu};

const READ_BUFFER_OCTETS: usize = 32 * 1024;

/// Reading pauses while more octets than this wait to be written, which happens if the peer does not read.
const WRITE_HIGH_WATER_OCTETS: usize = 256 * 1024;

#[derive(Debug)]
pub(super) struct Transport<S> {
    pub(super) reader: PduReader<S>,
    pub(super) writer: PduWriter<S>,
}

#[derive(Debug)]
pub(super) struct PduReader<S> {
    half: ReadHalf<S>,
    buffer: BytesMut,
    max_pdu_octets: usize,
}

#[derive(Debug)]
pub(super) struct PduWriter<S> {
    half: WriteHalf<S>,
    buffer: BytesMut,
    unflushed: bool,
}

impl<S: AsyncRead + AsyncWrite> Transport<S> {
    pub(super) fn new(stream: S, max_pdu_octets: usize) -> Self {
        let (read_half, write_half) = tokio::io::split(stream);
        Self {
            reader: PduReader { half: read_half, buffer: BytesMut::new(), max_pdu_octets },
            writer: PduWriter { half: write_half, buffer: BytesMut::new(), unflushed: false },
        }
    }
}

impl<S: AsyncRead> PduReader<S> {
    /// Returns the next PDU, if it is complete in the buffer.
    pub(super) fn next_buffered(&mut self) -> Result<Option<(Header, Bytes)>, InvalidPduLength> {
        pdu::next_frame(&mut self.buffer, self.max_pdu_octets)
    }

    /// Reads available octets into the buffer. Cancellation safe.
    pub(super) async fn fill(&mut self) -> Result<(), SessionError> {
        if self.buffer.capacity() - self.buffer.len() < READ_BUFFER_OCTETS / 4 {
            self.buffer.reserve(READ_BUFFER_OCTETS);
        }
        match self.half.read_buf(&mut self.buffer).await? {
            0 => Err(SessionError::Closed),
            _ => Ok(()),
        }
    }

    /// Waits for the next PDU.
    pub(super) async fn next_pdu(&mut self) -> Result<(Header, Bytes), SessionError> {
        loop {
            if let Some(pdu) = self.next_buffered()? {
                return Ok(pdu);
            }
            self.fill().await?;
        }
    }
}

impl<S: AsyncWrite> PduWriter<S> {
    /// Appends a PDU to the buffer.
    pub(super) fn write_pdu(&mut self, pdu: &Pdu) -> Result<(), EncodeError> {
        pdu.encode(&mut self.buffer)
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.unflushed || !self.buffer.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.buffer.len() > WRITE_HIGH_WATER_OCTETS
    }

    /// Writes or flushes once. Cancellation safe.
    pub(super) async fn write_step(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            self.half.flush().await?;
            self.unflushed = false;
        } else if self.half.write_buf(&mut self.buffer).await? == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        } else {
            self.unflushed = true;
        }
        Ok(())
    }

    pub(super) async fn flush(&mut self) -> io::Result<()> {
        while self.has_unsent() {
            self.write_step().await?;
        }
        Ok(())
    }

    pub(super) async fn close(&mut self) -> io::Result<()> {
        self.flush().await?;
        self.half.shutdown().await
    }
}
