//! Reads and writes the tables of a `SQLite` file for a transfer.

use std::path::Path;

use ringtrue_engine::ports::store::StoreError;
use rusqlite::{Connection, params_from_iter};

use super::{Access, Column, ColumnType, TableColumn, Tables, TransferError};
use crate::{
    row::Value,
    sqlite::{open_for_migration, open_for_reading, store_error, to_value},
};

/// Size of the page cache in KiB, for the large transaction of a transfer.
const CACHE_KIB: i32 = 64 << 10;

#[derive(Debug)]
pub(super) struct SqliteTables {
    connection: Connection,
}

impl SqliteTables {
    pub(super) fn open(path: &Path, access: Access) -> Result<Self, StoreError> {
        let (connection, begin) = match access {
            // `begin` takes no snapshot. The first read does.
            Access::Read => (open_for_reading(path)?, "begin; select count(*) from sqlite_schema"),
            Access::Write => (open_for_migration(path)?, "begin immediate"),
        };
        let set_up = || {
            connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
            connection.execute_batch(begin)
        };
        set_up().map_err(|error| store_error(&error))?;
        Ok(SqliteTables { connection })
    }
}

fn column_list(columns: &[Column]) -> String {
    columns.iter().map(|column| format!("\"{}\"", column.name)).collect::<Vec<_>>().join(", ")
}

impl Tables for SqliteTables {
    #[cfg(test)]
    fn names(&mut self) -> Result<Vec<String>, StoreError> {
        let names = || {
            let sql = "select name from sqlite_schema where type = 'table' and name not like 'sqlite_%'";
            self.connection.prepare(sql)?.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<_>>>()
        };
        names().map_err(|error| store_error(&error))
    }

    fn columns(&mut self, table: &str) -> Result<Vec<TableColumn>, TransferError> {
        let read = || {
            let sql = "select name, type, \"notnull\" and dflt_value is null from pragma_table_info(?1) order by cid";
            let mut statement = self.connection.prepare(sql)?;
            let rows = statement.query_map([table], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, bool>(2)?))
            })?;
            rows.collect::<Result<Vec<_>, _>>()
        };
        let columns = read().map_err(|error| store_error(&error))?;
        let typed = columns.into_iter().map(|(name, declared, is_required)| {
            let kind = match declared.to_ascii_lowercase().as_str() {
                "integer" => ColumnType::Integer,
                "text" => ColumnType::Text,
                "blob" => ColumnType::Bytes,
                other => {
                    let problem = format!("the type {other} is not supported");
                    return Err(TransferError::Column { table: table.to_owned(), column: name, problem });
                }
            };
            Ok(TableColumn { column: Column { name, kind }, is_required })
        });
        typed.collect()
    }

    fn count_rows(&mut self, from: &str) -> Result<i64, StoreError> {
        let count = self.connection.query_row(&format!("select count(*) from {from}"), [], |row| row.get(0));
        count.map_err(|error| store_error(&error))
    }

    fn execute(&mut self, sql: &str) -> Result<(), StoreError> {
        self.connection.execute_batch(sql).map_err(|error| store_error(&error))
    }

    fn read_rows(
        &mut self,
        table: &str,
        columns: &[Column],
        row: &mut dyn FnMut(Vec<Value>) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        let error = |error: rusqlite::Error| TransferError::Store(store_error(&error));
        let select = format!("select {} from {table}", column_list(columns));
        let mut statement = self.connection.prepare(&select).map_err(error)?;
        let mut rows = statement.query([]).map_err(error)?;
        while let Some(found) = rows.next().map_err(error)? {
            let values = (0..columns.len()).map(|index| found.get_ref(index).map(to_value));
            row(values.collect::<Result<_, _>>().map_err(error)?)?;
        }
        Ok(())
    }

    fn write_rows(
        &mut self,
        table: &str,
        columns: &[Column],
        next_row: &mut dyn FnMut() -> Result<Option<Vec<Value>>, TransferError>,
    ) -> Result<(), TransferError> {
        let error = |error: rusqlite::Error| TransferError::Store(store_error(&error));
        let placeholders = vec!["?"; columns.len()].join(", ");
        let insert = format!("insert into {table} ({}) values ({placeholders})", column_list(columns));
        let mut statement = self.connection.prepare(&insert).map_err(error)?;
        while let Some(row) = next_row()? {
            statement.execute(params_from_iter(&row)).map_err(error)?;
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        // After an import the write-ahead log is as large as the database. The checkpoint truncates it.
        self.execute("commit; pragma wal_checkpoint(truncate)")
    }
}
