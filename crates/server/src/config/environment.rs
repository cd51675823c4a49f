//! Environment variables, read once at startup.

use std::{collections::BTreeMap, env, ffi::OsString, path::PathBuf};

use super::ConfigError;

pub(super) const VARIABLE_PREFIX: &str = "RINGTRUE_";
pub(super) const CONFIG_VARIABLE: &str = "RINGTRUE_CONFIG";
pub(super) const MASTER_KEY_VARIABLE: &str = "RINGTRUE_MASTER_KEY";
pub(super) const LOG_VARIABLE: &str = "RINGTRUE_LOG";
/// Used by the API client commands.
pub(crate) const PROFILE_VARIABLE: &str = "RINGTRUE_PROFILE";
pub(crate) const CLIENT_SECRET_VARIABLE: &str = "RINGTRUE_CLIENT_SECRET";

/// Variables with our prefix that are not settings.
pub(super) const RESERVED_VARIABLES: [&str; 5] =
    [CONFIG_VARIABLE, MASTER_KEY_VARIABLE, LOG_VARIABLE, PROFILE_VARIABLE, CLIENT_SECRET_VARIABLE];

/// All variables: those with the prefix `RINGTRUE_` are settings, and the file may reference any other that holds a
/// secret. `Debug` shows only the names of prefixed ones.
#[derive(Clone, Default)]
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

    /// Variables that override settings.
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

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.prefixed().map(|(name, _)| name)).finish()
    }
}

fn as_text<'a>(name: &str, value: &'a OsString) -> Result<&'a str, ConfigError> {
    value.to_str().ok_or_else(|| ConfigError::NotText { name: name.to_owned() })
}
