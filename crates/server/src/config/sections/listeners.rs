//! Listeners: public API, operators' webhooks, header enrichment and metrics.

use std::{net::SocketAddr, time::Duration};

use ipnet::IpNet;
use ringtrue_domain::region::Region;

use super::{
    super::{
        BaseUrl, ConfigError,
        settings::Settings,
        value_type::{self, Bool, DurationRange, Integer, MaskedUrl, Optional, Text, text},
    },
    TlsFiles, ip_networks,
};

/// The public listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpSection {
    pub listen: SocketAddr,
    /// `None`: plain HTTP.
    pub tls: Option<TlsFiles>,
    /// Proxies whose client address information is trusted.
    pub trusted_proxies: Vec<IpNet>,
    /// The proxies use the PROXY protocol.
    pub proxy_protocol: bool,
    pub max_connections: usize,
    pub max_connections_per_address: usize,
    /// Per trusted proxy address.
    pub max_connections_per_proxy: usize,
    pub header_timeout: Duration,
    pub body_timeout: Duration,
    pub request_timeout: Duration,
    pub idle_timeout: Duration,
    pub write_timeout: Duration,
    pub shutdown_grace: Duration,
}

/// The listener for operators' webhooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngressSection {
    pub listen: SocketAddr,
    /// `None`: plain HTTP.
    pub tls: Option<TlsFiles>,
    /// Proxies whose client address information is trusted.
    pub trusted_proxies: Vec<IpNet>,
    /// The proxies use the PROXY protocol.
    pub proxy_protocol: bool,
}

/// Listener for devices whose operator adds a header to their requests. Plain HTTP, since TLS prevents that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderEnrichmentSection {
    pub listen: SocketAddr,
    /// URL for devices. `None`: the bound address, which is then a loopback address.
    pub public_url: Option<BaseUrl>,
    /// Proxies whose client address information is trusted. The address of a device decides whether its header is
    /// trusted.
    pub trusted_proxies: Vec<IpNet>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsSection {
    /// `None`: no metrics are served.
    pub listen: Option<SocketAddr>,
}

pub(super) fn read_http(settings: &Settings) -> Result<HttpSection, ConfigError> {
    const MIN_TIMEOUT: Duration = Duration::from_millis(100);
    const TEN_MINUTES: Duration = Duration::from_mins(10);
    const HOUR: Duration = Duration::from_hours(1);
    let connections = Integer(1..=1_000_000);
    let timeout = DurationRange(MIN_TIMEOUT..=TEN_MINUTES);
    let trusted_proxies = settings.read("http.trusted_proxies", &ip_networks())?;
    Ok(HttpSection {
        listen: settings.read("http.listen", &socket_address())?,
        tls: read_tls(settings, "http.tls.certificate", "http.tls.key")?,
        proxy_protocol: read_proxy_protocol(settings, "http.proxy_protocol", "http.trusted_proxies", &trusted_proxies)?,
        trusted_proxies,
        max_connections: settings.read("http.max_connections", &connections)?,
        max_connections_per_address: settings.read("http.max_connections_per_address", &connections)?,
        max_connections_per_proxy: settings.read("http.max_connections_per_proxy", &connections)?,
        header_timeout: settings.read("http.header_timeout", &timeout)?,
        body_timeout: settings.read("http.body_timeout", &timeout)?,
        request_timeout: settings.read("http.request_timeout", &timeout)?,
        idle_timeout: settings.read("http.idle_timeout", &DurationRange(MIN_TIMEOUT..=HOUR))?,
        write_timeout: settings.read("http.write_timeout", &timeout)?,
        shutdown_grace: settings.read("http.shutdown_grace", &DurationRange(Duration::ZERO..=HOUR))?,
    })
}

pub(super) fn read_ingress(
    settings: &Settings,
    http: &HttpSection,
    metrics: &MetricsSection,
) -> Result<Option<IngressSection>, ConfigError> {
    let listen = settings.read("ingress.listen", &Optional(socket_address()))?;
    let tls = read_tls(settings, "ingress.tls.certificate", "ingress.tls.key")?;
    let trusted_proxies = settings.read("ingress.trusted_proxies", &ip_networks())?;
    let proxy_protocol =
        read_proxy_protocol(settings, "ingress.proxy_protocol", "ingress.trusted_proxies", &trusted_proxies)?;
    require_distinct_address(settings, "ingress.listen", listen, "http.listen", Some(http.listen))?;
    require_distinct_address(settings, "ingress.listen", listen, "metrics.listen", metrics.listen)?;
    Ok(listen.map(|listen| IngressSection { listen, tls, trusted_proxies, proxy_protocol }))
}

