//! Wraps the byte stream and the request bodies of a connection, to count its activity.
//!
//! hyper responds to invalid requests without a body or `X-Request-Id` and offers no hook to change that. Such a
//! response is the last write on a connection and the only one without an `X-Request-Id`. The wrapper recognises and
//! withholds it, and the listener writes a complete response instead.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::body::Body;
use http::StatusCode;
use hyper::body::{Body as _, Bytes, Frame, Incoming, SizeHint};
use ringtrue_web::request_context::X_REQUEST_ID;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_io_timeout::TimeoutWriter;

use super::connection_limits::{ActivityCounter, BodyGuard};

/// Byte stream of a connection. Writes that make no progress fail after a timeout. The listener and the handlers
/// enforce the timeouts for reads.
pub struct ConnectionStream<S> {
    stream: Pin<Box<TimeoutWriter<S>>>,
    activity: ActivityCounter,
    /// Status of hyper's withheld response.
    parser_response: Option<StatusCode>,
    /// Whether the end of a line was read since the last response.
    has_read_line: bool,
}

/// Maximum length of a response that hyper's parser generates. All of our responses are longer.
const MAX_PARSER_RESPONSE: usize = 256;

/// Returns the status if hyper's parser has generated this response.
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

impl<S: AsyncWrite> ConnectionStream<S> {
    pub fn new(stream: S, write_timeout: Duration, activity: ActivityCounter) -> Self {
        let mut stream = TimeoutWriter::new(stream);
        stream.set_timeout(Some(write_timeout));
        ConnectionStream { stream: Box::pin(stream), activity, parser_response: None, has_read_line: false }
    }

    /// Returns the status of the withheld response, if any. Later writes are no longer withheld.
    pub fn take_parser_response(&mut self) -> Option<StatusCode> {
        self.parser_response.take()
    }

    /// Returns whether the first line of the current request was read completely.
    pub fn has_read_line(&self) -> bool {
        self.has_read_line
    }
}

impl<S: AsyncRead> AsyncRead for ConnectionStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let progress = self.stream.as_mut().poll_read(cx, buffer);
        self.has_read_line = self.has_read_line || buffer.filled()[before..].contains(&b'\n');
        progress
    }
}

impl<S: AsyncWrite> AsyncWrite for ConnectionStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.parser_response.is_none() {
            self.parser_response = parser_response(bytes);
        }
        if self.parser_response.is_some() {
            return Poll::Ready(Ok(bytes.len()));
        }
        self.has_read_line = false;
        let progress = self.stream.as_mut().poll_write(cx, bytes);
        // Only written bytes count as progress, because hyper flushes on every poll, even without data.
        if let Poll::Ready(Ok(1..)) = progress {
            self.activity.count_write();
        }
        progress
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.parser_response.is_some() {
            return Poll::Ready(Ok(()));
        }
        self.stream.as_mut().poll_shutdown(cx)
    }
}

/// Wraps a request body to track whether it is complete. Most requests have no body and need no tracking.
pub fn watch_body(incoming: Incoming, activity: &ActivityCounter) -> Body {
    if incoming.is_end_stream() {
        return Body::empty();
    }
    Body::new(WatchedBody { incoming, body_guard: Some(activity.begin_body()) })
}

/// A request body that counts as incomplete until its end is received or it is dropped.
struct WatchedBody {
    incoming: Incoming,
    body_guard: Option<BodyGuard>,
}

impl hyper::body::Body for WatchedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.incoming).poll_frame(context));
        if let Some(body_guard) = &self.body_guard {
            body_guard.count_frame();
        }
        if frame.is_none() || self.incoming.is_end_stream() {
            self.body_guard = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
