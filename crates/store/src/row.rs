//! Values of parameters and columns, and a reader that converts the columns of a row to domain types.
//!
//! An invalid column is reported as [`StoreError::CorruptRow`] with the table, the row and the column.

use std::{fmt, str::FromStr, vec};

use jiff::Timestamp;
use ringtrue_domain::{
    account::{AccountId, InvitationId},
    lifecycle::{CheckId, NumberHash, Sealed},
    network::NetworkId,
    tenancy::{ProjectId, WorkspaceId},
};
use ringtrue_engine::ports::{
    hashes::{CodeHash, TokenHash},
    keys::KeyId,
    node::NodeId,
    store::StoreError,
};
use serde::de::DeserializeOwned;
use uuid::Uuid;

/// The value of a statement's parameter or of a row's column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
    Uuid(Uuid),
    /// An array, as a parameter for `PostgreSQL`.
    Uuids(Vec<Uuid>),
}

/// Builds the parameters of a statement, in order.
macro_rules! values {
    ($($value:expr),* $(,)?) => { &[$($crate::row::Value::from($value)),*] };
}
pub(crate) use values;

macro_rules! value_from {
    ($($value:ident: $type:ty => $column:expr;)*) => {
        $(impl From<$type> for Value {
            fn from($value: $type) -> Self {
                $column
            }
        })*
    };
}

value_from! {
    value: bool => Value::Bool(value);
    value: i64 => Value::Int(value);
    value: &str => Value::Text(value.to_owned());
    value: String => Value::Text(value);
    value: &[u8] => Value::Bytes(value.to_vec());
    value: [u8; 32] => Value::Bytes(value.to_vec());
    value: Uuid => Value::Uuid(value);
    id: AccountId => Value::Uuid(id.0);
    id: InvitationId => Value::Uuid(id.0);
    id: WorkspaceId => Value::Uuid(id.0);
    id: ProjectId => Value::Uuid(id.0);
    id: CheckId => Value::Uuid(id.0);
    id: KeyId => Value::Uuid(id.0);
    id: NodeId => Value::Uuid(id.0);
    hash: NumberHash => hash.0.into();
    hash: CodeHash => hash.0.into();
    hash: TokenHash => hash.0.into();
    sealed: &Sealed => sealed.0.as_slice().into();
    network: &NetworkId => network.as_str().into();
    // Times are stored as whole milliseconds since 1970.
    at: Timestamp => Value::Int(at.as_millisecond());
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

/// One result row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row(pub Vec<Value>);

impl Row {
    /// Reads a row of `table`. Errors identify the row by its first column.
    pub(crate) fn reader(self, table: &'static str) -> RowReader {
        let id = self.0.first().cloned();
        RowReader { table, id, rest: self.0.into_iter() }
    }

    /// Returns the only value of a row, which must be an integer.
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

    pub(crate) fn int_or_null(&mut self, column: &str) -> Result<Option<i64>, StoreError> {
        self.or_null(|row| row.int(column))
    }

    pub(crate) fn boolean(&mut self, column: &str) -> Result<bool, StoreError> {
        match self.next() {
            Value::Bool(boolean) => Ok(boolean),
            Value::Int(number @ (0 | 1)) => Ok(number == 1),
            other => Err(self.unexpected(column, "a boolean", &other)),
        }
    }

    pub(crate) fn boolean_or_null(&mut self, column: &str) -> Result<Option<bool>, StoreError> {
        self.or_null(|row| row.boolean(column))
    }

    /// Reads a UUID. `PostgreSQL` has a UUID type, `SQLite` stores 16 bytes.
    pub(crate) fn uuid(&mut self, column: &str) -> Result<Uuid, StoreError> {
        match self.next() {
            Value::Uuid(id) => Ok(id),
            Value::Bytes(bytes) => Uuid::from_slice(&bytes).map_err(|_| self.corrupt(column, "not a UUID")),
            other => Err(self.unexpected(column, "a UUID", &other)),
        }
    }

    pub(crate) fn uuid_or_null(&mut self, column: &str) -> Result<Option<Uuid>, StoreError> {
        self.or_null(|row| row.uuid(column))
    }

    pub(crate) fn text(&mut self, column: &str) -> Result<String, StoreError> {
        match self.next() {
            Value::Text(text) => Ok(text),
            other => Err(self.unexpected(column, "text", &other)),
        }
    }

    pub(crate) fn text_or_null(&mut self, column: &str) -> Result<Option<String>, StoreError> {
        self.or_null(|row| row.text(column))
    }

    pub(crate) fn bytes(&mut self, column: &str) -> Result<Vec<u8>, StoreError> {
        match self.next() {
            Value::Bytes(bytes) => Ok(bytes),
            other => Err(self.unexpected(column, "bytes", &other)),
        }
    }

    pub(crate) fn bytes_or_null(&mut self, column: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.or_null(|row| row.bytes(column))
    }

    pub(crate) fn digest(&mut self, column: &str) -> Result<[u8; 32], StoreError> {
        let bytes = self.bytes(column)?;
        bytes.try_into().map_err(|_| self.corrupt(column, "not 32 bytes"))
    }

    pub(crate) fn digest_or_null(&mut self, column: &str) -> Result<Option<[u8; 32]>, StoreError> {
        self.or_null(|row| row.digest(column))
    }

    pub(crate) fn instant(&mut self, column: &str) -> Result<Timestamp, StoreError> {
        let millis = self.int(column)?;
        Timestamp::from_millisecond(millis).map_err(|_| self.corrupt(column, "not an instant"))
    }

    pub(crate) fn instant_or_null(&mut self, column: &str) -> Result<Option<Timestamp>, StoreError> {
        self.or_null(|row| row.instant(column))
    }

    pub(crate) fn count(&mut self, column: &str) -> Result<u32, StoreError> {
        let count = self.int(column)?;
        u32::try_from(count).map_err(|_| self.corrupt(column, "not a count"))
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
        self.or_null(|row| row.parsed(column))
    }

    pub(crate) fn json<T: DeserializeOwned>(&mut self, column: &str) -> Result<T, StoreError> {
        let text = self.text(column)?;
        serde_json::from_str(&text).map_err(|problem| self.corrupt(column, problem))
    }

    /// Returns the error for an invalid column of this row.
    pub(crate) fn corrupt(&self, column: &str, problem: impl fmt::Display) -> StoreError {
        let row = match &self.id {
            Some(Value::Uuid(id)) => id.to_string(),
            Some(Value::Bytes(bytes)) => Uuid::from_slice(bytes).map_or_else(|_| "?".to_owned(), |id| id.to_string()),
            Some(Value::Text(text)) => text.clone(),
            Some(Value::Int(number)) => number.to_string(),
            Some(Value::Bool(_) | Value::Null | Value::Uuids(_)) | None => "?".to_owned(),
        };
        StoreError::CorruptRow { table: self.table, row, problem: format!("{column}: {problem}") }
    }

    fn next(&mut self) -> Value {
        self.rest.next().unwrap_or(Value::Null)
    }

    fn or_null<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, StoreError>) -> Result<Option<T>, StoreError> {
        if matches!(self.rest.as_slice(), [] | [Value::Null, ..]) {
            self.next();
            return Ok(None);
        }
        read(self).map(Some)
    }

    /// Returns the error for a column of another type. Names the type that was found, but never shows the value.
    fn unexpected(&self, column: &str, expected: &str, found: &Value) -> StoreError {
        let found = match found {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Int(_) => "a number",
            Value::Text(_) => "text",
            Value::Bytes(_) => "bytes",
            Value::Uuid(_) => "a UUID",
            Value::Uuids(_) => "UUIDs",
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
