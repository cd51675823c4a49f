//! All settings by key, each with its origin. A file overrides the defaults, and the environment overrides both.
//!
//! The embedded defaults contain every key, so they are also the list of known keys. Only named sections have other
//! keys: `networks.23410.name` is the member `name` of the section `networks.23410`.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Display},
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use aws_lc_rs::digest::{Context, SHA256};
use toml::{Table, Value, de::DeTable};
use zeroize::Zeroizing;

use super::{
    ChangedSetting, Environment,
    environment::{RESERVED_VARIABLES, read_private_file},
    value_parser::{self, ValueParser},
};

/// All settings with their defaults, as a TOML file. `ringtrue config default` prints it.
pub const DEFAULTS: &str = include_str!("default.toml");

/// Groups whose sections have names chosen by the user.
pub(super) const NAMED_GROUPS: [&str; 4] = ["networks", COUNTRIES, "connectors", "number_sources"];
/// Group whose entries are plain values, such as `GB = ["+44…"]`, instead of sections.
pub(super) const COUNTRIES: &str = "receivers.countries";

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read {}: {error}", path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("{}:{line}: invalid TOML: {error}", path.display())]
    Syntax { path: PathBuf, line: usize, error: String },
    #[error("{key} ({origin}): unknown key{}", render_suggestion(suggestion.as_deref()))]
    UnknownKey { key: String, origin: Origin, suggestion: Option<String> },
    #[error("{name}: no setting for this environment variable{}", render_suggestion(suggestion.as_deref()))]
    UnknownVariable { name: String, suggestion: Option<String> },
    #[error("{name}: the value of this environment variable is not UTF-8")]
    NotText { name: String },
    #[error("{key} ({origin}): found {found}; allowed: {allowed}")]
    Invalid { key: String, origin: Origin, found: String, allowed: String },
}

impl ConfigError {
    /// Returns the line of the file with the error. `None`: the error is not in the file.
    fn line(&self) -> Option<usize> {
        match self {
            ConfigError::Syntax { line, .. }
            | ConfigError::UnknownKey { origin: Origin::File { line, .. }, .. }
            | ConfigError::Invalid { origin: Origin::File { line, .. }, .. } => Some(*line),
            _ => None,
        }
    }

    fn key(&self) -> Option<&str> {
        match self {
            ConfigError::UnknownKey { key, .. } | ConfigError::Invalid { key, .. } => Some(key),
            _ => None,
        }
    }
}

/// All errors of a configuration, at least one. Those in the file come first, ordered by line.
#[derive(Debug)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    fn new(mut errors: Vec<ConfigError>) -> Self {
        errors.sort_by_key(|error| error.line().unwrap_or(usize::MAX));
        ConfigErrors(errors)
    }
}

impl From<ConfigError> for ConfigErrors {
    fn from(error: ConfigError) -> Self {
        ConfigErrors(vec![error])
    }
}

impl Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [error] = self.0.as_slice() {
            return error.fmt(f);
        }
        write!(f, "{} errors", self.0.len())?;
        self.0.iter().try_for_each(|error| write!(f, "\n  {error}"))
    }
}

impl std::error::Error for ConfigErrors {}

/// Maximum number of reported errors. Limits the time, because the whole configuration is read again after each error.
const MAX_ERRORS: usize = 50;
/// Maximum number of setting reads over all passes. Limits the start-up time for a large configuration.
const MAX_SETTING_READS: usize = 1_000_000;

fn render_suggestion(suggestion: Option<&str>) -> String {
    suggestion.map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Default,
    /// Set by `ringtrue dev`.
    Development,
    File {
        path: Arc<Path>,
        line: usize,
    },
    Variable(String),
}

impl Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::Development => f.write_str("ringtrue dev"),
            Origin::File { path, line } => write!(f, "{}:{line}", path.display()),
            Origin::Variable(name) => write!(f, "environment variable {name}"),
        }
    }
}

pub(super) struct ConfigDocument<'e> {
    /// Values and tables by their dotted key.
    entries: BTreeMap<String, Entry>,
    /// Defaults of all settings that have one, by key.
    defaults: BTreeMap<String, Value>,
    errors: Vec<ConfigError>,
    /// Whether invalid sections were removed. If so, references between sections cannot be checked.
    is_incomplete: bool,
    pub environment: &'e Environment,
}

struct Entry {
    value: Value,
    origin: Origin,
}

