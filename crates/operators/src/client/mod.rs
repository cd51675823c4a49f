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
use url::{Host, Position, Url};

pub use crate::outbound::{CertificateClock, Identity, NoRoots};
use crate::outbound::{
    Resolver, SystemResolver, dial,
    line::{Line, Work},
    pool::Pool,
    tls,
};
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
    pub certificate_clock: CertificateClock,
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
            certificate_clock: CertificateClock::default(),
            connect: Duration::from_secs(2),
            total: Duration::from_secs(8),
        }
    }
}

pub struct Client {
    resolver: Arc<dyn Resolver>,
    tls: TlsConnector,
    pool: Pool,
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
        let ClientSettings { extra_roots, identity, certificate_clock, .. } = settings;
        let tls = tls::client_config(extra_roots.as_deref(), identity.as_ref(), certificate_clock)?;
        Ok(Client {
            resolver,
            tls: tls.into(),
            pool: Pool::default(),
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
        let request = on_the_wire(method, url, headers, body.into())?;
        // In a box: it is large, and whoever asks would carry its room along, and move it with everything that it does.
        Box::pin(self.exchange(url, request, deadline)).await
    }

    async fn exchange(
        &self,
        url: &Url,
        mut request: Request<Full<Bytes>>,
        deadline: Instant,
    ) -> Result<Answer, ClientError> {
        while let Some(mut kept) = self.pool.take(origin(url)) {
            if !kept.is_ready() {
                continue;
            }
            match self.exchange_on(kept, url, request, deadline).await {
                Err(Unanswered::Unsent(again)) => request = *again,
                Err(Unanswered::For(error)) => return Err(error),
                Ok(answer) => return Ok(answer),
            }
        }
        // Seldom needed, and large: without the box every request would carry its room along.
        let fresh = Box::pin(self.open(url, deadline)).await?;
        self.exchange_on(fresh, url, request, deadline).await.map_err(|unanswered| match unanswered {
            Unanswered::Unsent(_) => ClientError::Lost,
            Unanswered::For(error) => error,
        })
    }

    async fn exchange_on(
        &self,
        line: Line,
        url: &Url,
        request: Request<Full<Bytes>>,
        deadline: Instant,
    ) -> Result<Answer, Unanswered> {
        let Line { mut sender, mut work } = line;
        let sent = work.by(deadline, sender.try_send_request(request)).await;
        let response =
            sent.ok_or(Unanswered::For(ClientError::Timeout))?.map_err(|mut error| match error.take_message() {
                Some(unsent) => Unanswered::Unsent(Box::new(unsent)),
                None => Unanswered::For(ClientError::of_exchange(error.error())),
            })?;
        let answer = read(response, &mut work, deadline).await.map_err(Unanswered::For)?;
        self.pool.keep(origin(url), Line { sender, work });
        Ok(answer)
    }

    async fn open(&self, url: &Url, until: Instant) -> Result<Line, ClientError> {
        let own = Instant::now() + self.connect;
        let (deadline, too_late) =
            if until < own { (until, ClientError::Timeout) } else { (own, ClientError::ConnectTimeout) };
        let host = url.host().ok_or(ClientError::Unusable)?;
        let port = url.port_or_known_default().ok_or(ClientError::Unusable)?;
        let opening = async {
            let addresses = match host {
                Host::Ipv4(address) => vec![IpAddr::from(address)],
                Host::Ipv6(address) => vec![IpAddr::from(address)],
                Host::Domain(name) => self.resolver.resolve(name).await.map_err(|_| ClientError::Unresolved)?,
            };
            if addresses.is_empty() {
                return Err(ClientError::Unresolved);
            }
            let tcp = dial::open_first(&addresses, port, own).await.map_err(ClientError::of_opening)?;
            let stream: Box<dyn dial::Stream> = if url.scheme() == "https" {
                dial::secure(&self.tls, server_name(&host)?, tcp).await.map_err(ClientError::of_opening)?
            } else {
                Box::new(tcp)
            };
            Line::over(stream).await.map_err(ClientError::of_opening)
        };
        timeout_at(deadline, opening).await.unwrap_or(Err(too_late))
    }
}

/// Why there is no answer on a connection.
enum Unanswered {
    /// The request never left.
    Unsent(Box<Request<Full<Bytes>>>),
    For(ClientError),
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("pool", &self.pool).finish_non_exhaustive()
    }
}

/// Scheme, host and port: by these connections are kept.
fn origin(url: &Url) -> &str {
    &url[..Position::BeforePath]
}

/// Whose certificate is expected.
fn server_name(host: &Host<&str>) -> Result<ServerName<'static>, ClientError> {
    Ok(match host {
        Host::Domain(name) => ServerName::try_from((*name).to_owned()).map_err(|_| ClientError::Tls)?,
        Host::Ipv4(address) => ServerName::from(IpAddr::from(*address)),
        Host::Ipv6(address) => ServerName::from(IpAddr::from(*address)),
    })
}

fn on_the_wire(
    method: Method,
    url: &Url,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Request<Full<Bytes>>, ClientError> {
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(ClientError::Unusable);
    }
    let authority = HeaderValue::try_from(&url[Position::BeforeHost..Position::AfterPort]);
    let target = PathAndQuery::try_from(&url[Position::BeforePath..Position::AfterQuery]);
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method;
    *request.uri_mut() = Uri::from(target.map_err(|_| ClientError::Unusable)?);
    *request.headers_mut() = headers;
    request.headers_mut().insert(HOST, authority.map_err(|_| ClientError::Unusable)?);
    request.headers_mut().insert(USER_AGENT, PRODUCT);
    Ok(request)
}

async fn read(response: Response<Incoming>, work: &mut Work, deadline: Instant) -> Result<Answer, ClientError> {
    let (head, mut incoming) = response.into_parts();
    let mut body = Bytes::new();
    while let Some(frame) = work.by(deadline, incoming.frame()).await.ok_or(ClientError::Timeout)? {
        let frame = frame.map_err(|error| ClientError::of_exchange(&error))?;
        let Ok(data) = frame.into_data() else { continue };
        if body.len() + data.len() > LONGEST {
            return Err(ClientError::TooLarge);
        }
        // Mostly it comes in one piece, which need not be copied.
        body = if body.is_empty() {
            data
        } else {
            let mut longer = BytesMut::from(body);
            longer.extend_from_slice(&data);
            longer.freeze()
        };
    }
    Ok(Answer { status: head.status.as_u16(), headers: head.headers, body })
}