pub(super) fn read_header_enrichment(
    settings: &Settings,
    http: &HttpSection,
    metrics: &MetricsSection,
    ingress: Option<&IngressSection>,
) -> Result<Option<HeaderEnrichmentSection>, ConfigError> {
    const LISTEN: &str = "header_enrichment.listen";
    const URL: &str = "header_enrichment.public_url";
    const ALLOWED: &str = "an http:// URL without a path, such as \"http://he.example.com\"";
    let listen = settings.read(LISTEN, &Optional(socket_address()))?;
    let public_url = settings.read(URL, &Optional(text::<BaseUrl>(ALLOWED)))?;
    let trusted_proxies = settings.read("header_enrichment.trusted_proxies", &ip_networks())?;
    require_distinct_address(settings, LISTEN, listen, "http.listen", Some(http.listen))?;
    require_distinct_address(settings, LISTEN, listen, "metrics.listen", metrics.listen)?;
    require_distinct_address(settings, LISTEN, listen, "ingress.listen", ingress.map(|ingress| ingress.listen))?;
    match (listen, &public_url) {
        // Operators cannot add headers to TLS.
        (_, Some(url)) if url.is_https() => Err(settings.invalid(URL, format!("{:?}", url.as_str()), ALLOWED)),
        (Some(listen), None) if !listen.ip().is_loopback() => {
            let reason = format!("because `{LISTEN}` is {listen}, which is not a loopback address");
            Err(settings.invalid(URL, "nothing", format!("{ALLOWED}, {reason}")))
        }
        _ => Ok(listen.map(|listen| HeaderEnrichmentSection { listen, public_url, trusted_proxies })),
    }
}

pub(super) fn read_metrics(settings: &Settings, http: &HttpSection) -> Result<MetricsSection, ConfigError> {
    let listen = settings.read("metrics.listen", &Optional(socket_address()))?;
    require_distinct_address(settings, "metrics.listen", listen, "http.listen", Some(http.listen))?;
    Ok(MetricsSection { listen })
}

/// Rejects the PROXY protocol without trusted proxies, where it would silently have no effect.
fn read_proxy_protocol(
    settings: &Settings,
    key: &'static str,
    proxies_key: &str,
    proxies: &[IpNet],
) -> Result<bool, ConfigError> {
    let is_on = settings.read(key, &Bool)?;
    if is_on && proxies.is_empty() {
        let allowed = format!("false, because `{proxies_key}` is empty and only its proxies may send the header");
        return Err(settings.invalid(key, "true", allowed));
    }
    Ok(is_on)
}

fn require_distinct_address(
    settings: &Settings,
    key: &'static str,
    listen: Option<SocketAddr>,
    other_key: &str,
    other: Option<SocketAddr>,
) -> Result<(), ConfigError> {
    match listen {
        Some(address) if other == listen && address.port() != 0 => {
            let allowed = format!("an address other than `{other_key}`, or \"off\"");
            Err(settings.invalid(key, format!("\"{address}\""), allowed))
        }
        _ => Ok(()),
    }
}

fn read_tls(
    settings: &Settings,
    certificate_key: &'static str,
    key_key: &'static str,
) -> Result<Option<TlsFiles>, ConfigError> {
    let certificate = settings.read(certificate_key, &Optional(value_type::file_path()))?;
    let key = settings.read(key_key, &Optional(value_type::file_path()))?;
    let missing = |missing, set| {
        let allowed = format!("a path to a file, because `{set}` is set");
        Err(settings.invalid(missing, "nothing", allowed))
    };
    match (certificate, key) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => Ok(Some(TlsFiles { certificate, key })),
        (Some(_), None) => missing(key_key, certificate_key),
        (None, Some(_)) => missing(certificate_key, key_key),
    }
}

/// Checks the base URL against the listener and the region.
pub(super) fn read_base_url(
    settings: &Settings,
    region: Region,
    http: &HttpSection,
) -> Result<Option<BaseUrl>, ConfigError> {
    const ALLOWED: &str = "a scheme and a host, such as \"https://eu.verify.example.com\", without a path or trailing \
                           slash";
    let allows_plain_http = settings.read("allow_plain_http", &Bool)?;
    let Some(url) = settings.read("base_url", &Optional(MaskedUrl(text::<BaseUrl>(ALLOWED))))? else {
        if http.listen.ip().is_loopback() {
            return Ok(None);
        }
        let reason = format!("because `http.listen` is {}, which is not a loopback address", http.listen);
        return Err(settings.invalid("base_url", "nothing", format!("{ALLOWED}, {reason}")));
    };
    let violation = match Region::from_host(&url.host()) {
        Some(other) if other != region => {
            Some(format!("a host that does not begin with \"{other}.\", because `region` is \"{region}\""))
        }
        _ if http.tls.is_some() && !url.is_https() => Some("an https:// URL, because `http.tls` is set".to_owned()),
        _ if !url.is_https() && !url.is_loopback() && !allows_plain_http => {
            Some("an https:// URL, because its host is not this machine; or set `allow_plain_http`".to_owned())
        }
        _ => None,
    };
    match violation {
        Some(allowed) => Err(settings.invalid("base_url", format!("{:?}", url.as_str()), allowed)),
        None => Ok(Some(url)),
    }
}

fn socket_address() -> Text<SocketAddr> {
    text("an IP address and a port, such as \"127.0.0.1:8080\" or \"[::]:8443\"")
}
