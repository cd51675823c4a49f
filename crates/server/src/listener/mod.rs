//! The accept loop: sockets in, requests out, and a limit on everything that a slow or hostile peer could hold.
//!
//! HTTP/1.1 only; a load balancer that speaks HTTP/2 to the world can stand in front. Plain or TLS.
//!
//! | A peer that … | is dealt with by |
//! |---|---|
//! | opens connections without end | caps, in all and per address; when they are reached, the oldest connection without a complete request goes first ([`cap::Cap::take`]) |
//! | sends its headers slowly, or nothing at all | [`cap::Cap::reap`], which also ends idle connections |
//! | sends its body slowly | the body timeout, in `http::body` |
//! | does not read what we answer | the write timeout of [`stream::Impatient`] |
//! | stalls in the TLS handshake, or before it in the header of a proxy | a timeout around it |
//! | sends what cannot be parsed | [`stream::Impatient`] keeps back the parser's bare response, [`Connection::refuse`] writes one with a body |

mod cap;
mod proxy_protocol;
mod stream;
mod tls;
mod watch;

use std::{
    convert::Infallible,
    future, io,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::body::Body;
use hyper::{
    StatusCode,
    body::{Body as _, Bytes, Frame, Incoming, SizeHint},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use ipnet::IpNet;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite},
    net::{TcpListener, TcpStream},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    http::{Door, MAX_HEADER_COUNT, Patience, problem::Problem},
    telemetry::metrics::Metrics,
};
use cap::{Cap, CloseMode, Closing, MaxConnections, Place};
use stream::Impatient;
pub use tls::Tls;
use watch::{Receiving, Watch};

/// The parser's limit for a request head: above ours, which the edge applies. Not more than that needs, since every
/// connection may fill it: decisions/0007-oversized-credentials.md.
const MAX_HEAD_BYTES: usize = 72 * 1024;
/// How long the rest of a refused request is read and dropped, so that closing does not reset the connection before the
/// client has read the response.
const LINGER: Duration = Duration::from_millis(500);
/// How much of it is.
const MAX_LINGER_BYTES: u64 = 1024 * 1024;
/// The request that hyper is given in place of one that it could not parse, to write the response to.
const STAND_IN_REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
/// How long a connection without a request under way is kept when it is told to close: long enough to send an answer.
const FAREWELL: Duration = Duration::from_millis(500);
/// When the process has no file descriptors left, waiting helps and trying again at once does not.
const AFTER_FAILED_ACCEPT: Duration = Duration::from_millis(50);

#[derive(Clone, Debug)]
pub struct Limits {
    pub max_connections: usize,
    pub max_connections_per_address: usize,
    /// For each address of `trusted_proxies`: their connections carry many clients.
    pub max_connections_per_proxy: usize,
    /// For the first request of a connection.
    pub header_timeout: Duration,
    /// Between two requests.
    pub idle_timeout: Duration,
    /// While the peer does not read.
    pub write_timeout: Duration,
    pub trusted_proxies: Vec<IpNet>,
    /// Whether they begin each connection by saying whose it is.
    pub proxy_protocol: bool,
}

impl Limits {
    /// Whether a header of the PROXY protocol must come first.
    fn asks_whose(&self, peer: SocketAddr) -> bool {
        let address = peer.ip().to_canonical();
        self.proxy_protocol && self.trusted_proxies.iter().any(|range| range.contains(&address))
    }
}

