//! The HTTP client that sends all requests of this crate. Responses are limited in size and time.

use std::{
    error::Error,
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
    sync::Arc,
    time::Duration,
    vec,
};

use bytes::Bytes;
use futures_util::{FutureExt, future::BoxFuture};
use http::{
    HeaderMap, HeaderValue, Method, Request,
    header::{ACCEPT, USER_AGENT},
};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{
        Client,
        connect::{HttpConnector, dns::Name},
    },
    rt::{TokioExecutor, TokioTimer},
};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{
        CertificateDer,
        pem::{self, PemObject},
    },
};
use tokio::time::timeout;
use tower::util::{ServiceFn, service_fn};
use url::Url;

/// Maximum size of a response. Larger than the OpenAPI document and than the usage report of a year.
const MAX_RESPONSE_BYTES: usize = 4 * 1024 * 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const USER_AGENT_VALUE: HeaderValue = HeaderValue::from_static(concat!("Ringtrue/", env!("CARGO_PKG_VERSION")));
const ACCEPT_VALUE: HeaderValue = HeaderValue::from_static("application/json, application/problem+json");

type Resolver = ServiceFn<fn(Name) -> BoxFuture<'static, Result<vec::IntoIter<SocketAddr>, Unresolved>>>;

/// An HTTP client. It is cheap to clone, and clones share their connections.
#[derive(Clone, Debug)]
pub(crate) struct HttpClient(Client<HttpsConnector<HttpConnector<Resolver>>, Full<Bytes>>);

/// A response. `Debug` is masked, because the body may contain tokens and numbers.
#[derive(Clone, derive_more::Debug)]
#[debug("HttpResponse({status}, {} bytes)", body.len())]
pub(crate) struct HttpResponse {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// A response whose body is read piece by piece, for streams that do not end.
#[derive(derive_more::Debug)]
#[debug("StreamedResponse({status})")]
pub(crate) struct StreamedResponse {
    pub status: u16,
    headers: HeaderMap,
    body: Incoming,
}

impl StreamedResponse {
    /// Waits for the next piece of the body. `None`: the body has ended.
    pub async fn next_chunk(&mut self, time_limit: Duration) -> Result<Option<Bytes>, HttpError> {
        let read = async {
            loop {
                match self.body.frame().await {
                    None => return Ok(None),
                    // Trailers are skipped.
                    Some(Ok(frame)) => {
                        if let Ok(data) = frame.into_data() {
                            return Ok(Some(data));
                        }
                    }
                    Some(Err(error)) => return Err(classify(&error)),
                }
            }
        };
        timeout(time_limit, read).await.unwrap_or(Err(HttpError::Timeout))
    }

