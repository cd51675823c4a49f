//! Where we listen: for callers, for operators, and for Prometheus.

use std::{net::SocketAddr, time::Duration};

use ipnet::IpNet;
use ringtrue_domain::region::Region;

use super::{
    super::{
        BaseUrl, ConfigError,
        kind::{self, Flag, Masked, OrNone, Span, Text, Whole, text},
        settings::Settings,
    },
    TlsFiles, ip_networks,
};

/// The public listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http {
    pub listen: SocketAddr,
    /// `None`: plain HTTP.
    pub tls: Option<TlsFiles>,
    /// Proxies that are believed when they say whom they speak for.
    pub trusted_proxies: Vec<IpNet>,
    /// Whether these proxies say it by the PROXY protocol.
    pub proxy_protocol: bool,
    pub max_connections: usize,
    pub max_connections_per_address: usize,
    /// For each address of a trusted proxy.
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
pub struct Ingress {
    pub listen: SocketAddr,
    /// `None`: plain HTTP.
    pub tls: Option<TlsFiles>,
    /// Proxies that are believed when they say whom they speak for.
    pub trusted_proxies: Vec<IpNet>,
    /// Whether these proxies say it by the PROXY protocol.
    pub proxy_protocol: bool,
}

/// The listener for devices whose operator adds a header to what they ask. Plain HTTP: nobody can add one to TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderEnrichment {
    pub listen: SocketAddr,
    /// Where devices reach it. Not set: at the address that is bound, which is then a loopback one.
    pub public_url: Option<BaseUrl>,
    /// Proxies that are believed when they say whom they speak for: where a device comes from decides whether the header
    /// is believed.
    pub trusted_proxies: Vec<IpNet>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsSection {
    /// `None`: no metrics are served.
    pub listen: Option<SocketAddr>,
}

pub(super) fn http(settings: &Settings) -> Result<Http, ConfigError> {
    const TENTH: Duration = Duration::from_millis(100);
    const TEN_MINUTES: Duration = Duration::from_mins(10);
    const HOUR: Duration = Duration::from_hours(1);
    let connections = Whole(1..=1_000_000);
    let timeout = Span(TENTH..=TEN_MINUTES);
    let trusted_proxies = settings.read("http.trusted_proxies", &ip_networks())?;
    Ok(Http {
        listen: settings.read("http.listen", &address())?,
        tls: tls(settings, "http.tls.certificate", "http.tls.key")?,
        proxy_protocol: proxy_protocol(settings, "http.proxy_protocol", "http.trusted_proxies", &trusted_proxies)?,
        trusted_proxies,
        max_connections: settings.read("http.max_connections", &connections)?,
        max_connections_per_address: settings.read("http.max_connections_per_address", &connections)?,
        max_connections_per_proxy: settings.read("http.max_connections_per_proxy", &connections)?,
        header_timeout: settings.read("http.header_timeout", &timeout)?,
        body_timeout: settings.read("http.body_timeout", &timeout)?,
        request_timeout: settings.read("http.request_timeout", &timeout)?,
        idle_timeout: settings.read("http.idle_timeout", &Span(TENTH..=HOUR))?,
        write_timeout: settings.read("http.write_timeout", &timeout)?,
        shutdown_grace: settings.read("http.shutdown_grace", &Span(Duration::ZERO..=HOUR))?,
    })
}

pub(super) fn ingress(
    settings: &Settings,
    http: &Http,
    metrics: &MetricsSection,
) -> Result<Option<Ingress>, ConfigError> {
    let listen = settings.read("ingress.listen", &OrNone(address()))?;
    let tls = tls(settings, "ingress.tls.certificate", "ingress.tls.key")?;
    let trusted_proxies = settings.read("ingress.trusted_proxies", &ip_networks())?;
    let proxy_protocol =
        proxy_protocol(settings, "ingress.proxy_protocol", "ingress.trusted_proxies", &trusted_proxies)?;
    apart(settings, "ingress.listen", listen, "http.listen", Some(http.listen))?;
    apart(settings, "ingress.listen", listen, "metrics.listen", metrics.listen)?;
    Ok(listen.map(|listen| Ingress { listen, tls, trusted_proxies, proxy_protocol }))
}

