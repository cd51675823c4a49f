//! Reads the columns of a row, in order, into domain types.
//!
//! An invalid column becomes [`StoreError::CorruptRow`], which names the table, the row and the column.

use std::{fmt, str::FromStr, vec};

use jiff::Timestamp;
use ringtrue_engine::ports::StoreError;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::driver::Value;

/// One result row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row(pub Vec<Value>);

impl Row {
    /// Reads a row of `table`. Errors identify the row by its first column.
    pub(crate) fn reader(self, table: &'static str) -> RowReader {
        let id = self.0.first().cloned();
        RowReader { table, id, rest: self.0.into_iter() }
    }

    /// Reads a row of one number.
    pub(crate) fn into_int(self) -> Result<i64, StoreError> {
        self.reader("(result)").int("number")
    }
}

/// Reads a row column by column.
#[derive(Debug)]
pub(crate) struct RowReader {
    table: &'static str,
    id: Option<Value>,
    rest: vec::IntoIter<Value>,
}

impl RowReader {
    pub(crate) fn int(&mut self, column: &str) -> Result<i64, StoreError> {
        match self.next() {
            Value::Int(number) => Ok(number),
            other => Err(self.unexpected(column, "a number", &other)),
        }
    }

    pub(crate) fn boolean(&mut self, column: &str) -> Result<bool, StoreError> {
        match self.next() {
            Value::Bool(boolean) => Ok(boolean),
            Value::Int(number @ (0 | 1)) => Ok(number == 1),
            other => Err(self.unexpected(column, "a boolean", &other)),
        }
    }

    pub(crate) fn int_or_null(&mut self, column: &str) -> Result<Option<i64>, StoreError> {
        match self.next() {
            Value::Null => Ok(None),
            Value::Int(number) => Ok(Some(number)),
            other => Err(self.unexpected(column, "a number", &other)),
        }
    }

    pub(crate) fn boolean_or_null(&mut self, column: &str) -> Result<Option<bool>, StoreError> {
        match self.next() {
            Value::Null => Ok(None),
            Value::Bool(boolean) => Ok(Some(boolean)),
            Value::Int(number @ (0 | 1)) => Ok(Some(number == 1)),
            other => Err(self.unexpected(column, "a boolean", &other)),
        }
    }

    pub(crate) fn uuid(&mut self, column: &str) -> Result<Uuid, StoreError> {
        let value = self.next();
        self.as_uuid(column, value)
    }

    pub(crate) fn uuid_or_null(&mut self, column: &str) -> Result<Option<Uuid>, StoreError> {
        match self.next() {
            Value::Null => Ok(None),
            value => self.as_uuid(column, value).map(Some),
        }
    }

    pub(crate) fn text(&mut self, column: &str) -> Result<String, StoreError> {
        match self.next() {
            Value::Text(text) => Ok(text),
            other => Err(self.unexpected(column, "text", &other)),
        }
    }

    pub(crate) fn text_or_null(&mut self, column: &str) -> Result<Option<String>, StoreError> {
        match self.next() {
            Value::Null => Ok(None),
            Value::Text(text) => Ok(Some(text)),
            other => Err(self.unexpected(column, "text", &other)),
        }
    }

    pub(crate) fn bytes(&mut self, column: &str) -> Result<Vec<u8>, StoreError> {
        match self.next() {
            Value::Bytes(bytes) => Ok(bytes),
            other => Err(self.unexpected(column, "bytes", &other)),
        }
    }

    pub(crate) fn bytes_or_null(&mut self, column: &str) -> Result<Option<Vec<u8>>, StoreError> {
        match self.next() {
            Value::Null => Ok(None),
            Value::Bytes(bytes) => Ok(Some(bytes)),
            other => Err(self.unexpected(column, "bytes", &other)),
        }
    }

    pub(crate) fn digest(&mut self, column: &str) -> Result<[u8; 32], StoreError> {
        let bytes = self.bytes(column)?;
        bytes.try_into().map_err(|_| self.corrupt(column, "not 32 bytes"))
    }

