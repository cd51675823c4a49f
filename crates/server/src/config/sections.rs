//! The sections of a configuration, as types, and how they are read.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use ipnet::IpNet;
use ringtrue_domain::{
    region::Region,
    web_url::{AddressPolicy, UrlPolicy},
};
use ringtrue_engine::rate_limit::Limits;
use ringtrue_store::{InvalidStoreUrl, StoreOptions, StoreUrl};
use url::Url;

use super::{
    BaseUrl, Config, ConfigError, Environment, LogFilter, Origin,
    environment::LOG,
    kind::{self, Flag, Kind, ListOf, Masked, OrNone, Span, Text, Whole, Word, text},
    settings::Settings,
    value::Value,
};

/// The public listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http {
    pub listen: SocketAddr,
    /// `None`: plain HTTP.
    pub tls: Option<TlsFiles>,
    /// Proxies that are believed when they say whom they speak for.
    pub trusted_proxies: Vec<IpNet>,
    pub max_connections: usize,
    pub max_connections_per_address: usize,
    pub header_timeout: Duration,
    pub body_timeout: Duration,
    pub request_timeout: Duration,
    pub idle_timeout: Duration,
    pub write_timeout: Duration,
    pub shutdown_grace: Duration,
}

/// A certificate chain and its private key, as PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsSection {
    /// `None`: no metrics are served.
    pub listen: Option<SocketAddr>,
}

#[derive(Clone, Debug)]
pub struct StoreSection {
    pub url: StoreUrl,
    pub options: StoreOptions,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeysSection {
    pub master_key_file: Option<PathBuf>,
}

/// Where callbacks may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbacksSection {
    pub allow_http: bool,
    pub allowed_addresses: Vec<IpNet>,
    pub allowed_hosts: Vec<String>,
}

