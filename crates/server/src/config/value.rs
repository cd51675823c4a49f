//! Untyped TOML values and their origin.

use std::{fmt, path::Path, sync::Arc};

use toml::de::{DeTable, DeValue};

use super::ConfigError;

/// Untyped value.
#[derive(Clone, PartialEq)]
pub(super) enum Value {
    Text(String),
    Integer(i64),
    Bool(bool),
    List(Vec<Value>),
    /// Description of a type that no setting has.
    Other(&'static str),
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

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::Development => f.write_str("ringtrue dev"),
            Origin::File { path, line } => write!(f, "{}:{line}", path.display()),
            Origin::Variable(name) => write!(f, "environment variable {name}"),
        }
    }
}

/// Dotted key and value of a TOML document.
pub(super) struct TomlEntry {
    pub key: String,
    pub line: usize,
    /// Line of the header of its table.
    pub section_line: usize,
    /// `None`: an empty table.
    pub value: Option<Value>,
}

/// Flattens a TOML document into entries, sorted by key.
pub(super) fn parse_toml(text: &str, path: &Path) -> Result<Vec<TomlEntry>, ConfigError> {
    let document = DeTable::parse(text).map_err(|error| ConfigError::Syntax {
        path: path.to_owned(),
        line: error.span().map_or(1, |span| line_of(text, span.start)),
        // Without the excerpt, which may contain a password.
        error: error.message().trim().to_owned(),
    })?;
    let mut entries = vec![];
    collect(text, "", 1, document.get_ref(), &mut entries);
    Ok(entries)
}

fn collect(text: &str, prefix: &str, section_line: usize, table: &DeTable<'_>, entries: &mut Vec<TomlEntry>) {
    for (name, value) in table {
        let key = if prefix.is_empty() { name.get_ref().to_string() } else { format!("{prefix}.{}", name.get_ref()) };
        let line = line_of(text, name.span().start);
        match value.get_ref() {
            DeValue::Table(inner) if inner.is_empty() => {
                entries.push(TomlEntry { key, line, section_line: line, value: None });
            }
            DeValue::Table(inner) => collect(text, &key, line, inner, entries),
            other => entries.push(TomlEntry { key, line, section_line, value: Some(Value::from(other)) }),
        }
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

impl Value {
    /// Parses a single TOML value.
    pub(super) fn parse(text: &str) -> Option<Self> {
        DeValue::parse(text).ok().map(|value| Value::from(value.get_ref()))
    }
}

impl From<&DeValue<'_>> for Value {
    fn from(value: &DeValue<'_>) -> Self {
        match value {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map_or(Value::Other("an integer out of range"), Value::Integer),
            DeValue::Boolean(flag) => Value::Bool(*flag),
            DeValue::Array(items) => Value::List(items.iter().map(|item| Value::from(item.get_ref())).collect()),
            DeValue::Float(_) => Value::Other("a floating-point number"),
            DeValue::Datetime(_) => Value::Other("a date"),
            DeValue::Table(_) => Value::Other("a table"),
        }
    }
}

/// TOML syntax.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) => write!(f, "{text:?}"),
            Value::Integer(number) => number.fmt(f),
            Value::Bool(flag) => flag.fmt(f),
            Value::List(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            Value::Other(name) => f.write_str(name),
        }
    }
}
