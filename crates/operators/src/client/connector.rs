//! Opens TCP and TLS connections for the HTTP clients: name resolution, address guard, trusted roots and client
//! certificate.

use std::{
    collections::BTreeSet,
    fmt, io,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use async_trait::async_trait;
use futures_util::future::{BoxFuture, join_all};
use hickory_resolver::{TokioResolver, net::NetError};
use http::{Extensions, Uri};
use hyper_util::{
    client::legacy::connect::{Connected, Connection},
    rt::TokioIo,
};
use ringtrue_domain::web_url::AddressPolicy;
use ringtrue_engine::ports::{
    clock::{Clock, SystemClock},
    transport::{TlsError, TransportError},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::Mutex,
    time::{Instant, timeout, timeout_at},
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        self, AlertDescription, CertificateError, ClientConfig, InvalidMessage, OtherError, PeerIncompatible,
        RootCertStore,
        crypto::aws_lc_rs,
        pki_types::{
            CertificateDer, PrivateKeyDer, ServerName, UnixTime,
            pem::{self, PemObject},
        },
        time_provider::TimeProvider,
    },
};
use tokio_util::either::Either;
use tower_service::Service;
use url::Host;

const MAX_ADDRESSES_TRIED: usize = 4;

/// Resolves a host, checks its addresses with the address guard (if there is one), and connects to the first address
/// that accepts.
#[derive(Clone)]
pub struct Connector(Arc<ConnectorSettings>);

pub struct ConnectorSettings {
    pub resolver: Arc<dyn Resolver>,
    /// `None`: every address is permitted.
    pub guard: Option<AddressGuard>,
    pub tls: TlsConnector,
    /// Limit for opening a connection, including name resolution and the TLS handshake.
    pub connect_timeout: Duration,
}

impl From<ConnectorSettings> for Connector {
    fn from(settings: ConnectorSettings) -> Self {
        Connector(Arc::new(settings))
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<HttpStream>;
    type Error = TransportError;
    type Future = BoxFuture<'static, Result<Self::Response, TransportError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, origin: Uri) -> Self::Future {
        let settings = Arc::clone(&self.0);
        Box::pin(async move {
            let stream = timeout(settings.connect_timeout, settings.open_stream(&origin)).await;
            let stream = stream.unwrap_or(Err(TransportError::Timeout))?;
            Ok(TokioIo::new(HttpStream { stream, usage: ConnectionUsage::default() }))
        })
    }
}

impl ConnectorSettings {
    async fn open_stream(&self, origin: &Uri) -> Result<Either<TcpStream, TlsStream<TcpStream>>, TransportError> {
        let deadline = Instant::now() + self.connect_timeout;
        let is_https = origin.scheme_str() == Some("https");
        let port = origin.port_u16().unwrap_or(if is_https { 443 } else { 80 });
        let host = Host::parse(origin.host().unwrap_or_default()).map_err(|_| TransportError::Unresolved)?;
        let addresses = self.resolve_permitted_addresses(&host, port).await?;
        let tcp = connect_any(&addresses, port, deadline).await?;
        if !is_https {
            return Ok(Either::Left(tcp));
        }
        let name = match host {
            Host::Domain(name) => ServerName::try_from(name).map_err(|_| TlsError::CertificateWrongHost)?,
            Host::Ipv4(address) => ServerName::from(IpAddr::from(address)),
            Host::Ipv6(address) => ServerName::from(IpAddr::from(address)),
        };
        let tls = self.tls.connect(name, tcp).await.map_err(|error| match error.downcast::<rustls::Error>() {
            Ok(error) => TransportError::Tls(classify_tls_error(&error)),
            Err(_) => TransportError::Connection,
        })?;
        Ok(Either::Right(tls))
    }

    /// Resolves a host to the addresses that the guard permits. Fails if there are none.
    async fn resolve_permitted_addresses(&self, host: &Host, port: u16) -> Result<Vec<IpAddr>, TransportError> {
        if let (Some(guard), Host::Domain(name)) = (&self.guard, host) {
            guard.check_name(name)?;
        }
        let addresses = match host {
            Host::Ipv4(address) => vec![IpAddr::from(*address)],
            Host::Ipv6(address) => vec![IpAddr::from(*address)],
            Host::Domain(name) => self.resolver.resolve(name).await.map_err(|_| TransportError::Unresolved)?,
        };
        match &self.guard {
            _ if addresses.is_empty() => Err(TransportError::Unresolved),
            None => Ok(addresses),
            Some(guard) => guard.permitted_addresses(host, port, addresses, &*self.resolver).await,
        }
    }
}

