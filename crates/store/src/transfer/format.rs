//! The format of an export file: JSON lines.
//!
//! 1. A header: the format version, the schema, and the name and type of each column of each table.
//! 2. For each table in the order of the header: an object with its name, then an array for each row, with the values
//!    of its columns in the order of the header.
//! 3. The number of rows, and the SHA-256 digest of all lines before this one.
//!
//! Integers, booleans and text are JSON values, bytes are base64, and UUIDs have their text form. Columns that are
//! encrypted in the database stay encrypted, so the file contains no plain secrets. It is as sensitive as the database.

use std::{
    fmt,
    io::{BufRead, Read, Write},
};

use aws_lc_rs::digest::{Context, SHA256};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::TransferError;
use crate::row::Value;

/// Identifies the file format, in the first line of a file.
const FORMAT: &str = "ringtrue-export";
const FORMAT_VERSION: u32 = 1;
/// Maximum length of a line, so that a malformed file cannot exhaust the memory. Rows are smaller than a megabyte.
const MAX_LINE_BYTES: u64 = 16 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ColumnType {
    Integer,
    Boolean,
    Text,
    Bytes,
    Uuid,
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ColumnType::Integer => "integer",
            ColumnType::Boolean => "boolean",
            ColumnType::Text => "text",
            ColumnType::Bytes => "bytes",
            ColumnType::Uuid => "uuid",
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Column {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: ColumnType,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TableHeader {
    pub name: String,
    pub columns: Vec<Column>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    format: String,
    version: u32,
    /// Ringtrue release that wrote the file.
    release: String,
    /// Kind of database that was exported: `sqlite` or `postgresql`.
    database: String,
    /// Name of the newest migration that was applied to the database.
    pub schema: String,
    exported_at: String,
    pub tables: Vec<TableHeader>,
}

impl Header {
    pub(super) fn new(database: &str, schema: &str, exported_at: Timestamp, tables: Vec<TableHeader>) -> Self {
        Header {
            format: FORMAT.to_owned(),
            version: FORMAT_VERSION,
            release: env!("CARGO_PKG_VERSION").to_owned(),
            database: database.to_owned(),
            schema: schema.to_owned(),
            exported_at: ringtrue_domain::timestamp::format(exported_at),
            tables,
        }
    }
}

/// The members of the header that all format versions have. They are read first, to reject other versions.
#[derive(Deserialize)]
struct FormatVersion {
    format: String,
    version: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TableLine<'t> {
    table: std::borrow::Cow<'t, str>,
}

/// The last line of the file, which shows that the file is complete and unchanged.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Trailer {
    rows: u64,
    sha256: String,
}

pub(super) struct ExportWriter<W> {
    file: W,
    digest: Context,
    rows: u64,
    line: Vec<u8>,
}

impl<W: Write> ExportWriter<W> {
    pub(super) fn begin(file: W, header: &Header) -> Result<Self, TransferError> {
        let mut writer = ExportWriter { file, digest: Context::new(&SHA256), rows: 0, line: Vec::new() };
        writer.write_line(header)?;
        Ok(writer)
    }

    pub(super) fn begin_table(&mut self, name: &str) -> Result<(), TransferError> {
        self.write_line(&TableLine { table: name.into() })
    }

    pub(super) fn write_row(&mut self, table: &TableHeader, row: &[Value]) -> Result<(), TransferError> {
        let cells = row.iter().zip(&table.columns).map(|(value, column)| {
            Cell::encode(value, column.kind).ok_or_else(|| TransferError::Column {
                table: table.name.clone(),
                column: column.name.clone(),
                problem: format!("a row has a value that is not {}", column.kind),
            })
        });
        let cells = cells.collect::<Result<Vec<_>, _>>()?;
        self.rows += 1;
        self.write_line(&cells)
    }

    /// Writes the trailer.
    pub(super) fn finish(mut self) -> Result<(), TransferError> {
        let trailer = Trailer { rows: self.rows, sha256: hex::encode(self.digest.clone().finish()) };
        self.write_line(&trailer)?;
        Ok(self.file.flush()?)
    }

    fn write_line(&mut self, content: &impl Serialize) -> Result<(), TransferError> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, content).map_err(std::io::Error::from)?;
        self.line.push(b'\n');
        self.digest.update(&self.line);
        Ok(self.file.write_all(&self.line)?)
    }
}

/// A value of a row, as JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Cell {
    Null,
    Bool(bool),
    Int(i64),
    Text(String),
}

impl Cell {
    /// Converts a value to JSON. `None`: the value does not have the type `kind`.
    fn encode(value: &Value, kind: ColumnType) -> Option<Self> {
        Some(match (value, kind) {
            (Value::Null, _) => Cell::Null,
            (Value::Bool(boolean), ColumnType::Boolean) => Cell::Bool(*boolean),
            (Value::Int(number), ColumnType::Integer) => Cell::Int(*number),
            (Value::Text(text), ColumnType::Text) => Cell::Text(text.clone()),
            (Value::Bytes(bytes), ColumnType::Bytes) => Cell::Text(BASE64_STANDARD.encode(bytes)),
            (Value::Uuid(id), ColumnType::Uuid) => Cell::Text(id.to_string()),
            _ => return None,
        })
    }

