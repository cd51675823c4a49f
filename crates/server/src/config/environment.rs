//! Environment variables, read once at startup, and secrets in files that only their owner may be able to read.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs::File,
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use ringtrue_client::{CLIENT_SECRET_VARIABLE, PROFILE_VARIABLE};
use ringtrue_engine::keys::{InvalidMasterKey, MasterKey};
use zeroize::Zeroizing;

use super::{ConfigError, KeysSection};

pub(super) const VARIABLE_PREFIX: &str = "RINGTRUE_";
pub(super) const CONFIG_VARIABLE: &str = "RINGTRUE_CONFIG";
pub(super) const MASTER_KEY_VARIABLE: &str = "RINGTRUE_MASTER_KEY";
pub(super) const LOG_VARIABLE: &str = "RINGTRUE_LOG";

/// Variables with our prefix that are not settings. The client libraries read the last two, and the one with the client
/// secret.
pub(super) const RESERVED_VARIABLES: [&str; 7] = [
    CONFIG_VARIABLE,
    MASTER_KEY_VARIABLE,
    LOG_VARIABLE,
    PROFILE_VARIABLE,
    CLIENT_SECRET_VARIABLE,
    "RINGTRUE_CLIENT_ID",
    "RINGTRUE_URL",
];

/// All environment variables. Those with the prefix `RINGTRUE_` are settings. Settings that end with `_env` may name
/// any other variable, which then contains a secret. `Debug` shows only the names of those with the prefix.
#[derive(Clone, Default, derive_more::Debug)]
#[debug("Environment({:?})", self.prefixed().map(|(name, _)| name).collect::<Vec<_>>())]
pub struct Environment(BTreeMap<String, OsString>);

impl Environment {
    #[expect(clippy::disallowed_methods, reason = "the only place that reads the environment")]
    pub fn from_process() -> Self {
        env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect()
    }

    /// Value of `RINGTRUE_CONFIG`.
    pub(super) fn config_file(&self) -> Option<PathBuf> {
        self.0.get(CONFIG_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from)
    }

    pub(crate) fn var(&self, name: &str) -> Result<Option<&str>, ConfigError> {
        self.0.get(name).map(|value| as_text(name, value)).transpose()
    }

    /// Returns the variables that override settings.
    pub(super) fn settings(&self) -> impl Iterator<Item = (&str, Result<&str, ConfigError>)> {
        self.prefixed()
            .filter(|(name, _)| !RESERVED_VARIABLES.contains(name))
            .map(|(name, value)| (name, as_text(name, value)))
    }

    fn prefixed(&self) -> impl Iterator<Item = (&str, &OsString)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value)).filter(|(name, _)| name.starts_with(VARIABLE_PREFIX))
    }
}

impl<N: Into<String>, V: Into<OsString>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        Environment(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

fn as_text<'a>(name: &str, value: &'a OsString) -> Result<&'a str, ConfigError> {
    value.to_str().ok_or_else(|| ConfigError::NotText { name: name.to_owned() })
}

#[derive(Debug, thiserror::Error)]
pub enum MasterKeyError {
    #[error(
        "no master key: set `keys.master_key_file` or {MASTER_KEY_VARIABLE}; \
         generate a key with `openssl rand -base64 32`"
    )]
    Missing,
    #[error("cannot read the master key in {}: {error}", path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error(
        "the master key in {path} is readable by users other than its owner (mode {mode:04o}): run `chmod 600 {path}`",
        path = path.display()
    )]
    Exposed { path: PathBuf, mode: u32 },
    #[error("the master key in {} is longer than {MAX_SECRET_BYTES} bytes", path.display())]
    TooLong { path: PathBuf },
    #[error("{origin}: {error}")]
    Invalid { origin: String, error: InvalidMasterKey },
    #[error(transparent)]
    Environment(#[from] ConfigError),
}

impl KeysSection {
    /// Reads the master key. The environment takes precedence over the file.
    pub fn master_key(&self, environment: &Environment) -> Result<MasterKey, MasterKeyError> {
        let from_environment = environment.var(MASTER_KEY_VARIABLE)?.filter(|text| !text.is_empty());
        match (from_environment, &self.master_key_file) {
            (Some(text), _) => parse_master_key(text, MASTER_KEY_VARIABLE.to_owned()),
            (None, Some(path)) => read_master_key(path),
            (None, None) => Err(MasterKeyError::Missing),
        }
    }
}

/// Reads a master key from a file. Rejects files that other users can read.
pub fn read_master_key(path: &Path) -> Result<MasterKey, MasterKeyError> {
    let text = read_private_file(path).map_err(|error| match error {
        SecretFileError::Unreadable(error) => MasterKeyError::Unreadable { path: path.to_owned(), error },
        SecretFileError::Exposed { mode } => MasterKeyError::Exposed { path: path.to_owned(), mode },
        SecretFileError::TooLong => MasterKeyError::TooLong { path: path.to_owned() },
    })?;
    parse_master_key(&text, path.display().to_string())
}

fn parse_master_key(text: &str, origin: String) -> Result<MasterKey, MasterKeyError> {
    MasterKey::from_base64(text).map_err(|error| MasterKeyError::Invalid { origin, error })
}

#[derive(Debug, thiserror::Error)]
pub(super) enum SecretFileError {
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    #[error("is readable by users other than its owner (mode {mode:04o})")]
    Exposed { mode: u32 },
    #[error("is longer than {MAX_SECRET_BYTES} bytes")]
    TooLong,
}

/// Maximum length of a secret. The longest secrets are RSA keys: one of 16,384 bits takes 12,800 bytes as PEM.
const MAX_SECRET_BYTES: usize = 16_384;

/// Reads a secret from a file. Rejects files that other users can read.
pub(super) fn read_private_file(path: &Path) -> Result<Zeroizing<String>, SecretFileError> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let mode = metadata.mode() & 0o7777;
    if is_exposed(mode, metadata.uid(), metadata.gid()) {
        return Err(SecretFileError::Exposed { mode });
    }
    // Allocates the full capacity at once: a growing buffer would leave copies of the secret in memory.
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_SECRET_BYTES + 2));
    file.take(MAX_SECRET_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_SECRET_BYTES {
        return Err(SecretFileError::TooLong);
    }
    let text = str::from_utf8(&bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not UTF-8"))?;
    Ok(Zeroizing::new(text.to_owned()))
}

/// Returns whether other users may read the file. systemd credentials are an exception. They have mode 0440 and owner
/// root:root, but their group bits are the mask of an access control list, which grants access only to the service
/// user.
pub(super) fn is_exposed(mode: u32, user: u32, group: u32) -> bool {
    let is_credential = (mode & 0o777, user, group) == (0o440, 0, 0);
    mode & 0o077 != 0 && !is_credential
}