impl Entry {
    /// Parses the text of an environment variable as a TOML value. `None` for entries of other origins.
    fn typed(&self) -> Option<Value> {
        self.value.as_str().filter(|_| matches!(self.origin, Origin::Variable(_))).and_then(|text| text.parse().ok())
    }
}

enum KeyKind {
    Setting,
    Section,
    Unknown,
}

impl<'e> ConfigDocument<'e> {
    pub(super) fn defaults(environment: &'e Environment) -> Result<Self, ConfigError> {
        let mut document = ConfigDocument {
            entries: BTreeMap::new(),
            defaults: BTreeMap::new(),
            errors: vec![],
            is_incomplete: false,
            environment,
        };
        let (entries, errors) = parse_toml(DEFAULTS, Path::new("default.toml"));
        if let Some(error) = errors.into_iter().next() {
            return Err(error);
        }
        for (key, _, value) in entries {
            if !value.is_table() {
                document.defaults.insert(key.clone(), value.clone());
            }
            document.set(key, value, Origin::Default);
        }
        for group in NAMED_GROUPS {
            document.set(group, Table::new(), Origin::Default);
        }
        Ok(document)
    }

    pub(super) fn set(&mut self, key: impl Into<String>, value: impl Into<Value>, origin: Origin) {
        self.entries.insert(key.into(), Entry { value: value.into(), origin });
    }

    /// Overrides settings with those in a file. Errors are kept and reported by [`read`](Self::read).
    pub(super) fn overlay_file(&mut self, path: &Path, text: &str) {
        let path: Arc<Path> = path.into();
        let (entries, errors) = parse_toml(text, &path);
        if !errors.is_empty() {
            self.errors.extend(errors);
            return;
        }
        for (key, line, value) in entries {
            let origin = Origin::File { path: Arc::clone(&path), line };
            let suggestion = match (self.kind_of(&key), &value) {
                (KeyKind::Setting, value) if !value.is_table() => None,
                (KeyKind::Section, Value::Table(_)) => None,
                // The unknown members of this table are reported instead of the table.
                (_, Value::Table(members)) if !members.is_empty() => continue,
                (KeyKind::Section, _) => Some(Some(format!("a section, [{key}]"))),
                _ => Some(self.suggest_key(&key)),
            };
            match suggestion {
                None => self.set(key, value, origin),
                Some(suggestion) => self.errors.push(ConfigError::UnknownKey { key, origin, suggestion }),
            }
        }
    }

    /// Overrides settings with environment variables. Errors are kept and reported by [`read`](Self::read).
    pub(super) fn overlay_environment(&mut self) {
        let is_setting = |(key, entry): &(&String, &Entry)| !entry.value.is_table() && group_of(key).is_none();
        let settings = self.entries.iter().filter(is_setting);
        let variables: BTreeMap<String, String> = settings.map(|(key, _)| (variable_name(key), key.clone())).collect();
        let secrets = self.entries.iter().filter(|(key, _)| group_of(key).is_some() && key.ends_with("_env"));
        let secrets: BTreeSet<String> =
            secrets.filter_map(|(_, entry)| Some(entry.value.as_str()?.to_owned())).collect();
        for (name, text) in self.environment.settings().filter(|(name, _)| !secrets.contains(*name)) {
            let Some(key) = variables.get(name) else {
                let known = variables.keys().map(String::as_str).chain(RESERVED_VARIABLES);
                let suggestion = suggest_group(name).or_else(|| suggest_similar(name, known));
                self.errors.push(ConfigError::UnknownVariable { name: name.to_owned(), suggestion });
                continue;
            };
            match text {
                Ok(text) => self.set(key, text, Origin::Variable(name.to_owned())),
                Err(error) => self.errors.push(error),
            }
        }
    }