    fn decode(self, kind: ColumnType) -> Option<Value> {
        Some(match (self, kind) {
            (Cell::Null, _) => Value::Null,
            (Cell::Bool(boolean), ColumnType::Boolean) => Value::Bool(boolean),
            (Cell::Int(number), ColumnType::Integer) => Value::Int(number),
            (Cell::Text(text), ColumnType::Text) => Value::Text(text),
            (Cell::Text(text), ColumnType::Bytes) => Value::Bytes(BASE64_STANDARD.decode(text).ok()?),
            (Cell::Text(text), ColumnType::Uuid) => Value::Uuid(text.parse().ok()?),
            _ => return None,
        })
    }
}

pub(super) struct ExportReader<R> {
    file: R,
    digest: Context,
    rows: u64,
    /// The last line that was read, without its line feed.
    line: Vec<u8>,
    line_number: u64,
    /// Whether the last line was only looked at, and is still to be consumed.
    is_peeked: bool,
}

impl<R: BufRead> ExportReader<R> {
    /// Opens a file and reads its header.
    pub(super) fn open(file: R) -> Result<(Self, Header), TransferError> {
        let mut reader = ExportReader {
            file,
            digest: Context::new(&SHA256),
            rows: 0,
            line: Vec::new(),
            line_number: 0,
            is_peeked: false,
        };
        let is_foreign = |error| match error {
            TransferError::File(error) => TransferError::File(error),
            _ => TransferError::NotAnExport,
        };
        reader.read_line().map_err(is_foreign)?;
        let format: FormatVersion = serde_json::from_slice(&reader.line).map_err(|_| TransferError::NotAnExport)?;
        if format.format != FORMAT {
            return Err(TransferError::NotAnExport);
        }
        if format.version != FORMAT_VERSION {
            return Err(TransferError::UnsupportedVersion { found: format.version, supported: FORMAT_VERSION });
        }
        let header = serde_json::from_slice(&reader.line).map_err(|error| reader.damaged(&error))?;
        reader.add_line_to_digest();
        Ok((reader, header))
    }

    /// Reads the line that begins the table `name`.
    pub(super) fn begin_table(&mut self, name: &str) -> Result<(), TransferError> {
        self.peek_line()?;
        let found: TableLine<'_> = serde_json::from_slice(&self.line).map_err(|error| self.damaged(&error))?;
        if found.table != name {
            return Err(self.damaged(&format!("expected the table {name}")));
        }
        self.add_line_to_digest();
        Ok(())
    }

    /// Reads the next row of a table. `None`: the table ends here.
    pub(super) fn next_row(&mut self, table: &TableHeader) -> Result<Option<Vec<Value>>, TransferError> {
        self.peek_line()?;
        if !self.line.starts_with(b"[") {
            return Ok(None);
        }
        let cells: Vec<Cell> = serde_json::from_slice(&self.line).map_err(|error| self.damaged(&error))?;
        if cells.len() != table.columns.len() {
            let (found, expected) = (cells.len(), table.columns.len());
            return Err(self.damaged(&format!("a row of {} has {found} of {expected} values", table.name)));
        }
        self.add_line_to_digest();
        self.rows += 1;
        let decode = |(cell, column): (Cell, &Column)| {
            let problem = || self.damaged(&format!("{}.{} is not {}", table.name, column.name, column.kind));
            cell.decode(column.kind).ok_or_else(problem)
        };
        cells.into_iter().zip(&table.columns).map(decode).collect::<Result<_, _>>().map(Some)
    }

    /// Verifies the trailer, and that the file ends after it.
    pub(super) fn finish(mut self) -> Result<(), TransferError> {
        self.peek_line()?;
        let trailer: Trailer = serde_json::from_slice(&self.line).map_err(|error| self.damaged(&error))?;
        if trailer.sha256 != hex::encode(self.digest.clone().finish()) || trailer.rows != self.rows {
            return Err(TransferError::WrongChecksum);
        }
        if !self.file.fill_buf()?.is_empty() {
            return Err(self.damaged("data follows the end of the export"));
        }
        Ok(())
    }

    fn peek_line(&mut self) -> Result<(), TransferError> {
        if !self.is_peeked {
            self.read_line()?;
        }
        Ok(())
    }

