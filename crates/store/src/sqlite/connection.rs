//! Opens connections with uniform settings, implements [`Tx`] for `SQLite`, and maps errors.

use std::{path::Path, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};
use ringtrue_engine::ports::store::StoreError;
use rusqlite::{
    Connection, ErrorCode, OpenFlags, Statement, ToSql,
    config::DbConfig,
    params_from_iter,
    types::{ToSqlOutput, ValueRef},
};

use crate::{
    driver::{Sql, Tx},
    row::{Row, Value},
};

/// Maximum wait for the lock of another process. Shorter than the timeout of a call, so that the caller gets the real
/// error.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(3);

const STATEMENT_CACHE_CAPACITY: usize = 128;
/// Number of pages in the write-ahead log that triggers a checkpoint. Large, because most pages are written many times
/// between two checkpoints, but copied only once.
const CHECKPOINT_PAGES: u32 = 4_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    /// Reads and writes. A commit returns before the log is synced: `wal_syncer` syncs it.
    Write,
    /// Reads and writes, and creates a missing file. A commit is durable when it returns.
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
        connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE_CAPACITY);
        // Makes plans independent of the bound values. Otherwise a cached statement may be prepared again for other
        // values.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        if access != Access::Read {
            connection.pragma_update(None, "journal_mode", "wal")?;
            let synchronous = if access == Access::Write { "normal" } else { "full" };
            connection.pragma_update(None, "synchronous", synchronous)?;
            connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
            // The log grows during a long read. This limit truncates it afterwards.
            connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
        }
        connection.pragma_update(None, "foreign_keys", true)?;
        // `like` is case-sensitive, as in PostgreSQL.
        connection.pragma_update(None, "case_sensitive_like", true)?;
        Ok(connection)
    };
    set_up().map_err(|error| store_error(&error))
}

/// Implements [`Tx`]. Its statements complete synchronously.
#[derive(Debug)]
pub(super) struct SqliteTx<'c> {
    pub connection: &'c mut Connection,
}

impl Tx for SqliteTx<'_> {
    fn query<'a>(&'a mut self, sql: Sql, values: &'a [Value]) -> BoxFuture<'a, Result<Vec<Row>, StoreError>> {
        let found = match sql {
            Sql::Cached(sql) => query_cached(self.connection, &sql, values),
            Sql::Composed(sql) => {
                // `?1` is an index. SQLite treats `$1` as a name, and would search all parameter names for it.
                let sql = sql.replace('$', "?");
                let found =
                    self.connection.prepare(&sql).and_then(|mut statement| collect_rows(&mut statement, values));
                found.map_err(|error| store_error(&error))
            }
        };
        Box::pin(std::future::ready(found))
    }
}

/// Runs a statement from the statement cache.
pub(super) fn query_cached(connection: &Connection, sql: &str, values: &[Value]) -> Result<Vec<Row>, StoreError> {
    let found = connection.prepare_cached(sql).and_then(|mut statement| collect_rows(&mut statement, values));
    found.map_err(|error| store_error(&error))
}

/// Runs a statement without result rows. Returns the number of changed rows.
pub(super) fn execute(connection: &Connection, sql: &'static str, values: &[Value]) -> Result<usize, StoreError> {
    let statement = connection.prepare_cached(sql);
    let changed = statement.and_then(|mut statement| statement.execute(params_from_iter(values)));
    changed.map_err(|error| store_error(&error))
}

/// Returns the output of a future that uses only [`SqliteTx`], and is therefore ready on the first poll.
pub(super) fn poll_once<T>(future: BoxFuture<'_, Result<T, StoreError>>) -> Result<T, StoreError> {
    future.now_or_never().unwrap_or_else(|| Err(StoreError::Refused("a transaction awaited another future".to_owned())))
}

pub(super) fn collect_rows(statement: &mut Statement<'_>, values: &[Value]) -> rusqlite::Result<Vec<Row>> {
    let columns = statement.column_count();
    let mut found = statement.query(params_from_iter(values))?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        let values = (0..columns).map(|column| row.get_ref(column).map(to_value)).collect::<Result<_, _>>()?;
        rows.push(Row(values));
    }
    Ok(rows)
}

pub(crate) fn to_value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Int(number),
        // No column has the type `real`. The value becomes text, which the row mapping then reports as a wrong type.
        ValueRef::Real(number) => Value::Text(number.to_string()),
        ValueRef::Text(text) => {
            String::from_utf8(text.to_vec()).map_or_else(|invalid| Value::Bytes(invalid.into_bytes()), Value::Text)
        }
        ValueRef::Blob(bytes) => Value::Bytes(bytes.to_vec()),
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Null => ValueRef::Null,
            Value::Bool(boolean) => ValueRef::Integer(i64::from(*boolean)),
            Value::Int(number) => ValueRef::Integer(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
            Value::Uuid(id) => ValueRef::Blob(id.as_bytes()),
            Value::Uuids(_) => {
                return Err(rusqlite::Error::ToSqlConversionFailure("SQLite has no arrays".into()));
            }
        }))
    }
}

/// Maps an error to a temporary (`Unavailable`) or permanent (`Refused`) store error.
pub(crate) fn store_error(error: &rusqlite::Error) -> StoreError {
    let Some(code) = error.sqlite_error_code() else { return StoreError::Refused(error.to_string()) };
    let unavailable = |why: &str| StoreError::Unavailable(format!("{why} ({error})"));
    match code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
            unavailable("database locked by another process")
        }
        ErrorCode::DiskFull => unavailable("disk full"),
        ErrorCode::ReadOnly => unavailable("database file cannot be written"),
        ErrorCode::SystemIoFailure => unavailable("disk I/O error"),
        ErrorCode::CannotOpen | ErrorCode::PermissionDenied => unavailable("cannot open the database file"),
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => unavailable("database file is corrupt"),
        ErrorCode::OutOfMemory | ErrorCode::OperationInterrupted | ErrorCode::OperationAborted => {
            unavailable("operation interrupted")
        }
        _ => StoreError::Refused(error.to_string()),
    }
}
