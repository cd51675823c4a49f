//! The only HTTP client for URLs that API clients supply (callbacks).
//!
//! The address guard checks every resolved address before each connect: a name that was public when it was stored may
//! resolve into our network today. Pooled connections have passed this check.
//!
//! The status alone decides the outcome. The body is for the delivery log: a body that is too long or too slow is cut
//! off and does not fail the request. Redirects, content encodings and proxies are not supported.
//!
//! The request is sent exactly as signed: the target unchanged, and `host` with its port unless it is the default.

pub(crate) mod connect;
pub(crate) mod connection;
mod connector;
pub(crate) mod pool;
mod resolver;
pub(crate) mod tls;

use std::{error::Error, io, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, Uri, header::HOST, uri::PathAndQuery};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use ringtrue_domain::web_url::{AddressPolicy, CallbackUrl};
use ringtrue_engine::ports::{OutboundRequest, OutboundResponse, Transport, TransportError};
use tokio::time::Instant;

use connection::{ConnectionDriver, HttpConnection};
use connector::GuardedConnector;
use pool::ConnectionPool;
pub use resolver::{Resolver, SystemResolver};
pub use tls::{CertificateClock, ClientCertificate, TlsConfigError};

/// Maximum number of body bytes read. A connection is reusable only if its body was read completely.
const MAX_BODY_READ_BYTES: usize = 64 * 1_024;
/// Maximum number of body bytes kept for the log.
const MAX_BODY_KEPT_BYTES: usize = 4 * 1_024;

#[derive(Clone, Debug)]
pub struct OutboundSettings {
    pub addresses: AddressPolicy,
    /// Certificates (PEM) trusted in addition to the system's.
    pub extra_roots: Option<PathBuf>,
    pub certificate_clock: CertificateClock,
    /// Includes the TLS handshake.
    pub connect_timeout: Duration,
    pub total_timeout: Duration,
}

impl Default for OutboundSettings {
    fn default() -> Self {
        OutboundSettings {
            addresses: AddressPolicy::default(),
            extra_roots: None,
            certificate_clock: CertificateClock::default(),
            connect_timeout: Duration::from_secs(5),
            total_timeout: Duration::from_secs(10),
        }
    }
}

#[derive(Debug)]
pub struct Outbound {
    connector: GuardedConnector,
    pool: ConnectionPool,
    total_timeout: Duration,
}

impl Outbound {
    pub fn new(settings: OutboundSettings) -> Result<Self, TlsConfigError> {
        Outbound::with_resolver(settings, Arc::new(SystemResolver::default()))
    }

    pub fn with_resolver(settings: OutboundSettings, resolver: Arc<dyn Resolver>) -> Result<Self, TlsConfigError> {
        let tls = tls::client_config(settings.extra_roots.as_deref(), None, &settings.certificate_clock)?;
        let connector = GuardedConnector::new(resolver, settings.addresses, tls, settings.connect_timeout);
        Ok(Outbound { connector, pool: ConnectionPool::default(), total_timeout: settings.total_timeout })
    }

    async fn send(
        &self,
        request: &OutboundRequest,
        deadline: Instant,
    ) -> Result<(HttpConnection, Response<Incoming>), TransportError> {
        if let Some(mut pooled) = self.pooled_connection(request) {
            // The peer may close a pooled connection at any time; then the request goes out once on a new one.
            match pooled.driver.drive_until(deadline, pooled.sender.send_request(build_request(request)?)).await {
                None => return Err(TransportError::Timeout),
                Some(Ok(response)) => return Ok((pooled, response)),
                Some(Err(error)) if is_stale_connection(&error) => {}
                Some(Err(error)) => return Err(classify_error(&error)),
            }
        }
        let mut fresh = self.connector.connect(&request.url, deadline).await?;
        let response = fresh.driver.drive_until(deadline, fresh.sender.send_request(build_request(request)?)).await;
        let response = response.ok_or(TransportError::Timeout)?.map_err(|error| classify_error(&error))?;
        Ok((fresh, response))
    }

    fn pooled_connection(&self, request: &OutboundRequest) -> Option<HttpConnection> {
        let key = origin(&request.url);
        std::iter::from_fn(|| self.pool.take(&key)).find_map(|mut pooled| pooled.is_ready().then_some(pooled))
    }

    /// Reads a body up to the limits. Returns the kept bytes and whether the body was complete.
    async fn read_body(driver: &mut ConnectionDriver, mut body: Incoming, deadline: Instant) -> (Vec<u8>, bool) {
        let (mut kept, mut read) = (Vec::new(), 0);
        while read <= MAX_BODY_READ_BYTES {
            match driver.drive_until(deadline, body.frame()).await {
                Some(None) => return (kept, true),
                Some(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else { continue };
                    read += data.len();
                    kept.extend_from_slice(&data[..data.len().min(MAX_BODY_KEPT_BYTES - kept.len())]);
                }
                Some(Some(Err(_))) | None => break,
            }
        }
        (kept, false)
    }
}

#[async_trait]
impl Transport for Outbound {
    async fn post(&self, request: OutboundRequest) -> Result<OutboundResponse, TransportError> {
        let deadline = Instant::now() + self.total_timeout;
        let (mut connection, response) = self.send(&request, deadline).await?;
        let (head, body) = response.into_parts();
        let (body, is_complete) = Outbound::read_body(&mut connection.driver, body, deadline).await;
        if is_complete {
            self.pool.put(&origin(&request.url), connection);
        }
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = head.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        Ok(OutboundResponse { status: head.status.as_u16(), headers, body })
    }
}

/// Builds the request; headers keep their order.
fn build_request(outgoing: &OutboundRequest) -> Result<Request<Full<Bytes>>, TransportError> {
    // Validated callback URLs have a valid target and authority.
    let build = || -> Result<_, http::Error> {
        let target = PathAndQuery::try_from(outgoing.url.target())?;
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(Uri::from(target))
            .header(HOST, HeaderValue::try_from(outgoing.url.authority())?);
        for (name, value) in &outgoing.headers {
            request = request.header(*name, HeaderValue::try_from(value)?);
        }
        request.body(Full::new(Bytes::from(outgoing.body.clone())))
    };
    build().map_err(|_| TransportError::Protocol)
}

/// Whether the peer closed a pooled connection before it responded.
fn is_stale_connection(error: &hyper::Error) -> bool {
    error.is_canceled() || error.is_closed() || error.is_incomplete_message() || is_io(error)
}

fn is_io(error: &hyper::Error) -> bool {
    error.source().is_some_and(<dyn Error>::is::<io::Error>)
}

pub(crate) fn classify_error(error: &hyper::Error) -> TransportError {
    if error.is_parse_too_large() {
        TransportError::TooLarge
    } else if error.is_parse() {
        TransportError::Protocol
    } else {
        TransportError::Connection
    }
}

fn origin(url: &CallbackUrl) -> String {
    let scheme = if url.is_https() { "https" } else { "http" };
    format!("{scheme}://{}", url.authority())
}