    fn read_line(&mut self) -> Result<(), TransferError> {
        self.line.clear();
        let mut limited = (&mut self.file).take(MAX_LINE_BYTES);
        limited.read_until(b'\n', &mut self.line)?;
        if self.line.pop() != Some(b'\n') {
            let is_too_long = self.line.len() as u64 + 1 >= MAX_LINE_BYTES;
            let line = self.line_number;
            let truncated = TransferError::Truncated { line };
            return Err(if is_too_long { self.damaged("the line is too long") } else { truncated });
        }
        self.line_number += 1;
        self.is_peeked = true;
        Ok(())
    }

    fn add_line_to_digest(&mut self) {
        self.digest.update(&self.line);
        self.digest.update(b"\n");
        self.is_peeked = false;
    }

    fn damaged(&self, problem: &(impl ToString + ?Sized)) -> TransferError {
        TransferError::Damaged { line: self.line_number, problem: problem.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> TableHeader {
        let column = |(name, kind): (&str, ColumnType)| Column { name: name.to_owned(), kind };
        let columns = [
            ("number", ColumnType::Integer),
            ("flag", ColumnType::Boolean),
            ("text", ColumnType::Text),
            ("bytes", ColumnType::Bytes),
            ("id", ColumnType::Uuid),
        ];
        TableHeader { name: "things".to_owned(), columns: columns.map(column).to_vec() }
    }

    fn rows() -> Vec<Vec<Value>> {
        let id = uuid::Uuid::from_u128(9);
        vec![
            vec![
                Value::Int(i64::MIN),
                Value::Bool(true),
                Value::Text("line\none \"two\" é\u{2028}".to_owned()),
                Value::Bytes(vec![0, 10, 255]),
                Value::Uuid(id),
            ],
            vec![Value::Null; 5],
            vec![
                Value::Int(i64::MAX),
                Value::Bool(false),
                Value::Text(String::new()),
                Value::Bytes(vec![]),
                Value::Uuid(id),
            ],
        ]
    }

    fn exported() -> Vec<u8> {
        let header = Header::new("sqlite", "0001_test", Timestamp::UNIX_EPOCH, vec![table()]);
        let mut file = Vec::new();
        let mut writer = ExportWriter::begin(&mut file, &header).unwrap();
        writer.begin_table("things").unwrap();
        for row in rows() {
            writer.write_row(&table(), &row).unwrap();
        }
        writer.finish().unwrap();
        file
    }

    fn imported(file: &[u8]) -> Result<Vec<Vec<Value>>, TransferError> {
        let (mut reader, header) = ExportReader::open(file)?;
        let mut rows = Vec::new();
        for table in &header.tables {
            reader.begin_table(&table.name)?;
            while let Some(row) = reader.next_row(table)? {
                rows.push(row);
            }
        }
        reader.finish()?;
        Ok(rows)
    }

    #[test]
    fn rows_round_trip() {
        assert_eq!(imported(&exported()).unwrap(), rows());
    }

    #[test]
    fn header_describes_the_columns() {
        let file = exported();
        let first = file.split(|byte| *byte == b'\n').next().unwrap();
        let header: serde_json::Value = serde_json::from_slice(first).unwrap();
        assert_eq!(header["tables"][0]["columns"][3], serde_json::json!({"name": "bytes", "type": "bytes"}));
        assert_eq!((&header["format"], &header["version"]), (&"ringtrue-export".into(), &1.into()));
    }

    #[test]
    fn every_truncation_is_detected() {
        let file = exported();
        for length in 0..file.len() {
            let error = imported(&file[..length]).expect_err("a truncated file");
            let is_detected = matches!(error, TransferError::Truncated { .. } | TransferError::NotAnExport);
            assert!(is_detected, "{length}: {error}");
        }
    }

    #[test]
    fn every_changed_byte_is_detected() {
        let file = exported();
        for position in 0..file.len() {
            for change in [0x01, 0x20] {
                let mut changed = file.clone();
                changed[position] ^= change;
                let result = imported(&changed);
                // The change 0x20 turns letters of the digest into upper case. They have the same value, but only lower
                // case is accepted.
                assert!(result.is_err(), "byte {position} was changed unnoticed");
            }
        }
    }

    #[test]
    fn foreign_files_are_rejected() {
        let mut newer = String::from_utf8(exported()).unwrap();
        newer = newer.replacen("\"version\":1", "\"version\":2", 1);
        assert!(matches!(imported(newer.as_bytes()), Err(TransferError::UnsupportedVersion { found: 2, .. })));
        let mut longer = exported();
        longer.extend_from_slice(b"[]\n");
        assert!(matches!(imported(&longer), Err(TransferError::Damaged { .. })));
        for foreign in [&b""[..], b"\n", b"SQLite format 3\0", b"-- PostgreSQL database dump\n", b"{}\n", b"[1]\n"] {
            assert!(matches!(imported(foreign), Err(TransferError::NotAnExport)), "{foreign:?}");
        }
        let endless = vec![b'x'; usize::try_from(MAX_LINE_BYTES).unwrap() + 1];
        assert!(matches!(imported(&endless), Err(TransferError::NotAnExport)));
    }
}
