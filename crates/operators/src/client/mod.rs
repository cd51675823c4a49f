//! HTTP client for operators' endpoints.
//!
//! These endpoints come from the configuration and may be in a private network, so every address is allowed. URLs from
//! API clients are opened only by [`outbound`](crate::outbound).
//!
//! A response is read completely or fails. Redirects, content encodings and proxies are not supported. Requests are not
//! retried, except on another connection if they were never sent; callers retry what is idempotent.

mod error;

use std::{fmt, net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, Uri,
    header::{HOST, USER_AGENT},
    uri::PathAndQuery,
};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::{TlsConnector, rustls::pki_types::ServerName};
use url::{Host, Position, Url};

pub use crate::outbound::{CertificateClock, ClientCertificate, TlsConfigError};
use crate::outbound::{
    Resolver, SystemResolver, connect,
    connection::{ConnectionDriver, HttpConnection},
    pool::ConnectionPool,
    tls,
};
pub use error::ClientError;

/// Maximum size of a response body.
pub const MAX_BODY_BYTES: usize = 64 * 1_024;
const USER_AGENT_VALUE: HeaderValue = HeaderValue::from_static(concat!("Ringtrue/", env!("CARGO_PKG_VERSION")));

#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// Certificates (PEM) trusted in addition to the system's.
    pub extra_roots: Option<PathBuf>,
    /// For operators that require mutual TLS.
    pub identity: Option<ClientCertificate>,
    pub certificate_clock: CertificateClock,
    /// Includes the TLS handshake.
    pub connect_timeout: Duration,
    pub total_timeout: Duration,
}

impl Default for ClientSettings {
    fn default() -> Self {
        ClientSettings {
            extra_roots: None,
            identity: None,
            certificate_clock: CertificateClock::default(),
            connect_timeout: Duration::from_secs(2),
            total_timeout: Duration::from_secs(8),
        }
    }
}

pub struct Client {
    resolver: Arc<dyn Resolver>,
    tls: TlsConnector,
    pool: ConnectionPool,
    connect_timeout: Duration,
    total_timeout: Duration,
}

/// Masked: a response may contain tokens and numbers.
#[derive(Clone)]
pub struct ClientResponse {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl fmt::Debug for ClientResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientResponse({}, {} bytes)", self.status, self.body.len())
    }
}

impl Client {
    pub fn new(settings: &ClientSettings) -> Result<Self, TlsConfigError> {
        Client::with_resolver(settings, Arc::new(SystemResolver::default()))
    }

    pub fn with_resolver(settings: &ClientSettings, resolver: Arc<dyn Resolver>) -> Result<Self, TlsConfigError> {
        let ClientSettings { extra_roots, identity, certificate_clock, .. } = settings;
        let tls = tls::client_config(extra_roots.as_deref(), identity.as_ref(), certificate_clock)?;
        Ok(Client {
            resolver,
            tls: tls.into(),
            pool: ConnectionPool::default(),
            connect_timeout: settings.connect_timeout,
            total_timeout: settings.total_timeout,
        })
    }

    /// Sends one request and reads the response, whatever its status.
    pub async fn request(
        &self,
        method: Method,
        url: &Url,
        headers: HeaderMap,
        body: impl Into<Bytes>,
    ) -> Result<ClientResponse, ClientError> {
        let deadline = Instant::now() + self.total_timeout;
        let request = build_request(method, url, headers, body.into())?;
        // Boxed to keep callers' futures small.
        Box::pin(self.send(url, request, deadline)).await
    }

    async fn send(
        &self,
        url: &Url,
        mut request: Request<Full<Bytes>>,
        deadline: Instant,
    ) -> Result<ClientResponse, ClientError> {
        while let Some(mut pooled) = self.pool.take(origin(url)) {
            if !pooled.is_ready() {
                continue;
            }
            match self.send_on(pooled, url, request, deadline).await {
                Err(SendError::Unsent(again)) => request = *again,
                Err(SendError::Failed(error)) => return Err(error),
                Ok(response) => return Ok(response),
            }
        }
        // Boxed to keep the future small: connecting is rare.
        let fresh = Box::pin(self.open_connection(url, deadline)).await?;
        self.send_on(fresh, url, request, deadline).await.map_err(|error| match error {
            SendError::Unsent(_) => ClientError::Lost,
            SendError::Failed(error) => error,
        })
    }

