//! Configuration of `ringtrue serve`: defaults, overridden by a TOML file, overridden by the environment.
//!
//! A [`Config`] is valid by construction: every value, and every combination of values, is checked while it is loaded.
//! A [`ConfigError`] names the key, its origin, the value found and the values allowed. Loading reports all errors.
//!
//! Secrets are not settings. The master key (see [`KeysSection::master_key`]) and the secrets of connectors come from
//! private files or the environment. Only a database URL may contain a password, which is masked in all output.
//!
//! docs/decisions/0001-configuration.md explains why the sections do not derive `Deserialize`.

mod connectors;
mod document;
mod environment;
mod listeners;
mod networks;
mod number_lookup;
mod openid_connect;
mod sections;
#[cfg(test)]
mod tests;
mod value_parser;

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use ringtrue_domain::{network::NetworkDirectory, region::Region, reverse_sms::NumberLimit};
use ringtrue_engine::{RetentionSettings, courier, rate_limits::DefaultRateLimits, tenants::TenantLimits};
use ringtrue_operators::ip_routing::IpRoutingConfig;
pub use ringtrue_web::app::LoggedRequests;
use toml::Value;

use self::document::ConfigDocument;
pub use self::{
    connectors::{CamaraSection, Connector, ConnectorSection},
    document::{ConfigError, ConfigErrors, ConnectorFingerprint, DEFAULTS, Origin},
    environment::{Environment, MasterKeyError, read_master_key},
    listeners::{BaseUrl, HeaderEnrichmentSection, HttpSection, IngressSection, MetricsSection, TlsFiles},
    number_lookup::{NumberLookupSection, NumberSourceSection},
    openid_connect::OpenIdConnectSection,
    sections::{
        CallbacksSection, Distribute, KeysSection, LogFormat, LogSection, SandboxSection, StoreSection,
        TelemetrySection,
    },
};

#[derive(Clone, Debug)]
pub struct Config {
    pub region: Region,
    /// Public URL of this deployment. `None`: the listen address, which must then be a loopback address.
    pub base_url: Option<BaseUrl>,
    pub http: HttpSection,
    /// Listener for operators' webhooks. `None`: it is off, and no connector receives webhooks.
    pub ingress: Option<IngressSection>,
    pub header_enrichment: Option<HeaderEnrichmentSection>,
    pub metrics: MetricsSection,
    pub store: StoreSection,
    pub keys: KeysSection,
    pub rate_limits: DefaultRateLimits,
    pub number_limit: NumberLimit,
    pub tenant_limits: TenantLimits,
    pub callbacks: CallbacksSection,
    pub courier: courier::CourierLimits,
    pub retention: RetentionSettings,
    /// Whether this deployment offers CAMARA's APIs to clients.
    pub camara_enabled: bool,
    /// Maximum number of members and pending invitations of a workspace.
    pub max_members: u32,
    /// Whether accounts that sign in by password must have a second factor.
    pub require_second_factor: bool,
    /// OpenID provider for sign-in to the console. `None`: sign-in by OpenID Connect is off.
    pub openid_connect: Option<Box<OpenIdConnectSection>>,
    pub sandbox: SandboxSection,
    pub number_lookup: NumberLookupSection,
    /// Configured networks. Loading has checked that a connector serves every receiver in them.
    pub networks: NetworkDirectory,
    /// Mapping of device addresses to networks. Loading the configuration does not read the files that the mapping
    /// names.
    pub ip_routing: IpRoutingConfig,
    /// Connectors, sorted by name.
    pub connectors: Vec<ConnectorSection>,
    pub log: LogSection,
    pub telemetry: TelemetrySection,
}

#[derive(Clone, Debug)]
pub struct LoadedConfig {
    pub config: Config,
    /// Configuration file. `None`: no file was read.
    pub file: Option<PathBuf>,
    pub changed: Vec<ChangedSetting>,
}

/// A setting that differs from its default.
#[derive(Clone, Debug)]
pub struct ChangedSetting {
    pub key: String,
    /// Value as text, with passwords masked.
    pub value: String,
    pub origin: Origin,
}

/// Configuration files to try if the user names none.
const DEFAULT_FILES: [&str; 2] = ["ringtrue.toml", "/etc/ringtrue/ringtrue.toml"];

/// Loads the configuration. A named file must exist; the default files are optional.
pub fn load(named: Option<&Path>, environment: &Environment) -> Result<LoadedConfig, ConfigErrors> {
    let file = match named.map(Path::to_owned).or_else(|| environment.config_file()) {
        Some(path) => Some((read_file(&path)?, path)),
        None => read_first_default_file()?,
    };
    let file = file.as_ref().map(|(text, path)| (text.as_str(), path.as_path()));
    load_layers(file, environment)
}

fn load_layers(file: Option<(&str, &Path)>, environment: &Environment) -> Result<LoadedConfig, ConfigErrors> {
    let mut document = ConfigDocument::defaults(environment)?;
    if let Some((text, path)) = file {
        document.overlay_file(path, text);
    }
    document.overlay_environment();
    let changed = document.changed_settings();
    let config = document.read(|document| sections::read(document))?;
    Ok(LoadedConfig { config, file: file.map(|(_, path)| path.to_owned()), changed })
}

/// Loads the configuration of `ringtrue dev`: its own database, and loopback listeners only.
///
/// The environment may override the defaults of `dev`, but not the settings that isolate it from production: a variable
/// that is set for `serve` must not make `dev` use a production database.
pub fn load_for_development(
    database: &Path,
    listen: SocketAddr,
    environment: &Environment,
) -> Result<Config, ConfigErrors> {
    let mut document = ConfigDocument::defaults(environment)?;
    for (key, value) in [
        ("metrics.listen", Value::from("off")),
        ("log.format", "pretty".into()),
        // Logs requests, but nothing about the startup, which would hide the banner.
        ("log.level", "info,ringtrue_store=warn,ringtrue_sandbox=warn,ringtrue_operators=warn".into()),
        ("callbacks.allow_http", true.into()),
        ("callbacks.allowed_addresses", vec!["127.0.0.0/8", "::1/128"].into()),
    ] {
        document.set(key, value, Origin::Development);
    }
    document.overlay_environment();
    for (key, value) in [
        ("base_url", ""),
        ("http.listen", &listen.to_string()),
        ("http.tls.certificate", ""),
        ("http.tls.key", ""),
        ("ingress.listen", "off"),
        ("header_enrichment.listen", "off"),
        ("header_enrichment.public_url", ""),
        ("store.url", &format!("sqlite:{}", database.display())),
        ("keys.master_key_file", ""),
    ] {
        document.set(key, value, Origin::Development);
    }
    document.read(|document| sections::read(document))
}

fn read_file(path: &Path) -> Result<String, ConfigError> {
    fs::read_to_string(path).map_err(|error| ConfigError::Unreadable { path: path.to_owned(), error })
}

fn read_first_default_file() -> Result<Option<(String, PathBuf)>, ConfigError> {
    for path in DEFAULT_FILES.map(PathBuf::from) {
        match fs::read_to_string(&path) {
            Ok(text) => return Ok(Some((text, path))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // Skips the file: an administrator may run a command as the service's user in a directory which that user
            // cannot read.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !is_readable_folder(&path) => {}
            Err(error) => return Err(ConfigError::Unreadable { path, error }),
        }
    }
    Ok(None)
}

/// Returns whether this user can list the directory of a path. If so, an unreadable file in it is an error.
fn is_readable_folder(path: &Path) -> bool {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::read_dir(folder).is_ok()
}
