//! A stream that does not wait for ever for its peer to read, and keeps back what hyper answers by itself.
//!
//! hyper refuses what it cannot parse with a bare response: no body, no `X-Request-Id`. It has no hook for another one.
//! Its response is the last that it writes on a connection, and the only one without an `X-Request-Id`; it is kept here,
//! and the listener writes a complete one in its place.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use http::StatusCode;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

use super::watch::Watch;
use crate::http::arrival::X_REQUEST_ID;

/// Fails a write that makes no progress for a while. Reading is guarded elsewhere, where it is known what is awaited.
pub struct Impatient<S> {
    stream: S,
    patience: Duration,
    watch: Watch,
    /// Runs only while a write is blocked.
    deadline: Option<Pin<Box<Sleep>>>,
    /// The status of the parser's own response, which has not been sent.
    parser_response: Option<StatusCode>,
    /// Whether a line has ended in what was read since the last response.
    has_read_line: bool,
}

/// Every response of ours is longer.
const MAX_PARSER_RESPONSE: usize = 256;

/// The status of a response that hyper has made by itself.
fn parser_response(bytes: &[u8]) -> Option<StatusCode> {
    if bytes.len() > MAX_PARSER_RESPONSE || !bytes.ends_with(b"\r\n\r\n") {
        return None;
    }
    let status = StatusCode::from_bytes(bytes.strip_prefix(b"HTTP/1.1 ")?.get(..3)?).ok()?;
    let has_request_id = |line: &[u8]| {
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        name.eq_ignore_ascii_case(X_REQUEST_ID.as_str().as_bytes())
    };
    let is_ours = bytes.split(|byte| *byte == b'\n').any(has_request_id);
    (status.is_client_error() && !is_ours).then_some(status)
}

impl<S> Impatient<S> {
    pub fn new(stream: S, patience: Duration, watch: Watch) -> Self {
        Impatient { stream, patience, watch, deadline: None, parser_response: None, has_read_line: false }
    }

    /// The status of the response that was kept back. What is written from now on is sent.
    pub fn take_parser_response(&mut self) -> Option<StatusCode> {
        self.parser_response.take()
    }

    /// Whether at least the first line of the current request has been read to its end.
    pub fn has_read_line(&self) -> bool {
        self.has_read_line
    }

    /// Only bytes that went out count: hyper flushes whenever it is polled, also when nothing is written.
    fn note(&self, progress: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(1..)) = progress {
            self.watch.wrote();
        }
    }

    fn judge<T>(&mut self, cx: &mut Context<'_>, progress: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if progress.is_ready() {
            self.deadline = None;
            return progress;
        }
        let patience = self.patience;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(deadline.as_mut().poll(cx));
        deadline.as_mut().reset(Instant::now() + patience);
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Impatient<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let progress = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.has_read_line = self.has_read_line || buffer.filled()[before..].contains(&b'\n');
        progress
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Impatient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.parser_response.is_none() {
            self.parser_response = parser_response(bytes);
        }
        if self.parser_response.is_some() {
            return Poll::Ready(Ok(bytes.len()));
        }
        let progress = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.note(&progress);
        self.has_read_line = false;
        self.judge(cx, progress)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let progress = Pin::new(&mut self.stream).poll_flush(cx);
        self.judge(cx, progress)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.parser_response.is_some() {
            return Poll::Ready(Ok(()));
        }
        let progress = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.judge(cx, progress)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_does_not_read_is_given_up() {
        let (ours, _theirs) = tokio::io::duplex(16);
        let mut stream = Impatient::new(ours, Duration::from_secs(30), Watch::default());
        let error = stream.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