/// Tries the addresses in order. Each gets an equal share of the remaining time.
async fn connect_any(addresses: &[IpAddr], port: u16, deadline: Instant) -> Result<TcpStream, TransportError> {
    let addresses = &addresses[..addresses.len().min(MAX_ADDRESSES_TRIED)];
    let mut outcome = TransportError::Connection;
    for (index, address) in addresses.iter().enumerate() {
        let remaining = deadline.saturating_duration_since(Instant::now());
        let share = remaining / u32::try_from(addresses.len() - index).unwrap_or(1);
        match timeout_at(Instant::now() + share, TcpStream::connect(SocketAddr::new(*address, port))).await {
            Ok(Ok(stream)) => {
                // Disables Nagle's algorithm: requests are small and written in one piece.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(_)) => outcome = TransportError::Connection,
            Err(_) => outcome = TransportError::Timeout,
        }
    }
    Err(outcome)
}

fn classify_tls_error(error: &rustls::Error) -> TlsError {
    match error {
        rustls::Error::InvalidCertificate(error) => classify_certificate_error(error),
        rustls::Error::AlertReceived(AlertDescription::ProtocolVersion)
        | rustls::Error::PeerIncompatible(
            PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
            | PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled,
        ) => TlsError::TlsVersion,
        // A server without TLS responds in plain text, whose first octet is not a content type of TLS.
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => TlsError::NotTls,
        _ => TlsError::Handshake,
    }
}

fn classify_certificate_error(error: &CertificateError) -> TlsError {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => TlsError::CertificateExpired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => TlsError::CertificateNotYetValid,
        CertificateError::UnknownIssuer => TlsError::CertificateUntrusted,
        // `openssl req -x509` marks its self-signed certificates as certificate authorities, so webpki reports them
        // with this error.
        CertificateError::Other(OtherError(error))
            if matches!(error.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity)) =>
        {
            TlsError::CertificateUntrusted
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            TlsError::CertificateWrongHost
        }
        _ => TlsError::CertificateInvalid,
    }
}

/// Stream of a pooled connection.
pub struct HttpStream {
    stream: Either<TcpStream, TlsStream<TcpStream>>,
    usage: ConnectionUsage,
}

/// Whether a connection has already delivered a response. hyper's pool attaches this value to responses and errors, so
/// that [`outbound`](crate::outbound) can tell a reused connection that the peer has closed from a new one that failed.
#[derive(Clone, Debug, Default)]
pub struct ConnectionUsage(Arc<AtomicBool>);

impl ConnectionUsage {
    pub fn mark_used(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn was_used(connection: &Connected) -> bool {
        let mut extensions = Extensions::new();
        connection.get_extras(&mut extensions);
        extensions.get::<ConnectionUsage>().is_some_and(|usage| usage.0.load(Ordering::Relaxed))
    }
}

impl Connection for HttpStream {
    fn connected(&self) -> Connected {
        Connected::new().extra(self.usage.clone())
    }
}

impl AsyncRead for HttpStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for HttpStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[async_trait]
pub trait Resolver: Send + Sync + fmt::Debug {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// Timeout of a query to one name server. It is short, because API clients choose the hosts in callback URLs, and the
/// name servers of such a host may never respond.
const QUERY_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of cached names. A cached name expires with the TTL of its DNS records.
const CACHE_ENTRIES: u64 = 1_024;

/// Uses the hosts file and the system's name servers. Lookups block no thread, so slow ones do not delay others.
#[derive(derive_more::Debug)]
#[debug("SystemResolver")]
pub struct SystemResolver(Option<TokioResolver>);

impl Default for SystemResolver {
    fn default() -> Self {
        let resolver = system_resolver();
        if let Err(error) = &resolver {
            tracing::error!(%error, "failed to read the system's DNS configuration; no host name can be resolved");
        }
        SystemResolver(resolver.ok())
    }
}

fn system_resolver() -> Result<TokioResolver, NetError> {
    let mut builder = TokioResolver::builder_tokio()?;
    let options = builder.options_mut();
    options.timeout = QUERY_TIMEOUT;
    options.attempts = 2;
    options.cache_size = CACHE_ENTRIES;
    builder.build()
}

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let resolver = self.0.as_ref().ok_or_else(|| io::Error::other("no name servers configured"))?;
        // The trailing dot makes the name absolute: no search domain is appended.
        let found = resolver.lookup_ip(format!("{name}.")).await.map_err(io::Error::other)?;
        Ok(found.iter().collect())
    }
}