    /// Reads the configuration and collects all errors. After each error, replaces the setting with its default or
    /// removes the setting, and reads everything again.
    pub(super) fn read<T>(mut self, read: impl Fn(&Self) -> Result<T, ConfigError>) -> Result<T, ConfigErrors> {
        let mut errors = std::mem::take(&mut self.errors);
        if errors.iter().any(|error| matches!(error, ConfigError::Syntax { .. })) {
            return Err(ConfigErrors::new(errors));
        }
        let mut left_out = BTreeSet::new();
        let max_errors = (MAX_SETTING_READS / self.entries.len().max(1)).clamp(1, MAX_ERRORS);
        while errors.len() < max_errors {
            match read(&self) {
                Ok(config) if errors.is_empty() => return Ok(config),
                Ok(_) => break,
                Err(error) => {
                    let key = error.key().map(str::to_owned);
                    // A required member that was removed because of its invalid value is now missing, but has been
                    // reported.
                    if key.as_ref().is_none_or(|key| !left_out.contains(key)) {
                        errors.push(error);
                    }
                    let Some(key) = key else { break };
                    if !self.leave_out(&key) {
                        break;
                    }
                    left_out.insert(key);
                }
            }
        }
        Err(ConfigErrors::new(errors))
    }

    /// Makes an invalid key harmless, so that reading can continue. A setting gets its default. A member of a named
    /// section is removed. If the key is missing, or is the section itself, the whole section is removed. Returns
    /// `false` if nothing has changed.
    fn leave_out(&mut self, key: &str) -> bool {
        if let Some(default) = self.defaults.get(key) {
            let is_changed = self.entries.get(key).is_some_and(|entry| entry.origin != Origin::Default);
            self.entries.insert(key.to_owned(), Entry { value: default.clone(), origin: Origin::Default });
            return is_changed;
        }
        let Some(group) = group_of(key).map(|position| NAMED_GROUPS[position]) else { return false };
        self.is_incomplete = true;
        if self.entries.get(key).is_some_and(|entry| !entry.value.is_table()) {
            self.entries.remove(key);
            return true;
        }
        let name = key[group.len() + 1..].split('.').next().unwrap_or_default();
        let section = format!("{group}.{name}");
        let members: Vec<String> = self.children(&section).map(|(member, _)| format!("{section}.{member}")).collect();
        let count = members.into_iter().chain([section]).filter_map(|key| self.entries.remove(&key)).count();
        count > 0
    }

    /// Returns whether references between sections can be checked, because no section was removed.
    pub(super) fn is_complete(&self) -> bool {
        !self.is_incomplete
    }

    pub(super) fn section(&self, key: impl Into<String>) -> Section<'_> {
        let section = Section { document: self, key: key.into(), digest: RefCell::new(Context::new(&SHA256)) };
        section.add_to_digest(section.key.as_bytes());
        for (member, entry) in section.members() {
            section.add_to_digest(member.as_bytes());
            section.add_to_digest(entry.value.to_string().as_bytes());
        }
        section
    }

    /// Returns the settings outside of sections.
    pub(super) fn root(&self) -> Section<'_> {
        self.section("")
    }

    /// Returns the sections of a group, sorted by name.
    pub(super) fn named_sections(&self, group: &str) -> impl Iterator<Item = Section<'_>> {
        self.children(group)
            .filter(|(name, _)| !name.contains('.'))
            .map(move |(name, _)| self.section(format!("{group}.{name}")))
    }

    /// Builds the error for an invalid value. If the key is missing, the error names the origin of its section.
    pub(super) fn invalid(&self, key: &str, found: impl Display, allowed: impl Display) -> ConfigError {
        let section = || self.entries.get(key.rsplit_once('.')?.0);
        let origin = self.entries.get(key).or_else(section).map_or(Origin::Default, |entry| entry.origin.clone());
        ConfigError::Invalid { key: key.to_owned(), origin, found: found.to_string(), allowed: allowed.to_string() }
    }

    /// Returns the settings that differ from their defaults. Those of named sections come last.
    pub(super) fn changed_settings(&self) -> Vec<ChangedSetting> {
        let is_default = |key: &str, entry: &Entry| {
            let default = self.defaults.get(key);
            entry.origin == Origin::Default
                || default.is_some_and(|default| *default == entry.value || Some(default) == entry.typed().as_ref())
        };
        let changed = self.entries.iter().filter(|(key, entry)| !entry.value.is_table() && !is_default(key, entry));
        let mut changed: Vec<_> = changed
            .map(|(key, Entry { value, origin })| ChangedSetting {
                key: key.clone(),
                value: render_masked_value(value),
                origin: origin.clone(),
            })
            .collect();
        changed.sort_by_key(|setting| group_of(&setting.key));
        changed
    }

    fn children(&self, key: &str) -> impl Iterator<Item = (&str, &Entry)> {
        let prefix = format!("{key}.");
        let range = self.entries.range(prefix.clone()..);
        range.map_while(move |(key, entry)| Some((key.strip_prefix(prefix.as_str())?, entry)))
    }

    fn kind_of(&self, key: &str) -> KeyKind {
        if let Some(entry) = self.entries.get(key) {
            return if entry.value.is_table() { KeyKind::Section } else { KeyKind::Setting };
        }
        let Some(group) = group_of(key).map(|position| NAMED_GROUPS[position]) else { return KeyKind::Unknown };
        match (group, key[group.len() + 1..].contains('.')) {
            (COUNTRIES, true) => KeyKind::Unknown,
            (COUNTRIES, false) | (_, true) => KeyKind::Setting,
            (_, false) => KeyKind::Section,
        }
    }

    fn suggest_key(&self, key: &str) -> Option<String> {
        let with_group = |group: &&str| {
            let parts = group.split('.').count();
            key.splitn(parts + 1, '.').nth(parts).map(|rest| format!("{group}.{rest}"))
        };
        let similar: Vec<String> = match group_of(key) {
            None => NAMED_GROUPS.iter().filter_map(with_group).collect(),
            Some(_) => key.rsplit_once('.').map(|(parent, _)| parent.to_owned()).into_iter().collect(),
        };
        let settings = self.entries.iter().filter(|(_, entry)| !entry.value.is_table()).map(|(key, _)| key);
        suggest_similar(key, settings.chain(&similar).map(String::as_str))
    }
}