    pub(crate) fn instant(&mut self, column: &str) -> Result<Timestamp, StoreError> {
        let millis = self.int(column)?;
        Timestamp::from_millisecond(millis).map_err(|_| self.corrupt(column, "not an instant"))
    }

    pub(crate) fn instant_or_null(&mut self, column: &str) -> Result<Option<Timestamp>, StoreError> {
        match self.next() {
            Value::Null => Ok(None),
            Value::Int(millis) => {
                Timestamp::from_millisecond(millis).map(Some).map_err(|_| self.corrupt(column, "not an instant"))
            }
            other => Err(self.unexpected(column, "an instant", &other)),
        }
    }

    pub(crate) fn parsed<T>(&mut self, column: &str) -> Result<T, StoreError>
    where
        T: FromStr<Err: fmt::Display>,
    {
        let text = self.text(column)?;
        text.parse().map_err(|problem| self.corrupt(column, problem))
    }

    pub(crate) fn parsed_or_null<T>(&mut self, column: &str) -> Result<Option<T>, StoreError>
    where
        T: FromStr<Err: fmt::Display>,
    {
        let Some(text) = self.text_or_null(column)? else { return Ok(None) };
        text.parse().map(Some).map_err(|problem| self.corrupt(column, problem))
    }

    pub(crate) fn json<T: DeserializeOwned>(&mut self, column: &str) -> Result<T, StoreError> {
        let text = self.text(column)?;
        serde_json::from_str(&text).map_err(|problem| self.corrupt(column, problem))
    }

    /// The error for an invalid column of this row.
    pub(crate) fn corrupt(&self, column: &str, problem: impl fmt::Display) -> StoreError {
        let row = match &self.id {
            Some(Value::Uuid(id)) => id.to_string(),
            Some(Value::Bytes(bytes)) => Uuid::from_slice(bytes).map_or_else(|_| "?".to_owned(), |id| id.to_string()),
            Some(Value::Text(text)) => text.clone(),
            Some(Value::Int(number)) => number.to_string(),
            Some(Value::Bool(_) | Value::Null) | None => "?".to_owned(),
        };
        StoreError::CorruptRow { table: self.table, row, problem: format!("{column}: {problem}") }
    }

    fn next(&mut self) -> Value {
        self.rest.next().unwrap_or(Value::Null)
    }

    /// `PostgreSQL` has a UUID type; `SQLite` stores 16 bytes.
    fn as_uuid(&self, column: &str, value: Value) -> Result<Uuid, StoreError> {
        match value {
            Value::Uuid(id) => Ok(id),
            Value::Bytes(bytes) => Uuid::from_slice(&bytes).map_err(|_| self.corrupt(column, "not a UUID")),
            other => Err(self.unexpected(column, "a UUID", &other)),
        }
    }

    /// Names the type of the value, never the value itself.
    fn unexpected(&self, column: &str, expected: &str, found: &Value) -> StoreError {
        let found = match found {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Int(_) => "a number",
            Value::Text(_) => "text",
            Value::Bytes(_) => "bytes",
            Value::Uuid(_) => "a UUID",
        };
        self.corrupt(column, format_args!("expected {expected}, found {found}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_both_databases_are_read() {
        let id = Uuid::from_u128(7);
        for (value, boolean) in [(Value::Bool(true), true), (Value::Int(1), true), (Value::Int(0), false)] {
            assert_eq!(Row(vec![value]).reader("t").boolean("c").unwrap(), boolean);
        }
        for value in [Value::Uuid(id), Value::Bytes(id.as_bytes().to_vec())] {
            assert_eq!(Row(vec![value]).reader("t").uuid("c").unwrap(), id);
        }
    }

    #[test]
    fn errors_locate_invalid_values_without_showing_them() {
        let mut row = Row(vec![Value::Text("acme".into()), Value::Text("secret".into())]).reader("projects");
        assert_eq!(row.text("id").unwrap(), "acme");
        assert_eq!(
            row.int("revision").unwrap_err().to_string(),
            "projects: row acme: revision: expected a number, found text"
        );
        assert_eq!(
            row.int("changed").unwrap_err().to_string(),
            "projects: row acme: changed: expected a number, found null"
        );
    }
}