/// Timeout for resolving one of this service's own host names. Their addresses are needed to block callbacks to this
/// service.
const OWN_LOOKUP_TIMEOUT: Duration = Duration::from_secs(1);
/// How long the addresses of this service's own host names are used before the names are resolved again.
const OWN_ADDRESSES_TTL: Duration = Duration::from_mins(1);
/// Time until this service's own host names are resolved again, if one of them could not be resolved.
const OWN_LOOKUP_RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Checks the addresses of URLs that API clients supply, before a connection is opened (SSRF protection).
///
/// The guard fails closed: until every host name of this service has been resolved once, it permits only the addresses
/// and names that the configuration explicitly allows.
pub struct AddressGuard {
    policy: AddressPolicy,
    own_addresses: Mutex<OwnAddresses>,
}

/// Addresses of this service's own host names. Callbacks to them are blocked.
struct OwnAddresses {
    /// Each name with its last known addresses, which stay in use if resolving the name again fails. `None`: the name
    /// has never been resolved.
    names: Vec<(String, Option<Vec<IpAddr>>)>,
    /// The known addresses of all names together.
    addresses: Arc<[IpAddr]>,
    /// Whether the addresses of every name are known.
    is_complete: bool,
    /// When the names are resolved again. `None` before the first resolution.
    refresh_at: Option<Instant>,
}

impl OwnAddresses {
    fn new(names: BTreeSet<String>) -> Self {
        let (addresses, is_complete) = (Arc::default(), names.is_empty());
        let names = names.into_iter().map(|name| (name, None)).collect();
        OwnAddresses { names, addresses, is_complete, refresh_at: None }
    }

    fn is_fresh(&self) -> bool {
        self.names.is_empty() || self.refresh_at.is_some_and(|refresh_at| Instant::now() < refresh_at)
    }

    async fn refresh(&mut self, resolver: &dyn Resolver) {
        let lookups = self.names.iter().map(|(name, _)| timeout(OWN_LOOKUP_TIMEOUT, resolver.resolve(name)));
        let results = join_all(lookups).await;
        let mut pause = OWN_ADDRESSES_TTL;
        for ((name, known), result) in self.names.iter_mut().zip(results) {
            match result {
                Ok(Ok(addresses)) if !addresses.is_empty() => *known = Some(addresses),
                _ => {
                    pause = OWN_LOOKUP_RETRY_INTERVAL;
                    if known.is_some() {
                        tracing::warn!(host = %name, "failed to resolve a host name of this service; using its last addresses");
                    } else {
                        tracing::error!(host = %name, "failed to resolve a host name of this service; callbacks are not sent");
                    }
                }
            }
        }
        self.addresses = self.names.iter().filter_map(|(_, known)| known.as_ref()).flatten().copied().collect();
        self.is_complete = self.names.iter().all(|(_, known)| known.is_some());
        self.refresh_at = Some(Instant::now() + pause);
    }
}

impl AddressGuard {
    pub fn new(policy: AddressPolicy) -> Self {
        let own_names = policy.own_hosts.iter().filter_map(|host| match host {
            Host::Domain(name) => Some(name.clone()),
            Host::Ipv4(_) | Host::Ipv6(_) => None,
        });
        AddressGuard { own_addresses: Mutex::new(OwnAddresses::new(own_names.collect())), policy }
    }

    /// Rejects a host name that is forbidden whatever its addresses are, such as a host name of this service.
    pub fn check_name(&self, name: &str) -> Result<(), TransportError> {
        if self.policy.permits_name(name) { Ok(()) } else { Err(TransportError::BlockedAddress) }
    }

