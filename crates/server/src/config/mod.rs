//! The configuration of `ringtrue serve`: defaults, a TOML file and the environment, in this order.
//!
//! A [`Config`] is valid by construction. There is no step that checks one later: whoever holds it can rely on every
//! value by itself, and on those that must fit each other. What is wrong is said with its key, the place where it was
//! written, what was found there and what is allowed: [`ConfigError`].
//!
//! Deliberately absent: secrets as settings. The master key comes from a file of its own or from the environment, see
//! [`KeysSection::master_key`], and so do the secrets of connectors; only a database URL may carry a password, and it
//! is masked wherever it is shown.
//!
//! Why no library does this: decisions/0001-configuration.md.

mod base_url;
mod connectors;
mod environment;
mod error;
mod family;
mod ip_routing;
mod kind;
mod log_filter;
mod master_key;
mod nearest;
mod networks;
mod number_lookup;
mod private_file;
mod sections;
mod settings;
#[cfg(test)]
mod tests;
mod value;
mod written;

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use jiff::SignedDuration;
use ringtrue_domain::{network::NetworkDirectory, region::Region, reverse_sms::NumberGuard};
use ringtrue_engine::{callback, management::TenantLimits, rate_limit::Limits};
use ringtrue_operators::ip_routing::IpRoutingConfig;

pub(crate) use self::environment::{CLIENT_SECRET, PROFILE};
pub use self::{
    base_url::BaseUrl,
    connectors::{CamaraSection, Connector, ConnectorSection, Fingerprint},
    environment::Environment,
    error::ConfigError,
    log_filter::LogFilter,
    master_key::{MasterKeyError, read_master_key},
    number_lookup::{NumberLookupSection, NumberSourceSection},
    sections::{
        CallbacksSection, HeaderEnrichment, Http, Ingress, KeysSection, LogFormat, LogSection, MetricsSection,
        RequestLog, SandboxSection, StoreSection, TelemetrySection, TlsFiles,
    },
    settings::DEFAULTS,
    value::Origin,
};
use self::{settings::Settings, value::Value};

/// Everything that a deployment decides before it starts.
#[derive(Clone, Debug)]
pub struct Config {
    pub region: Region,
    /// Where callers reach this deployment. Not set: at the address that is bound, which is then a loopback one.
    pub base_url: Option<BaseUrl>,
    pub http: Http,
    /// `None`: operators have nothing to call. There is no webhook among the connectors then.
    pub ingress: Option<Ingress>,
    /// `None`: no operator tells by a header who a device is.
    pub header_enrichment: Option<HeaderEnrichment>,
    pub metrics: MetricsSection,
    pub store: StoreSection,
    pub keys: KeysSection,
    pub rate_limits: Limits,
    pub number_guard: NumberGuard,
    pub tenant_limits: TenantLimits,
    pub callbacks: CallbacksSection,
    pub courier: callback::Limits,
    /// How long numbers and callback bodies are kept after the end of their check.
    pub retention: SignedDuration,
    pub discovery_retention: SignedDuration,
    pub audit_retention: SignedDuration,
    /// How long requests are kept in their log. `None`: not at all.
    pub keep_requests: Option<SignedDuration>,
    /// Members and pending invitations of a workspace.
    pub max_members: u32,
    pub sandbox: SandboxSection,
    /// Every receiver in it is served by one of the connectors.
    pub number_lookup: NumberLookupSection,
    pub networks: NetworkDirectory,
    /// How the addresses of devices lead to networks. Its files have not been looked into.
    pub ip_routing: IpRoutingConfig,
    /// By name.
    pub connectors: Vec<ConnectorSection>,
    pub log: LogSection,
    pub telemetry: TelemetrySection,
}

/// A configuration, and where it comes from.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub config: Config,
    /// The file that was read, if there was one.
    pub file: Option<PathBuf>,
    /// What does not have its default.
    pub changed: Vec<Changed>,
}

/// A setting that does not have its default.
#[derive(Clone, Debug)]
pub struct Changed {
    pub key: String,
    /// As it may be shown: a password is masked.
    pub value: String,
    pub origin: Origin,
}

/// Where a file is looked for when none is named.
const USUAL_FILES: [&str; 2] = ["ringtrue.toml", "/etc/ringtrue/ringtrue.toml"];

/// Reads the configuration of this deployment. A file that is named must be there; a usual one need not.
pub fn load(named: Option<&Path>, environment: &Environment) -> Result<Loaded, ConfigError> {
    let file = match named.map(Path::to_owned).or_else(|| environment.config_file()) {
        Some(path) => Some((read_file(&path)?, path)),
        None => first_usual_file()?,
    };
    let file = file.as_ref().map(|(text, path)| (text.as_str(), path.as_path()));
    load_layers(file, environment)
}

fn load_layers(file: Option<(&str, &Path)>, environment: &Environment) -> Result<Loaded, ConfigError> {
    let mut settings = Settings::defaults()?;
    if let Some((text, path)) = file {
        settings.lay_file(path, text)?;
    }
    settings.lay_environment(environment)?;
    let config = sections::read(&settings, environment)?;
    Ok(Loaded { config, file: file.map(|(_, path)| path.to_owned()), changed: settings.changed().collect() })
}

/// The configuration of `ringtrue dev`: a database of its own, and nothing that leaves this machine.
///
/// The environment may change the rest. What keeps `dev` apart from a production setup comes last, so that a variable
/// meant for `serve` cannot point it at a production database.
pub fn for_development(database: &Path, listen: SocketAddr, environment: &Environment) -> Result<Config, ConfigError> {
    let mut settings = Settings::defaults()?;
    let text = |text: &str| Value::Text(text.to_owned());
    for (key, value) in [
        ("metrics.listen", text("off")),
        ("log.format", text("pretty")),
        ("callbacks.allow_http", Value::Flag(true)),
        ("callbacks.allowed_addresses", Value::List(vec![text("127.0.0.0/8"), text("::1/128")])),
    ] {
        settings.lay(key, value, Origin::Development);
    }
    settings.lay_environment(environment)?;
    for (key, value) in [
        ("base_url", text("")),
        ("http.listen", Value::Text(listen.to_string())),
        ("http.tls.certificate", text("")),
        ("http.tls.key", text("")),
        ("ingress.listen", text("off")),
        ("header_enrichment.listen", text("off")),
        ("header_enrichment.public_url", text("")),
        ("store.url", Value::Text(format!("sqlite:{}", database.display()))),
        ("keys.master_key_file", text("")),
    ] {
        settings.lay(key, value, Origin::Development);
    }
    sections::read(&settings, environment)
}

fn read_file(path: &Path) -> Result<String, ConfigError> {
    fs::read_to_string(path).map_err(|problem| ConfigError::Unreadable { path: path.to_owned(), problem })
}

fn first_usual_file() -> Result<Option<(String, PathBuf)>, ConfigError> {
    for path in USUAL_FILES.map(PathBuf::from) {
        match fs::read_to_string(&path) {
            Ok(text) => return Ok(Some((text, path))),
            Err(problem) if problem.kind() == io::ErrorKind::NotFound => {}
            Err(problem) => return Err(ConfigError::Unreadable { path, problem }),
        }
    }
    Ok(None)
}
