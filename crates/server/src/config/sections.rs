//! Sections without user-defined names: database, limits, callbacks, retention, sandbox, logs and traces.

use std::{collections::HashSet, net::SocketAddr, path::PathBuf, time::Duration};

use ipnet::IpNet;
use jiff::SignedDuration;
use ringtrue_domain::{
    region::Region,
    reverse_sms::NumberLimit,
    web_url::{AddressPolicy, Host, UrlPolicy},
};
use ringtrue_engine::{RetentionSettings, courier, rate_limits::DefaultRateLimits, tenants::TenantLimits};
use ringtrue_sandbox::directory::{DirectoryConfig, InvalidSubscriber, Subscriber};
use ringtrue_store::{CitusAccess, InvalidStoreUrl, StoreOptions, StoreUrl};
use ringtrue_web::app::LoggedRequests;
use serde::Deserialize;
use toml::Value;
use tracing_subscriber::filter::Targets;
use url::Url;
use zeroize::Zeroizing;

use super::{
    Config, ConfigError, Origin, connectors,
    document::{ConfigDocument, SecretParser, Section},
    environment::LOG_VARIABLE,
    listeners, networks, number_lookup, openid_connect,
    value_parser::{
        DAY, HOUR, MILLISECOND, MINUTE, SECOND, ValueParser, boolean, display_name, duration, integer, ip_networks,
        keyword, list, optional, path, plain_url, text, value, variant, zero_or,
    },
};

#[derive(Clone, Debug)]
pub struct StoreSection {
    pub url: StoreUrl,
    pub options: StoreOptions,
    pub distribute: Distribute,
    /// File in which a node records the database generation. `None`: a file next to the SQLite database.
    pub state_file: Option<PathBuf>,
}

/// Values of `store.citus`.
const CITUS_ACCESS: [(&str, CitusAccess); 2] =
    [("direct", CitusAccess::Direct), ("coordinator", CitusAccess::Coordinator)];

