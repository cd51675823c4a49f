//! The stream and its two buffers.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};

use super::Fault;
use crate::pdu::{self, EncodeError, Header, ImpossibleLength, Pdu};

const READ: usize = 32 * 1024;

/// More than this waiting to be written means that the peer does not read.
const HIGH_WATER: usize = 256 * 1024;

#[derive(Debug)]
pub(super) struct Wire<S> {
    pub(super) reader: Reader<S>,
    pub(super) writer: Writer<S>,
}

#[derive(Debug)]
pub(super) struct Reader<S> {
    half: ReadHalf<S>,
    buffer: BytesMut,
    most: usize,
}

#[derive(Debug)]
pub(super) struct Writer<S> {
    half: WriteHalf<S>,
    buffer: BytesMut,
    unflushed: bool,
}

impl<S: AsyncRead + AsyncWrite> Wire<S> {
    pub(super) fn new(stream: S, most: usize) -> Self {
        let (read_half, write_half) = tokio::io::split(stream);
        Self {
            reader: Reader { half: read_half, buffer: BytesMut::new(), most },
            writer: Writer { half: write_half, buffer: BytesMut::new(), unflushed: false },
        }
    }
}

impl<S: AsyncRead> Reader<S> {
    /// The next PDU, if it has arrived.
    pub(super) fn next(&mut self) -> Result<Option<(Header, Bytes)>, ImpossibleLength> {
        pdu::next(&mut self.buffer, self.most)
    }

    /// Reads what there is. Loses nothing when it is dropped.
    pub(super) async fn fill(&mut self) -> Result<(), Fault> {
        if self.buffer.capacity() - self.buffer.len() < READ / 4 {
            self.buffer.reserve(READ);
        }
        match self.half.read_buf(&mut self.buffer).await? {
            0 => Err(Fault::Closed),
            _ => Ok(()),
        }
    }

    /// Waits for the next PDU.
    pub(super) async fn receive(&mut self) -> Result<(Header, Bytes), Fault> {
        loop {
            if let Some(pdu) = self.next()? {
                return Ok(pdu);
            }
            self.fill().await?;
        }
    }
}

impl<S: AsyncWrite> Writer<S> {
    /// Puts a PDU into the queue.
    pub(super) fn push(&mut self, pdu: &Pdu) -> Result<(), EncodeError> {
        pdu.encode(&mut self.buffer)
    }

    pub(super) fn has_work(&self) -> bool {
        self.unflushed || !self.buffer.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.buffer.len() > HIGH_WATER
    }

    /// Does one piece of the work. Loses nothing when it is dropped.
    pub(super) async fn step(&mut self) -> io::Result<()> {
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

    /// Writes all there is.
    pub(super) async fn finish(&mut self) -> io::Result<()> {
        while self.has_work() {
            self.step().await?;
        }
        Ok(())
    }

    pub(super) async fn close(&mut self) -> io::Result<()> {
        self.finish().await?;
        self.half.shutdown().await
    }
}
