//! Configuration errors, with key, origin, found value and allowed values.

use std::{io, path::PathBuf};

use super::Origin;

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read {}: {error}", path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("{}:{line}: invalid TOML: {error}", path.display())]
    Syntax { path: PathBuf, line: usize, error: String },
    #[error("{key} ({origin}): unknown key{}", hint(suggestion.as_deref()))]
    UnknownKey { key: String, origin: Origin, suggestion: Option<String> },
    #[error("{name}: no setting for this environment variable{}", hint(suggestion.as_deref()))]
    UnknownVariable { name: String, suggestion: Option<String> },
    #[error("{name}: the value of this environment variable is not UTF-8")]
    NotText { name: String },
    #[error("{key} ({origin}): found {found}; allowed: {allowed}")]
    Invalid { key: String, origin: Origin, found: String, allowed: String },
}

fn hint(suggestion: Option<&str>) -> String {
    suggestion.map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}
