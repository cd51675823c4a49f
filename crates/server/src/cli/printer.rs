//! What a command says, and how: data on standard output, as a table, as JSON or as CSV; remarks on standard error.

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
            Output::Csv => {
                let (names, values): (Vec<_>, Vec<_>) = record.iter().map(|(name, value)| (*name, value)).unzip();
                text(&(csv_names(&names) + &csv_row(values)))
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
            Output::Csv => {
                let row = |record: &Record| csv_row(record.iter().map(|(_, value)| value));
                text(&(csv_names(columns) + &records.iter().map(row).collect::<String>()))
            }
        }
    }

    /// One thing as a server showed it. Tables and CSV have these members of it, programs all.
    pub(super) fn object(self, columns: &[&'static str], object: &Value) -> io::Result<()> {
        match self.output {
            Output::Json => json(object),
            // What it does not have need not be looked at.
            Output::Table => self.record(picked(columns, object).filter(|(_, value)| !value.is_null()).collect()),
            Output::Csv => self.record(picked(columns, object).collect()),
        }
    }

    /// Several things as a server showed them.
    pub(super) fn objects(self, columns: &[&'static str], objects: &[Value]) -> io::Result<()> {
        match self.output {
            Output::Json => json(&objects.into()),
            Output::Table | Output::Csv => {
                self.list(columns, objects.iter().map(|object| picked(columns, object).collect()).collect())
            }
        }
    }

    /// One of several things that come one after the other: a line of its own in every form.
    pub(super) fn next_object(self, columns: &[&'static str], object: &Value, is_first: bool) -> io::Result<()> {
        match self.output {
            Output::Json => text(&ascii_controls(&object.to_string())),
            Output::Table => {
                let values =
                    picked(columns, object).filter(|(_, value)| !value.is_null()).map(|(_, value)| cell(&value));
                text(&values.collect::<Vec<_>>().join("  "))
            }
            Output::Csv => {
                let values: Vec<Value> = picked(columns, object).map(|(_, value)| value).collect();
                text(&((if is_first { csv_names(columns) } else { String::new() }) + &csv_row(&values)))
            }
        }
    }
}

fn picked(columns: &[&'static str], object: &Value) -> impl Iterator<Item = (&'static str, Value)> {
    columns.iter().map(|name| (*name, object.get(name).cloned().unwrap_or_default()))
}

/// Writes to standard output. Terminal controls are escaped here, whatever wrote the text.
pub(super) fn text(text: &str) -> io::Result<()> {
    let text = escaped(text, is_terminal_control);
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
    let _ = writeln!(io::stderr(), "{}", escaped(text, is_terminal_control));
}

/// Why nothing came of it.
pub(super) fn failure(failure: &Failure) {
    if !matches!(failure, Failure::Told) {
        remark(&format!("ringtrue: {failure}"));
    }
}

fn json(value: &Value) -> io::Result<()> {
    text(&ascii_controls(&format!("{value:#}")))
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
        Value::String(text) => harmless(text).replace('\n', "\\n"),
        Value::Array(items) if items.is_empty() => "-".to_owned(),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(","),
        Value::Object(members) if members.values().all(Value::is_null) => "-".to_owned(),
        Value::Object(members) => {
            let set = members.iter().filter(|(_, value)| !value.is_null());
            set.map(|(name, value)| format!("{name}={}", cell(value))).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}

/// Text of others in one of our lines: it may neither control the terminal nor reverse what stands next to it.
pub(super) fn harmless(text: &str) -> String {
    escaped(text, |symbol| symbol == '\t' || is_terminal_control(symbol))
}

/// C0 without line feed and tab, DEL, C1 and bidirectional marks.
fn is_terminal_control(symbol: char) -> bool {
    !matches!(symbol, '\n' | '\t') && (symbol.is_control() || turns_text_around(symbol))
}

/// JSON with DEL, C1 and bidirectional marks as `\uXXXX`. JSON itself escapes C0 only. Such characters stand in strings
/// alone, so the value stays the same; all are in the Basic Multilingual Plane, so four digits suffice.
fn ascii_controls(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for symbol in json.chars() {
        if is_terminal_control(symbol) {
            let _ = write!(safe, "\\u{:04x}", u32::from(symbol));
        } else {
            safe.push(symbol);
        }
    }
    safe
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> String {
    let mut harmless = String::with_capacity(text.len());
    for symbol in text.chars() {
        if is_escaped(symbol) {
            harmless.extend(symbol.escape_default());
        } else {
            harmless.push(symbol);
        }
    }
    harmless
}

/// The marks by which Unicode sets the direction of text, none of which can be seen.
fn turns_text_around(symbol: char) -> bool {
    matches!(symbol, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn csv_names(names: &[&str]) -> String {
    format!("{}\n", names.join(","))
}

/// After RFC 4180, with the line ends of this system. What is not there is empty; what has members is JSON.
///
/// Spreadsheets split fields at other characters too, depending on the country, and run what looks like a formula. So
/// such fields are quoted, and such text begins with `'`, which shows it as text, as OWASP advises.
fn csv_row<'a>(values: impl IntoIterator<Item = &'a Value>) -> String {
    let field = |value: &Value| {
        let text = match value {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            Value::Array(items) if items.iter().all(Value::is_string) => {
                items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
            }
            other => other.to_string(),
        };
        let mut text = escaped(&text, is_terminal_control);
        if looks_like_a_formula(&text) {
            text.insert(0, '\'');
        }
        let is_plain = !text.contains([',', ';', '"', '\n', '\t']);
        if is_plain { text } else { format!("\"{}\"", text.replace('"', "\"\"")) }
    };
    let fields: Vec<String> = values.into_iter().map(field).collect();
    format!("{}\n", fields.join(","))
}

/// Numbers do not, nor do lists of them: a phone number is to be found as it is.
fn looks_like_a_formula(text: &str) -> bool {
    let begins_like_one = text.starts_with(['=', '+', '-', '@', '\t', '\n', '＝', '＋', '－', '＠']);
    let is_number = |word: &str| {
        let digits = word.strip_prefix(['+', '-']).unwrap_or(word);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    begins_like_one && !text.split(' ').all(is_number)
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
            (json!(["a", "b"]), "a,b"),
            (json!([]), "-"),
            (json!("\u{1b}[2J\n"), r"\u{1b}[2J\n"),
            (json!("\u{202e}txt.exe"), r"\u{202e}txt.exe"),
        ] {
            assert_eq!(cell(&value), text);
        }
    }

    #[test]
    fn csv_is_quoted_where_it_must_be() {
        for (value, field) in [
            (json!(null), ""),
            (json!(true), "true"),
            (json!("a b"), "a b"),
            (json!("a,b"), "\"a,b\""),
            (json!("say \"a\""), "\"say \"\"a\"\"\""),
            (json!("a\nb"), "\"a\nb\""),
            (json!(["a", "b-c"]), "a b-c"),
            (json!([]), ""),
            (json!({"a": 1}), "\"{\"\"a\"\":1}\""),
        ] {
            assert_eq!(csv_row([&value]), format!("{field}\n"));
        }
        assert_eq!(csv_row([&json!(1), &json!(null), &json!("x")]), "1,,x\n");
    }

    #[test]
    fn csv_is_inert_in_spreadsheets() {
        for (value, field) in [
            (json!("=1+1"), "'=1+1"),
            (json!("=HYPERLINK(\"x\")"), "\"'=HYPERLINK(\"\"x\"\")\""),
            (json!("+1+cmd|' /C calc'!A0"), "'+1+cmd|' /C calc'!A0"),
            (json!("-1+1"), "'-1+1"),
            (json!("@SUM(A1)"), "'@SUM(A1)"),
            (json!("＝1+1"), "'＝1+1"),
            (json!("\t=1+1"), "\"'\t=1+1\""),
            (json!("\n=1+1"), "\"'\n=1+1\""),
            (json!("\r=1+1"), "\\r=1+1"),
            (json!(["=1+1", "b"]), "'=1+1 b"),
            (json!("a;=1+1"), "\"a;=1+1\""),
            (json!("a\t=1+1"), "\"a\t=1+1\""),
            (json!("a\r\nb"), "\"a\\r\nb\""),
            (json!("-"), "'-"),
            (json!("+447700900123"), "+447700900123"),
            (json!("-5"), "-5"),
            (json!(-5), "-5"),
            (json!(["+447700900001", "+447700900002"]), "+447700900001 +447700900002"),
            (json!("a=b"), "a=b"),
        ] {
            assert_eq!(csv_row([&value]), format!("{field}\n"));
        }
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(harmless("a\u{1b}[2Jb\nc\u{9b}d\r"), "a\\u{1b}[2Jb\nc\\u{9b}d\\r");
        assert_eq!(csv_row([&json!("a\u{1b}[2Jb\u{9b}c\u{7f}\u{202e}")]), "a\\u{1b}[2Jb\\u{9b}c\\u{7f}\\u{202e}\n");
    }

    #[test]
    fn json_escapes_terminal_controls_and_keeps_the_value() {
        let value = json!({"a\u{9b}": "\u{1b}[2J\u{7f}\u{85}\u{202e}é\n"});
        let shown = ascii_controls(&value.to_string());
        assert_eq!(shown, r#"{"a\u009b":"\u001b[2J\u007f\u0085\u202eé\n"}"#);
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
    }

    #[test]
    fn marks_that_turn_text_around_are_seen() {
        for mark in
            "\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}".chars()
        {
            assert_eq!(harmless(&format!("a{mark}b")), format!("a\\u{{{:x}}}b", u32::from(mark)));
        }
        assert_eq!(harmless("שלום"), "שלום");
    }
}
