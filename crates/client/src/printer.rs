//! Prints the output of commands. Data goes to standard output as a table, JSON or CSV. Notes and errors go to standard
//! error.

use std::{
    fmt::{Display, Write as _},
    io::{self, Write},
};

use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use comfy_table::{Table, presets::NOTHING};
use ringtrue_domain::csv::render_row;
use serde_json::{Map, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Human-readable table
    Table,
    /// JSON
    Json,
    /// CSV with a header row
    Csv,
}

#[derive(Clone, Copy, Debug)]
pub struct Printer {
    pub output: Output,
}

const HEADING: Style = Style::new().bold();
const LABEL: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();
const WAITING: Style = AnsiColor::Yellow.on_default();

/// An item to print: names and values of its fields, in output order.
pub type Record = Vec<(&'static str, Value)>;

impl Printer {
    /// Prints one item. In a table, each field has a line.
    pub fn print_record(self, record: Record) -> io::Result<()> {
        match self.output {
            Output::Json => print_json(&to_object(record)),
            Output::Table => {
                print_text(&align_columns(record.iter().map(|(name, value)| vec![heading(name), render_cell(value)])))
            }
            Output::Csv => {
                let (names, values): (Vec<_>, Vec<_>) = record.iter().map(|(name, value)| (*name, value)).unzip();
                print_text(&(csv_header(&names) + &csv_row(values)))
            }
        }
    }

    /// Prints items. In a table or CSV, each item has a line.
    pub fn print_list(self, columns: &[&'static str], records: Vec<Record>) -> io::Result<()> {
        match self.output {
            Output::Json => print_json(&records.into_iter().map(to_object).collect()),
            Output::Table => {
                let headings = columns.iter().map(|name| heading(name)).collect();
                let row = |record: &Record| record.iter().map(|(_, value)| render_cell(value)).collect();
                let table = align_columns(std::iter::once(headings).chain(records.iter().map(row)));
                let (headings, rows) = table.split_once('\n').unwrap_or((&table, ""));
                print_styled(&format!("{HEADING}{headings}{HEADING:#}\n{rows}"))
            }
            Output::Csv => {
                let row = |record: &Record| csv_row(record.iter().map(|(_, value)| value));
                print_text(&(csv_header(columns) + &records.iter().map(row).collect::<String>()))
            }
        }
    }

    /// Prints an item from an API response. JSON output has all its fields, tables and CSV have only `columns`.
    pub fn print_object(self, columns: &[&'static str], object: &Value) -> io::Result<()> {
        match self.output {
            Output::Json => print_json(object),
            Output::Table => {
                self.print_record(select_columns(columns, object).filter(|(_, value)| !value.is_null()).collect())
            }
            Output::Csv => self.print_record(select_columns(columns, object).collect()),
        }
    }

    /// Prints items from an API response. JSON output has all their fields, tables and CSV have only `columns`.
    pub fn print_objects(self, columns: &[&'static str], objects: &[Value]) -> io::Result<()> {
        match self.output {
            Output::Json => print_json(&objects.into()),
            Output::Table | Output::Csv => self
                .print_list(columns, objects.iter().map(|object| select_columns(columns, object).collect()).collect()),
        }
    }

    /// Prints one item of a stream on a single line, in every format.
    pub fn print_stream_item(self, columns: &[&'static str], object: &Value, is_first: bool) -> io::Result<()> {
        match self.output {
            Output::Json => print_text(&escape_json_controls(&object.to_string())),
            Output::Table => {
                let fields = select_columns(columns, object).filter(|(_, value)| !value.is_null());
                print_styled(&fields.map(|(name, value)| labelled_cell(name, &value)).collect::<Vec<_>>().join("  "))
            }
            Output::Csv => {
                let values: Vec<Value> = select_columns(columns, object).map(|(_, value)| value).collect();
                print_text(&((if is_first { csv_header(columns) } else { String::new() }) + &csv_row(&values)))
            }
        }
    }

    /// Prints a status message. In JSON and CSV mode it goes to standard error, because standard output has only data.
    pub(crate) fn print_status(self, text: &str) -> io::Result<()> {
        if self.output == Output::Table {
            return print_text(text);
        }
        print_note(text);
        Ok(())
    }
}

fn select_columns(columns: &[&'static str], object: &Value) -> impl Iterator<Item = (&'static str, Value)> {
    columns.iter().map(|name| (*name, object.get(name).cloned().unwrap_or_default()))
}

/// Writes text with styles to standard output. The caller must have escaped the terminal control characters of its
/// contents. On a terminal that shows no colours, and if `NO_COLOR` is set, the styles are left out.
fn print_styled(text: &str) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.trim_end_matches('\n').as_bytes())?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Writes to standard output, with terminal control characters escaped.
pub fn print_text(text: &str) -> io::Result<()> {
    let text = escape_where(text, is_terminal_control);
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// Writes to standard error, with terminal control characters escaped.
pub fn print_note(text: &str) {
    // An error on stderr cannot be reported.
    let _ = writeln!(io::stderr(), "{}", escape_where(text, is_terminal_control));
}

pub fn print_error(error: &impl Display) {
    let text = escape_where(&error.to_string(), is_terminal_control);
    // An error on stderr cannot be reported.
    let _ = writeln!(anstream::stderr(), "{BAD}ringtrue:{BAD:#} {text}");
}

pub(crate) fn print_json(value: &Value) -> io::Result<()> {
    print_text(&escape_json_controls(&format!("{value:#}")))
}

fn to_object(record: Record) -> Value {
    Value::Object(record.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
}

fn heading(name: &str) -> String {
    name.replace('_', " ").to_uppercase()
}

/// Renders a field with its name, for lines that have no column headings.
fn labelled_cell(name: &str, value: &Value) -> String {
    let (label, text) = (name.replace('_', " "), render_cell(value));
    let style = match (name, text.as_str()) {
        ("status", "COMPLETED") | ("match" | "no_sim_change", "true") => GOOD,
        ("status", "ACCEPTED" | "PENDING") => WAITING,
        ("status" | "error_code", _) | ("match" | "no_sim_change", "false") => BAD,
        _ => Style::new(),
    };
    format!("{LABEL}{label}{LABEL:#} {style}{text}{style:#}")
}

fn render_cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => escape_controls(text).replace('\n', "\\n"),
        Value::Array(items) if items.is_empty() => "-".to_owned(),
        Value::Array(items) => items.iter().map(render_cell).collect::<Vec<_>>().join(","),
        Value::Object(members) if members.values().all(Value::is_null) => "-".to_owned(),
        Value::Object(members) => {
            let set = members.iter().filter(|(_, value)| !value.is_null());
            set.map(|(name, value)| format!("{name}={}", render_cell(value))).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}

/// Escapes control characters in untrusted text, so that it can neither control the terminal nor reorder the text
/// around it.
pub fn escape_controls(text: &str) -> String {
    escape_where(text, |character| character == '\t' || is_terminal_control(character))
}

/// Whether a character can control the terminal: C0 except line feed and tab, DEL, C1, and bidirectional marks.
fn is_terminal_control(character: char) -> bool {
    !matches!(character, '\n' | '\t') && (character.is_control() || is_bidi_control(character))
}

/// Escapes DEL, C1 and bidirectional marks in JSON text as `\uXXXX`. JSON itself requires this only for C0. These
/// characters occur only in strings, so the value stays the same. All are in the Basic Multilingual Plane, so four
/// digits suffice.
fn escape_json_controls(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for character in json.chars() {
        if is_terminal_control(character) {
            let _ = write!(safe, "\\u{:04x}", u32::from(character));
        } else {
            safe.push(character);
        }
    }
    safe
}

fn escape_where(text: &str, is_escaped: impl Fn(char) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if is_escaped(character) {
            escaped.extend(character.escape_default());
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// Whether a character is an invisible Unicode mark that sets the text direction.
fn is_bidi_control(character: char) -> bool {
    matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn csv_header(names: &[&str]) -> String {
    format!("{}\n", names.join(","))
}

/// Renders a CSV row. `null` becomes an empty field, and an object becomes JSON.
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
        escape_where(&text, is_terminal_control)
    };
    format!("{}\n", render_row(values.into_iter().map(field)))
}

/// Renders rows with aligned columns, two spaces apart.
fn align_columns(rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = [["ID", "NAME"], ["1", "Bank of Example"], ["22", "Ünïcode"]];
        let rows = rows.iter().map(|row| row.iter().map(ToString::to_string).collect());
        assert_eq!(align_columns(rows), "ID  NAME\n1   Bank of Example\n22  Ünïcode");
    }

    #[test]
    fn fields_of_a_line_are_labelled() {
        for (name, value, text) in [
            ("status", json!("COMPLETED"), "\u{1b}[2mstatus\u{1b}[0m \u{1b}[32mCOMPLETED\u{1b}[0m"),
            ("match", json!(false), "\u{1b}[2mmatch\u{1b}[0m \u{1b}[31mfalse\u{1b}[0m"),
            ("check_id", json!("\u{1b}[2J"), "\u{1b}[2mcheck id\u{1b}[0m \\u{1b}[2J"),
        ] {
            assert_eq!(labelled_cell(name, &value), text);
        }
    }

    #[test]
    fn table_cells_are_rendered() {
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
            assert_eq!(render_cell(&value), text);
        }
    }

    #[test]
    fn csv_values_are_rendered() {
        for (value, field) in [
            (json!(null), ""),
            (json!(true), "true"),
            (json!("a,b"), "\"a,b\""),
            (json!(["a", "b-c"]), "a b-c"),
            (json!([]), ""),
            (json!({"a": 1}), "\"{\"\"a\"\":1}\""),
            (json!(["=1+1", "b"]), "'=1+1 b"),
            (json!("a;=1+1"), "\"a;'=1+1\""),
            (json!("\r=1+1"), "\\r=1+1"),
            (json!(-5), "-5"),
            (json!(["+447700900001", "+447700900002"]), "+447700900001 +447700900002"),
        ] {
            assert_eq!(csv_row([&value]), format!("{field}\n"));
        }
        assert_eq!(csv_row([&json!(1), &json!(null), &json!("x")]), "1,,x\n");
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(escape_controls("a\u{1b}[2Jb\nc\u{9b}d\r"), "a\\u{1b}[2Jb\nc\\u{9b}d\\r");
        assert_eq!(csv_row([&json!("a\u{1b}[2Jb\u{9b}c\u{7f}\u{202e}")]), "a\\u{1b}[2Jb\\u{9b}c\\u{7f}\\u{202e}\n");
    }

    #[test]
    fn json_control_escapes_preserve_the_value() {
        let value = json!({"a\u{9b}": "\u{1b}[2J\u{7f}\u{85}\u{202e}é\n"});
        let escaped = escape_json_controls(&value.to_string());
        assert_eq!(escaped, r#"{"a\u009b":"\u001b[2J\u007f\u0085\u202eé\n"}"#);
        assert_eq!(serde_json::from_str::<Value>(&escaped).unwrap(), value);
    }

    #[test]
    fn bidirectional_marks_are_escaped() {
        for mark in
            "\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}".chars()
        {
            assert_eq!(escape_controls(&format!("a{mark}b")), format!("a\\u{{{:x}}}b", u32::from(mark)));
        }
        assert_eq!(escape_controls("שלום"), "שלום");
    }
}