    /// Reads the whole body.
    pub async fn collect(self, time_limit: Duration) -> Result<HttpResponse, HttpError> {
        let StreamedResponse { status, headers, body } = self;
        let body = timeout(time_limit, Limited::new(body, MAX_RESPONSE_BYTES).collect()).await;
        let body = body.map_err(|_| HttpError::Timeout)?.map_err(|error| classify(&*error))?;
        Ok(HttpResponse { status, headers, body: body.to_bytes() })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HttpError {
    #[error("invalid URL: expected http or https with a host")]
    InvalidUrl,
    #[error("host name could not be resolved")]
    Unresolved,
    #[error("connection refused")]
    Refused,
    #[error("connection timed out")]
    ConnectTimeout,
    #[error("TLS handshake failed: invalid server certificate, rejected client certificate, or no common version")]
    Tls,
    #[error("response timed out")]
    Timeout,
    #[error("connection lost before the response was complete")]
    Lost,
    #[error("response is larger than {} KiB", MAX_RESPONSE_BYTES / 1024)]
    TooLarge,
    #[error("response is not valid HTTP")]
    Protocol,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsConfigError {
    #[error("failed to read the extra root certificates: {0}")]
    ExtraRoots(#[from] pem::Error),
    #[error("the extra root certificates file contains an invalid certificate, or none")]
    InvalidExtraRoot,
    #[error("invalid TLS configuration: {0}")]
    Tls(#[from] rustls::Error),
}

#[derive(Debug, thiserror::Error)]
#[error("host name could not be resolved")]
struct Unresolved;

/// Whether a Ringtrue server listens at this address with plain HTTP.
pub async fn is_ringtrue(address: SocketAddr) -> bool {
    const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
    let (Ok(http), Ok(url)) = (HttpClient::new(None), format!("http://{address}/livez").parse()) else { return false };
    let response = http.request(Method::GET, &url, HeaderMap::new(), vec![], PROBE_TIMEOUT).await;
    response.is_ok_and(|response| response.headers.contains_key("x-api-version"))
}

impl HttpClient {
    /// Creates a client that trusts the certificates of the system, and those in `ca_file` (PEM).
    pub fn new(ca_file: Option<&Path>) -> Result<Self, TlsConfigError> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if let Some(path) = ca_file {
            let extra = CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>()?;
            let count = extra.len();
            let (added, _) = roots.add_parsable_certificates(extra);
            if added == 0 || added < count {
                return Err(TlsConfigError::InvalidExtraRoot);
            }
        }
        let tls = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut tcp = HttpConnector::new_with_resolver(service_fn(resolve as fn(Name) -> _));
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        tcp.set_nodelay(true);
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector);
        Ok(HttpClient(client))
    }

    /// Sends a request with our `user-agent` and `accept` headers. Returns the response, whatever its status.
    pub async fn request(
        &self,
        method: Method,
        url: &Url,
        headers: HeaderMap,
        body: impl Into<Bytes>,
        time_limit: Duration,
    ) -> Result<HttpResponse, HttpError> {
        self.send(HttpClient::prepare(method, url, headers, body)?, time_limit).await
    }

    /// Opens a stream with GET. Returns the head of the response, whatever its status.
    pub async fn open_stream(
        &self,
        url: &Url,
        headers: HeaderMap,
        time_limit: Duration,
    ) -> Result<StreamedResponse, HttpError> {
        self.open(HttpClient::prepare(Method::GET, url, headers, vec![])?, time_limit).await
    }

    /// Sends a request unchanged. Returns the response, whatever its status.
    pub async fn send(&self, request: Request<Bytes>, time_limit: Duration) -> Result<HttpResponse, HttpError> {
        let exchange = async { self.open(request, time_limit).await?.collect(time_limit).await };
        timeout(time_limit, exchange).await.unwrap_or(Err(HttpError::Timeout))
    }

    /// Sends a request unchanged, and waits only for the head of the response.
    pub async fn open(&self, request: Request<Bytes>, time_limit: Duration) -> Result<StreamedResponse, HttpError> {
        let response = timeout(time_limit, self.0.request(request.map(Full::new))).await;
        let response = response.map_err(|_| HttpError::Timeout)?.map_err(|error| classify(&error))?;
        let (head, body) = response.into_parts();
        Ok(StreamedResponse { status: head.status.as_u16(), headers: head.headers, body })
    }

    /// Adds our `user-agent` and `accept` headers to a request.
    fn prepare(
        method: Method,
        url: &Url,
        mut headers: HeaderMap,
        body: impl Into<Bytes>,
    ) -> Result<Request<Bytes>, HttpError> {
        headers.entry(ACCEPT).or_insert(ACCEPT_VALUE);
        headers.insert(USER_AGENT, USER_AGENT_VALUE);
        let mut request = Request::new(body.into());
        *request.method_mut() = method;
        *request.uri_mut() = url.as_str().parse().map_err(|_| HttpError::InvalidUrl)?;
        *request.headers_mut() = headers;
        Ok(request)
    }
}

/// Resolves a host name. `localhost` is always this machine, whatever the resolver returns, because plain HTTP to it
/// may carry secrets.
fn resolve(name: Name) -> BoxFuture<'static, Result<vec::IntoIter<SocketAddr>, Unresolved>> {
    async move {
        if name.as_str() == "localhost" {
            let ips = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
            return Ok(ips.map(|ip| SocketAddr::new(ip, 0)).to_vec().into_iter());
        }
        let addresses = tokio::net::lookup_host((name.as_str(), 0)).await.map_err(|_| Unresolved)?;
        Ok(addresses.collect::<Vec<_>>().into_iter())
    }
    .boxed()
}

/// Maps an error to the most specific [`HttpError`], which is that of the innermost known cause.
fn classify(error: &(dyn Error + 'static)) -> HttpError {
    let mut found = HttpError::Lost;
    let mut next = Some(error);
    while let Some(error) = next {
        if error.is::<Unresolved>() {
            return HttpError::Unresolved;
        } else if error.is::<rustls::Error>() {
            return HttpError::Tls;
        } else if error.is::<LengthLimitError>() {
            return HttpError::TooLarge;
        } else if let Some(error) = error.downcast_ref::<hyper::Error>() {
            found = if error.is_parse() { HttpError::Protocol } else { HttpError::Lost };
        } else if let Some(error) = error.downcast_ref::<hyper_util::client::legacy::Error>() {
            found = if error.is_connect() { HttpError::Refused } else { HttpError::Lost };
        } else if let Some(error) = error.downcast_ref::<io::Error>() {
            if found == HttpError::Refused && error.kind() == io::ErrorKind::TimedOut {
                found = HttpError::ConnectTimeout;
            }
            // `source` of an `io::Error` skips the error that it wraps, so this follows `get_ref` instead.
            if let Some(inner) = error.get_ref() {
                next = Some(inner);
                continue;
            }
        }
        next = error.source();
    }
    found
}