/// Description of the allowed secrets for error messages, and the function that parses a secret.
pub(super) type SecretParser<T> = (&'static str, fn(&str) -> Option<T>);

const ALLOWED_SECRET_FILE: &str = "a path to a file readable by its owner only";

/// A table of the configuration, such as `http`.
pub(super) struct Section<'a> {
    pub document: &'a ConfigDocument<'a>,
    key: String,
    digest: RefCell<Context>,
}

/// Digest of a connector's settings, secrets and certificates. `Debug` is masked, because the digest would allow a
/// brute-force search for a short password.
#[derive(Clone, derive_more::Debug, PartialEq, Eq)]
#[debug("ConnectorFingerprint(…)")]
pub struct ConnectorFingerprint(Box<[u8]>);

impl<'a> Section<'a> {
    /// Returns the section's name: the last part of its key.
    pub(super) fn name(&self) -> &str {
        self.key.rsplit('.').next().unwrap_or_default()
    }

    pub(super) fn key(&self, member: &str) -> String {
        let dot = if self.key.is_empty() || member.is_empty() { "" } else { "." };
        format!("{}{dot}{member}", self.key)
    }

    pub(super) fn has(&self, member: &str) -> bool {
        self.document.entries.contains_key(&self.key(member))
    }

    /// Reads a required setting of the section.
    pub(super) fn get<T>(&self, member: &str, parser: ValueParser<T>) -> Result<T, ConfigError> {
        let key = self.key(member);
        let Some(entry) = self.document.entries.get(&key) else {
            return Err(self.invalid(member, "nothing", parser.allowed));
        };
        let parsed = entry.typed().and_then(|value| parser.parse(&value)).or_else(|| parser.parse(&entry.value));
        parsed.ok_or_else(|| self.invalid(member, render_masked_value(&entry.value), parser.allowed))
    }

    pub(super) fn get_opt<T>(&self, member: &str, parser: ValueParser<T>) -> Result<Option<T>, ConfigError> {
        if self.has(member) { self.get(member, parser).map(Some) } else { Ok(None) }
    }

    pub(super) fn get_or<T>(&self, member: &str, parser: ValueParser<T>, default: T) -> Result<T, ConfigError> {
        if self.has(member) { self.get(member, parser) } else { Ok(default) }
    }

    /// Replaces the target with the value of the member. If the member is not set, leaves the target unchanged.
    pub(super) fn update<T>(&self, member: &str, parser: ValueParser<T>, target: &mut T) -> Result<(), ConfigError> {
        if self.has(member) {
            *target = self.get(member, parser)?;
        }
        Ok(())
    }

    /// Parses the section's name, for groups in which the name is a value itself, such as a network id.
    pub(super) fn parse_name<T>(&self, parser: ValueParser<T>) -> Result<T, ConfigError> {
        let name = Value::from(self.name());
        parser.parse(&name).ok_or_else(|| self.invalid("", render_masked_value(&name), parser.allowed))
    }

