//! Keys with a free part: sections that may be there many times, each under a name of its own.
//!
//! `networks.23410.name` is of the family [`Networks`](Family::Networks), has the name `23410` and the member `name`.
//! Which members there are, whoever reads a section says, because it may depend on what stands in it.

use std::{collections::BTreeMap, fmt::Display};

use super::{ConfigError, Origin, kind::Kind, nearest::nearest, value::Value, written::Written};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Family {
    /// `networks.*.…`
    Networks,
    /// `receivers.countries.*`
    Countries,
    /// `connectors.*.…`
    Connectors,
    /// `number_sources.*.…`
    NumberSources,
}

/// The member that a name without members is.
const ITSELF: &str = "";

impl Family {
    const ALL: [Family; 4] = [Family::Networks, Family::Countries, Family::Connectors, Family::NumberSources];

    /// What stands before the names.
    pub(super) fn section(self) -> &'static str {
        match self {
            Family::Networks => "networks",
            Family::Countries => "receivers.countries",
            Family::Connectors => "connectors",
            Family::NumberSources => "number_sources",
        }
    }

    fn has_members(self) -> bool {
        match self {
            Family::Networks | Family::Connectors | Family::NumberSources => true,
            Family::Countries => false,
        }
    }

    /// The keys that the names of families stand under.
    pub(super) fn sections() -> impl Iterator<Item = &'static str> {
        Family::ALL.into_iter().map(Family::section)
    }

    /// The same key, were it of one of the families.
    pub(super) fn likenesses(key: &str) -> Vec<String> {
        let like = |family: &Family| {
            let (section, parts) = (family.section(), family.section().split('.').count());
            key.splitn(parts + 1, '.').nth(parts).map(|rest| format!("{section}.{rest}"))
        };
        Family::ALL.iter().filter_map(like).collect()
    }

    fn key(self, name: &str, member: &str) -> String {
        let dot = if member == ITSELF { "" } else { "." };
        format!("{}.{name}{dot}{member}", self.section())
    }
}

/// The named sections of all families.
#[derive(Clone, Default)]
pub(super) struct NamedSections(BTreeMap<(Family, String), Section>);

#[derive(Clone)]
struct Section {
    /// Where it begins.
    origin: Origin,
    members: BTreeMap<String, Written>,
}

/// What became of a key that was to be laid.
pub(super) enum Laid {
    Taken,
    /// Of a family, but in a place where there is nothing.
    Misplaced {
        meant: String,
    },
    /// Of no family.
    Not,
}

impl NamedSections {
    /// Lays an entry of a file. `begins`: where the section that it stands in does.
    pub(super) fn lay(&mut self, key: &str, value: Option<&Value>, origin: &Origin, begins: &Origin) -> Laid {
        let part = |family: &Family| {
            let rest = key.strip_prefix(family.section())?.strip_prefix('.')?;
            let (name, member) = rest.split_once('.').map_or((rest, None), |(name, member)| (name, Some(member)));
            Some((*family, name, member))
        };
        let Some((family, name, member)) = Family::ALL.iter().find_map(part) else { return Laid::Not };
        let mut keep = |member: Option<(&str, &Value)>| {
            let new = Section { origin: begins.clone(), members: BTreeMap::new() };
            let section = self.0.entry((family, name.to_owned())).or_insert(new);
            if let Some((member, value)) = member {
                let written = Written { value: value.clone(), origin: origin.clone() };
                section.members.insert(member.to_owned(), written);
            }
        };
        match (family.has_members(), member, value) {
            (true, Some(member), Some(value)) => keep(Some((member, value))),
            (true, None, None) => keep(None),
            (false, None, Some(value)) => keep(Some((ITSELF, value))),
            (true, None, Some(_)) => return Laid::Misplaced { meant: format!("a section, [{key}]") },
            (true, Some(_), None) | (false, _, _) => return Laid::Misplaced { meant: family.key(name, ITSELF) },
        }
        Laid::Taken
    }

    /// All of a family, by name.
    pub(super) fn of(&self, family: Family) -> impl Iterator<Item = Named<'_>> {
        let sections = self.0.iter().filter(move |((of, _), _)| *of == family);
        sections.map(|((family, name), section)| Named { family: *family, name, section })
    }

    /// Every key that is written, with its value.
    pub(super) fn written(&self) -> impl Iterator<Item = (String, &Written)> {
        let keys = |((family, name), section): (&'_ (Family, String), &'_ Section)| -> Vec<String> {
            section.members.keys().map(|member| family.key(name, member)).collect()
        };
        self.0.iter().flat_map(move |entry| keys(entry).into_iter().zip(entry.1.members.values()))
    }

    /// The environment variables that sections take secrets from.
    pub(super) fn variables(&self) -> impl Iterator<Item = &str> {
        let members = self.0.values().flat_map(|section| &section.members);
        members.filter_map(|(member, written)| match &written.value {
            Value::Text(name) if member.ends_with("_env") => Some(name.as_str()),
            _ => None,
        })
    }
}

/// A section with a name of its own.
#[derive(Clone, Copy)]
pub(super) struct Named<'a> {
    family: Family,
    pub name: &'a str,
    section: &'a Section,
}

impl<'a> Named<'a> {
    pub(super) fn key(&self, member: &str) -> String {
        self.family.key(self.name, member)
    }

    /// Reads a member that must be there.
    pub(super) fn read<K: Kind>(&self, member: &str, kind: &K) -> Result<K::Output, ConfigError> {
        self.read_if(member, kind)?.ok_or_else(|| self.invalid(member, "nothing", kind.allowed()))
    }

    /// Reads a member that need not be there.
    pub(super) fn read_if<K: Kind>(&self, member: &str, kind: &K) -> Result<Option<K::Output>, ConfigError> {
        let written = self.section.members.get(member);
        written.map(|written| written.read(&self.key(member), kind)).transpose()
    }

    /// Reads what stands under a name that has no members.
    pub(super) fn read_itself<K: Kind>(&self, kind: &K) -> Result<K::Output, ConfigError> {
        self.read(ITSELF, kind)
    }

    /// Reads the name.
    pub(super) fn read_name<K: Kind>(&self, kind: &K) -> Result<K::Output, ConfigError> {
        let name = Value::Text(self.name.to_owned());
        kind.read(&name).ok_or_else(|| self.invalid(ITSELF, name, kind.allowed()))
    }

    /// Refuses all members but these.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), ConfigError> {
        let Some((member, written)) = self.section.members.iter().find(|(member, _)| !known.contains(&member.as_str()))
        else {
            return Ok(());
        };
        // Whoever writes a secret here is told where it belongs.
        let file = format!("{member}_file");
        let nearest = if known.contains(&file.as_str()) { Some(file) } else { nearest(member, known.iter().copied()) };
        Err(ConfigError::UnknownKey {
            key: self.key(member),
            origin: written.origin.clone(),
            nearest: nearest.map(|member| self.key(&member)),
        })
    }

    /// Says that a member, taken by itself or with others, is not allowed.
    pub(super) fn invalid(&self, member: &str, found: impl Display, allowed: impl Display) -> ConfigError {
        let origin = self.section.members.get(member).map_or(&self.section.origin, |written| &written.origin);
        ConfigError::Invalid {
            key: self.key(member),
            origin: origin.clone(),
            found: found.to_string(),
            allowed: allowed.to_string(),
        }
    }

    /// What is written, in the order of the members.
    pub(super) fn members(&self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.section.members.iter().map(|(member, written)| (member.as_str(), &written.value))
    }
}