    async fn send_on(
        &self,
        connection: HttpConnection,
        url: &Url,
        request: Request<Full<Bytes>>,
        deadline: Instant,
    ) -> Result<ClientResponse, SendError> {
        let HttpConnection { mut sender, mut driver } = connection;
        let sent = driver.drive_until(deadline, sender.try_send_request(request)).await;
        let response =
            sent.ok_or(SendError::Failed(ClientError::Timeout))?.map_err(|mut error| match error.take_message() {
                Some(unsent) => SendError::Unsent(Box::new(unsent)),
                None => SendError::Failed(ClientError::from_hyper(error.error())),
            })?;
        let response = read_response(response, &mut driver, deadline).await.map_err(SendError::Failed)?;
        self.pool.put(origin(url), HttpConnection { sender, driver });
        Ok(response)
    }

    async fn open_connection(&self, url: &Url, until: Instant) -> Result<HttpConnection, ClientError> {
        let connect_deadline = Instant::now() + self.connect_timeout;
        let (deadline, timeout_error) = if until < connect_deadline {
            (until, ClientError::Timeout)
        } else {
            (connect_deadline, ClientError::ConnectTimeout)
        };
        let host = url.host().ok_or(ClientError::InvalidUrl)?;
        let port = url.port_or_known_default().ok_or(ClientError::InvalidUrl)?;
        let connecting = async {
            let addresses = match host {
                Host::Ipv4(address) => vec![IpAddr::from(address)],
                Host::Ipv6(address) => vec![IpAddr::from(address)],
                Host::Domain(name) => self.resolver.resolve(name).await.map_err(|_| ClientError::Unresolved)?,
            };
            if addresses.is_empty() {
                return Err(ClientError::Unresolved);
            }
            let tcp =
                connect::connect_any(&addresses, port, connect_deadline).await.map_err(ClientError::from_connect)?;
            let stream: Box<dyn connect::Stream> = if url.scheme() == "https" {
                connect::start_tls(&self.tls, server_name(&host)?, tcp).await.map_err(ClientError::from_connect)?
            } else {
                Box::new(tcp)
            };
            HttpConnection::handshake(stream).await.map_err(ClientError::from_connect)
        };
        timeout_at(deadline, connecting).await.unwrap_or(Err(timeout_error))
    }
}

enum SendError {
    /// The request was not sent.
    Unsent(Box<Request<Full<Bytes>>>),
    Failed(ClientError),
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("pool", &self.pool).finish_non_exhaustive()
    }
}

/// Scheme, host and port: the key of pooled connections.
fn origin(url: &Url) -> &str {
    &url[..Position::BeforePath]
}

/// Name expected in the server certificate.
fn server_name(host: &Host<&str>) -> Result<ServerName<'static>, ClientError> {
    Ok(match host {
        Host::Domain(name) => ServerName::try_from((*name).to_owned()).map_err(|_| ClientError::Tls)?,
        Host::Ipv4(address) => ServerName::from(IpAddr::from(*address)),
        Host::Ipv6(address) => ServerName::from(IpAddr::from(*address)),
    })
}

fn build_request(
    method: Method,
    url: &Url,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Request<Full<Bytes>>, ClientError> {
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(ClientError::InvalidUrl);
    }
    let authority = HeaderValue::try_from(&url[Position::BeforeHost..Position::AfterPort]);
    let target = PathAndQuery::try_from(&url[Position::BeforePath..Position::AfterQuery]);
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method;
    *request.uri_mut() = Uri::from(target.map_err(|_| ClientError::InvalidUrl)?);
    *request.headers_mut() = headers;
    request.headers_mut().insert(HOST, authority.map_err(|_| ClientError::InvalidUrl)?);
    request.headers_mut().insert(USER_AGENT, USER_AGENT_VALUE);
    Ok(request)
}

async fn read_response(
    response: Response<Incoming>,
    driver: &mut ConnectionDriver,
    deadline: Instant,
) -> Result<ClientResponse, ClientError> {
    let (head, mut incoming) = response.into_parts();
    let mut body = Bytes::new();
    while let Some(frame) = driver.drive_until(deadline, incoming.frame()).await.ok_or(ClientError::Timeout)? {
        let frame = frame.map_err(|error| ClientError::from_hyper(&error))?;
        let Ok(data) = frame.into_data() else { continue };
        if body.len() + data.len() > MAX_BODY_BYTES {
            return Err(ClientError::TooLarge);
        }
        // Most bodies arrive in one frame, which is not copied.
        body = if body.is_empty() {
            data
        } else {
            let mut longer = BytesMut::from(body);
            longer.extend_from_slice(&data);
            longer.freeze()
        };
    }
    Ok(ClientResponse { status: head.status.as_u16(), headers: head.headers, body })
}
