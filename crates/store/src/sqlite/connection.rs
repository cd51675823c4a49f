//! A connection, set up the same way wherever it is used, and the transaction that a verb sees.

use std::{borrow::Cow, path::Path, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};
use ringtrue_engine::ports::StoreError;
use rusqlite::{
    Connection, OpenFlags, Statement, ToSql,
    config::DbConfig,
    params_from_iter,
    types::{ToSqlOutput, ValueRef},
};

use super::error::store_error;
use crate::{
    driver::{Sql, Tx, Value},
    row::Row,
};

/// How long to wait while another process writes. Shorter than a caller's patience, so that it hears the reason.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(3);

const KEPT_STATEMENTS: usize = 128;
/// How long the log grows before its pages are put where they belong. Most are written many times, and moved once.
const LOG_PAGES: u32 = 4_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    /// A commit has reached the log when it returns: somebody else sees to the disk.
    Write,
    /// Makes the file when there is none. A commit has reached the disk when it returns.
    Create,
}

pub(super) fn open(path: &Path, access: Access) -> Result<Connection, StoreError> {
    let flags = match access {
        Access::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
        Access::Write => OpenFlags::SQLITE_OPEN_READ_WRITE,
        Access::Create => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
    };
    let set_up = || {
        let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.set_prepared_statement_cache_capacity(KEPT_STATEMENTS);
        // A plan that depends on the values would be made anew for each of them.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        if access != Access::Read {
            connection.pragma_update(None, "journal_mode", "wal")?;
            let synchronous = if access == Access::Write { "normal" } else { "full" };
            connection.pragma_update(None, "synchronous", synchronous)?;
            connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
            // A log that a long reading let grow is cut back.
            connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
        }
        connection.pragma_update(None, "foreign_keys", true)?;
        // PostgreSQL's `like` tells upper from lower case, and so must this one.
        connection.pragma_update(None, "case_sensitive_like", true)?;
        Ok(connection)
    };
    set_up().map_err(|error| store_error(&error))
}

/// A transaction whose statements are done by the time they are awaited.
#[derive(Debug)]
pub(super) struct SqliteTx<'c> {
    pub connection: &'c mut Connection,
}

impl Tx for SqliteTx<'_> {
    fn query<'a>(&'a mut self, sql: Sql, values: &'a [Value]) -> BoxFuture<'a, Result<Vec<Row>, StoreError>> {
        let found = match sql {
            Cow::Borrowed(sql) => rows(self.connection, sql, values),
            Cow::Owned(sql) => {
                // To SQLite `$1` is a name, which it looks for among all others of the statement; `?1` is a number.
                let sql = sql.replace('$', "?");
                let found = self.connection.prepare(&sql).and_then(|mut statement| rows_of(&mut statement, values));
                found.map_err(|error| store_error(&error))
            }
        };
        Box::pin(std::future::ready(found))
    }
}

/// The rows of a statement that is prepared once and kept.
pub(super) fn rows(connection: &Connection, sql: &'static str, values: &[Value]) -> Result<Vec<Row>, StoreError> {
    let found = connection.prepare_cached(sql).and_then(|mut statement| rows_of(&mut statement, values));
    found.map_err(|error| store_error(&error))
}

/// Runs a statement that gives no rows: how many it has changed.
pub(super) fn execute(connection: &Connection, sql: &'static str, values: &[Value]) -> Result<usize, StoreError> {
    let statement = connection.prepare_cached(sql);
    let changed = statement.and_then(|mut statement| statement.execute(params_from_iter(values)));
    changed.map_err(|error| store_error(&error))
}

/// Gives the answer of a verb, which never waits: its statements are done at once.
pub(super) fn at_once<T>(verb: BoxFuture<'_, Result<T, StoreError>>) -> Result<T, StoreError> {
    verb.now_or_never().unwrap_or_else(|| Err(StoreError::Refused("a verb waited for something".to_owned())))
}

pub(super) fn rows_of(statement: &mut Statement<'_>, values: &[Value]) -> rusqlite::Result<Vec<Row>> {
    let columns = statement.column_count();
    let mut found = statement.query(params_from_iter(values))?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        let values = (0..columns).map(|column| row.get_ref(column).map(value_of)).collect::<Result<_, _>>()?;
        rows.push(Row(values));
    }
    Ok(rows)
}

fn value_of(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Int(number),
        // There are no such columns. A bad row shows as one that holds the wrong type.
        ValueRef::Real(number) => Value::Text(number.to_string()),
        ValueRef::Text(text) => {
            String::from_utf8(text.to_vec()).map_or_else(|broken| Value::Bytes(broken.into_bytes()), Value::Text)
        }
        ValueRef::Blob(bytes) => Value::Bytes(bytes.to_vec()),
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Null => ValueRef::Null,
            Value::Bool(fact) => ValueRef::Integer(i64::from(*fact)),
            Value::Int(number) => ValueRef::Integer(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
            Value::Uuid(id) => ValueRef::Blob(id.as_bytes()),
        }))
    }
}
