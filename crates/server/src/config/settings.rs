//! Layers of the configuration: defaults, file, environment.
//!
//! The embedded defaults contain every key, so they are also the list of known keys; only named sections have other
//! keys, see [`named_sections`](super::named_sections). A layer replaces values key by key; every value records its
//! origin.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    path::Path,
    sync::Arc,
};

use super::{
    ChangedSetting, ConfigError, Environment, Origin,
    environment::{RESERVED_VARIABLES, VARIABLE_PREFIX},
    named_sections::{NamedSection, NamedSections, OverlayResult, SectionGroup},
    sourced_value::SourcedValue,
    suggestion::suggest_similar,
    value::{Value, parse_toml},
    value_type::{ValueType, mask_value},
};

/// Printed by `ringtrue config default`.
pub const DEFAULTS: &str = include_str!("default.toml");

#[derive(Clone)]
pub(super) struct Settings {
    values: BTreeMap<String, SourcedValue>,
    named: NamedSections,
}

impl Settings {
    pub(super) fn defaults() -> Result<Self, ConfigError> {
        let default = |value| SourcedValue { value, origin: Origin::Default };
        let defaults = parse_toml(DEFAULTS, Path::new("default.toml"))?;
        let values = defaults.into_iter().filter_map(|entry| Some((entry.key, default(entry.value?)))).collect();
        Ok(Settings { values, named: NamedSections::default() })
    }

    pub(super) fn overlay_file(&mut self, path: &Path, text: &str) -> Result<(), ConfigError> {
        let path: Arc<Path> = path.into();
        let origin_of = |line| Origin::File { path: Arc::clone(&path), line };
        for entry in parse_toml(text, &path)? {
            let origin = origin_of(entry.line);
            match (entry.value, self.is_section(&entry.key)) {
                (Some(value), _) if self.values.contains_key(&entry.key) => self.overlay(&entry.key, value, origin),
                // Empty section.
                (None, true) => {}
                (Some(_), true) => {
                    let suggestion = format!("a section, [{}]", entry.key);
                    return Err(ConfigError::UnknownKey { key: entry.key, origin, suggestion: Some(suggestion) });
                }
                (value, false) => {
                    let section_origin = origin_of(entry.section_line);
                    let suggestion = match self.named.overlay(&entry.key, value.as_ref(), &origin, &section_origin) {
                        OverlayResult::Accepted => continue,
                        OverlayResult::Misplaced { suggestion } => Some(suggestion),
                        OverlayResult::NoGroup => self.suggest_key(&entry.key),
                    };
                    return Err(ConfigError::UnknownKey { key: entry.key, origin, suggestion });
                }
            }
        }
        Ok(())
    }

    pub(super) fn overlay_environment(&mut self, environment: &Environment) -> Result<(), ConfigError> {
        let keys: BTreeMap<String, String> = self.values.keys().map(|key| (variable_name(key), key.clone())).collect();
        let secrets: BTreeSet<&str> = self.named.secret_variables().collect();
        for variable in environment.settings().filter(|(name, _)| !secrets.contains(name)) {
            let (name, text) = (variable.0, variable.1?);
            let Some(value) = keys.get(name).and_then(|key| self.values.get_mut(key)) else {
                let known = keys.keys().map(String::as_str).chain(RESERVED_VARIABLES);
                let suggestion = suggest_section(name).or_else(|| suggest_similar(name, known));
                return Err(ConfigError::UnknownVariable { name: name.to_owned(), suggestion });
            };
            *value = SourcedValue { value: Value::Text(text.to_owned()), origin: Origin::Variable(name.to_owned()) };
        }
        Ok(())
    }

    pub(super) fn overlay(&mut self, key: &str, value: Value, origin: Origin) {
        self.values.insert(key.to_owned(), SourcedValue { value, origin });
    }

    pub(super) fn read<T: ValueType>(&self, key: &'static str, value_type: &T) -> Result<T::Output, ConfigError> {
        match self.values.get(key) {
            Some(value) => value.read(key, value_type),
            None => Err(self.invalid(key, "nothing", value_type.allowed())),
        }
    }

    /// Sections of a group, sorted by name.
    pub(super) fn named_sections(&self, group: SectionGroup) -> impl Iterator<Item = NamedSection<'_>> {
        self.named.in_group(group)
    }

    /// Builds the error for a setting with an invalid value.
    pub(super) fn invalid(&self, key: &'static str, found: impl Display, allowed: impl Display) -> ConfigError {
        let origin = self.values.get(key).map_or(Origin::Default, |value| value.origin.clone());
        ConfigError::Invalid { key: key.to_owned(), origin, found: found.to_string(), allowed: allowed.to_string() }
    }

    /// Settings that differ from their defaults.
    pub(super) fn changed_settings(&self) -> impl Iterator<Item = ChangedSetting> {
        let known = self.values.iter().map(|(key, value)| (key.clone(), value));
        let changed = known.chain(self.named.entries()).filter(|(_, value)| value.origin != Origin::Default);
        changed.map(|(key, SourcedValue { value, origin })| ChangedSetting {
            key,
            value: mask_value(value),
            origin: origin.clone(),
        })
    }

    fn is_section(&self, key: &str) -> bool {
        let holds = |known: &String| known.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'));
        SectionGroup::prefixes().any(|section| section == key) || self.values.keys().any(holds)
    }

    fn suggest_key(&self, key: &str) -> Option<String> {
        let similar_keys = SectionGroup::similar_keys(key);
        suggest_similar(key, self.values.keys().chain(&similar_keys).map(String::as_str))
    }
}

/// Environment variable that overrides a key.
pub(super) fn variable_name(key: &str) -> String {
    format!("{VARIABLE_PREFIX}{}", key.to_ascii_uppercase().replace('.', "__"))
}

/// Suggests a section of the file for a variable that addresses a named section.
fn suggest_section(name: &str) -> Option<String> {
    let begins = |section: &&str| name.strip_prefix(&variable_name(section)).is_some_and(|rest| rest.starts_with("__"));
    SectionGroup::prefixes().find(begins).map(|section| format!("a section of the file, [{section}]"))
}
