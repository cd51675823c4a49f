//! The only HTTP client for URLs that API clients supply: callbacks, and key sets of OpenID clients.
//!
//! The address guard checks every resolved address before each connect: a name that was public when it was stored may
//! resolve into our network today. Pooled connections have passed this check.
//!
//! The status alone decides the outcome. The body is for the delivery log: a body that is too long or too slow is cut
//! off and does not fail the request. Redirects, content encodings and proxies are not supported.
//!
//! The request is sent exactly as signed: the target is unchanged, and `host` contains the port unless it is the
//! default.

use std::{error::Error, io, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use http::{
    HeaderValue, Request, Response,
    header::{ACCEPT, HOST},
};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use ringtrue_domain::web_url::{AddressPolicy, CallbackUrl};
use ringtrue_engine::ports::transport::{OutboundRequest, OutboundResponse, Transport, TransportError};
use tokio::time::{Instant, timeout_at};

pub use crate::client::{CertificateClock, Resolver, TlsConfigError};
use crate::client::{
    ConnectionPool, MAX_IDLE_PER_ORIGIN, SystemResolver, classify_error, connection_pool,
    connector::{AddressGuard, ConnectionUsage, Connector, ConnectorSettings, load_system_roots, tls_client_config},
    yield_for_connection_return,
};

/// Maximum number of body bytes read. A connection is reusable only if its body was read completely.
const MAX_BODY_READ_BYTES: usize = 64 * 1_024;
/// Maximum number of body bytes kept for the log.
const MAX_BODY_KEPT_BYTES: usize = 4 * 1_024;
/// Maximum size of a document that a client publishes.
const MAX_DOCUMENT_BYTES: usize = 32 * 1_024;

#[derive(Clone, Debug)]
pub struct OutboundSettings {
    pub addresses: AddressPolicy,
    /// Certificates (PEM) trusted in addition to the system's.
    pub ca_file: Option<PathBuf>,
    pub certificate_clock: CertificateClock,
    /// Limit for opening a connection, including the TLS handshake.
    pub connect_timeout: Duration,
    pub total_timeout: Duration,
}

impl Default for OutboundSettings {
    fn default() -> Self {
        OutboundSettings {
            addresses: AddressPolicy::default(),
            ca_file: None,
            certificate_clock: CertificateClock::default(),
            connect_timeout: Duration::from_secs(5),
            total_timeout: Duration::from_secs(10),
        }
    }
}

#[derive(Debug)]
pub struct Outbound {
    pool: ConnectionPool,
    /// Opens a new connection for every request. Used to resend a request after a pooled connection was closed.
    unpooled: ConnectionPool,
    total_timeout: Duration,
}

impl Outbound {
    pub fn new(settings: OutboundSettings) -> Result<Self, TlsConfigError> {
        Outbound::with_resolver(settings, Arc::new(SystemResolver::default()))
    }

    pub fn with_resolver(settings: OutboundSettings, resolver: Arc<dyn Resolver>) -> Result<Self, TlsConfigError> {
        let OutboundSettings { addresses, ca_file, certificate_clock, connect_timeout, total_timeout } = settings;
        let tls = tls_client_config(load_system_roots(), ca_file.as_deref(), None, &certificate_clock)?.into();
        let guard = Some(AddressGuard::new(addresses));
        let connector = Connector::from(ConnectorSettings { resolver, guard, tls, connect_timeout });
        let unpooled = connection_pool(connector.clone(), 0);
        Ok(Outbound { pool: connection_pool(connector, MAX_IDLE_PER_ORIGIN), unpooled, total_timeout })
    }

    async fn send(
        &self,
        build: impl Fn() -> Result<Request<Full<Bytes>>, TransportError>,
    ) -> Result<Response<Incoming>, TransportError> {
        let mut response = self.pool.request(build()?).await;
        // The peer may close a pooled connection at any time. The request is then sent once more, on a new connection.
        if response.as_ref().is_err_and(is_stale_connection) {
            response = self.unpooled.request(build()?).await;
        }
        response.map_err(|error| classify_error(&error))
    }

    /// Sends a request, and keeps at most `kept_bytes` of the body.
    async fn exchange(
        &self,
        build: impl Fn() -> Result<Request<Full<Bytes>>, TransportError>,
        kept_bytes: usize,
    ) -> Result<OutboundResponse, TransportError> {
        let deadline = Instant::now() + self.total_timeout;
        let response = timeout_at(deadline, self.send(build)).await.unwrap_or(Err(TransportError::Timeout))?;
        if let Some(usage) = response.extensions().get::<ConnectionUsage>() {
            usage.mark_used();
        }
        let (head, body) = response.into_parts();
        let mut kept = Vec::new();
        let _ = timeout_at(deadline, read_body(body, &mut kept, kept_bytes)).await;
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = head.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        Ok(OutboundResponse { status: head.status.as_u16(), headers, body: kept })
    }
}

#[async_trait]
impl Transport for Outbound {
    async fn post(&self, request: OutboundRequest) -> Result<OutboundResponse, TransportError> {
        self.exchange(|| build_request(&request), MAX_BODY_KEPT_BYTES).await
    }

    async fn get(&self, url: &CallbackUrl) -> Result<OutboundResponse, TransportError> {
        let build = || {
            let host = HeaderValue::try_from(url.authority()).map_err(|_| TransportError::Protocol)?;
            let request = Request::get(url.as_str()).header(HOST, host).header(ACCEPT, "application/json");
            request.body(Full::default()).map_err(|_| TransportError::Protocol)
        };
        self.exchange(build, MAX_DOCUMENT_BYTES).await
    }
}

/// Builds the request; headers keep their order.
fn build_request(outgoing: &OutboundRequest) -> Result<Request<Full<Bytes>>, TransportError> {
    // Callback URLs were validated when they were stored, so their target and authority are valid here.
    let build = || -> Result<_, http::Error> {
        let mut request =
            Request::post(outgoing.url.as_str()).header(HOST, HeaderValue::try_from(outgoing.url.authority())?);
        for (name, value) in &outgoing.headers {
            request = request.header(*name, HeaderValue::try_from(value)?);
        }
        request.body(Full::new(Bytes::from(outgoing.body.clone())))
    };
    build().map_err(|_| TransportError::Protocol)
}

/// Reads a body up to the read limit, and keeps its first `kept_bytes`.
async fn read_body(mut body: Incoming, kept: &mut Vec<u8>, kept_bytes: usize) {
    let mut read = 0;
    while read <= MAX_BODY_READ_BYTES {
        match body.frame().await {
            Some(Ok(frame)) => {
                let Ok(data) = frame.into_data() else { continue };
                read += data.len();
                kept.extend_from_slice(&data[..data.len().min(kept_bytes - kept.len())]);
            }
            None => return yield_for_connection_return().await,
            Some(Err(_)) => return,
        }
    }
}

/// Whether the peer closed a pooled connection before it responded.
fn is_stale_connection(error: &legacy::Error) -> bool {
    let was_closed = error.source().and_then(|source| source.downcast_ref::<hyper::Error>()).is_some_and(|error| {
        let is_io = error.source().is_some_and(<dyn Error>::is::<io::Error>);
        error.is_canceled() || error.is_closed() || error.is_incomplete_message() || is_io
    });
    was_closed && error.connect_info().is_some_and(ConnectionUsage::was_used)
}
