//! Where the master key comes from: the environment, or a file that only its owner can read.

use std::{
    io,
    path::{Path, PathBuf},
};

use ringtrue_engine::keys::{MasterKey, NotAMasterKey};

use super::{
    ConfigError, Environment, KeysSection,
    environment::MASTER_KEY,
    private_file::{self, MOST_BYTES, NotPrivate},
};

#[derive(Debug, thiserror::Error)]
pub enum MasterKeyError {
    #[error(
        "there is no master key: name a file in `keys.master_key_file`, or set {MASTER_KEY}; \
         `openssl rand -base64 32` makes a key"
    )]
    Missing,
    #[error("the master key in {} cannot be read: {problem}", path.display())]
    Unreadable { path: PathBuf, problem: io::Error },
    #[error(
        "the master key in {path} can be read by others than its owner (mode {mode:04o}): run `chmod 600 {path}`",
        path = path.display()
    )]
    Exposed { path: PathBuf, mode: u32 },
    #[error("the master key in {} holds more than {MOST_BYTES} bytes", path.display())]
    TooLong { path: PathBuf },
    #[error("{place}: {problem}")]
    Invalid { place: String, problem: NotAMasterKey },
    #[error(transparent)]
    Environment(#[from] ConfigError),
}

impl KeysSection {
    /// Reads the master key. A key in the environment comes before one in a file.
    pub fn master_key(&self, environment: &Environment) -> Result<MasterKey, MasterKeyError> {
        let from_environment = environment.text(MASTER_KEY)?.filter(|text| !text.is_empty());
        match (from_environment, &self.master_key_file) {
            (Some(text), _) => parse(text, MASTER_KEY.to_owned()),
            (None, Some(path)) => read_master_key(path),
            (None, None) => Err(MasterKeyError::Missing),
        }
    }
}

/// Reads a master key from a file, unless others could have read it too.
pub fn read_master_key(path: &Path) -> Result<MasterKey, MasterKeyError> {
    let text = private_file::read(path).map_err(|problem| match problem {
        NotPrivate::Unreadable(problem) => MasterKeyError::Unreadable { path: path.to_owned(), problem },
        NotPrivate::Exposed { mode } => MasterKeyError::Exposed { path: path.to_owned(), mode },
        NotPrivate::TooLong => MasterKeyError::TooLong { path: path.to_owned() },
    })?;
    parse(&text, path.display().to_string())
}

fn parse(text: &str, place: String) -> Result<MasterKey, MasterKeyError> {
    MasterKey::from_base64(text).map_err(|problem| MasterKeyError::Invalid { place, problem })
}
