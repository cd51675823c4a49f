//! What a command says, and how: data on standard output, as a table or as JSON; remarks on standard error.

use std::{
    fmt::Write as _,
    io::{self, Write},
};

use serde_json::{Map, Value};

use super::{arguments::Output, failure::Failure};

#[derive(Clone, Copy, Debug)]
pub(super) struct Printer {
    pub output: Output,
}

/// The members of one thing, by their names.
pub(super) type Record = Vec<(&'static str, Value)>;

impl Printer {
    /// One thing, a line for each of its members.
    pub(super) fn record(self, record: Record) -> io::Result<()> {
        match self.output {
            Output::Json => json(&object(record)),
            Output::Table => {
                let rows: Vec<_> = record.iter().map(|(name, value)| vec![heading(name), cell(value)]).collect();
                text(&aligned(&rows))
            }
        }
    }

    /// Several things of one kind, a line for each.
    pub(super) fn list(self, columns: &[&'static str], records: Vec<Record>) -> io::Result<()> {
        match self.output {
            Output::Json => json(&records.into_iter().map(object).collect()),
            Output::Table => {
                let headings = columns.iter().map(|name| heading(name)).collect();
                let row = |record: &Record| record.iter().map(|(_, value)| cell(value)).collect();
                let rows: Vec<Vec<String>> = std::iter::once(headings).chain(records.iter().map(row)).collect();
                text(&aligned(&rows))
            }
        }
    }
}

/// Text as it is.
pub(super) fn text(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// For the reader, not for a program.
pub(super) fn remark(text: &str) {
    // Nobody can be told that nobody can be told.
    let _ = writeln!(io::stderr(), "{text}");
}

/// Why nothing came of it.
pub(super) fn failure(failure: &Failure) {
    if !matches!(failure, Failure::Told) {
        remark(&format!("ringtrue: {failure}"));
    }
}

fn json(value: &Value) -> io::Result<()> {
    text(&format!("{value:#}"))
}

fn object(record: Record) -> Value {
    Value::Object(record.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
}

fn heading(name: &str) -> String {
    name.replace('_', " ").to_uppercase()
}

/// A value in a table.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Object(members) if members.values().all(Value::is_null) => "-".to_owned(),
        Value::Object(members) => {
            let set = members.iter().filter(|(_, value)| !value.is_null());
            set.map(|(name, value)| format!("{name}={}", cell(value))).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}

/// Rows with their columns below each other, two spaces apart.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_stand_below_each_other() {
        let rows = [["ID", "NAME"], ["1", "Bank of Example"], ["22", "Ünïcode"]];
        let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(ToString::to_string).collect()).collect();
        assert_eq!(aligned(&rows), "ID  NAME\n1   Bank of Example\n22  Ünïcode\n");
    }

    #[test]
    fn cells() {
        for (value, text) in [
            (json!(null), "-"),
            (json!("a"), "a"),
            (json!(7), "7"),
            (json!({"create": 1, "read": null}), "create=1"),
            (json!({"create": null}), "-"),
        ] {
            assert_eq!(cell(&value), text);
        }
    }
}
