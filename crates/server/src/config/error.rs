//! What can be wrong with a configuration: which key, where, what was found, what is allowed.

use std::{io, path::PathBuf};

use super::Origin;

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{} cannot be read: {problem}", path.display())]
    Unreadable { path: PathBuf, problem: io::Error },
    #[error("{}:{line}: not TOML: {problem}", path.display())]
    Syntax { path: PathBuf, line: usize, problem: String },
    #[error("{key} ({origin}): there is no such key{}", hint(nearest.as_deref()))]
    UnknownKey { key: String, origin: Origin, nearest: Option<String> },
    #[error("{name}: there is no setting for this environment variable{}", hint(nearest.as_deref()))]
    UnknownVariable { name: String, nearest: Option<String> },
    #[error("{name}: the value of this environment variable is not UTF-8")]
    NotText { name: String },
    #[error("{key} ({origin}): found {found}; allowed: {allowed}")]
    Invalid { key: String, origin: Origin, found: String, allowed: String },
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}
