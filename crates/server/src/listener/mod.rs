//! Accept loop with limits on all resources that a slow or hostile client can hold.
//!
//! HTTP/1.1 only, plain or TLS. A load balancer can terminate HTTP/2.
//!
//! | Client behaviour | Countermeasure |
//! |---|---|
//! | opens many connections | limits in total and per address; [`connection_limits::ConnectionLimits::admit`] evicts the oldest connection without a complete request |
//! | sends headers slowly, or nothing | [`connection_limits::ConnectionLimits::close_idle`], which also closes idle connections |
//! | sends the body slowly | body timeout in `ringtrue_web::body` |
//! | does not read responses | [`stream::ConnectionStream`] |
//! | stalls in the PROXY header or TLS handshake | timeout |
//! | sends invalid HTTP | [`stream::ConnectionStream`] withholds hyper's bare response; [`Connection::send_parse_error`] sends a problem |

mod connection_limits;
mod proxy_protocol;
mod stream;
mod tls;

use std::{convert::Infallible, future, io, net::SocketAddr, sync::Arc, time::Duration};

use hyper::{StatusCode, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use ringtrue_web::{app::App, middleware::HttpService, problem::Problem};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite},
    net::{TcpListener, TcpStream},
};

use crate::config::HttpSection;
use connection_limits::{ActivityCounter, CloseMode, CloseSignal, ConnectionLimits, ConnectionPermit, MaxConnections};
use stream::{ConnectionStream, watch_body};
pub use tls::Tls;

/// Maximum size of a request head in hyper. It is larger than the middleware's limit, so that the middleware reports
/// the error. It is bounded, because every connection may fill it: decisions/0007-oversized-credentials.md.
const MAX_HEAD_BYTES: usize = 72 * 1024;
/// Time for which the rest of a rejected request is read and discarded. Closing at once could reset the connection
/// before the client has read the response.
const LINGER_TIMEOUT: Duration = Duration::from_millis(500);
const MAX_LINGER_BYTES: u64 = 1024 * 1024;
/// Valid request that is passed to hyper in place of an invalid one, so that hyper writes our response.
const PLACEHOLDER_REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
/// Time that a connection without a request in progress has to finish writing a response before it is closed.
const CLOSE_GRACE: Duration = Duration::from_millis(500);
/// Delay after a failed accept. When file descriptors have run out, an immediate retry would fail again.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Accepts connections and serves them until shutdown, then waits for requests in progress.
pub async fn serve(listener: TcpListener, tls: Option<Arc<Tls>>, settings: Arc<HttpSection>, service: HttpService) {
    let app = service.app();
    let connection_limits = ConnectionLimits::new(MaxConnections {
        total: settings.max_connections,
        per_address: settings.max_connections_per_address,
        per_proxy: settings.max_connections_per_proxy,
        proxies: settings.trusted_proxies.clone(),
    });
    let mut http = http1::Builder::new();
    // Small HTTP clients of devices compare header names case-sensitively (decisions/0009-device-responses.md).
    http.title_case_headers(true);
    // Copying small bodies behind the head is cheaper than vectored writes. With half-close, hyper does not read ahead
    // to detect disconnects. This saves a read and a buffer for each request, and most requests run to completion
    // anyway.
    http.max_buf_size(MAX_HEAD_BYTES).half_close(true).writev(false);
    // Checks so often that connections exceed their timeout by a quarter at most.
    let idle_check_interval = settings.header_timeout.min(settings.idle_timeout) / 4;
    let mut idle_checks =
        tokio::time::interval(idle_check_interval.clamp(Duration::from_millis(25), Duration::from_secs(1)));
    loop {
        let accepted = tokio::select! {
            () = app.shutdown.cancelled() => return connection_limits.close(),
            _ = idle_checks.tick() => {
                connection_limits.close_idle(settings.header_timeout, settings.idle_timeout);
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "failed to accept connection");
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                continue;
            }
        };
        let activity = ActivityCounter::default();
        let Some((permit, close_signal)) = connection_limits.admit(peer.ip(), &activity) else {
            app.metrics.refused_connections.inc();
            continue;
        };
        let connection = Connection {
            peer,
            settings: Arc::clone(&settings),
            service: service.clone(),
            http: http.clone(),
            activity,
            permit,
        };
        app.tasks.spawn(connection.serve(stream, tls.clone(), close_signal));
    }
}

struct Connection {
    peer: SocketAddr,
    settings: Arc<HttpSection>,
    service: HttpService,
    http: http1::Builder,
    activity: ActivityCounter,
    permit: ConnectionPermit,
}

/// Waits for the close signal and counts evictions.
async fn wait_for_close(app: &App, close_signal: &mut CloseSignal) -> CloseMode {
    let mode = close_signal.wait().await;
    if mode == CloseMode::Evicted {
        app.metrics.refused_connections.inc();
    }
    mode
}

