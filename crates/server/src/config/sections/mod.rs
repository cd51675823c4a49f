//! The sections of a configuration, as types, and how they are read.

mod callbacks;
mod listeners;
mod sandbox;

use std::{ops::RangeInclusive, path::PathBuf, time::Duration};

use ipnet::IpNet;
use jiff::SignedDuration;
use ringtrue_domain::{region::Region, reverse_sms::NumberGuard};
use ringtrue_engine::{management::TenantLimits, rate_limit::Limits};
use ringtrue_store::{InvalidStoreUrl, StoreOptions, StoreUrl};
use url::Url;

pub use self::{
    callbacks::CallbacksSection,
    listeners::{HeaderEnrichment, Http, Ingress, MetricsSection},
    sandbox::SandboxSection,
};
use super::{
    Config, ConfigError, Environment, LogFilter, Origin, connectors,
    environment::LOG,
    ip_routing,
    kind::{self, Kind, ListOf, Masked, OrNone, Span, Text, Whole, Word, text},
    networks, number_lookup, private_file,
    settings::Settings,
    value::Value,
};

/// A certificate chain and its private key, as PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

#[derive(Clone, Debug)]
pub struct StoreSection {
    pub url: StoreUrl,
    pub options: StoreOptions,
    /// Where a node remembers how far the database had come. `None`: beside the file of a SQLite database.
    pub state_file: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeysSection {
    pub master_key_file: Option<PathBuf>,
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
    let http = listeners::http(settings)?;
    let metrics = listeners::metrics(settings, &http)?;
    let ingress = listeners::ingress(settings, &http, &metrics)?;
    let header_enrichment = listeners::header_enrichment(settings, &http, &metrics, ingress.as_ref())?;
    let connectors = connectors::read(settings, environment, ingress.as_ref(), header_enrichment.as_ref())?;
    let networks = networks::read(settings, &connectors)?;
    Ok(Config {
        region,
        base_url: listeners::base_url(settings, region, &http)?,
        store: StoreSection {
            url: store_url(settings)?,
            state_file: settings.read("store.state_file", &OrNone(kind::path()))?,
            options: StoreOptions {
                connections: settings.read("store.connections", &Whole(1..=1_000))?,
                readers: settings.read("store.readers", &Whole(1..=100))?,
                searches: settings.read("store.searches", &Whole(1..=100))?,
                search_timeout: settings
                    .read("store.search_timeout", &Span(Duration::from_millis(100)..=Duration::from_secs(15)))?,
            },
        },
        keys: KeysSection { master_key_file: settings.read("keys.master_key_file", &OrNone(kind::path()))? },
        rate_limits: rate_limits(settings)?,
        number_guard: number_guard(settings)?,
        tenant_limits: TenantLimits {
            projects_per_workspace: settings.read("tenants.projects_per_workspace", &Whole(1..=1_000_000))?,
            credentials_per_owner: settings.read("tenants.credentials_per_owner", &Whole(2..=1_000_000))?,
        },
        callbacks: callbacks::callbacks(settings)?,
        courier: callbacks::courier(settings)?,
        retention: retention(settings, "retention.numbers", 1..=365 * 24)?,
        discovery_retention: retention(settings, "retention.discovered_numbers", 1..=365 * 24)?,
        audit_retention: retention(settings, "retention.audit_events", 24..=3650 * 24)?,
        keep_requests: keep_requests(settings)?,
        max_members: settings.read("console.max_members", &Whole(1..=100_000))?,
        sandbox: sandbox::read(settings)?,
        number_lookup: number_lookup::read(settings, environment, &networks)?,
        networks,
        ip_routing: ip_routing::read(settings)?,
        connectors,
        log: log(settings, environment)?,
        telemetry: TelemetrySection {
            otlp_endpoint: settings.read("telemetry.otlp_endpoint", &OrNone(collector()))?,
            service_name: settings.read("telemetry.service_name", &service_name())?,
        },
        header_enrichment,
        metrics,
        ingress,
        http,
    })
}

/// With the password from its own file, if one is named.
fn store_url(settings: &Settings) -> Result<StoreUrl, ConfigError> {
    const KEY: &str = "store.password_file";
    let url = settings.read("store.url", &StoreAddress)?;
    let Some(path) = settings.read(KEY, &OrNone(kind::path()))? else { return Ok(url) };
    let password = private_file::read(&path).map_err(|problem| {
        let found = format!("\"{}\", which {problem}", path.display());
        settings.invalid(KEY, found, "a path to a file that its owner alone can read")
    })?;
    // Editors and `echo` end a file with a new line.
    url.with_password(password.trim_end_matches(['\r', '\n']))
        .ok_or_else(|| settings.invalid(KEY, "a path, while `store.url` names a file", "nothing, for SQLite"))
}

fn rate_limits(settings: &Settings) -> Result<Limits, ConfigError> {
    let limit = Whole(1..=1_000_000);
    Ok(Limits {
        create: settings.read("rate_limits.create", &limit)?,
        read: settings.read("rate_limits.read", &limit)?,
        eligibility: settings.read("rate_limits.eligibility", &limit)?,
        management: settings.read("rate_limits.management", &limit)?,
        token: settings.read("rate_limits.token", &limit)?,
        device: settings.read("rate_limits.device", &limit)?,
        device_visits: settings.read("rate_limits.device_visits", &limit)?,
        token_per_workspace: settings.read("rate_limits.token_per_workspace", &limit)?,
        console: settings.read("rate_limits.console", &limit)?,
        failed_logins: settings.read("rate_limits.failed_logins", &limit)?,
    })
}

fn number_guard(settings: &Settings) -> Result<NumberGuard, ConfigError> {
    let window = Span(Duration::from_secs(1)..=Duration::from_hours(24));
    let window = settings.read("rate_limits.creates_per_number_window", &window)?;
    Ok(NumberGuard {
        creates: settings.read("rate_limits.creates_per_number", &Whole(1..=1_000_000))?,
        within_seconds: u32::try_from(window.as_secs()).unwrap_or(u32::MAX),
    })
}

fn retention(
    settings: &Settings,
    key: &'static str,
    hours: RangeInclusive<u64>,
) -> Result<SignedDuration, ConfigError> {
    let kept = settings.read(key, &Span(Duration::from_hours(*hours.start())..=Duration::from_hours(*hours.end())))?;
    Ok(SignedDuration::try_from(kept).unwrap_or(SignedDuration::MAX))
}

fn keep_requests(settings: &Settings) -> Result<Option<SignedDuration>, ConfigError> {
    const DAY: Duration = Duration::from_hours(24);
    let kept = settings.read("requests.keep", &OrNone(Span(Duration::from_mins(1)..=30 * DAY)))?;
    Ok(kept.map(|kept| SignedDuration::try_from(kept).unwrap_or(SignedDuration::MAX)))
}

fn log(settings: &Settings, environment: &Environment) -> Result<LogSection, ConfigError> {
    let level = settings.read("log.level", &text(LEVEL))?;
    let own = environment.text(LOG)?.filter(|text| !text.is_empty());
    let own = own.map(|text| {
        text.parse().map_err(|_| ConfigError::Invalid {
            key: "log.level".to_owned(),
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

pub(super) fn ip_networks() -> ListOf<Text<IpNet>> {
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