impl CallbacksSection {
    /// The rule that URLs of callers are held to. Which hosts are our own is known once we listen.
    pub fn policy(&self, own_hosts: Vec<String>) -> UrlPolicy {
        UrlPolicy {
            allow_http: self.allow_http,
            addresses: AddressPolicy {
                allow: self.allowed_addresses.clone(),
                allow_hosts: self.allowed_hosts.clone(),
                own_hosts,
            },
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct LogSection {
    pub format: LogFormat,
    pub level: LogFilter,
    pub requests: RequestLog,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Json,
    Pretty,
}

/// Which requests leave a line in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestLog {
    Off,
    /// Those that were answered with a 5xx.
    Errors,
    All,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TelemetrySection {
    /// A collector of traces. `None`: none are made.
    pub otlp_endpoint: Option<Url>,
    pub service_name: String,
}

const REGIONS: Word<Region> = Word(&[("eu", Region::Eu), ("us", Region::Us)]);
const FORMATS: Word<LogFormat> = Word(&[("json", LogFormat::Json), ("pretty", LogFormat::Pretty)]);
const REQUESTS: Word<RequestLog> =
    Word(&[("off", RequestLog::Off), ("errors", RequestLog::Errors), ("all", RequestLog::All)]);
const LEVEL: &str = "\"off\", \"error\", \"warn\", \"info\", \"debug\" or \"trace\", also by module as in \
                     \"info,ringtrue_store=debug\"";

pub(super) fn read(settings: &Settings, environment: &Environment) -> Result<Config, ConfigError> {
    let region = settings.read("region", &REGIONS)?;
    let http = http(settings)?;
    Ok(Config {
        region,
        base_url: base_url(settings, region, &http)?,
        metrics: metrics(settings, &http)?,
        store: StoreSection {
            url: settings.read("store.url", &StoreAddress)?,
            options: StoreOptions {
                connections: settings.read("store.connections", &Whole(1..=1_000))?,
                readers: settings.read("store.readers", &Whole(1..=100))?,
            },
        },
        keys: KeysSection { master_key_file: settings.read("keys.master_key_file", &OrNone(kind::path()))? },
        rate_limits: rate_limits(settings)?,
        callbacks: CallbacksSection {
            allow_http: settings.read("callbacks.allow_http", &Flag)?,
            allowed_addresses: settings.read("callbacks.allowed_addresses", &networks())?,
            allowed_hosts: settings.read("callbacks.allowed_hosts", &ListOf(host_name()))?,
        },
        log: log(settings, environment)?,
        telemetry: TelemetrySection {
            otlp_endpoint: settings.read("telemetry.otlp_endpoint", &OrNone(collector()))?,
            service_name: settings.read("telemetry.service_name", &service_name())?,
        },
        http,
    })
}

fn http(settings: &Settings) -> Result<Http, ConfigError> {
    const TENTH: Duration = Duration::from_millis(100);
    const TEN_MINUTES: Duration = Duration::from_mins(10);
    const HOUR: Duration = Duration::from_hours(1);
    let connections = Whole(1..=1_000_000);
    let timeout = Span(TENTH..=TEN_MINUTES);
    Ok(Http {
        listen: settings.read("http.listen", &address())?,
        tls: tls(settings)?,
        trusted_proxies: settings.read("http.trusted_proxies", &networks())?,
        max_connections: settings.read("http.max_connections", &connections)?,
        max_connections_per_address: settings.read("http.max_connections_per_address", &connections)?,
        header_timeout: settings.read("http.header_timeout", &timeout)?,
        body_timeout: settings.read("http.body_timeout", &timeout)?,
        request_timeout: settings.read("http.request_timeout", &timeout)?,
        idle_timeout: settings.read("http.idle_timeout", &Span(TENTH..=HOUR))?,
        write_timeout: settings.read("http.write_timeout", &timeout)?,
        shutdown_grace: settings.read("http.shutdown_grace", &Span(Duration::ZERO..=HOUR))?,
    })
}

fn tls(settings: &Settings) -> Result<Option<TlsFiles>, ConfigError> {
    let certificate = settings.read("http.tls.certificate", &OrNone(kind::path()))?;
    let key = settings.read("http.tls.key", &OrNone(kind::path()))?;
    match (certificate, key) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => Ok(Some(TlsFiles { certificate, key })),
        (Some(_), None) => {
            Err(settings.invalid("http.tls.key", "nothing", "a path to a file, because `http.tls.certificate` is set"))
        }
        (None, Some(_)) => {
            let allowed = "a path to a file, because `http.tls.key` is set";
            Err(settings.invalid("http.tls.certificate", "nothing", allowed))
        }
    }
}

/// Where callers reach us must fit how we listen, and the region.
fn base_url(settings: &Settings, region: Region, http: &Http) -> Result<Option<BaseUrl>, ConfigError> {
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

fn metrics(settings: &Settings, http: &Http) -> Result<MetricsSection, ConfigError> {
    let listen = settings.read("metrics.listen", &OrNone(address()))?;
    if listen.is_some_and(|address| address == http.listen && address.port() != 0) {
        let allowed = "another address than that of `http.listen`, or \"off\"";
        return Err(settings.invalid("metrics.listen", format!("\"{}\"", http.listen), allowed));
    }
    Ok(MetricsSection { listen })
}

fn rate_limits(settings: &Settings) -> Result<Limits, ConfigError> {
    let limit = Whole(1..=1_000_000);
    Ok(Limits {
        create: settings.read("rate_limits.create", &limit)?,
        read: settings.read("rate_limits.read", &limit)?,
        eligibility: settings.read("rate_limits.eligibility", &limit)?,
        management: settings.read("rate_limits.management", &limit)?,
        token: settings.read("rate_limits.token", &limit)?,
        failed_logins: settings.read("rate_limits.failed_logins", &limit)?,
    })
}

fn log(settings: &Settings, environment: &Environment) -> Result<LogSection, ConfigError> {
    let level = settings.read("log.level", &text(LEVEL))?;
    let own = environment.text(LOG)?.filter(|text| !text.is_empty());
    let own = own.map(|text| {
        text.parse().map_err(|_| ConfigError::Invalid {
            key: "log.level",
            origin: Origin::Variable(LOG.to_owned()),
            found: format!("{text:?}"),
            allowed: LEVEL.to_owned(),
        })
    });
    Ok(LogSection {
        format: settings.read("log.format", &FORMATS)?,
        level: own.transpose()?.unwrap_or(level),
        requests: settings.read("log.requests", &REQUESTS)?,
    })
}

fn address() -> Text<SocketAddr> {
    text("an IP address and a port, such as \"127.0.0.1:8080\" or \"[::]:8443\"")
}

fn networks() -> ListOf<Text<IpNet>> {
    ListOf(text("a network, such as \"10.0.0.0/8\" or \"2001:db8::/32\""))
}

/// Where the database is. What is wrong with it, its own type says best.
struct StoreAddress;

impl Kind for StoreAddress {
    type Output = StoreUrl;

    fn allowed(&self) -> String {
        InvalidStoreUrl::Scheme.to_string()
    }

    fn read(&self, value: &Value) -> Option<StoreUrl> {
        if let Value::Text(text) = value { text.parse().ok() } else { None }
    }

    fn allowed_instead(&self, found: &Value) -> String {
        match found {
            Value::Text(text) => text.parse::<StoreUrl>().err().unwrap_or(InvalidStoreUrl::Scheme).to_string(),
            _ => self.allowed(),
        }
    }

    fn show(&self, value: &Value) -> String {
        kind::shown(value)
    }
}

/// A name in lower case and punycode, as the URLs of callers are compared with it.
fn host_name() -> Text<String> {
    Text {
        allowed: "a host name without scheme and port, such as \"hooks.internal\"",
        parse: |text| match url::Host::parse(text) {
            Ok(url::Host::Domain(name)) if !text.is_empty() && !name.ends_with('.') => Some(name),
            _ => None,
        },
    }
}

fn collector() -> impl Kind<Output = Url> {
    let allowed = if cfg!(feature = "otlp") {
        "the http:// URL of a collector, such as \"http://127.0.0.1:4318\", without user name, password and query"
    } else {
        "nothing, because this binary was built without the feature `otlp`"
    };
    Masked(Text {
        allowed,
        parse: |text| {
            let url = Url::parse(text).ok()?;
            let is_plain = url.scheme() == "http"
                && url.username().is_empty()
                && url.password().is_none()
                && url.query().is_none()
                && url.fragment().is_none();
            (cfg!(feature = "otlp") && is_plain).then_some(url)
        },
    })
}

fn service_name() -> Text<String> {
    Text {
        allowed: "1 to 100 characters, none of them a control character",
        parse: |text| {
            let is_right = (1..=100).contains(&text.chars().count()) && !text.chars().any(char::is_control);
            is_right.then(|| text.to_owned())
        },
    }
}