    /// Reads a required secret. See [`get_opt_secret`](Self::get_opt_secret).
    pub(super) fn get_secret<T>(&self, member: &str, parser: &SecretParser<T>) -> Result<T, ConfigError> {
        self.get_opt_secret(member, parser)?.ok_or_else(|| {
            let alternative = self.key(&format!("{member}_env"));
            self.invalid(&format!("{member}_file"), "nothing", format!("{ALLOWED_SECRET_FILE}; or set `{alternative}`"))
        })
    }

    /// Reads a secret from the file that `MEMBER_file` names, or from the environment variable that `MEMBER_env` names.
    pub(super) fn get_opt_secret<T>(
        &self,
        member: &str,
        (allowed, parse): &SecretParser<T>,
    ) -> Result<Option<T>, ConfigError> {
        let [file, variable] = ["file", "env"].map(|source| format!("{member}_{source}"));
        let path = self.get_or(&file, value_parser::optional(value_parser::path()), None)?;
        let name = self.get_opt(&variable, value_parser::variable_name())?;
        let (member, shown, secret) = match (path, name) {
            (None, None) => return Ok(None),
            (Some(path), None) => {
                let shown = format!("\"{}\"", path.display());
                let invalid = |error| self.invalid(&file, format!("{shown}, which {error}"), ALLOWED_SECRET_FILE);
                let secret = read_private_file(&path).map_err(invalid)?;
                (file, shown, secret)
            }
            (None, Some(name)) => {
                let allowed = "the name of an environment variable that holds the secret";
                let unset = || self.invalid(&variable, format!("{name:?}, which is not set"), allowed);
                let secret = self.document.environment.var(&name)?.ok_or_else(unset)?;
                (variable, format!("{name:?}"), Zeroizing::new(secret.to_owned()))
            }
            (Some(_), Some(name)) => {
                let allowed = format!("nothing, because `{}` is set", self.key(&file));
                return Err(self.invalid(&variable, format!("{name:?}"), allowed));
            }
        };
        // Editors and `echo` append a newline.
        let secret = secret.trim_end_matches(['\r', '\n']);
        self.add_to_digest(secret.as_bytes());
        let invalid = || self.invalid(&member, format!("{shown}, which holds an invalid value"), allowed);
        parse(secret).ok_or_else(invalid).map(Some)
    }

    /// Renders the value of a member for error messages, with passwords in URLs masked.
    pub(super) fn render_value(&self, member: &str) -> String {
        self.document
            .entries
            .get(&self.key(member))
            .map_or_else(|| "nothing".to_owned(), |entry| render_masked_value(&entry.value))
    }

    pub(super) fn invalid(&self, member: &str, found: impl Display, allowed: impl Display) -> ConfigError {
        self.document.invalid(&self.key(member), found, allowed)
    }

    pub(super) fn reject_unknown(&self, known: &[&[&str]]) -> Result<(), ConfigError> {
        let known: Vec<&str> = known.concat();
        let Some((member, entry)) = self.members().find(|(member, _)| !known.contains(member)) else { return Ok(()) };
        // The user has put a secret into the configuration file: suggest the `_file` member.
        let file = format!("{member}_file");
        let suggestion =
            if known.contains(&file.as_str()) { Some(file) } else { suggest_similar(member, known.into_iter()) };
        Err(ConfigError::UnknownKey {
            key: self.key(member),
            origin: entry.origin.clone(),
            suggestion: suggestion.map(|member| self.key(&member)),
        })
    }

    /// Reads a file that is not secret, such as a certificate, and adds it to the section's digest.
    pub(super) fn read_file(&self, member: &str, path: &Path) -> Result<Vec<u8>, ConfigError> {
        let content = fs::read(path).map_err(|error| {
            let found = format!("\"{}\", which cannot be read: {error}", path.display());
            self.invalid(member, found, "a path to a file")
        })?;
        self.add_to_digest(&content);
        Ok(content)
    }

    /// Adds data to the digest from which the [`ConnectorFingerprint`] is made. Adds its length first, so that distinct
    /// inputs have distinct digests.
    pub(super) fn add_to_digest(&self, part: &[u8]) {
        let mut digest = self.digest.borrow_mut();
        digest.update(&part.len().to_be_bytes());
        digest.update(part);
    }

    pub(super) fn fingerprint(&self) -> ConnectorFingerprint {
        ConnectorFingerprint(self.digest.borrow().clone().finish().as_ref().into())
    }