    /// Returns the permitted addresses among a host's addresses, or an error if there are none.
    pub async fn permitted_addresses(
        &self,
        host: &Host,
        port: u16,
        mut addresses: Vec<IpAddr>,
        resolver: &dyn Resolver,
    ) -> Result<Vec<IpAddr>, TransportError> {
        if matches!(host, Host::Domain(name) if self.policy.explicitly_allows_host(name)) {
            return Ok(addresses);
        }
        // Any name may resolve to this service's own addresses, so addresses are compared, and not only names.
        let (own_addresses, is_complete) = self.own_addresses(resolver).await;
        addresses.retain(|address| self.policy.permits_endpoint(*address, port, &own_addresses));
        if addresses.is_empty() {
            return Err(TransportError::BlockedAddress);
        }
        if !is_complete {
            addresses.retain(|address| self.policy.explicitly_allows(*address));
        }
        if addresses.is_empty() { Err(TransportError::OwnAddressUnknown) } else { Ok(addresses) }
    }

    /// Returns the known addresses of this service's own host names, and whether every name has been resolved.
    /// Concurrent callers share one resolution.
    async fn own_addresses(&self, resolver: &dyn Resolver) -> (Arc<[IpAddr]>, bool) {
        let mut own = self.own_addresses.lock().await;
        if !own.is_fresh() {
            own.refresh(resolver).await;
        }
        (Arc::clone(&own.addresses), own.is_complete)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum TlsConfigError {
    #[error("failed to read the extra root certificates: {0}")]
    ExtraRoots(#[from] pem::Error),
    #[error("the extra root certificates file contains an invalid certificate, or none")]
    InvalidExtraRoot,
    #[error("failed to read the client certificate or its key: {0}")]
    ClientCertificate(#[source] pem::Error),
    #[error("invalid TLS configuration: {0}")]
    Tls(#[from] rustls::Error),
}

/// Client certificate for mutual TLS.
#[derive(Clone, Debug)]
pub struct ClientCertificate {
    /// The certificate and its intermediates (PEM).
    pub certificates: PathBuf,
    /// Private key (PEM).
    pub key: PathBuf,
}

/// Clock by which rustls checks the validity periods of certificates.
#[derive(Clone, derive_more::Debug)]
#[debug("CertificateClock")]
pub struct CertificateClock(pub Arc<dyn Clock>);

impl Default for CertificateClock {
    fn default() -> Self {
        CertificateClock(Arc::new(SystemClock))
    }
}

impl TimeProvider for CertificateClock {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(self.0.now().as_second()).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

/// Reads the system's root certificates. Reading them takes milliseconds.
pub fn load_system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let system = rustls_native_certs::load_native_certs();
    for error in &system.errors {
        tracing::warn!(%error, "failed to read a system root certificate");
    }
    roots.add_parsable_certificates(system.certs);
    if roots.is_empty() {
        tracing::warn!("no system root certificates; https requests to hosts without extra roots will fail");
    }
    roots
}

/// Builds TLS settings that trust `roots` and the certificates in `ca_file`.
pub fn tls_client_config(
    mut roots: RootCertStore,
    ca_file: Option<&Path>,
    identity: Option<&ClientCertificate>,
    clock: &CertificateClock,
) -> Result<Arc<ClientConfig>, TlsConfigError> {
    if let Some(path) = ca_file {
        let extra = CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>()?;
        let count = extra.len();
        let (added, _) = roots.add_parsable_certificates(extra);
        if added == 0 || added < count {
            return Err(TlsConfigError::InvalidExtraRoot);
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let mut config = match identity {
        None => config.with_no_client_auth(),
        Some(identity) => {
            let chain = CertificateDer::pem_file_iter(&identity.certificates).and_then(Iterator::collect);
            let key = PrivateKeyDer::from_pem_file(&identity.key).map_err(TlsConfigError::ClientCertificate)?;
            config.with_client_auth_cert(chain.map_err(TlsConfigError::ClientCertificate)?, key)?
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.time_provider = Arc::new(clock.clone());
    Ok(Arc::new(config))
}
