//! The layers of a configuration, laid over each other: defaults, file, environment.
//!
//! The embedded defaults hold every key there is, so they are also the list of known keys; only sections with free
//! names have keys beyond it, see [`family`](super::family). A layer replaces values, key by key; every value remembers
//! where it was written.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    path::Path,
    sync::Arc,
};

use super::{
    Changed, ConfigError, Environment, Origin,
    environment::{PREFIX, RESERVED},
    family::{Family, Laid, Named, NamedSections},
    kind::{Kind, shown},
    nearest::nearest,
    value::{Value, entries},
    written::Written,
};

/// The defaults, as `ringtrue config default` prints them.
pub const DEFAULTS: &str = include_str!("default.toml");

/// Every key with its value and where that comes from.
#[derive(Clone)]
pub(super) struct Settings {
    known: BTreeMap<String, Written>,
    named: NamedSections,
}

impl Settings {
    pub(super) fn defaults() -> Result<Self, ConfigError> {
        let written = |value| Written { value, origin: Origin::Default };
        let defaults = entries(DEFAULTS, Path::new("default.toml"))?;
        let known = defaults.into_iter().filter_map(|entry| Some((entry.key, written(entry.value?)))).collect();
        Ok(Settings { known, named: NamedSections::default() })
    }

    /// Lays the text of a file over what is there.
    pub(super) fn lay_file(&mut self, path: &Path, text: &str) -> Result<(), ConfigError> {
        let path: Arc<Path> = path.into();
        let origin_of = |line| Origin::File { path: Arc::clone(&path), line };
        for entry in entries(text, &path)? {
            let origin = origin_of(entry.line);
            match (entry.value, self.is_section(&entry.key)) {
                (Some(value), _) if self.known.contains_key(&entry.key) => self.lay(&entry.key, value, origin),
                // A section with nothing in it changes nothing.
                (None, true) => {}
                (Some(_), true) => {
                    let meant = format!("a section, [{}]", entry.key);
                    return Err(ConfigError::UnknownKey { key: entry.key, origin, nearest: Some(meant) });
                }
                (value, false) => {
                    let begins = origin_of(entry.section_line);
                    let nearest = match self.named.lay(&entry.key, value.as_ref(), &origin, &begins) {
                        Laid::Taken => continue,
                        Laid::Misplaced { meant } => Some(meant),
                        Laid::Not => self.nearest_key(&entry.key),
                    };
                    return Err(ConfigError::UnknownKey { key: entry.key, origin, nearest });
                }
            }
        }
        Ok(())
    }

    /// Lays environment variables over what is there.
    pub(super) fn lay_environment(&mut self, environment: &Environment) -> Result<(), ConfigError> {
        let keys: BTreeMap<String, String> = self.known.keys().map(|key| (variable_of(key), key.clone())).collect();
        let secrets: BTreeSet<&str> = self.named.variables().collect();
        for variable in environment.settings().filter(|(name, _)| !secrets.contains(name)) {
            let (name, text) = (variable.0, variable.1?);
            let Some(written) = keys.get(name).and_then(|key| self.known.get_mut(key)) else {
                let known = keys.keys().map(String::as_str).chain(RESERVED);
                let nearest = section_of_variable(name).or_else(|| nearest(name, known));
                return Err(ConfigError::UnknownVariable { name: name.to_owned(), nearest });
            };
            *written = Written { value: Value::Text(text.to_owned()), origin: Origin::Variable(name.to_owned()) };
        }
        Ok(())
    }

    /// Lays one value over what is there.
    pub(super) fn lay(&mut self, key: &str, value: Value, origin: Origin) {
        self.known.insert(key.to_owned(), Written { value, origin });
    }

    /// Reads a setting as what it must be.
    pub(super) fn read<K: Kind>(&self, key: &'static str, kind: &K) -> Result<K::Output, ConfigError> {
        match self.known.get(key) {
            Some(written) => written.read(key, kind),
            None => Err(self.invalid(key, "nothing", kind.allowed())),
        }
    }

    /// The sections of a family, by name.
    pub(super) fn named(&self, family: Family) -> impl Iterator<Item = Named<'_>> {
        self.named.of(family)
    }

    /// Says that a setting, taken by itself or with others, is not allowed.
    pub(super) fn invalid(&self, key: &'static str, found: impl Display, allowed: impl Display) -> ConfigError {
        let origin = self.known.get(key).map_or(Origin::Default, |written| written.origin.clone());
        ConfigError::Invalid { key: key.to_owned(), origin, found: found.to_string(), allowed: allowed.to_string() }
    }

    /// The keys that do not have their default, and where they were written.
    pub(super) fn changed(&self) -> impl Iterator<Item = Changed> {
        let known = self.known.iter().map(|(key, written)| (key.clone(), written));
        let written = known.chain(self.named.written()).filter(|(_, written)| written.origin != Origin::Default);
        written.map(|(key, Written { value, origin })| Changed { key, value: shown(value), origin: origin.clone() })
    }

    fn is_section(&self, key: &str) -> bool {
        let holds = |known: &String| known.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'));
        Family::sections().any(|section| section == key) || self.known.keys().any(holds)
    }

    fn nearest_key(&self, key: &str) -> Option<String> {
        let likenesses = Family::likenesses(key);
        nearest(key, self.known.keys().chain(&likenesses).map(String::as_str))
    }
}

/// The variable that overrides a key.
pub(super) fn variable_of(key: &str) -> String {
    format!("{PREFIX}{}", key.to_ascii_uppercase().replace('.', "__"))
}

/// What whoever writes a variable for a section with a free name must do instead.
fn section_of_variable(name: &str) -> Option<String> {
    let begins = |section: &&str| name.strip_prefix(&variable_of(section)).is_some_and(|rest| rest.starts_with("__"));
    Family::sections().find(begins).map(|section| format!("a section of the file, [{section}]"))
}
