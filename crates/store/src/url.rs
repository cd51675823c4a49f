//! Where the database is.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use tokio_postgres::config::{Config, Host, SslMode};

/// The address of a database. What is shown of it never contains a password.
#[derive(Clone)]
pub struct StoreUrl(pub(crate) Address);

#[derive(Clone)]
pub(crate) enum Address {
    Sqlite(PathBuf),
    Postgres(Box<PostgresAddress>),
}

#[derive(Clone)]
pub(crate) struct PostgresAddress {
    pub config: Config,
    pub tls: Tls,
}

/// Whether the way to `PostgreSQL` is encrypted. Who answers is always verified, and that against its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tls {
    Off,
    /// Certificates are checked against this file, or against those of the system.
    On {
        root_certificates: Option<PathBuf>,
    },
}

impl StoreUrl {
    /// The same server with another password. `None`: the database is a file.
    #[must_use]
    pub fn with_password(mut self, password: &str) -> Option<Self> {
        match &mut self.0 {
            Address::Sqlite(_) => None,
            Address::Postgres(address) => {
                address.config.password(password);
                Some(self)
            }
        }
    }

    /// The file, when the database is one.
    pub fn sqlite_path(&self) -> Option<&Path> {
        match &self.0 {
            Address::Sqlite(path) => Some(path),
            Address::Postgres(_) => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidStoreUrl {
    #[error("a store is `sqlite:PATH` or `postgres://USER:PASSWORD@HOST:PORT/DATABASE`")]
    Scheme,
    #[error("`sqlite:` is followed by the path of a file; a database in memory is not supported")]
    SqlitePath,
    #[error(
        "a PostgreSQL store is `postgres://USER:PASSWORD@HOST:PORT/DATABASE?OPTION=VALUE`, with special characters of \
         the password percent-encoded"
    )]
    Postgres,
    #[error("a PostgreSQL store names a host and a database")]
    PostgresIncomplete,
    #[error("`sslmode` is `disable`, `require` or `verify-full`")]
    SslMode,
    #[error("`sslrootcert` needs `sslmode=require` or `sslmode=verify-full`")]
    RootCertificateWithoutTls,
}

impl FromStr for StoreUrl {
    type Err = InvalidStoreUrl;

    fn from_str(text: &str) -> Result<Self, InvalidStoreUrl> {
        if let Some(path) = text.strip_prefix("sqlite:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            let is_a_file = !path.is_empty() && !path.starts_with(':') && !path.ends_with('/') && !path.contains('\0');
            return if is_a_file {
                Ok(StoreUrl(Address::Sqlite(PathBuf::from(path))))
            } else {
                Err(InvalidStoreUrl::SqlitePath)
            };
        }
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return postgres(text).map(|address| StoreUrl(Address::Postgres(Box::new(address))));
        }
        Err(InvalidStoreUrl::Scheme)
    }
}

/// Takes out the options about TLS, whose values go beyond those that the driver knows.
fn postgres(text: &str) -> Result<PostgresAddress, InvalidStoreUrl> {
    let (base, query) = text.split_once('?').unwrap_or((text, ""));
    let (mut mode, mut root_certificates, mut others) = (None, None, Vec::new());
    for option in query.split('&').filter(|option| !option.is_empty()) {
        match option.split_once('=') {
            Some(("sslmode", value)) => mode = Some(value),
            Some(("sslrootcert", value)) => root_certificates = Some(PathBuf::from(percent_decoded(value)?)),
            _ => others.push(option),
        }
    }
    let tls = match (mode, root_certificates) {
        (None | Some("disable"), None) => Tls::Off,
        (None | Some("disable"), Some(_)) => return Err(InvalidStoreUrl::RootCertificateWithoutTls),
        (Some("require" | "verify-full"), root_certificates) => Tls::On { root_certificates },
        (Some(_), _) => return Err(InvalidStoreUrl::SslMode),
    };
    let mut config: Config = format!("{base}?{}", others.join("&")).parse().map_err(|_| InvalidStoreUrl::Postgres)?;
    if config.get_hosts().is_empty() || config.get_dbname().is_none_or(str::is_empty) {
        return Err(InvalidStoreUrl::PostgresIncomplete);
    }
    config.ssl_mode(if tls == Tls::Off { SslMode::Disable } else { SslMode::Require });
    Ok(PostgresAddress { config, tls })
}

fn percent_decoded(text: &str) -> Result<String, InvalidStoreUrl> {
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
            Address::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Address::Postgres(address) => {
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

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Result<String, InvalidStoreUrl> {
        text.parse::<StoreUrl>().map(|url| format!("{url} {url:?}"))
    }

    #[test]
    fn a_password_is_replaced() {
        for url in ["postgres://ann@db/ringtrue", "postgres://ann:old@db/ringtrue"] {
            let url = url.parse::<StoreUrl>().unwrap().with_password("p@ss").unwrap();
            let Address::Postgres(address) = &url.0 else { panic!("{url}") };
            assert_eq!(address.config.get_password(), Some(b"p@ss".as_slice()));
        }
        assert!("sqlite:ringtrue.db".parse::<StoreUrl>().unwrap().with_password("p@ss").is_none());
    }

    #[test]
    fn a_url_is_shown_without_its_password() {
        for (text, masked) in [
            ("sqlite:data/ringtrue.db", "sqlite:data/ringtrue.db"),
            ("sqlite:///var/lib/ringtrue.db", "sqlite:/var/lib/ringtrue.db"),
            ("postgres://ann:hunter2@db.example:5433/ringtrue", "postgres://ann@db.example:5433/ringtrue"),
            ("postgresql://db.example/ringtrue?sslmode=verify-full", "postgres://db.example:5432/ringtrue"),
            ("postgres://ann:p%40ss@a:1,b:2/x?target_session_attrs=read-write", "postgres://ann@a:1,b:2/x"),
        ] {
            assert_eq!(shown(text), Ok(format!("{masked} StoreUrl({masked})")), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_url_is_said() {
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
            assert_eq!(shown(text), Err(problem), "{text}");
        }
    }

    #[test]
    fn a_root_certificate_goes_with_the_modes_that_its_message_names() {
        let message = InvalidStoreUrl::RootCertificateWithoutTls.to_string();
        for (mode, takes_one) in [("disable", false), ("require", true), ("verify-full", true)] {
            let url = format!("postgres://host/db?sslmode={mode}&sslrootcert=ca.pem");
            assert_eq!(url.parse::<StoreUrl>().is_ok(), takes_one, "{mode}");
            assert_eq!(message.contains(&format!("`sslmode={mode}`")), takes_one, "{message}");
        }
    }

    #[test]
    fn tls_is_asked_for_in_the_url() {
        for (query, wanted) in [
            ("", Tls::Off),
            ("?sslmode=disable", Tls::Off),
            ("?sslmode=require", Tls::On { root_certificates: None }),
            (
                "?sslmode=verify-full&sslrootcert=/etc/my%20ca.pem",
                Tls::On { root_certificates: Some("/etc/my ca.pem".into()) },
            ),
        ] {
            let url: StoreUrl = format!("postgres://host/db{query}").parse().unwrap();
            let Address::Postgres(address) = url.0 else { panic!("{query}") };
            assert_eq!(address.tls, wanted, "{query}");
        }
    }
}
