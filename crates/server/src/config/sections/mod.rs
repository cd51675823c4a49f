//! Typed sections of the configuration.

mod callbacks;
mod listeners;
mod sandbox;

use std::{ops::RangeInclusive, path::PathBuf, time::Duration};

use ipnet::IpNet;
use jiff::SignedDuration;
use ringtrue_domain::{region::Region, reverse_sms::NumberLimit};
use ringtrue_engine::{management::TenantLimits, rate_limit::DefaultRateLimits};
use ringtrue_store::{InvalidStoreUrl, StoreOptions, StoreUrl};
use url::Url;

pub use self::{
    callbacks::CallbacksSection,
    listeners::{HeaderEnrichmentSection, HttpSection, IngressSection, MetricsSection},
    sandbox::SandboxSection,
};
use super::{
    Config, ConfigError, Environment, LogFilter, Origin, connectors,
    environment::LOG_VARIABLE,
    ip_routing, networks, number_lookup, private_file,
    settings::Settings,
    value::Value,
    value_type::{self, DurationRange, Integer, ListOf, MaskedUrl, OneOf, Optional, Text, ValueType, text},
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
    /// File in which a node records the database generation. `None`: next to a SQLite database.
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
    pub requests: RequestLogLevel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Json,
    Pretty,
}

/// Requests to write to the application log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestLogLevel {
    Off,
    /// Responses with status 5xx.
    Errors,
    All,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TelemetrySection {
    /// Trace collector. `None`: no traces.
    pub otlp_endpoint: Option<Url>,
    pub service_name: String,
}

const REGIONS: OneOf<Region> = OneOf(&[("eu", Region::Eu), ("us", Region::Us)]);
const LOG_FORMATS: OneOf<LogFormat> = OneOf(&[("json", LogFormat::Json), ("pretty", LogFormat::Pretty)]);
const REQUEST_LOG_LEVELS: OneOf<RequestLogLevel> =
    OneOf(&[("off", RequestLogLevel::Off), ("errors", RequestLogLevel::Errors), ("all", RequestLogLevel::All)]);
const LOG_LEVEL_ALLOWED: &str = "\"off\", \"error\", \"warn\", \"info\", \"debug\" or \"trace\", or per module, as in \
                     \"info,ringtrue_store=debug\"";

pub(super) fn read(settings: &Settings, environment: &Environment) -> Result<Config, ConfigError> {
    let region = settings.read("region", &REGIONS)?;
    let http = listeners::read_http(settings)?;
    let metrics = listeners::read_metrics(settings, &http)?;
    let ingress = listeners::read_ingress(settings, &http, &metrics)?;
    let header_enrichment = listeners::read_header_enrichment(settings, &http, &metrics, ingress.as_ref())?;
    let connectors = connectors::read(settings, environment, ingress.as_ref(), header_enrichment.as_ref())?;
    let networks = networks::read(settings, &connectors)?;
    Ok(Config {
        region,
        base_url: listeners::read_base_url(settings, region, &http)?,
        store: StoreSection {
            url: read_store_url(settings)?,
            state_file: settings.read("store.state_file", &Optional(value_type::file_path()))?,
            options: StoreOptions {
                connections: settings.read("store.connections", &Integer(1..=1_000))?,
                readers: settings.read("store.readers", &Integer(1..=100))?,
                searches: settings.read("store.searches", &Integer(1..=100))?,
                search_timeout: settings.read(
                    "store.search_timeout",
                    &DurationRange(Duration::from_millis(100)..=Duration::from_secs(15)),
                )?,
            },
        },
        keys: KeysSection {
            master_key_file: settings.read("keys.master_key_file", &Optional(value_type::file_path()))?,
        },
        rate_limits: read_rate_limits(settings)?,
        number_guard: read_number_guard(settings)?,
        tenant_limits: TenantLimits {
            projects_per_workspace: settings.read("tenants.projects_per_workspace", &Integer(1..=1_000_000))?,
            credentials_per_owner: settings.read("tenants.credentials_per_owner", &Integer(2..=1_000_000))?,
        },
        callbacks: callbacks::read_callbacks(settings)?,
        courier: callbacks::read_courier_limits(settings)?,
        retention: read_retention(settings, "retention.numbers", 1..=365 * 24)?,
        discovery_retention: read_retention(settings, "retention.discovered_numbers", 1..=365 * 24)?,
        audit_retention: read_retention(settings, "retention.audit_events", 24..=3650 * 24)?,
        keep_requests: read_request_retention(settings)?,
        max_members: settings.read("console.max_members", &Integer(1..=100_000))?,
        sandbox: sandbox::read(settings)?,
        number_lookup: number_lookup::read(settings, environment, &networks)?,
        networks,
        ip_routing: ip_routing::read(settings)?,
        connectors,
        log: read_log(settings, environment)?,
        telemetry: TelemetrySection {
            otlp_endpoint: settings.read("telemetry.otlp_endpoint", &Optional(otlp_endpoint()))?,
            service_name: settings.read("telemetry.service_name", &service_name())?,
        },
        header_enrichment,
        metrics,
        ingress,
        http,
    })
}

