//! Parses database URLs.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use tokio_postgres::config::{Config, Host, SslMode};

/// The URL of a database. `Display` and `Debug` omit the password.
#[derive(Clone, derive_more::Debug)]
#[debug("StoreUrl({self})")]
pub struct StoreUrl(pub(crate) StoreAddress);

#[derive(Clone)]
pub(crate) enum StoreAddress {
    Sqlite(PathBuf),
    Postgres(Box<PostgresAddress>),
}

#[derive(Clone)]
pub(crate) struct PostgresAddress {
    pub config: Config,
    pub tls: PostgresTls,
}

impl PostgresAddress {
    /// Returns the address of the same database on another server of the cluster.
    pub(crate) fn on_server(&self, host: &str, port: u16) -> Self {
        let mut config = Config::new();
        config.host(host).port(port).ssl_mode(self.config.get_ssl_mode());
        if let Some(user) = self.config.get_user() {
            config.user(user);
        }
        if let Some(password) = self.config.get_password() {
            config.password(password);
        }
        if let Some(database) = self.config.get_dbname() {
            config.dbname(database);
        }
        if let Some(options) = self.config.get_options() {
            config.options(options);
        }
        if let Some(name) = self.config.get_application_name() {
            config.application_name(name);
        }
        config.target_session_attrs(self.config.get_target_session_attrs());
        config.channel_binding(self.config.get_channel_binding());
        PostgresAddress { config, tls: self.tls.clone() }
    }
}

/// TLS settings of a `PostgreSQL` connection. With TLS, the server's certificate and host name are always verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PostgresTls {
    Off,
    /// Trusts the certificates in this file. `None`: trusts those of the system.
    On {
        root_certificates: Option<PathBuf>,
    },
}

impl StoreUrl {
    /// Returns the URL with another password. `None`: the URL names a `SQLite` file, which has no password.
    #[must_use]
    pub fn with_password(mut self, password: &str) -> Option<Self> {
        match &mut self.0 {
            StoreAddress::Sqlite(_) => None,
            StoreAddress::Postgres(address) => {
                address.config.password(password);
                Some(self)
            }
        }
    }

    pub fn sqlite_path(&self) -> Option<&Path> {
        match &self.0 {
            StoreAddress::Sqlite(path) => Some(path),
            StoreAddress::Postgres(_) => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidStoreUrl {
    #[error("store URLs have the form `sqlite:PATH` or `postgres://USER:PASSWORD@HOST:PORT/DATABASE`")]
    Scheme,
    #[error("`sqlite:` takes the path of a file; in-memory databases are not supported")]
    SqlitePath,
    #[error(
        "PostgreSQL URLs have the form `postgres://USER:PASSWORD@HOST:PORT/DATABASE?OPTION=VALUE`, with special \
         characters of the password percent-encoded"
    )]
    Postgres,
    #[error("PostgreSQL URLs require a host and a database")]
    PostgresIncomplete,
    #[error("`sslmode` must be `disable`, `require` or `verify-full`")]
    SslMode,
    #[error("`sslrootcert` requires `sslmode=require` or `sslmode=verify-full`")]
    RootCertificateWithoutTls,
}

impl FromStr for StoreUrl {
    type Err = InvalidStoreUrl;

    fn from_str(text: &str) -> Result<Self, InvalidStoreUrl> {
        if let Some(path) = text.strip_prefix("sqlite:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            let is_file_path =
                !path.is_empty() && !path.starts_with(':') && !path.ends_with('/') && !path.contains('\0');
            return if is_file_path {
                Ok(StoreUrl(StoreAddress::Sqlite(PathBuf::from(path))))
            } else {
                Err(InvalidStoreUrl::SqlitePath)
            };
        }
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return parse_postgres_url(text).map(|address| StoreUrl(StoreAddress::Postgres(Box::new(address))));
        }
        Err(InvalidStoreUrl::Scheme)
    }
}

/// Parses a `PostgreSQL` URL. Handles the TLS options itself, because the driver does not support all their values.
fn parse_postgres_url(text: &str) -> Result<PostgresAddress, InvalidStoreUrl> {
    let (base, query) = text.split_once('?').unwrap_or((text, ""));
    let (mut mode, mut root_certificates, mut others) = (None, None, Vec::new());
    for option in query.split('&').filter(|option| !option.is_empty()) {
        match option.split_once('=') {
            Some(("sslmode", value)) => mode = Some(value),
            Some(("sslrootcert", value)) => root_certificates = Some(PathBuf::from(percent_decode(value)?)),
            _ => others.push(option),
        }
    }
    let tls = match (mode, root_certificates) {
        (None | Some("disable"), None) => PostgresTls::Off,
        (None | Some("disable"), Some(_)) => return Err(InvalidStoreUrl::RootCertificateWithoutTls),
        (Some("require" | "verify-full"), root_certificates) => PostgresTls::On { root_certificates },
        (Some(_), _) => return Err(InvalidStoreUrl::SslMode),
    };
    let mut config: Config = format!("{base}?{}", others.join("&")).parse().map_err(|_| InvalidStoreUrl::Postgres)?;
    if config.get_hosts().is_empty() || config.get_dbname().is_none_or(str::is_empty) {
        return Err(InvalidStoreUrl::PostgresIncomplete);
    }
    config.ssl_mode(if tls == PostgresTls::Off { SslMode::Disable } else { SslMode::Require });
    Ok(PostgresAddress { config, tls })
}