pub(super) fn header_enrichment(
    settings: &Settings,
    http: &Http,
    metrics: &MetricsSection,
    ingress: Option<&Ingress>,
) -> Result<Option<HeaderEnrichment>, ConfigError> {
    const LISTEN: &str = "header_enrichment.listen";
    const URL: &str = "header_enrichment.public_url";
    const EXAMPLE: &str = "an http:// URL, such as \"http://he.example.com\", with no path and no slash at the end";
    let listen = settings.read(LISTEN, &OrNone(address()))?;
    let public_url = settings.read(URL, &OrNone(text::<BaseUrl>(EXAMPLE)))?;
    let trusted_proxies = settings.read("header_enrichment.trusted_proxies", &ip_networks())?;
    apart(settings, LISTEN, listen, "http.listen", Some(http.listen))?;
    apart(settings, LISTEN, listen, "metrics.listen", metrics.listen)?;
    apart(settings, LISTEN, listen, "ingress.listen", ingress.map(|ingress| ingress.listen))?;
    match (listen, &public_url) {
        // Nobody can add a header to what is encrypted.
        (_, Some(url)) if url.is_https() => Err(settings.invalid(URL, format!("{:?}", url.as_str()), EXAMPLE)),
        (Some(listen), None) if !listen.ip().is_loopback() => {
            let reason = format!("because `{LISTEN}` is {listen}, which is not a loopback address");
            Err(settings.invalid(URL, "nothing", format!("{EXAMPLE}, {reason}")))
        }
        _ => Ok(listen.map(|listen| HeaderEnrichment { listen, public_url, trusted_proxies })),
    }
}

pub(super) fn metrics(settings: &Settings, http: &Http) -> Result<MetricsSection, ConfigError> {
    let listen = settings.read("metrics.listen", &OrNone(address()))?;
    apart(settings, "metrics.listen", listen, "http.listen", Some(http.listen))?;
    Ok(MetricsSection { listen })
}

/// Without proxies that are trusted, nobody would be asked for a header, and whoever switched this on would not know.
fn proxy_protocol(
    settings: &Settings,
    key: &'static str,
    proxies_key: &str,
    proxies: &[IpNet],
) -> Result<bool, ConfigError> {
    let is_on = settings.read(key, &Flag)?;
    if is_on && proxies.is_empty() {
        let allowed = format!("false, because `{proxies_key}` is empty and only those in it are asked for a header");
        return Err(settings.invalid(key, "true", allowed));
    }
    Ok(is_on)
}

/// Two listeners need two addresses.
fn apart(
    settings: &Settings,
    key: &'static str,
    listen: Option<SocketAddr>,
    other_key: &str,
    other: Option<SocketAddr>,
) -> Result<(), ConfigError> {
    match listen {
        Some(address) if other == listen && address.port() != 0 => {
            let allowed = format!("another address than that of `{other_key}`, or \"off\"");
            Err(settings.invalid(key, format!("\"{address}\""), allowed))
        }
        _ => Ok(()),
    }
}

fn tls(
    settings: &Settings,
    certificate_key: &'static str,
    key_key: &'static str,
) -> Result<Option<TlsFiles>, ConfigError> {
    let certificate = settings.read(certificate_key, &OrNone(kind::path()))?;
    let key = settings.read(key_key, &OrNone(kind::path()))?;
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

/// Where callers reach us must fit how we listen, and the region.
pub(super) fn base_url(settings: &Settings, region: Region, http: &Http) -> Result<Option<BaseUrl>, ConfigError> {
    const EXAMPLE: &str = "a scheme and a host, such as \"https://eu.verify.example.com\", with no path and no slash \
                           at the end";
    let plain_is_fine = settings.read("allow_plain_http", &Flag)?;
    let Some(url) = settings.read("base_url", &OrNone(Masked(text::<BaseUrl>(EXAMPLE))))? else {
        if http.listen.ip().is_loopback() {
            return Ok(None);
        }
        let reason = format!("because `http.listen` is {}, which is not a loopback address", http.listen);
        return Err(settings.invalid("base_url", "nothing", format!("{EXAMPLE}, {reason}")));
    };
    let objection = match Region::of_host(&url.host()) {
        Some(other) if other != region => {
            Some(format!("a host that does not begin with \"{other}.\", because `region` is \"{region}\""))
        }
        _ if http.tls.is_some() && !url.is_https() => Some("an https:// URL, because `http.tls` is set".to_owned()),
        _ if !url.is_https() && !url.is_loopback() && !plain_is_fine => {
            Some("an https:// URL, because its host is not this machine; or set `allow_plain_http`".to_owned())
        }
        _ => None,
    };
    match objection {
        Some(allowed) => Err(settings.invalid("base_url", format!("{:?}", url.as_str()), allowed)),
        None => Ok(Some(url)),
    }
}

fn address() -> Text<SocketAddr> {
    text("an IP address and a port, such as \"127.0.0.1:8080\" or \"[::]:8443\"")
}