/// Accepts connections and serves them through `door`, until `shutdown`; then lets requests under way end.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
    door: Door,
    limits: Limits,
    metrics: Arc<Metrics>,
    tasks: TaskTracker,
    shutdown: CancellationToken,
) {
    let cap = Cap::new(MaxConnections {
        total: limits.max_connections,
        per_address: limits.max_connections_per_address,
        per_proxy: limits.max_connections_per_proxy,
        proxies: limits.trusted_proxies.clone(),
    });
    let limits = Arc::new(limits);
    let mut http = http1::Builder::new();
    // Answers are small: it is cheaper to put a body behind its head than to hand both to the system apart.
    // Nobody looks whether a peer hangs up while it is answered: that would cost each request a read and the room for it,
    // and what is begun is mostly ended anyway.
    http.max_buf_size(MAX_HEAD_BYTES).max_headers(MAX_HEADER_COUNT).half_close(true).writev(false);
    let mut looks = tokio::time::interval(look_every(&limits));
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => return cap.close(),
            _ = looks.tick() => {
                cap.reap(limits.header_timeout, limits.idle_timeout);
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(AFTER_FAILED_ACCEPT).await;
                continue;
            }
        };
        let watch = Watch::default();
        let Some((place, closing)) = cap.take(peer.ip(), &watch) else {
            metrics.refused_connections.inc();
            continue;
        };
        let connection = Connection {
            peer,
            door: door.clone(),
            http: http.clone(),
            metrics: Arc::clone(&metrics),
            limits: Arc::clone(&limits),
            watch,
            place,
        };
        tasks.spawn(connection.serve(stream, tls.clone(), closing));
    }
}

/// Often enough that a connection is not kept much longer than it may be.
fn look_every(limits: &Limits) -> Duration {
    (limits.header_timeout.min(limits.idle_timeout) / 4).clamp(Duration::from_millis(25), Duration::from_secs(1))
}

struct Connection {
    peer: SocketAddr,
    door: Door,
    http: http1::Builder,
    metrics: Arc<Metrics>,
    limits: Arc<Limits>,
    watch: Watch,
    /// Given back when the connection ends.
    place: Place,
}

/// Resolves when a connection has to close, and counts it if that is because there are too many.
async fn told_to_close(metrics: &Metrics, closing: &mut Closing) -> CloseMode {
    let mode = closing.signal().await;
    if mode == CloseMode::Evicted {
        metrics.refused_connections.inc();
    }
    mode
}

/// Most requests have no body, and need nothing to read it by.
fn body(incoming: Incoming, watch: &Watch) -> Body {
    if incoming.is_end_stream() {
        return Body::empty();
    }
    Body::new(WatchedBody { incoming, receiving: Some(watch.receiving()) })
}

/// A request body that counts as incomplete until its end was received or it is dropped.
struct WatchedBody {
    incoming: Incoming,
    receiving: Option<Receiving>,
}

