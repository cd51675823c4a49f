//! The environment of the process, read once.

use std::{collections::BTreeMap, env, ffi::OsString, path::PathBuf};

use super::ConfigError;

pub(super) const PREFIX: &str = "RINGTRUE_";
pub(super) const CONFIG: &str = "RINGTRUE_CONFIG";
pub(super) const MASTER_KEY: &str = "RINGTRUE_MASTER_KEY";
pub(super) const LOG: &str = "RINGTRUE_LOG";
/// Of the command line for callers.
pub(crate) const PROFILE: &str = "RINGTRUE_PROFILE";
pub(crate) const CLIENT_SECRET: &str = "RINGTRUE_CLIENT_SECRET";

/// Variables that are no settings of the file.
pub(super) const RESERVED: [&str; 5] = [CONFIG, MASTER_KEY, LOG, PROFILE, CLIENT_SECRET];

/// All variables: those that begin with `RINGTRUE_` are ours, and the file may name any other that holds a secret.
/// `Debug` shows the names of ours only.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, OsString>);

impl Environment {
    /// The environment of this process.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
    pub fn of_process() -> Self {
        env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect()
    }

    /// The file that `RINGTRUE_CONFIG` names.
    pub(super) fn config_file(&self) -> Option<PathBuf> {
        self.0.get(CONFIG).filter(|path| !path.is_empty()).map(PathBuf::from)
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, ConfigError> {
        self.0.get(name).map(|value| as_text(name, value)).transpose()
    }

    /// The variables that stand for settings.
    pub(super) fn settings(&self) -> impl Iterator<Item = (&str, Result<&str, ConfigError>)> {
        self.ours().filter(|(name, _)| !RESERVED.contains(name)).map(|(name, value)| (name, as_text(name, value)))
    }

    fn ours(&self) -> impl Iterator<Item = (&str, &OsString)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value)).filter(|(name, _)| name.starts_with(PREFIX))
    }
}

impl<N: Into<String>, V: Into<OsString>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        Environment(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.ours().map(|(name, _)| name)).finish()
    }
}

fn as_text<'a>(name: &str, value: &'a OsString) -> Result<&'a str, ConfigError> {
    value.to_str().ok_or_else(|| ConfigError::NotText { name: name.to_owned() })
}
