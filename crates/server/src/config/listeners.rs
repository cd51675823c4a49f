//! Settings of the listeners: public API, operators' webhooks, header enrichment and metrics.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use ipnet::IpNet;
use ringtrue_domain::region::Region;
use ringtrue_web::app::HttpSettings;
use url::{Host, Url};

use super::{
    ConfigError,
    document::{ConfigDocument, Section},
    value_parser::{
        HOUR, MILLISECOND, MINUTE, boolean, duration, integer, ip_networks, optional, path, socket_address, text,
    },
};

/// Settings of the public listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpSection {
    pub listen: SocketAddr,
    /// Certificate and key. `None`: the listener uses plain HTTP.
    pub tls: Option<TlsFiles>,
    /// Proxies that are trusted to report the addresses of clients.
    pub trusted_proxies: Vec<IpNet>,
    /// Whether the proxies use the PROXY protocol.
    pub proxy_protocol: bool,
    pub max_connections: usize,
    pub max_connections_per_address: usize,
    /// Maximum number of connections from each trusted proxy address.
    pub max_connections_per_proxy: usize,
    pub header_timeout: Duration,
    pub body_timeout: Duration,
    pub request_timeout: Duration,
    pub idle_timeout: Duration,
    pub write_timeout: Duration,
    pub shutdown_grace: Duration,
}

impl HttpSection {
    /// Returns the same limits and timeouts for another listener that is behind other proxies.
    #[must_use]
    pub fn with_trusted_proxies(&self, trusted_proxies: &[IpNet], proxy_protocol: bool) -> HttpSection {
        HttpSection { trusted_proxies: trusted_proxies.to_vec(), proxy_protocol, ..self.clone() }
    }

    /// Returns the settings that apply to single requests, for the HTTP service. The listener applies the settings for
    /// connections.
    pub fn settings(&self) -> HttpSettings {
        HttpSettings {
            trusted_proxies: self.trusted_proxies.clone(),
            body_timeout: self.body_timeout,
            request_timeout: self.request_timeout,
            idle_timeout: self.idle_timeout,
        }
    }
}

/// A certificate chain and its private key, as PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// Settings of the listener for operators' webhooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngressSection {
    pub listen: SocketAddr,
    /// Certificate and key. `None`: the listener uses plain HTTP.
    pub tls: Option<TlsFiles>,
    /// Proxies that are trusted to report the addresses of clients.
    pub trusted_proxies: Vec<IpNet>,
    /// Whether the proxies use the PROXY protocol.
    pub proxy_protocol: bool,
}

/// Settings of the listener for devices whose operator adds a header to their requests. It uses plain HTTP, because
/// operators cannot add headers to TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderEnrichmentSection {
    pub listen: SocketAddr,
    /// URL at which devices reach the listener. `None`: `listen`, which must then be a loopback address.
    pub public_url: Option<BaseUrl>,
    /// Proxies that are trusted to report the addresses of clients. The address of a device decides whether the number
    /// in its header is trusted.
    pub trusted_proxies: Vec<IpNet>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsSection {
    /// Address of the metrics listener. `None`: no metrics are served.
    pub listen: Option<SocketAddr>,
}

pub(super) struct Listeners {
    pub http: HttpSection,
    pub metrics: MetricsSection,
    pub ingress: Option<IngressSection>,
    pub header_enrichment: Option<HeaderEnrichmentSection>,
}

pub(super) fn read(document: &ConfigDocument<'_>) -> Result<Listeners, ConfigError> {
    let http = read_http(&document.section("http"))?;
    let metrics = MetricsSection { listen: document.section("metrics").get("listen", optional(socket_address()))? };
    let ingress = read_ingress(&document.section("ingress"))?;
    let header_enrichment = read_header_enrichment(&document.section("header_enrichment"))?;
    let listeners = [
        ("http.listen", Some(http.listen)),
        ("metrics.listen", metrics.listen),
        ("ingress.listen", ingress.as_ref().map(|ingress| ingress.listen)),
        ("header_enrichment.listen", header_enrichment.as_ref().map(|enrichment| enrichment.listen)),
    ];
    for (position, (key, listen)) in listeners.iter().enumerate() {
        let Some(address) = listen.filter(|address| address.port() != 0) else { continue };
        if let Some((other, _)) = listeners[..position].iter().find(|(_, other)| other == listen) {
            let allowed = format!("an address other than `{other}`, or \"off\"");
            return Err(document.invalid(key, format!("\"{address}\""), allowed));
        }
    }
    Ok(Listeners { http, metrics, ingress, header_enrichment })
}

fn read_http(section: &Section<'_>) -> Result<HttpSection, ConfigError> {
    let connections = || integer(1..=1_000_000);
    let timeout = || duration(100 * MILLISECOND, 10 * MINUTE);
    let trusted_proxies = section.get("trusted_proxies", ip_networks())?;
    Ok(HttpSection {
        listen: section.get("listen", socket_address())?,
        tls: read_tls(section)?,
        proxy_protocol: read_proxy_protocol(section, &trusted_proxies)?,
        trusted_proxies,
        max_connections: section.get("max_connections", connections())?,
        max_connections_per_address: section.get("max_connections_per_address", connections())?,
        max_connections_per_proxy: section.get("max_connections_per_proxy", connections())?,
        header_timeout: section.get("header_timeout", timeout())?,
        body_timeout: section.get("body_timeout", timeout())?,
        request_timeout: section.get("request_timeout", timeout())?,
        idle_timeout: section.get("idle_timeout", duration(100 * MILLISECOND, HOUR))?,
        write_timeout: section.get("write_timeout", timeout())?,
        shutdown_grace: section.get("shutdown_grace", duration(Duration::ZERO, HOUR))?,
    })
}

