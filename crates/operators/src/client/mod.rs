//! The client for operators' endpoints.
//!
//! Whoever runs the deployment names these endpoints, and they may well be inside a private network: no address is
//! refused here. URLs that callers name are opened by [`outbound`](crate::outbound) and nobody else.
//!
//! An answer is read whole or not at all, since it is worked with. Nothing is followed, decoded or sent through a proxy,
//! and nothing is sent twice: only a request that never left is put on another connection. Who knows that a request may
//! be repeated does so.

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
use tokio_util::task::TaskTracker;
use url::{Host, Url};

pub use crate::outbound::{Identity, NoRoots};
use crate::outbound::{Resolver, Sender, SystemResolver, dial, pool::Pool, tls};
pub use error::ClientError;

/// How long an answer's body may be.
pub const LONGEST: usize = 64 * 1_024;
const PRODUCT: HeaderValue = HeaderValue::from_static(concat!("Ringtrue/", env!("CARGO_PKG_VERSION")));

#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// Certificates (PEM) that are trusted in addition to the machine's.
    pub extra_roots: Option<PathBuf>,
    /// What we show to operators that want to see a certificate.
    pub identity: Option<Identity>,
    /// How long opening a connection may take, TLS included.
    pub connect: Duration,
    /// How long everything may take.
    pub total: Duration,
}

impl Default for ClientSettings {
    fn default() -> Self {
        ClientSettings {
            extra_roots: None,
            identity: None,
            connect: Duration::from_secs(2),
            total: Duration::from_secs(8),
        }
    }
}

pub struct Client {
    resolver: Arc<dyn Resolver>,
    tls: TlsConnector,
    pool: Pool,
    tasks: TaskTracker,
    connect: Duration,
    total: Duration,
}

/// Masked: an answer may hold tokens and numbers.
#[derive(Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Answer({}, {} bytes)", self.status, self.body.len())
    }
}

impl Client {
    pub fn new(settings: &ClientSettings) -> Result<Self, NoRoots> {
        Client::with_resolver(settings, Arc::new(SystemResolver::default()))
    }

    pub fn with_resolver(settings: &ClientSettings, resolver: Arc<dyn Resolver>) -> Result<Self, NoRoots> {
        let tls = tls::client_config(settings.extra_roots.as_deref(), settings.identity.as_ref())?;
        Ok(Client {
            resolver,
            tls: tls.into(),
            pool: Pool::default(),
            tasks: TaskTracker::new(),
            connect: settings.connect,
            total: settings.total,
        })
    }

    /// Sends one request and reads its answer, whatever its status.
    pub async fn request(
        &self,
        method: Method,
        url: &Url,
        headers: HeaderMap,
        body: impl Into<Bytes>,
    ) -> Result<Answer, ClientError> {
        let deadline = Instant::now() + self.total;
        let place = Place::of(url)?;
        let request = on_the_wire(method, url, headers, body.into())?;
        let exchange = async {
            let (sender, response) = self.send(&place, request).await?;
            let answer = read(response).await?;
            self.pool.keep(place.origin, sender);
            Ok(answer)
        };
        timeout_at(deadline, exchange).await.unwrap_or(Err(ClientError::Timeout))
    }

    async fn send(
        &self,
        place: &Place,
        mut request: Request<Full<Bytes>>,
    ) -> Result<(Sender, Response<Incoming>), ClientError> {
        while let Some(mut kept) = self.pool.take(&place.origin) {
            if kept.ready().await.is_err() {
                continue;
            }
            match kept.try_send_request(request).await {
                Ok(response) => return Ok((kept, response)),
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(ClientError::of_exchange(error.error())),
                },
            }
        }
        let mut fresh = self.open(place).await?;
        let response = fresh.send_request(request).await.map_err(|error| ClientError::of_exchange(&error))?;
        Ok((fresh, response))
    }

    async fn open(&self, place: &Place) -> Result<Sender, ClientError> {
        let deadline = Instant::now() + self.connect;
        let opening = async {
            let addresses = match &place.host {
                Host::Ipv4(address) => vec![IpAddr::from(*address)],
                Host::Ipv6(address) => vec![IpAddr::from(*address)],
                Host::Domain(name) => self.resolver.resolve(name).await.map_err(|_| ClientError::Unresolved)?,
            };
            if addresses.is_empty() {
                return Err(ClientError::Unresolved);
            }
            let tcp = dial::open_first(&addresses, place.port, deadline).await.map_err(ClientError::of_opening)?;
            let stream: Box<dyn dial::Stream> = match place.server_name()? {
                None => Box::new(tcp),
                Some(name) => dial::secure(&self.tls, name, tcp).await.map_err(ClientError::of_opening)?,
            };
            dial::speak_http(stream, &self.tasks).await.map_err(ClientError::of_opening)
        };
        timeout_at(deadline, opening).await.unwrap_or(Err(ClientError::ConnectTimeout))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("pool", &self.pool).finish_non_exhaustive()
    }
}

/// Where a URL leads.
struct Place {
    origin: String,
    host: Host<String>,
    port: u16,
    is_https: bool,
}

impl Place {
    fn of(url: &Url) -> Result<Self, ClientError> {
        let is_https = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return Err(ClientError::Unusable),
        };
        let host = url.host().ok_or(ClientError::Unusable)?.to_owned();
        let port = url.port_or_known_default().ok_or(ClientError::Unusable)?;
        Ok(Place { origin: url.origin().ascii_serialization(), host, port, is_https })
    }

    /// Whose certificate is expected, if one is.
    fn server_name(&self) -> Result<Option<ServerName<'static>>, ClientError> {
        if !self.is_https {
            return Ok(None);
        }
        let name = match &self.host {
            Host::Domain(name) => ServerName::try_from(name.clone()).map_err(|_| ClientError::Tls)?,
            Host::Ipv4(address) => ServerName::from(IpAddr::from(*address)),
            Host::Ipv6(address) => ServerName::from(IpAddr::from(*address)),
        };
        Ok(Some(name))
    }
}

fn on_the_wire(
    method: Method,
    url: &Url,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Request<Full<Bytes>>, ClientError> {
    let authority = match (url.host_str(), url.port()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (Some(host), None) => host.to_owned(),
        (None, _) => return Err(ClientError::Unusable),
    };
    let target = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method;
    *request.uri_mut() = Uri::from(PathAndQuery::try_from(target).map_err(|_| ClientError::Unusable)?);
    *request.headers_mut() = headers;
    let host = HeaderValue::try_from(authority).map_err(|_| ClientError::Unusable)?;
    request.headers_mut().insert(HOST, host);
    request.headers_mut().insert(USER_AGENT, PRODUCT);
    Ok(request)
}

async fn read(response: Response<Incoming>) -> Result<Answer, ClientError> {
    let (head, mut incoming) = response.into_parts();
    let mut body = BytesMut::new();
    while let Some(frame) = incoming.frame().await {
        let frame = frame.map_err(|error| ClientError::of_exchange(&error))?;
        let Ok(data) = frame.into_data() else { continue };
        if body.len() + data.len() > LONGEST {
            return Err(ClientError::TooLarge);
        }
        body.extend_from_slice(&data);
    }
    Ok(Answer { status: head.status.as_u16(), headers: head.headers, body: body.freeze() })
}
