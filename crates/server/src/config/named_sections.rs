//! Sections with user-defined names.
//!
//! `networks.23410.name` is in the group [`Networks`](SectionGroup::Networks), has the name `23410` and the member
//! `name`. The code that reads a section lists its members, since they may depend on its values.

use std::{collections::BTreeMap, fmt::Display};

use super::{
    ConfigError, Origin, sourced_value::SourcedValue, suggestion::suggest_similar, value::Value, value_type::ValueType,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SectionGroup {
    /// `networks.*.…`
    Networks,
    /// `receivers.countries.*`
    Countries,
    /// `connectors.*.…`
    Connectors,
    /// `number_sources.*.…`
    NumberSources,
}

/// Member key of a name without members.
const NO_MEMBER: &str = "";

impl SectionGroup {
    const ALL: [SectionGroup; 4] =
        [SectionGroup::Networks, SectionGroup::Countries, SectionGroup::Connectors, SectionGroup::NumberSources];

    /// Key prefix of the names.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            SectionGroup::Networks => "networks",
            SectionGroup::Countries => "receivers.countries",
            SectionGroup::Connectors => "connectors",
            SectionGroup::NumberSources => "number_sources",
        }
    }

    fn has_members(self) -> bool {
        match self {
            SectionGroup::Networks | SectionGroup::Connectors | SectionGroup::NumberSources => true,
            SectionGroup::Countries => false,
        }
    }

    pub(super) fn prefixes() -> impl Iterator<Item = &'static str> {
        SectionGroup::ALL.into_iter().map(SectionGroup::prefix)
    }

    /// Rewrites the key with each prefix, as candidates for a suggestion.
    pub(super) fn similar_keys(key: &str) -> Vec<String> {
        let with_prefix = |group: &SectionGroup| {
            let (prefix, parts) = (group.prefix(), group.prefix().split('.').count());
            key.splitn(parts + 1, '.').nth(parts).map(|rest| format!("{prefix}.{rest}"))
        };
        SectionGroup::ALL.iter().filter_map(with_prefix).collect()
    }

    fn key(self, name: &str, member: &str) -> String {
        let dot = if member == NO_MEMBER { "" } else { "." };
        format!("{}.{name}{dot}{member}", self.prefix())
    }
}

#[derive(Clone, Default)]
pub(super) struct NamedSections(BTreeMap<(SectionGroup, String), SectionValues>);

#[derive(Clone)]
struct SectionValues {
    /// Position of the section header.
    origin: Origin,
    members: BTreeMap<String, SourcedValue>,
}

/// Result of overlaying an entry.
pub(super) enum OverlayResult {
    Accepted,
    /// Has the prefix of a group, but not the shape of its keys.
    Misplaced {
        suggestion: String,
    },
    /// Belongs to no group.
    NoGroup,
}

impl NamedSections {
    /// Overlays an entry of a file. `section_origin` is the position of its section header.
    pub(super) fn overlay(
        &mut self,
        key: &str,
        value: Option<&Value>,
        origin: &Origin,
        section_origin: &Origin,
    ) -> OverlayResult {
        let split = |group: &SectionGroup| {
            let rest = key.strip_prefix(group.prefix())?.strip_prefix('.')?;
            let (name, member) = rest.split_once('.').map_or((rest, None), |(name, member)| (name, Some(member)));
            Some((*group, name, member))
        };
        let Some((group, name, member)) = SectionGroup::ALL.iter().find_map(split) else {
            return OverlayResult::NoGroup;
        };
        let mut insert = |member: Option<(&str, &Value)>| {
            let new = SectionValues { origin: section_origin.clone(), members: BTreeMap::new() };
            let section = self.0.entry((group, name.to_owned())).or_insert(new);
            if let Some((member, value)) = member {
                let entry = SourcedValue { value: value.clone(), origin: origin.clone() };
                section.members.insert(member.to_owned(), entry);
            }
        };
        match (group.has_members(), member, value) {
            (true, Some(member), Some(value)) => insert(Some((member, value))),
            (true, None, None) => insert(None),
            (false, None, Some(value)) => insert(Some((NO_MEMBER, value))),
            (true, None, Some(_)) => return OverlayResult::Misplaced { suggestion: format!("a section, [{key}]") },
            (true, Some(_), None) | (false, _, _) => {
                return OverlayResult::Misplaced { suggestion: group.key(name, NO_MEMBER) };
            }
        }
        OverlayResult::Accepted
    }

