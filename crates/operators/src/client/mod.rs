//! HTTP client for operators' endpoints, and the connection pool that it shares with [`outbound`](crate::outbound).
//!
//! Operators' endpoints come from the configuration and may be in a private network, so every address is allowed. URLs
//! from API clients are opened only by [`outbound`](crate::outbound).
//!
//! A response is read completely or fails. Redirects, content encodings and proxies are not supported. If a pooled
//! connection turns out to be closed before the request was sent, the pool uses another one. Only idempotent requests
//! are retried after other errors.

pub(crate) mod connector;

use std::{error::Error, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, Request, Uri,
    header::{ACCEPT, HOST, USER_AGENT},
};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper_util::{
    client::legacy,
    rt::{TokioExecutor, TokioTimer},
};
use ringtrue_engine::ports::transport::{TlsError, TransportError};
use tokio::{task::yield_now, time::timeout};
use tokio_rustls::rustls::RootCertStore;
use url::{Position, Url};

pub use connector::{CertificateClock, ClientCertificate, Resolver, SystemResolver, TlsConfigError};
use connector::{Connector, ConnectorSettings, load_system_roots, tls_client_config};

/// Maximum size of a response body. A larger one is an error.
pub const MAX_BODY_BYTES: usize = 64 * 1_024;
/// Statuses of overloaded or failing gateways, after which an idempotent request is retried.
const TRANSIENT_STATUSES: [u16; 3] = [502, 503, 504];
/// Maximum size of a response's head. hyper limits the number of header fields to 100.
const MAX_HEAD_BYTES: usize = 16 * 1_024;
/// Maximum number of idle connections to an origin. It exceeds the usual number of concurrent requests, so that the
/// next burst reuses the connections of the last one.
pub(crate) const MAX_IDLE_PER_ORIGIN: usize = 256;
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);
const USER_AGENT_VALUE: HeaderValue = HeaderValue::from_static(concat!("Ringtrue/", env!("CARGO_PKG_VERSION")));

#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// Whether the system's root certificates are trusted. Clients that never use TLS do not need them.
    pub trusts_system_roots: bool,
    /// PEM file with further trusted root certificates.
    pub ca_file: Option<PathBuf>,
    /// Client certificate, for operators that require mutual TLS.
    pub identity: Option<ClientCertificate>,
    pub certificate_clock: CertificateClock,
    /// Limit for opening a connection, including the TLS handshake.
    pub connect_timeout: Duration,
    pub timeout: Duration,
}

impl Default for ClientSettings {
    fn default() -> Self {
        ClientSettings {
            trusts_system_roots: true,
            ca_file: None,
            identity: None,
            certificate_clock: CertificateClock::default(),
            connect_timeout: Duration::from_secs(2),
            timeout: Duration::from_secs(8),
        }
    }
}

#[derive(Debug)]
pub struct Client {
    pool: ConnectionPool,
    total_timeout: Duration,
}

/// HTTP response. `Debug` omits headers and body, which may contain tokens and numbers.
#[derive(Clone, derive_more::Debug)]
#[debug("ClientResponse({status}, {} bytes)", body.len())]
pub struct ClientResponse {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Client {
    pub fn new(settings: &ClientSettings) -> Result<Self, TlsConfigError> {
        Client::with_resolver(settings, Arc::new(SystemResolver::default()))
    }

    pub fn with_resolver(settings: &ClientSettings, resolver: Arc<dyn Resolver>) -> Result<Self, TlsConfigError> {
        let ClientSettings {
            trusts_system_roots,
            ca_file,
            identity,
            certificate_clock,
            connect_timeout,
            timeout: total_timeout,
        } = settings;
        let roots = if *trusts_system_roots { load_system_roots() } else { RootCertStore::empty() };
        let tls = tls_client_config(roots, ca_file.as_deref(), identity.as_ref(), certificate_clock)?.into();
        let connector = ConnectorSettings { resolver, guard: None, tls, connect_timeout: *connect_timeout };
        let pool = connection_pool(connector.into(), MAX_IDLE_PER_ORIGIN);
        Ok(Client { pool, total_timeout: *total_timeout })
    }

    /// Sends one request and reads the response, whatever its status.
    pub async fn request(
        &self,
        method: Method,
        url: &Url,
        headers: HeaderMap,
        body: impl Into<Bytes>,
    ) -> Result<ClientResponse, ClientError> {
        let request = build_request(method, url, headers, body.into())?;
        // Boxed to keep callers' futures small.
        timeout(self.total_timeout, Box::pin(self.send(request))).await.unwrap_or(Err(ClientError::Timeout))
    }

