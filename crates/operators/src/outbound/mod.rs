//! The one client that opens URLs that callers gave us.
//!
//! Every address is looked at before a connection to it is opened, at each attempt, after resolution: a name that was
//! harmless when it was given may lead into our network today. A connection that was opened under that rule may be used
//! again while it is kept.
//!
//! The answer's status decides as soon as its head is whole. The body is for the log: as much is read as the bounds
//! allow, and one that is too long or too slow ends the reading, not the answer. Nothing is followed, decoded or sent
//! through a proxy.
//!
//! What was signed is what is sent: the target as it was written, and `host` with its port when it is not the default.

mod connector;
pub(crate) mod dial;
pub(crate) mod line;
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
use ringtrue_engine::ports::{Answer, Outgoing, Transport, Undelivered};
use tokio::time::Instant;

use connector::Connector;
use line::{Line, Work};
use pool::Pool;
pub use resolver::{Resolver, SystemResolver};
pub use tls::{CertificateClock, Identity, NoRoots};

/// How much of an answer's body is read: a connection whose answer was read whole can be used again.
const READ: usize = 64 * 1_024;
/// How much of it is kept.
const KEPT: usize = 4 * 1_024;

#[derive(Clone, Debug)]
pub struct OutboundSettings {
    pub addresses: AddressPolicy,
    /// Certificates (PEM) that are trusted in addition to the machine's.
    pub extra_roots: Option<PathBuf>,
    pub certificate_clock: CertificateClock,
    /// How long opening a connection may take, TLS included.
    pub connect: Duration,
    /// How long everything may take.
    pub total: Duration,
}

impl Default for OutboundSettings {
    fn default() -> Self {
        OutboundSettings {
            addresses: AddressPolicy::default(),
            extra_roots: None,
            certificate_clock: CertificateClock::default(),
            connect: Duration::from_secs(5),
            total: Duration::from_secs(10),
        }
    }
}

#[derive(Debug)]
pub struct Outbound {
    connector: Connector,
    pool: Pool,
    total: Duration,
}

impl Outbound {
    pub fn new(settings: OutboundSettings) -> Result<Self, NoRoots> {
        Outbound::with_resolver(settings, Arc::new(SystemResolver::default()))
    }

    pub fn with_resolver(settings: OutboundSettings, resolver: Arc<dyn Resolver>) -> Result<Self, NoRoots> {
        let tls = tls::client_config(settings.extra_roots.as_deref(), None, &settings.certificate_clock)?;
        let connector = Connector::new(resolver, settings.addresses, tls, settings.connect);
        Ok(Outbound { connector, pool: Pool::default(), total: settings.total })
    }

    async fn send(&self, request: &Outgoing, deadline: Instant) -> Result<(Line, Response<Incoming>), Undelivered> {
        if let Some(mut kept) = self.kept(request) {
            // The other side may close a connection at any time, also now. One such loss is made good.
            match kept.work.by(deadline, kept.sender.send_request(on_the_wire(request)?)).await {
                None => return Err(Undelivered::Timeout),
                Some(Ok(response)) => return Ok((kept, response)),
                Some(Err(error)) if was_closed(&error) => {}
                Some(Err(error)) => return Err(undelivered(&error)),
            }
        }
        let mut fresh = self.connector.connect(&request.url, deadline).await?;
        let response = fresh.work.by(deadline, fresh.sender.send_request(on_the_wire(request)?)).await;
        let response = response.ok_or(Undelivered::Timeout)?.map_err(|error| undelivered(&error))?;
        Ok((fresh, response))
    }

    /// A connection from before that is still usable.
    fn kept(&self, request: &Outgoing) -> Option<Line> {
        let key = origin(&request.url);
        std::iter::from_fn(|| self.pool.take(&key)).find_map(|mut kept| kept.is_ready().then_some(kept))
    }

    /// Reads what the bounds allow of a body. Says whether that was all of it.
    async fn read(work: &mut Work, mut body: Incoming, deadline: Instant) -> (Vec<u8>, bool) {
        let (mut kept, mut read) = (Vec::new(), 0);
        while read <= READ {
            match work.by(deadline, body.frame()).await {
                Some(None) => return (kept, true),
                Some(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else { continue };
                    read += data.len();
                    kept.extend_from_slice(&data[..data.len().min(KEPT - kept.len())]);
                }
                Some(Some(Err(_))) | None => break,
            }
        }
        (kept, false)
    }
}

#[async_trait]
impl Transport for Outbound {
    async fn post(&self, request: Outgoing) -> Result<Answer, Undelivered> {
        let deadline = Instant::now() + self.total;
        let (mut line, response) = self.send(&request, deadline).await?;
        let (head, body) = response.into_parts();
        let (body, is_whole) = Outbound::read(&mut line.work, body, deadline).await;
        if is_whole {
            self.pool.keep(&origin(&request.url), line);
        }
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = head.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        Ok(Answer { status: head.status.as_u16(), headers, body })
    }
}

/// The request as it goes out. Headers keep their order.
fn on_the_wire(outgoing: &Outgoing) -> Result<Request<Full<Bytes>>, Undelivered> {
    // A URL that was taken has a target and an authority that can be sent.
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
    build().map_err(|_| Undelivered::Protocol)
}

/// Whether a kept connection was closed by the other side before it answered.
fn was_closed(error: &hyper::Error) -> bool {
    error.is_canceled() || error.is_closed() || error.is_incomplete_message() || is_io(error)
}

fn is_io(error: &hyper::Error) -> bool {
    error.source().is_some_and(<dyn Error>::is::<io::Error>)
}

pub(crate) fn undelivered(error: &hyper::Error) -> Undelivered {
    if error.is_parse_too_large() {
        Undelivered::TooLarge
    } else if error.is_parse() {
        Undelivered::Protocol
    } else {
        Undelivered::Connection
    }
}

fn origin(url: &CallbackUrl) -> String {
    let scheme = if url.is_https() { "https" } else { "http" };
    format!("{scheme}://{}", url.authority())
}