    /// Sections of a group, sorted by name.
    pub(super) fn in_group(&self, group: SectionGroup) -> impl Iterator<Item = NamedSection<'_>> {
        let sections = self.0.iter().filter(move |((other, _), _)| *other == group);
        sections.map(|((group, name), section)| NamedSection { group: *group, name, section })
    }

    /// All keys with their values.
    pub(super) fn entries(&self) -> impl Iterator<Item = (String, &SourcedValue)> {
        let keys = |((group, name), section): (&'_ (SectionGroup, String), &'_ SectionValues)| -> Vec<String> {
            section.members.keys().map(|member| group.key(name, member)).collect()
        };
        self.0.iter().flat_map(move |entry| keys(entry).into_iter().zip(entry.1.members.values()))
    }

    /// Environment variables that hold secrets of sections.
    pub(super) fn secret_variables(&self) -> impl Iterator<Item = &str> {
        let members = self.0.values().flat_map(|section| &section.members);
        members.filter_map(|(member, entry)| match &entry.value {
            Value::Text(name) if member.ends_with("_env") => Some(name.as_str()),
            _ => None,
        })
    }
}

#[derive(Clone, Copy)]
pub(super) struct NamedSection<'a> {
    group: SectionGroup,
    pub name: &'a str,
    section: &'a SectionValues,
}

impl<'a> NamedSection<'a> {
    pub(super) fn key(&self, member: &str) -> String {
        self.group.key(self.name, member)
    }

    /// Reads a required member.
    pub(super) fn read<T: ValueType>(&self, member: &str, value_type: &T) -> Result<T::Output, ConfigError> {
        self.read_optional(member, value_type)?.ok_or_else(|| self.invalid(member, "nothing", value_type.allowed()))
    }

    pub(super) fn read_optional<T: ValueType>(
        &self,
        member: &str,
        value_type: &T,
    ) -> Result<Option<T::Output>, ConfigError> {
        let entry = self.section.members.get(member);
        entry.map(|entry| entry.read(&self.key(member), value_type)).transpose()
    }

    /// Reads the value of a name without members.
    pub(super) fn read_value<T: ValueType>(&self, value_type: &T) -> Result<T::Output, ConfigError> {
        self.read(NO_MEMBER, value_type)
    }

    /// Parses the name of the section.
    pub(super) fn read_name<T: ValueType>(&self, value_type: &T) -> Result<T::Output, ConfigError> {
        let name = Value::Text(self.name.to_owned());
        value_type.parse(&name).ok_or_else(|| self.invalid(NO_MEMBER, name, value_type.allowed()))
    }

    pub(super) fn reject_unknown(&self, known: &[&str]) -> Result<(), ConfigError> {
        let Some((member, entry)) = self.section.members.iter().find(|(member, _)| !known.contains(&member.as_str()))
        else {
            return Ok(());
        };
        // A secret in the file: suggest the `_file` member.
        let file = format!("{member}_file");
        let suggestion =
            if known.contains(&file.as_str()) { Some(file) } else { suggest_similar(member, known.iter().copied()) };
        Err(ConfigError::UnknownKey {
            key: self.key(member),
            origin: entry.origin.clone(),
            suggestion: suggestion.map(|member| self.key(&member)),
        })
    }

    /// Builds the error for a member with an invalid value.
    pub(super) fn invalid(&self, member: &str, found: impl Display, allowed: impl Display) -> ConfigError {
        let origin = self.section.members.get(member).map_or(&self.section.origin, |entry| &entry.origin);
        ConfigError::Invalid {
            key: self.key(member),
            origin: origin.clone(),
            found: found.to_string(),
            allowed: allowed.to_string(),
        }
    }

    /// Members that are set, sorted by name.
    pub(super) fn members(&self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.section.members.iter().map(|(member, entry)| (member.as_str(), &entry.value))
    }
}
