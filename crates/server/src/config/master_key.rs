//! Master key, from the environment or a private file.

use std::{
    io,
    path::{Path, PathBuf},
};

use ringtrue_engine::keys::{InvalidMasterKey, MasterKey};

use super::{
    ConfigError, Environment, KeysSection,
    environment::MASTER_KEY_VARIABLE,
    private_file::{self, MAX_SECRET_BYTES, SecretFileError},
};

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
    let text = private_file::read(path).map_err(|error| match error {
        SecretFileError::Unreadable(error) => MasterKeyError::Unreadable { path: path.to_owned(), error },
        SecretFileError::Exposed { mode } => MasterKeyError::Exposed { path: path.to_owned(), mode },
        SecretFileError::TooLong => MasterKeyError::TooLong { path: path.to_owned() },
    })?;
    parse_master_key(&text, path.display().to_string())
}

fn parse_master_key(text: &str, origin: String) -> Result<MasterKey, MasterKeyError> {
    MasterKey::from_base64(text).map_err(|error| MasterKeyError::Invalid { origin, error })
}