    /// Sends an idempotent request, with one retry after a transient error.
    pub(crate) async fn request_idempotent(
        &self,
        method: Method,
        url: &Url,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<ClientResponse, ClientError> {
        let first = self.request(method.clone(), url, headers.clone(), body.clone()).await;
        let is_transient = match &first {
            Err(error) => error.is_transient(),
            Ok(response) => TRANSIENT_STATUSES.contains(&response.status),
        };
        if is_transient { self.request(method, url, headers, body).await } else { first }
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<ClientResponse, ClientError> {
        let response = self.pool.request(request).await.map_err(|error| ClientError::from_pool(&error))?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, MAX_BODY_BYTES).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() { ClientError::TooLarge } else { ClientError::from_body(&*error) }
        })?;
        yield_for_connection_return().await;
        Ok(ClientResponse { status: head.status.as_u16(), headers: head.headers, body: body.to_bytes() })
    }
}

/// Adds `Accept: application/json`, unless the headers have another one.
pub(crate) fn accepting_json(mut headers: HeaderMap) -> HeaderMap {
    headers.entry(ACCEPT).or_insert(HeaderValue::from_static("application/json"));
    headers
}

pub(crate) fn is_http_url(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https") && url.has_host()
}

fn build_request(
    method: Method,
    url: &Url,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Request<Full<Bytes>>, ClientError> {
    if !is_http_url(url) {
        return Err(ClientError::InvalidUrl);
    }
    let authority = HeaderValue::try_from(&url[Position::BeforeHost..Position::AfterPort]);
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method;
    *request.uri_mut() = Uri::try_from(url.as_str()).map_err(|_| ClientError::InvalidUrl)?;
    *request.headers_mut() = headers;
    request.headers_mut().insert(HOST, authority.map_err(|_| ClientError::InvalidUrl)?);
    request.headers_mut().insert(USER_AGENT, USER_AGENT_VALUE);
    Ok(request)
}

/// Sends HTTP/1.1 requests, and keeps idle connections by origin.
pub(crate) type ConnectionPool = legacy::Client<Connector, Full<Bytes>>;

/// Creates a connection pool. If `max_idle_per_origin` is zero, every request opens a new connection.
pub(crate) fn connection_pool(connector: Connector, max_idle_per_origin: usize) -> ConnectionPool {
    legacy::Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(max_idle_per_origin)
        .http1_max_buf_size(MAX_HEAD_BYTES)
        // Requests are small: copying head and body into one buffer is cheaper than a vectored write.
        .http1_writev(false)
        .build(connector)
}

/// Yields to the connection task, so that it returns the connection to the pool before the next request.
pub(crate) async fn yield_for_connection_return() {
    yield_now().await;
}

pub(crate) fn classify_error(error: &legacy::Error) -> TransportError {
    let source = error.source();
    match source.and_then(|source| source.downcast_ref::<TransportError>()) {
        Some(connect_error) => *connect_error,
        None => source.map_or(TransportError::Connection, classify_http_error),
    }
}

fn classify_http_error(error: &(dyn Error + 'static)) -> TransportError {
    match error.downcast_ref::<hyper::Error>() {
        Some(error) if error.is_parse_too_large() => TransportError::TooLarge,
        Some(error) if error.is_parse() => TransportError::Protocol,
        _ => TransportError::Connection,
    }
}

/// Why a request got no complete response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ClientError {
    #[error("invalid URL: expected http or https with a host")]
    InvalidUrl,
    #[error("host name could not be resolved")]
    Unresolved,
    #[error("connection refused")]
    Refused,
    #[error("connection timed out")]
    ConnectTimeout,
    #[error("TLS handshake failed: {0}")]
    Tls(TlsError),
    #[error("response timed out")]
    Timeout,
    #[error("connection lost before the response was complete")]
    Lost,
    #[error("response exceeds the size limit")]
    TooLarge,
    #[error("response is not valid HTTP")]
    Protocol,
}

impl ClientError {
    /// Whether an idempotent request is worth a retry. Response timeouts are not: a retry would double the wait.
    pub const fn is_transient(self) -> bool {
        matches!(self, ClientError::Unresolved | ClientError::Refused | ClientError::ConnectTimeout | ClientError::Lost)
    }

    fn from_pool(error: &legacy::Error) -> Self {
        match classify_error(error) {
            TransportError::Timeout => ClientError::ConnectTimeout,
            TransportError::Tls(error) => ClientError::Tls(error),
            TransportError::Unresolved => ClientError::Unresolved,
            TransportError::Connection if error.is_connect() => ClientError::Refused,
            // `BlockedAddress` and `OwnAddressUnknown` come from the address guard, which this client does not have.
            TransportError::Connection | TransportError::BlockedAddress | TransportError::OwnAddressUnknown => {
                ClientError::Lost
            }
            TransportError::TooLarge => ClientError::TooLarge,
            TransportError::Protocol => ClientError::Protocol,
        }
    }

    fn from_body(error: &(dyn Error + 'static)) -> Self {
        match classify_http_error(error) {
            TransportError::TooLarge => ClientError::TooLarge,
            TransportError::Protocol => ClientError::Protocol,
            _ => ClientError::Lost,
        }
    }
}