fn read_ingress(section: &Section<'_>) -> Result<Option<IngressSection>, ConfigError> {
    let listen = section.get("listen", optional(socket_address()))?;
    let tls = read_tls(section)?;
    let trusted_proxies = section.get("trusted_proxies", ip_networks())?;
    let proxy_protocol = read_proxy_protocol(section, &trusted_proxies)?;
    Ok(listen.map(|listen| IngressSection { listen, tls, trusted_proxies, proxy_protocol }))
}

fn read_header_enrichment(section: &Section<'_>) -> Result<Option<HeaderEnrichmentSection>, ConfigError> {
    const ALLOWED: &str = "an http:// URL without a path, such as \"http://he.example.com\"";
    // The URL must be plain HTTP, because operators cannot add headers to TLS.
    let plain_url = text(ALLOWED, |text| BaseUrl::parse(text).filter(|url| !url.is_https()));
    let listen = section.get("listen", optional(socket_address()))?;
    let public_url = section.get("public_url", optional(plain_url))?;
    let trusted_proxies = section.get("trusted_proxies", ip_networks())?;
    match listen {
        Some(listen) if public_url.is_none() && !listen.ip().is_loopback() => {
            let key = section.key("listen");
            let allowed = format!("{ALLOWED}, because `{key}` is {listen}, which is not a loopback address");
            Err(section.invalid("public_url", "nothing", allowed))
        }
        listen => Ok(listen.map(|listen| HeaderEnrichmentSection { listen, public_url, trusted_proxies })),
    }
}

/// Reads `proxy_protocol`. Rejects it without trusted proxies, because it would then have no effect.
fn read_proxy_protocol(section: &Section<'_>, proxies: &[IpNet]) -> Result<bool, ConfigError> {
    let is_on = section.get("proxy_protocol", boolean())?;
    if is_on && proxies.is_empty() {
        let key = section.key("trusted_proxies");
        let allowed = format!("false, because `{key}` is empty and only its proxies may send the header");
        return Err(section.invalid("proxy_protocol", "true", allowed));
    }
    Ok(is_on)
}

fn read_tls(section: &Section<'_>) -> Result<Option<TlsFiles>, ConfigError> {
    let certificate = section.get("tls.certificate", optional(path()))?;
    let key = section.get("tls.key", optional(path()))?;
    let (missing, set) = match (certificate, key) {
        (None, None) => return Ok(None),
        (Some(certificate), Some(key)) => return Ok(Some(TlsFiles { certificate, key })),
        (Some(_), None) => ("tls.key", "tls.certificate"),
        (None, Some(_)) => ("tls.certificate", "tls.key"),
    };
    Err(section.invalid(missing, "nothing", format!("a path to a file, because `{}` is set", section.key(set))))
}

/// Reads the base URL, and checks that it fits the listener and the region.
pub(super) fn read_base_url(
    document: &ConfigDocument<'_>,
    region: Region,
    http: &HttpSection,
) -> Result<Option<BaseUrl>, ConfigError> {
    const ALLOWED: &str = "a scheme and a host, such as \"https://eu.verify.example.com\", without a path or trailing \
                           slash";
    let allows_plain_http = document.root().get("allow_plain_http", boolean())?;
    let url = document.root().get("base_url", optional(text(ALLOWED, BaseUrl::parse)))?;
    let violation = match &url {
        None if http.listen.ip().is_loopback() => return Ok(None),
        None => format!("{ALLOWED}, because `http.listen` is {}, which is not a loopback address", http.listen),
        Some(url) => match Region::from_host(url.0.host_str().unwrap_or_default()) {
            Some(other) if other != region => {
                format!("a host that does not begin with \"{other}.\", because `region` is \"{region}\"")
            }
            _ if http.tls.is_some() && !url.is_https() => "an https:// URL, because `http.tls` is set".to_owned(),
            _ if !url.is_https() && !url.is_loopback() && !allows_plain_http => {
                "an https:// URL, because its host is not this machine; or set `allow_plain_http`".to_owned()
            }
            _ => return Ok(Some(url.clone())),
        },
    };
    let found = url.map_or_else(|| "nothing".to_owned(), |url| format!("{:?}", url.as_str()));
    Err(document.invalid("base_url", found, violation))
}

/// Public URL of a deployment: scheme, host and non-default port, without a trailing slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl(Url);

impl BaseUrl {
    /// Parses a base URL. `None`: it has more than a scheme, a host and a port.
    pub fn parse(text: &str) -> Option<Self> {
        let url = Url::parse(text).ok().filter(|url| url.path() == "/" && url.has_host())?;
        let is_bare = !text.ends_with(['/', '?', '#'])
            && url.query().is_none()
            && url.fragment().is_none()
            && url.username().is_empty()
            && url.password().is_none();
        (is_bare && matches!(url.scheme(), "http" | "https")).then_some(BaseUrl(url))
    }

    pub fn as_str(&self) -> &str {
        self.0.as_str().trim_end_matches('/')
    }

    pub fn is_https(&self) -> bool {
        self.0.scheme() == "https"
    }

    pub fn is_loopback(&self) -> bool {
        match self.0.host() {
            Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => IpAddr::from(address).to_canonical().is_loopback(),
            None => false,
        }
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
