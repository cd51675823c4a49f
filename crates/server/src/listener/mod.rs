//! The accept loop: sockets in, requests out, and a limit on everything that a slow or hostile peer could hold.
//!
//! HTTP/1.1 only; a load balancer that speaks HTTP/2 to the world can stand in front. Plain or TLS.
//!
//! | A peer that … | is dealt with by |
//! |---|---|
//! | opens connections without end | caps, in all and per address |
//! | sends its headers slowly, or nothing at all | hyper's header timeout, which also ends idle connections |
//! | sends its body slowly | the body timeout, in `http::body` |
//! | does not read what we answer | the write timeout of [`stream::Impatient`] |
//! | stalls in the TLS handshake | a timeout around it |

mod cap;
mod stream;
mod tls;

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use axum::Router;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use ipnet::IpNet;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt;

use crate::{http::Peer, telemetry::metrics::Metrics};
use cap::{Cap, Closing, Place};
use stream::Impatient;
pub use tls::Tls;

/// Room for a header that the edge then refuses with a proper answer; past it hyper closes the connection.
const HEADER_ROOM: usize = 128 * 1024;
/// When the process has no file descriptors left, waiting helps and trying again at once does not.
const AFTER_FAILED_ACCEPT: Duration = Duration::from_millis(50);

#[derive(Clone, Debug)]
pub struct Limits {
    pub max_connections: usize,
    pub max_connections_per_address: usize,
    pub header_timeout: Duration,
    pub write_timeout: Duration,
    /// Their connections carry many clients: the cap per address is not for them.
    pub trusted_proxies: Vec<IpNet>,
}

/// Accepts connections and serves them with `router`, until `shutdown`; then lets requests under way end.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
    router: Router,
    limits: Limits,
    metrics: Arc<Metrics>,
    tasks: TaskTracker,
    shutdown: CancellationToken,
) {
    let cap = Cap::new(limits.max_connections, limits.max_connections_per_address, limits.trusted_proxies);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(HEADER_ROOM)
        .title_case_headers(true)
        .half_close(false);
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => return cap.close(),
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
        let Some((place, closing)) = cap.take(peer.ip()) else {
            metrics.refused_connections.inc();
            continue;
        };
        let connection = Connection {
            peer,
            router: router.clone(),
            http: http.clone(),
            metrics: Arc::clone(&metrics),
            handshake_timeout: limits.header_timeout,
            write_timeout: limits.write_timeout,
            place,
        };
        tasks.spawn(connection.serve(stream, tls.clone(), closing));
    }
}

struct Connection {
    peer: SocketAddr,
    router: Router,
    http: http1::Builder,
    metrics: Arc<Metrics>,
    handshake_timeout: Duration,
    write_timeout: Duration,
    /// Given back when the connection ends.
    place: Place,
}

impl Connection {
    async fn serve(self, stream: TcpStream, tls: Option<Arc<Tls>>, closing: Closing) {
        self.metrics.connections.inc();
        // Answers are written whole: waiting for more to send would only delay them.
        let _ = stream.set_nodelay(true);
        match tls {
            None => self.requests(stream, closing).await,
            Some(tls) => match tokio::time::timeout(self.handshake_timeout, tls.accept(stream)).await {
                Ok(Ok(stream)) => self.requests(stream, closing).await,
                Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
                Err(_) => tracing::debug!("TLS handshake took too long"),
            },
        }
        self.metrics.connections.dec();
        drop(self.place);
    }

    async fn requests(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, closing: Closing) {
        let peer = Peer(self.peer);
        let service = service_fn(|mut request: hyper::Request<Incoming>| {
            request.extensions_mut().insert(peer);
            let router = self.router.clone();
            async move { Ok::<_, Infallible>(answer(router, request).await) }
        });
        let stream = TokioIo::new(Impatient::new(stream, self.write_timeout));
        let mut connection = std::pin::pin!(self.http.serve_connection(stream, service));
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = closing.signal() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "connection ended early");
        }
    }
}

async fn answer(router: Router, request: hyper::Request<Incoming>) -> axum::response::Response {
    match router.oneshot(request.map(axum::body::Body::new)).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}
