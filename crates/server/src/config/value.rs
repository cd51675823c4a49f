//! Values as they were written, and where.

use std::{fmt, path::Path, sync::Arc};

use toml::de::{DeTable, DeValue};

use super::ConfigError;

/// A value before it is understood.
#[derive(Clone, PartialEq)]
pub(super) enum Value {
    Text(String),
    Whole(i64),
    Flag(bool),
    List(Vec<Value>),
    /// Of a type that no setting has; its name.
    Other(&'static str),
}

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Default,
    /// Decided by `ringtrue dev`.
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

/// One line of a document: a dotted key, and what stands there.
pub(super) struct Entry {
    pub key: String,
    pub line: usize,
    /// Where the table begins that it stands in.
    pub section_line: usize,
    /// `None`: a table with nothing in it.
    pub value: Option<Value>,
}

/// Reads a TOML document into its entries, in the order of their keys.
pub(super) fn entries(text: &str, path: &Path) -> Result<Vec<Entry>, ConfigError> {
    let document = DeTable::parse(text).map_err(|error| ConfigError::Syntax {
        path: path.to_owned(),
        line: error.span().map_or(1, |span| line_of(text, span.start)),
        // The message alone: the excerpt that comes with it may hold a password.
        problem: error.message().trim().to_owned(),
    })?;
    let mut entries = vec![];
    collect(text, "", 1, document.get_ref(), &mut entries);
    Ok(entries)
}

fn collect(text: &str, prefix: &str, section_line: usize, table: &DeTable<'_>, entries: &mut Vec<Entry>) {
    for (name, value) in table {
        let key = if prefix.is_empty() { name.get_ref().to_string() } else { format!("{prefix}.{}", name.get_ref()) };
        let line = line_of(text, name.span().start);
        match value.get_ref() {
            DeValue::Table(inner) if inner.is_empty() => {
                entries.push(Entry { key, line, section_line: line, value: None });
            }
            DeValue::Table(inner) => collect(text, &key, line, inner, entries),
            other => entries.push(Entry { key, line, section_line, value: Some(Value::from(other)) }),
        }
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

impl Value {
    /// Reads one value as TOML writes it. `None`: it is not TOML.
    pub(super) fn parse(text: &str) -> Option<Self> {
        DeValue::parse(text).ok().map(|value| Value::from(value.get_ref()))
    }
}

impl From<&DeValue<'_>> for Value {
    fn from(value: &DeValue<'_>) -> Self {
        match value {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map_or(Value::Other("a number beyond all bounds"), Value::Whole),
            DeValue::Boolean(flag) => Value::Flag(*flag),
            DeValue::Array(items) => Value::List(items.iter().map(|item| Value::from(item.get_ref())).collect()),
            DeValue::Float(_) => Value::Other("a number with a fraction"),
            DeValue::Datetime(_) => Value::Other("a date"),
            DeValue::Table(_) => Value::Other("a table"),
        }
    }
}

/// As TOML writes it.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) => write!(f, "{text:?}"),
            Value::Whole(number) => number.fmt(f),
            Value::Flag(flag) => flag.fmt(f),
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