    fn members(&self) -> impl Iterator<Item = (&'a str, &'a Entry)> {
        self.document.children(&self.key)
    }
}

/// Returns the position in [`NAMED_GROUPS`] of the group to which a key belongs.
pub(super) fn group_of(key: &str) -> Option<usize> {
    NAMED_GROUPS.iter().position(|group| key.strip_prefix(group).is_some_and(|rest| rest.starts_with('.')))
}

/// Returns the name of the environment variable that overrides a key.
pub(super) fn variable_name(key: &str) -> String {
    format!("RINGTRUE_{}", key.to_ascii_uppercase().replace('.', "__"))
}

/// If an environment variable names a setting in a named section, suggests a section of the file, because variables
/// cannot set these.
fn suggest_group(name: &str) -> Option<String> {
    let begins = |group: &&&str| name.strip_prefix(&variable_name(group)).is_some_and(|rest| rest.starts_with("__"));
    NAMED_GROUPS.iter().find(begins).map(|group| format!("a section of the file, [{group}]"))
}

/// Returns the known name that is most similar to `name`, to suggest it in an error. `None`: no known name is similar
/// enough.
pub(super) fn suggest_similar<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let distance = |other: &str| strsim::levenshtein(&name.to_lowercase(), &other.to_lowercase());
    let (distance, nearest) = known.map(|other| (distance(other), other)).min()?;
    (distance <= name.chars().count() / 2).then(|| nearest.to_owned())
}

/// Renders a value, and masks passwords and queries in URLs.
pub(super) fn render_masked_value(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{:?}", mask_url(text)),
        Value::Array(items) => format!("[{}]", items.iter().map(render_masked_value).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

/// Masks the user information and query of a URL, even if the text is not a valid URL.
pub(super) fn mask_url(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    let separator = if scheme.is_empty() { "" } else { "://" };
    // An unencoded password may contain any character: use the last `@`, and the first `?` after it.
    let (mask, rest) = rest.rsplit_once('@').map_or(("", rest), |(_, rest)| ("…@", rest));
    let (rest, query) = rest.split_once('?').map_or((rest, ""), |(rest, _)| (rest, "?…"));
    format!("{scheme}{separator}{mask}{rest}{query}")
}

/// An entry of a TOML file: dotted key, line and value.
pub(super) type FileEntry = (String, usize, Value);

/// Parses a TOML file. Returns its values and tables, and its syntax errors, at most one for each line.
pub(super) fn parse_toml(text: &str, path: &Path) -> (Vec<FileEntry>, Vec<ConfigError>) {
    let lines = LineIndex::new(text);
    let syntax_error = |error: toml::de::Error| ConfigError::Syntax {
        path: path.to_owned(),
        line: error.span().map_or(1, |span| lines.line_of(span.start)),
        // Omits the excerpt of the file, because it may contain a password.
        error: error.message().trim().to_owned(),
    };
    let (spans, errors) = DeTable::parse_recoverable(text);
    let mut errors: Vec<ConfigError> = errors.into_iter().map(syntax_error).collect();
    errors.dedup_by_key(|error| error.line());
    let mut entries = vec![];
    if errors.is_empty() {
        match text.parse() {
            Ok(values) => flatten(&lines, "", spans.get_ref(), &values, &mut entries),
            Err(error) => errors.push(syntax_error(error)),
        }
    }
    (entries, errors)
}

fn flatten(lines: &LineIndex, prefix: &str, spans: &DeTable<'_>, values: &Table, entries: &mut Vec<FileEntry>) {
    for (name, span) in spans {
        let key = format!("{prefix}{}", name.get_ref());
        let value = &values[name.get_ref().as_ref()];
        entries.push((key.clone(), lines.line_of(name.span().start), value.clone()));
        if let (Some(spans), Value::Table(values)) = (span.get_ref().as_table(), value) {
            flatten(lines, &format!("{key}."), spans, values, entries);
        }
    }
}

/// Index that finds the line of an offset without reading the text again.
struct LineIndex {
    /// Offsets of the line breaks.
    breaks: Vec<usize>,
}

impl LineIndex {
    fn new(text: &str) -> Self {
        LineIndex { breaks: text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect() }
    }

    fn line_of(&self, offset: usize) -> usize {
        self.breaks.partition_point(|line_break| *line_break < offset) + 1
    }
}