impl Connection {
    async fn serve(mut self, mut stream: TcpStream, tls: Option<Arc<Tls>>, mut close_signal: CloseSignal) {
        let app = self.service.app().clone();
        app.metrics.connections.inc();
        // Each response is written at once, so Nagle's algorithm would only add latency.
        let _ = stream.set_nodelay(true);
        let proxied = tokio::select! {
            biased;
            proxied = self.read_proxy_header(&mut stream) => proxied,
            _ = wait_for_close(&app, &mut close_signal) => Err(io::Error::other("closed before the PROXY header was complete")),
        };
        match proxied {
            Ok(()) => self.accept_tls(stream, tls, close_signal).await,
            Err(error) => tracing::debug!(%error, "failed to read PROXY header"),
        }
        app.metrics.connections.dec();
        drop(self.permit);
    }

    /// Reads the PROXY protocol header, if one is expected, and counts the connection under the client's address.
    async fn read_proxy_header(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        let app = self.service.app();
        if !self.settings.proxy_protocol || !app.trusts_proxy(self.peer.ip()) {
            return Ok(());
        }
        let header = tokio::time::timeout(self.settings.header_timeout, proxy_protocol::read_header(stream)).await??;
        let Some(client) = header else { return Ok(()) };
        if !self.permit.reassign(client.ip()) {
            app.metrics.refused_connections.inc();
            return Err(io::Error::other("client exceeds its connection limit"));
        }
        self.peer = client;
        Ok(())
    }

    async fn accept_tls(&self, stream: TcpStream, tls: Option<Arc<Tls>>, mut close_signal: CloseSignal) {
        let Some(tls) = tls else { return self.serve_http(stream, close_signal).await };
        let accepted = tokio::select! {
            biased;
            accepted = tokio::time::timeout(self.settings.header_timeout, tls.accept(stream)) => accepted,
            _ = wait_for_close(self.service.app(), &mut close_signal) => return,
        };
        match accepted {
            Ok(Ok(stream)) => self.serve_http(stream, close_signal).await,
            Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
            Err(_) => tracing::debug!("TLS handshake timed out"),
        }
    }

    async fn serve_http(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        close_signal: CloseSignal,
    ) {
        let mut stream = ConnectionStream::new(stream, self.settings.write_timeout, self.activity.clone());
        let Some(Err(error)) = self.serve_requests(&mut stream, close_signal).await else { return };
        tracing::debug!(%error, "connection failed");
        if error.is_parse() {
            self.send_parse_error(&mut stream, &error).await;
        }
    }

    /// Serves requests until the connection ends. Returns hyper's result, or `None` if the server closed the
    /// connection.
    async fn serve_requests(
        &self,
        stream: &mut ConnectionStream<impl AsyncRead + AsyncWrite + Unpin + Send>,
        mut close_signal: CloseSignal,
    ) -> Option<hyper::Result<()>> {
        let service = service_fn(|request: hyper::Request<Incoming>| {
            let guard = self.activity.begin_request();
            async move {
                let request = request.map(|incoming| watch_body(incoming, &self.activity));
                let response = self.service.respond(self.peer, request).await;
                drop(guard);
                Ok::<_, Infallible>(response)
            }
        });
        let mut connection = std::pin::pin!(self.http.serve_connection(TokioIo::new(stream), service));
        let mode = tokio::select! {
            biased;
            ended = connection.as_mut() => return Some(ended),
            mode = wait_for_close(self.service.app(), &mut close_signal) => mode,
        };
        if mode == CloseMode::Evicted && !self.activity.snapshot().has_complete_request() {
            return None;
        }
        connection.as_mut().graceful_shutdown();
        // Waits for requests whose head was received. A connection without such a request is closed after a short grace
        // period.
        tokio::select! {
            ended = connection => Some(ended),
            () = self.activity.wait_until_idle(CLOSE_GRACE) => None,
        }
    }

    /// Responds to a request that hyper could not parse and closes the connection.
    async fn send_parse_error(
        &self,
        stream: &mut ConnectionStream<impl AsyncRead + AsyncWrite + Unpin + Send>,
        error: &hyper::Error,
    ) {
        let response = self.service.reject_unparsed(problem_of_parse_error(
            error,
            stream.take_parser_response(),
            stream.has_read_line(),
        ));
        let response = Mutex::new(Some(response));
        let service = service_fn(|_: hyper::Request<Incoming>| {
            let response = response.lock().take().unwrap_or_default();
            future::ready(Ok::<_, Infallible>(response))
        });
        let io = TokioIo::new(tokio::io::join(PLACEHOLDER_REQUEST, &mut *stream));
        if self.http.serve_connection(io, service).await.is_ok() {
            let mut rest = stream.take(MAX_LINGER_BYTES);
            let _ = tokio::time::timeout(LINGER_TIMEOUT, tokio::io::copy(&mut rest, &mut tokio::io::sink())).await;
        }
    }
}

/// Converts hyper's parse error and the status of its response to a problem.
fn problem_of_parse_error(error: &hyper::Error, status: Option<StatusCode>, has_request_line: bool) -> Problem {
    let text = error.to_string();
    if error.is_parse_too_large() {
        // hyper inspects the request line only when it is complete. If the limit is reached before, the URL is too
        // long.
        return if status == Some(StatusCode::URI_TOO_LONG) || !has_request_line {
            Problem::uri_too_long()
        } else {
            Problem::headers_too_large()
        };
    }
    // Only the text of hyper's error identifies this case.
    if text.starts_with("invalid transfer-encoding") {
        return Problem::transfer_coding_not_implemented();
    }
    Problem::bad_request(format!("the request is not valid HTTP/1.1: {text}"))
}