impl hyper::body::Body for WatchedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.incoming).poll_frame(context));
        if let Some(receiving) = &self.receiving {
            receiving.received();
        }
        if frame.is_none() || self.incoming.is_end_stream() {
            self.receiving = None;
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

impl Connection {
    async fn serve(mut self, mut stream: TcpStream, tls: Option<Arc<Tls>>, mut closing: Closing) {
        self.metrics.connections.inc();
        // Answers are written whole: waiting for more to send would only delay them.
        let _ = stream.set_nodelay(true);
        let metrics = Arc::clone(&self.metrics);
        let introduced = tokio::select! {
            biased;
            introduced = self.introduced(&mut stream) => introduced,
            _ = told_to_close(&metrics, &mut closing) => Err(io::Error::other("closed before the header was complete")),
        };
        match introduced {
            Ok(()) => self.secured(stream, tls, closing).await,
            Err(error) => tracing::debug!(%error, "a proxy did not say whose connection it carries"),
        }
        self.metrics.connections.dec();
        drop(self.place);
    }

    /// Lets a proxy say whose connection it carries, and counts the connection as that peer's.
    async fn introduced(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        if !self.limits.asks_whose(self.peer) {
            return Ok(());
        }
        let header = tokio::time::timeout(self.limits.header_timeout, proxy_protocol::read(stream)).await??;
        let Some(client) = header else { return Ok(()) };
        if !self.place.move_to(client.ip()) {
            self.metrics.refused_connections.inc();
            return Err(io::Error::other("this client has too many connections"));
        }
        self.peer = client;
        Ok(())
    }

    async fn secured(&self, stream: TcpStream, tls: Option<Arc<Tls>>, mut closing: Closing) {
        let Some(tls) = tls else { return self.requests(stream, closing).await };
        let accepted = tokio::select! {
            biased;
            accepted = tokio::time::timeout(self.limits.header_timeout, tls.accept(stream)) => accepted,
            _ = told_to_close(&self.metrics, &mut closing) => return,
        };
        match accepted {
            Ok(Ok(stream)) => self.requests(stream, closing).await,
            Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
            Err(_) => tracing::debug!("TLS handshake took too long"),
        }
    }

    async fn requests(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, closing: Closing) {
        let mut stream = Impatient::new(stream, self.limits.write_timeout, self.watch.clone());
        let Some(Err(error)) = self.answered(&mut stream, closing).await else { return };
        tracing::debug!(%error, "connection ended early");
        if error.is_parse() {
            self.refuse(&mut stream, &error).await;
        }
    }

    /// Answers requests until the connection ends, or is given up: `None`.
    async fn answered(
        &self,
        stream: &mut Impatient<impl AsyncRead + AsyncWrite + Unpin + Send>,
        mut closing: Closing,
    ) -> Option<hyper::Result<()>> {
        let patience = Patience::default();
        let service = service_fn(|request: hyper::Request<Incoming>| {
            let (busy, patience) = (self.watch.busy(), &patience);
            async move {
                let response =
                    self.door.answer(self.peer, patience, request.map(|incoming| body(incoming, &self.watch))).await;
                drop(busy);
                Ok::<_, Infallible>(response)
            }
        });
        let mut connection = std::pin::pin!(self.http.serve_connection(TokioIo::new(stream), service));
        let mode = tokio::select! {
            biased;
            ended = connection.as_mut() => return Some(ended),
            mode = told_to_close(&self.metrics, &mut closing) => mode,
        };
        if mode == CloseMode::Evicted && !self.watch.activity().has_complete_request() {
            return None;
        }
        connection.as_mut().graceful_shutdown();
        // What is being answered is waited for; a peer that has not finished its request is not.
        tokio::select! {
            ended = connection => Some(ended),
            () = self.watch.until_idle_for(FAREWELL) => None,
        }
    }

    /// Answers a request that hyper could not parse, and ends the connection.
    async fn refuse(&self, stream: &mut Impatient<impl AsyncRead + AsyncWrite + Unpin + Send>, error: &hyper::Error) {
        let response = self.door.refuse(unparsed(error, stream.take_parser_response(), stream.has_read_line()));
        let response = Mutex::new(Some(response));
        let service = service_fn(|_: hyper::Request<Incoming>| {
            let response = response.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default();
            future::ready(Ok::<_, Infallible>(response))
        });
        let io = TokioIo::new(tokio::io::join(STAND_IN_REQUEST, &mut *stream));
        if self.http.serve_connection(io, service).await.is_ok() {
            let mut rest = stream.take(MAX_LINGER_BYTES);
            let _ = tokio::time::timeout(LINGER, tokio::io::copy(&mut rest, &mut tokio::io::sink())).await;
        }
    }
}

/// What is wrong with a request that hyper could not parse, and answered with `status`.
fn unparsed(error: &hyper::Error, status: Option<StatusCode>, has_request_line: bool) -> Problem {
    let text = error.to_string();
    if error.is_parse_too_large() {
        // hyper does not look at the request line before it is complete.
        return if status == Some(StatusCode::URI_TOO_LONG) || !has_request_line {
            Problem::uri_too_long()
        } else {
            Problem::headers_too_large()
        };
    }
    // hyper tells this kind of error apart by its text only.
    if text.starts_with("invalid transfer-encoding") {
        return Problem::transfer_coding_not_implemented();
    }
    Problem::bad_request(format!("the request is not valid HTTP/1.1: {text}"))
}