/// When `ringtrue migrate` distributes tables over a Citus cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribute {
    /// Only if the database is new and belongs to a Citus cluster.
    Auto,
    Never,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeysSection {
    pub master_key_file: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbacksSection {
    pub allow_http: bool,
    pub allowed_addresses: Vec<IpNet>,
    pub allowed_hosts: Vec<String>,
    /// File with additional CA certificates (PEM).
    pub ca_file: Option<PathBuf>,
}

impl CallbacksSection {
    /// Builds the policy for callback and redirect URLs. The parameters are this deployment's own hosts and listeners,
    /// which are known only after binding.
    pub fn url_policy(&self, own_hosts: Vec<Host>, own_listeners: Vec<SocketAddr>) -> UrlPolicy {
        UrlPolicy {
            allow_http: self.allow_http,
            addresses: AddressPolicy {
                allowed_addresses: self.allowed_addresses.clone(),
                allowed_hosts: self.allowed_hosts.clone(),
                own_hosts,
                own_listeners,
            },
        }
    }
}

/// Settings of the simulated operator of sandbox projects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxSection {
    pub enabled: bool,
    /// Simulated number directory. `None`: no listener is configured for it.
    pub directory: Option<DirectoryConfig>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct LogSection {
    pub format: LogFormat,
    pub level: Targets,
    pub requests: LoggedRequests,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    Json,
    Pretty,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TelemetrySection {
    /// URL of the trace collector. `None`: no traces are exported.
    pub otlp_endpoint: Option<Url>,
    pub service_name: String,
}

pub(super) fn read(document: &ConfigDocument<'_>) -> Result<Config, ConfigError> {
    let root = document.root();
    let region = root.get("region", keyword(&[("eu", Region::Eu), ("us", Region::Us)]))?;
    let listeners = listeners::read(document)?;
    let connectors = connectors::read(document, &listeners)?;
    let (networks, ip_routing) = networks::read(document, &connectors)?;
    Ok(Config {
        region,
        base_url: listeners::read_base_url(document, region, &listeners.http)?,
        store: read_store(&document.section("store"))?,
        keys: KeysSection { master_key_file: root.get("keys.master_key_file", optional(path()))? },
        rate_limits: read_rate_limits(&document.section("rate_limits"))?,
        number_limit: read_number_limit(&document.section("number_limit"))?,
        tenant_limits: TenantLimits {
            projects_per_workspace: root.get("tenants.projects_per_workspace", integer(1..=1_000_000))?,
            credentials_per_owner: root.get("tenants.credentials_per_owner", integer(2..=1_000_000))?,
        },
        callbacks: read_callbacks(&document.section("callbacks"))?,
        courier: read_courier_limits(&document.section("callbacks"))?,
        retention: read_retention(&document.section("retention"))?,
        camara_enabled: root.get("camara.enabled", boolean())?,
        max_members: root.get("console.max_members", integer(1..=100_000))?,
        require_second_factor: root.get("console.require_second_factor", boolean())?,
        openid_connect: openid_connect::read(&document.section("console.openid_connect"))?.map(Box::new),
        sandbox: read_sandbox(&document.section("sandbox"))?,
        number_lookup: number_lookup::read(document, &networks)?,
        networks,
        ip_routing,
        connectors,
        log: read_log(document)?,
        telemetry: TelemetrySection {
            otlp_endpoint: root.get("telemetry.otlp_endpoint", optional(otlp_endpoint_parser()))?,
            service_name: root.get("telemetry.service_name", display_name())?,
        },
        header_enrichment: listeners.header_enrichment,
        metrics: listeners.metrics,
        ingress: listeners.ingress,
        http: listeners.http,
    })
}

fn read_retention(section: &Section<'_>) -> Result<RetentionSettings, ConfigError> {
    Ok(RetentionSettings {
        checks: section.get("checks", zero_or(duration(DAY, 3650 * DAY)))?.map(signed),
        numbers: section.get("numbers", duration(HOUR, 365 * DAY)).map(signed)?,
        discovered_numbers: section.get("discovered_numbers", duration(HOUR, 365 * DAY)).map(signed)?,
        audit_events: section.get("audit_events", duration(DAY, 3650 * DAY)).map(signed)?,
        request_log: section.get("request_log", optional(duration(MINUTE, 30 * DAY)))?.map(signed),
    })
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

fn read_store(section: &Section<'_>) -> Result<StoreSection, ConfigError> {
    let text: String = section.get("url", value(InvalidStoreUrl::Scheme.to_string()))?;
    let mut url: StoreUrl =
        text.parse().map_err(|error: InvalidStoreUrl| section.invalid("url", section.render_value("url"), error))?;
    let password: SecretParser<_> = ("a password", |text| Some(Zeroizing::new(text.to_owned())));
    if let Some(password) = section.get_opt_secret("password", &password)? {
        let found = "a path, while `store.url` names a file";
        let rejected = || section.invalid("password_file", found, "nothing, for SQLite");
        url = url.with_password(&password).ok_or_else(rejected)?;
    }
    let options = StoreOptions {
        connections: section.get("connections", integer(1..=1_000))?,
        readers: section.get("readers", integer(1..=100))?,
        searches: section.get("searches", integer(1..=100))?,
        search_timeout: section.get("search_timeout", duration(100 * MILLISECOND, 15 * SECOND))?,
        citus: section.get("citus", keyword(&CITUS_ACCESS))?,
    };
    Ok(StoreSection {
        url,
        options,
        distribute: section.get("distribute", variant())?,
        state_file: section.get("state_file", optional(path()))?,
    })
}

fn read_rate_limits(section: &Section<'_>) -> Result<DefaultRateLimits, ConfigError> {
    let limit = |member| section.get(member, integer(1..=1_000_000));
    Ok(DefaultRateLimits {
        create: limit("create")?,
        read: limit("read")?,
        eligibility: limit("eligibility")?,
        management: limit("management")?,
        token: limit("token")?,
        device: limit("device")?,
        device_visits: limit("device_visits")?,
        token_per_workspace: limit("token_per_workspace")?,
        console: limit("console")?,
        console_per_session: limit("console_per_session")?,
        console_per_workspace: limit("console_per_workspace")?,
        failed_logins: limit("failed_logins")?,
    })
}

fn read_number_limit(section: &Section<'_>) -> Result<NumberLimit, ConfigError> {
    let whole_seconds = |window: Duration| u32::try_from(window.as_secs()).unwrap_or(u32::MAX);
    Ok(NumberLimit {
        max_checks: section.get("max_checks", integer(1..=1_000_000))?,
        window_seconds: section.get("window", duration(SECOND, DAY).map(whole_seconds))?,
    })
}

fn read_callbacks(section: &Section<'_>) -> Result<CallbacksSection, ConfigError> {
    // Normalises the host to lower case and punycode, the form that hosts have in parsed URLs.
    let host =
        text("a host name without scheme or port, such as \"hooks.internal\"", |text| match url::Host::parse(text) {
            Ok(url::Host::Domain(name)) if !text.is_empty() && !name.ends_with('.') => Some(name),
            _ => None,
        });
    Ok(CallbacksSection {
        allow_http: section.get("allow_http", boolean())?,
        allowed_addresses: section.get("allowed_addresses", ip_networks())?,
        allowed_hosts: section.get("allowed_hosts", list(host))?,
        ca_file: section.get("ca_file", optional(path()))?,
    })
}

/// Reads the limits of callback delivery. A quarter of the concurrent deliveries may go to destinations that have not
/// responded yet, and another quarter to slow and failing ones. One destination may use a quarter of the queue.
fn read_courier_limits(section: &Section<'_>) -> Result<courier::CourierLimits, ConfigError> {
    let concurrency = section.get("concurrency", integer(4..=100_000))?;
    let concurrency_per_destination = section.get("concurrency_per_destination", integer(1..=100_000))?;
    let queue = section.get("queue", integer(4..=10_000_000))?;
    if concurrency_per_destination > concurrency {
        let allowed = format!("at most {concurrency}, the value of `callbacks.concurrency`");
        return Err(section.invalid("concurrency_per_destination", concurrency_per_destination, allowed));
    }
    Ok(courier::CourierLimits {
        concurrency,
        unproven_concurrency: concurrency / 4,
        poor_concurrency: concurrency / 4,
        concurrency_per_destination,
        queue,
        queue_per_destination: queue / 4,
    })
}

fn read_sandbox(section: &Section<'_>) -> Result<SandboxSection, ConfigError> {
    // Only loopback addresses are allowed: an open UDP responder could be used for reflection attacks.
    let loopback_address = || {
        text("a loopback address and a port, such as \"127.0.0.1:5353\"", |text| {
            text.parse().ok().filter(|address: &SocketAddr| address.ip().is_loopback())
        })
    };
    let hlr_secret: SecretParser<_> = ("a secret without spaces", |text| {
        let is_valid = !text.is_empty() && text.bytes().all(|octet| octet.is_ascii_graphic());
        is_valid.then(|| text.to_owned())
    });
    let directory = DirectoryConfig {
        enum_listen: section.get("enum_listen", optional(loopback_address()))?,
        hlr_listen: section.get("hlr_listen", optional(loopback_address()))?,
        subscribers: read_subscribers(section)?,
        hlr_secret: section.get_opt_secret("hlr_secret", &hlr_secret)?,
        ..DirectoryConfig::default()
    };
    let has_listener = directory.enum_listen.is_some() || directory.hlr_listen.is_some();
    Ok(SandboxSection {
        enabled: section.get("enabled", boolean())?,
        directory: Some(directory).filter(|_| has_listener),
    })
}

/// Reads the simulated subscribers. Errors name a subscriber's position, not its number, which may be a real one.
fn read_subscribers(section: &Section<'_>) -> Result<Vec<Subscriber>, ConfigError> {
    const MEMBER: &str = "subscribers";
    let allowed = || format!("a list of subscribers with distinct numbers: {InvalidSubscriber}");
    let value: Value = section.get(MEMBER, value(""))?;
    let not_a_list = || section.invalid(MEMBER, "a value that is not a list", allowed());
    let items = value.as_array().ok_or_else(not_a_list)?;
    let mut numbers = HashSet::new();
    let parse = |(index, item): (usize, &Value)| {
        let subscriber = item.as_str().and_then(|text| text.parse::<Subscriber>().ok());
        subscriber.filter(|subscriber| numbers.insert(subscriber.number.clone())).ok_or_else(|| {
            section.invalid(MEMBER, format!("an invalid subscriber at position {}", index + 1), allowed())
        })
    };
    items.iter().enumerate().map(parse).collect()
}

fn read_log(document: &ConfigDocument<'_>) -> Result<LogSection, ConfigError> {
    const ALLOWED: &str = "\"off\", \"error\", \"warn\", \"info\", \"debug\" or \"trace\", or per module, as in \
                           \"info,ringtrue_store=debug\"";
    let section = document.section("log");
    let mut level = section.get("level", text(ALLOWED, parse_log_filter))?;
    if let Some(text) = document.environment.var(LOG_VARIABLE)?.filter(|text| !text.is_empty()) {
        level = parse_log_filter(text).ok_or_else(|| ConfigError::Invalid {
            key: "log.level".to_owned(),
            origin: Origin::Variable(LOG_VARIABLE.to_owned()),
            found: format!("{text:?}"),
            allowed: ALLOWED.to_owned(),
        })?;
    }
    Ok(LogSection { format: section.get("format", variant())?, level, requests: section.get("requests", variant())? })
}

/// Parses one log level for everything, or levels per module, such as `info,ringtrue_store=debug`.
pub(super) fn parse_log_filter(text: &str) -> Option<Targets> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let text = text.to_ascii_lowercase();
    // `Targets` would parse a misspelt level as a module name and disable all other logs.
    let has_level = |part: &str| part.rsplit('=').next().is_some_and(|level| LEVELS.contains(&level));
    if text.split(',').all(has_level) { text.parse().ok() } else { None }
}

fn otlp_endpoint_parser() -> ValueParser<Url> {
    let allowed = if cfg!(feature = "otlp") {
        "the http:// URL of a collector, such as \"http://127.0.0.1:4318\", without user name, password or query"
    } else {
        "nothing, because this binary was built without the feature `otlp`"
    };
    plain_url(allowed, |url| cfg!(feature = "otlp") && url.scheme() == "http")
}
