//! The layers of a configuration, laid over each other: defaults, file, environment.
//!
//! The embedded defaults hold every key there is, so they are also the list of known keys. A layer replaces values, key
//! by key; every value remembers where it was written.

use std::{collections::BTreeMap, fmt::Display, path::Path, sync::Arc};

use super::{
    Changed, ConfigError, Environment, Origin,
    environment::{PREFIX, RESERVED},
    kind::{Kind, shown},
    value::{Value, entries},
};

/// The defaults, as `ringtrue config default` prints them.
pub const DEFAULTS: &str = include_str!("default.toml");

/// Every key with its value and where that comes from.
#[derive(Clone)]
pub(super) struct Settings(BTreeMap<String, Written>);

#[derive(Clone)]
struct Written {
    value: Value,
    origin: Origin,
}

impl Settings {
    pub(super) fn defaults() -> Result<Self, ConfigError> {
        let written = |value| Written { value, origin: Origin::Default };
        let defaults = entries(DEFAULTS, Path::new("default.toml"))?;
        Ok(Settings(defaults.into_iter().filter_map(|entry| Some((entry.key, written(entry.value?)))).collect()))
    }

    /// Lays the text of a file over what is there.
    pub(super) fn lay_file(&mut self, path: &Path, text: &str) -> Result<(), ConfigError> {
        let path: Arc<Path> = path.into();
        for entry in entries(text, &path)? {
            let origin = Origin::File { path: Arc::clone(&path), line: entry.line };
            match entry.value {
                Some(value) if self.0.contains_key(&entry.key) => self.lay(&entry.key, value, origin),
                // A section with nothing in it changes nothing.
                None if self.is_section(&entry.key) => {}
                value => return Err(self.unknown_key(entry.key, value.as_ref(), origin)),
            }
        }
        Ok(())
    }

    /// Lays environment variables over what is there.
    pub(super) fn lay_environment(&mut self, environment: &Environment) -> Result<(), ConfigError> {
        let keys: BTreeMap<String, String> = self.0.keys().map(|key| (variable_of(key), key.clone())).collect();
        for variable in environment.settings() {
            let (name, text) = variable?;
            let Some(written) = keys.get(name).and_then(|key| self.0.get_mut(key)) else {
                let known = keys.keys().map(String::as_str).chain(RESERVED);
                return Err(ConfigError::UnknownVariable { name: name.to_owned(), nearest: nearest(name, known) });
            };
            *written = Written { value: Value::Text(text.to_owned()), origin: Origin::Variable(name.to_owned()) };
        }
        Ok(())
    }

    /// Lays one value over what is there.
    pub(super) fn lay(&mut self, key: &str, value: Value, origin: Origin) {
        self.0.insert(key.to_owned(), Written { value, origin });
    }

    /// Reads a setting as what it must be.
    pub(super) fn read<K: Kind>(&self, key: &'static str, kind: &K) -> Result<K::Output, ConfigError> {
        let written = self.0.get(key);
        let understood = written.and_then(|written| match (&written.origin, &written.value) {
            // A variable is text, which may mean a number or a list.
            (Origin::Variable(_), Value::Text(text)) => {
                Value::parse(text).and_then(|value| kind.read(&value)).or_else(|| kind.read(&written.value))
            }
            (_, value) => kind.read(value),
        });
        understood.ok_or_else(|| {
            let (found, allowed) = match written {
                Some(Written { value, .. }) => (kind.show(value), kind.allowed_instead(value)),
                None => ("nothing".to_owned(), kind.allowed()),
            };
            self.invalid(key, found, allowed)
        })
    }

    /// Says that a setting, taken by itself or with others, is not allowed.
    pub(super) fn invalid(&self, key: &'static str, found: impl Display, allowed: impl Display) -> ConfigError {
        let origin = self.0.get(key).map_or(Origin::Default, |written| written.origin.clone());
        ConfigError::Invalid { key, origin, found: found.to_string(), allowed: allowed.to_string() }
    }

    /// The keys that do not have their default, and where they were written.
    pub(super) fn changed(&self) -> impl Iterator<Item = Changed> {
        self.0.iter().filter(|(_, written)| written.origin != Origin::Default).map(|(key, written)| Changed {
            key: key.clone(),
            value: shown(&written.value),
            origin: written.origin.clone(),
        })
    }

    fn is_section(&self, key: &str) -> bool {
        self.0.keys().any(|known| known.strip_prefix(key).is_some_and(|rest| rest.starts_with('.')))
    }

    fn unknown_key(&self, key: String, value: Option<&Value>, origin: Origin) -> ConfigError {
        let nearest = if value.is_some() && self.is_section(&key) {
            Some(format!("a section, [{key}]"))
        } else {
            nearest(&key, self.0.keys().map(String::as_str))
        };
        ConfigError::UnknownKey { key, origin, nearest }
    }
}

/// The variable that overrides a key.
pub(super) fn variable_of(key: &str) -> String {
    format!("{PREFIX}{}", key.to_ascii_uppercase().replace('.', "__"))
}

/// The known name that is most like this one, if any is like it at all.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let folded = name.to_lowercase();
    let (distance, nearest) = known.map(|other| (distance(&folded, &other.to_lowercase()), other)).min()?;
    (distance <= name.chars().count() / 2).then(|| nearest.to_owned())
}

/// How many characters must be added, taken away or changed to make one word of the other.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, other) in to.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (from, to, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("listen", "listn", 1),
            ("kitten", "sitting", 3),
            ("http.lsiten", "http.listen", 2),
        ] {
            assert_eq!(distance(from, to), expected, "{from} {to}");
        }
    }

    #[test]
    fn something_quite_different_is_not_suggested() {
        assert_eq!(nearest("zzz", ["region", "base_url"].into_iter()), None);
        assert_eq!(nearest("regoin", ["region", "base_url"].into_iter()).as_deref(), Some("region"));
    }
}