/// Adds the password from `store.password_file`, if set.
fn read_store_url(settings: &Settings) -> Result<StoreUrl, ConfigError> {
    const KEY: &str = "store.password_file";
    let url = settings.read("store.url", &StoreUrlType)?;
    let Some(path) = settings.read(KEY, &Optional(value_type::file_path()))? else { return Ok(url) };
    let password = private_file::read(&path).map_err(|error| {
        let found = format!("\"{}\", which {error}", path.display());
        settings.invalid(KEY, found, "a path to a file readable by its owner only")
    })?;
    // Editors and `echo` append a newline.
    url.with_password(password.trim_end_matches(['\r', '\n']))
        .ok_or_else(|| settings.invalid(KEY, "a path, while `store.url` names a file", "nothing, for SQLite"))
}

fn read_rate_limits(settings: &Settings) -> Result<DefaultRateLimits, ConfigError> {
    let limit = Integer(1..=1_000_000);
    Ok(DefaultRateLimits {
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

fn read_number_guard(settings: &Settings) -> Result<NumberLimit, ConfigError> {
    let window = DurationRange(Duration::from_secs(1)..=Duration::from_hours(24));
    let window = settings.read("rate_limits.creates_per_number_window", &window)?;
    Ok(NumberLimit {
        max_checks: settings.read("rate_limits.creates_per_number", &Integer(1..=1_000_000))?,
        window_seconds: u32::try_from(window.as_secs()).unwrap_or(u32::MAX),
    })
}

fn read_retention(
    settings: &Settings,
    key: &'static str,
    hours: RangeInclusive<u64>,
) -> Result<SignedDuration, ConfigError> {
    let kept = settings
        .read(key, &DurationRange(Duration::from_hours(*hours.start())..=Duration::from_hours(*hours.end())))?;
    Ok(SignedDuration::try_from(kept).unwrap_or(SignedDuration::MAX))
}

fn read_request_retention(settings: &Settings) -> Result<Option<SignedDuration>, ConfigError> {
    const DAY: Duration = Duration::from_hours(24);
    let kept = settings.read("requests.keep", &Optional(DurationRange(Duration::from_mins(1)..=30 * DAY)))?;
    Ok(kept.map(|kept| SignedDuration::try_from(kept).unwrap_or(SignedDuration::MAX)))
}

fn read_log(settings: &Settings, environment: &Environment) -> Result<LogSection, ConfigError> {
    let level = settings.read("log.level", &text(LOG_LEVEL_ALLOWED))?;
    let override_text = environment.var(LOG_VARIABLE)?.filter(|text| !text.is_empty());
    let override_text = override_text.map(|text| {
        text.parse().map_err(|_| ConfigError::Invalid {
            key: "log.level".to_owned(),
            origin: Origin::Variable(LOG_VARIABLE.to_owned()),
            found: format!("{text:?}"),
            allowed: LOG_LEVEL_ALLOWED.to_owned(),
        })
    });
    Ok(LogSection {
        format: settings.read("log.format", &LOG_FORMATS)?,
        level: override_text.transpose()?.unwrap_or(level),
        requests: settings.read("log.requests", &REQUEST_LOG_LEVELS)?,
    })
}

pub(super) fn ip_networks() -> ListOf<Text<IpNet>> {
    ListOf(text("an IP network, such as \"10.0.0.0/8\" or \"2001:db8::/32\""))
}

/// Uses the error of [`StoreUrl`] as the description of allowed values.
struct StoreUrlType;

impl ValueType for StoreUrlType {
    type Output = StoreUrl;

    fn allowed(&self) -> String {
        InvalidStoreUrl::Scheme.to_string()
    }

    fn parse(&self, value: &Value) -> Option<StoreUrl> {
        if let Value::Text(text) = value { text.parse().ok() } else { None }
    }

    fn allowed_for(&self, found: &Value) -> String {
        match found {
            Value::Text(text) => text.parse::<StoreUrl>().err().unwrap_or(InvalidStoreUrl::Scheme).to_string(),
            _ => self.allowed(),
        }
    }

    fn display(&self, value: &Value) -> String {
        value_type::mask_value(value)
    }
}

fn otlp_endpoint() -> impl ValueType<Output = Url> {
    let allowed = if cfg!(feature = "otlp") {
        "the http:// URL of a collector, such as \"http://127.0.0.1:4318\", without user name, password or query"
    } else {
        "nothing, because this binary was built without the feature `otlp`"
    };
    MaskedUrl(Text {
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
        allowed: "1 to 100 characters without control characters",
        parse: |text| {
            let is_valid = (1..=100).contains(&text.chars().count()) && !text.chars().any(char::is_control);
            is_valid.then(|| text.to_owned())
        },
    }
}