fn percent_decode(text: &str) -> Result<String, InvalidStoreUrl> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first == b'%' {
            let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
            let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
            bytes.push(byte.ok_or(InvalidStoreUrl::Postgres)?);
            rest = &after[2..];
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).map_err(|_| InvalidStoreUrl::Postgres)
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            StoreAddress::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            StoreAddress::Postgres(address) => {
                let config = &address.config;
                f.write_str("postgres://")?;
                if let Some(user) = config.get_user() {
                    write!(f, "{user}@")?;
                }
                for (index, host) in config.get_hosts().iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    match host {
                        Host::Tcp(host) => write!(f, "{comma}{host}")?,
                        #[cfg(unix)]
                        Host::Unix(path) => write!(f, "{comma}{}", path.display())?,
                    }
                    if let Some(port) = config.get_ports().get(index).or_else(|| config.get_ports().first()) {
                        write!(f, ":{port}")?;
                    }
                }
                write!(f, "/{}", config.get_dbname().unwrap_or_default())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn display(text: &str) -> Result<String, InvalidStoreUrl> {
        text.parse::<StoreUrl>().map(|url| format!("{url} {url:?}"))
    }

    #[test]
    fn with_password_replaces_the_password() {
        for url in ["postgres://ann@db/ringtrue", "postgres://ann:old@db/ringtrue"] {
            let url = url.parse::<StoreUrl>().unwrap().with_password("p@ss").unwrap();
            let StoreAddress::Postgres(address) = &url.0 else { panic!("{url}") };
            assert_eq!(address.config.get_password(), Some(b"p@ss".as_slice()));
        }
        assert!("sqlite:ringtrue.db".parse::<StoreUrl>().unwrap().with_password("p@ss").is_none());
    }

    #[test]
    fn display_omits_the_password() {
        for (text, masked) in [
            ("sqlite:data/ringtrue.db", "sqlite:data/ringtrue.db"),
            ("sqlite:///var/lib/ringtrue.db", "sqlite:/var/lib/ringtrue.db"),
            ("postgres://ann:hunter2@db.example:5433/ringtrue", "postgres://ann@db.example:5433/ringtrue"),
            ("postgresql://db.example/ringtrue?sslmode=verify-full", "postgres://db.example:5432/ringtrue"),
            ("postgres://ann:p%40ss@a:1,b:2/x?target_session_attrs=read-write", "postgres://ann@a:1,b:2/x"),
        ] {
            assert_eq!(display(text), Ok(format!("{masked} StoreUrl({masked})")), "{text}");
        }
    }

    #[test]
    fn invalid_urls_are_rejected() {
        for (text, problem) in [
            ("", InvalidStoreUrl::Scheme),
            ("mysql://x", InvalidStoreUrl::Scheme),
            ("sqlite:", InvalidStoreUrl::SqlitePath),
            ("sqlite::memory:", InvalidStoreUrl::SqlitePath),
            ("sqlite:data/", InvalidStoreUrl::SqlitePath),
            ("postgres://host:notaport/db", InvalidStoreUrl::Postgres),
            ("postgres://host/db?colour=red", InvalidStoreUrl::Postgres),
            ("postgres://host", InvalidStoreUrl::PostgresIncomplete),
            ("postgres:///db", InvalidStoreUrl::PostgresIncomplete),
            ("postgres://host/db?sslmode=prefer", InvalidStoreUrl::SslMode),
            ("postgres://host/db?sslrootcert=ca.pem", InvalidStoreUrl::RootCertificateWithoutTls),
        ] {
            assert_eq!(display(text), Err(problem), "{text}");
        }
    }

    #[test]
    fn root_certificate_requires_a_tls_mode() {
        let message = InvalidStoreUrl::RootCertificateWithoutTls.to_string();
        for (mode, is_accepted) in [("disable", false), ("require", true), ("verify-full", true)] {
            let url = format!("postgres://host/db?sslmode={mode}&sslrootcert=ca.pem");
            assert_eq!(url.parse::<StoreUrl>().is_ok(), is_accepted, "{mode}");
            assert_eq!(message.contains(&format!("`sslmode={mode}`")), is_accepted, "{message}");
        }
    }

    #[test]
    fn tls_is_set_by_url_options() {
        for (query, expected) in [
            ("", PostgresTls::Off),
            ("?sslmode=disable", PostgresTls::Off),
            ("?sslmode=require", PostgresTls::On { root_certificates: None }),
            (
                "?sslmode=verify-full&sslrootcert=/etc/my%20ca.pem",
                PostgresTls::On { root_certificates: Some("/etc/my ca.pem".into()) },
            ),
        ] {
            let url: StoreUrl = format!("postgres://host/db{query}").parse().unwrap();
            let StoreAddress::Postgres(address) = url.0 else { panic!("{query}") };
            assert_eq!(address.tls, expected, "{query}");
        }
    }
}
