//! Reads and writes the tables of a `PostgreSQL` database for a transfer.

use std::pin::pin;

use futures_util::TryStreamExt;
use ringtrue_domain::lifecycle::ShardBucket;
use ringtrue_engine::ports::store::StoreError;
use tokio::runtime::Handle;
use tokio_postgres::{Client, binary_copy::BinaryCopyInWriter, types::Type};

use super::{Access, Column, ColumnType, TableColumn, Tables, TransferError};
use crate::{
    postgres::{connect_for_migrations, store_error, to_row},
    row::Value,
    url::PostgresAddress,
};

/// Tables with the column `bucket`, each with the column whose last bytes determine it. Exports omit the bucket, and
/// imports compute it.
const BUCKET_KEY_COLUMNS: [(&str, &str); 9] = [
    ("checks", "id"),
    ("callbacks", "check_id"),
    ("callback_attempts", "check_id"),
    ("deadlines", "check_id"),
    ("redirect_sessions", "check_id"),
    ("verifications", "check_id"),
    ("idempotency_keys", "key_digest"),
    ("usage_counters", "project_id"),
    ("usage_days", "project_id"),
];

/// Returns the bucket that the value of a key determines.
fn bucket_of(key: &Value) -> Option<ShardBucket> {
    let bytes = match key {
        Value::Uuid(id) => &id.as_bytes()[..],
        Value::Bytes(digest) => digest,
        _ => return None,
    };
    bytes.last_chunk().copied().map(ShardBucket::of)
}

/// The tables of a database, in an open transaction. It is rolled back if the connection closes before the commit.
pub(super) struct PostgresTables {
    client: Client,
    runtime: Handle,
}

impl PostgresTables {
    /// Opens a connection and begins a transaction. Blocks: call it on a separate thread, inside a runtime.
    pub(super) fn open(address: &PostgresAddress, access: Access) -> Result<Self, StoreError> {
        let runtime = Handle::current();
        let begin = match access {
            Access::Read => "begin isolation level repeatable read read only",
            Access::Write => "begin",
        };
        let client = runtime.block_on(async {
            let client = connect_for_migrations(address).await?;
            client.batch_execute(begin).await.map_err(|error| store_error(&error))?;
            Ok::<_, StoreError>(client)
        })?;
        Ok(PostgresTables { client, runtime })
    }
}

/// Returns the query that reads a table without its column `bucket`. In a distributed database a counter has a row in
/// several buckets, which are added up.
fn select_rows(table: &str, columns: &[Column]) -> String {
    if !table.starts_with("usage_") {
        return format!("select {} from {table}", column_list(columns));
    }
    let selected = |column: &Column| match column.name.as_str() {
        "count" => "sum(count)::bigint".to_owned(),
        name => format!("\"{name}\""),
    };
    let key = columns.iter().filter(|column| column.name != "count").map(selected).collect::<Vec<_>>().join(", ");
    let selected = columns.iter().map(selected).collect::<Vec<_>>().join(", ");
    format!("select {selected} from {table} group by {key}")
}

fn column_list(columns: &[Column]) -> String {
    columns.iter().map(|column| format!("\"{}\"", column.name)).collect::<Vec<_>>().join(", ")
}

#[expect(clippy::needless_pass_by_value, reason = "an argument of `map_err`")]
fn transfer_error(error: tokio_postgres::Error) -> TransferError {
    TransferError::Store(store_error(&error))
}

impl Tables for PostgresTables {
    #[cfg(test)]
    fn names(&mut self) -> Result<Vec<String>, StoreError> {
        let sql = "select relname::text from pg_class
                    where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p') and not relispartition";
        let rows = self.runtime.block_on(self.client.query(sql, &[])).map_err(|error| store_error(&error))?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    fn columns(&mut self, table: &str) -> Result<Vec<TableColumn>, TransferError> {
        let sql = "select attname::text, atttypid::regtype::text, attnotnull and not atthasdef and attidentity = ''
                     from pg_attribute
                    where attrelid = $1::text::regclass and attnum > 0 and not attisdropped and attgenerated = ''
                      and attname <> 'bucket'
                    order by attnum";
        let rows = self.runtime.block_on(self.client.query(sql, &[&table])).map_err(transfer_error)?;
        let typed = rows.iter().map(|row| {
            let (name, declared): (String, String) = (row.get(0), row.get(1));
            let kind = match declared.as_str() {
                "smallint" | "integer" | "bigint" => ColumnType::Integer,
                "boolean" => ColumnType::Boolean,
                "text" => ColumnType::Text,
                "bytea" => ColumnType::Bytes,
                "uuid" => ColumnType::Uuid,
                other => {
                    let problem = format!("the type {other} is not supported");
                    return Err(TransferError::Column { table: table.to_owned(), column: name, problem });
                }
            };
            Ok(TableColumn { column: Column { name, kind }, is_required: row.get(2) })
        });
        typed.collect()
    }

    fn count_rows(&mut self, from: &str) -> Result<i64, StoreError> {
        let sql = format!("select count(*) from {from}");
        let row = self.runtime.block_on(self.client.query_one(&sql, &[])).map_err(|error| store_error(&error))?;
        Ok(row.get(0))
    }

    fn execute(&mut self, sql: &str) -> Result<(), StoreError> {
        self.runtime.block_on(self.client.batch_execute(sql)).map_err(|error| store_error(&error))
    }

    fn read_rows(
        &mut self,
        table: &str,
        columns: &[Column],
        row: &mut dyn FnMut(Vec<Value>) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        let select = select_rows(table, columns);
        self.runtime.block_on(async {
            // `query_raw` streams the rows: the driver stops reading from the socket until the previous rows are
            // consumed.
            let mut rows = pin!(self.client.query_raw(&select, [] as [&Value; 0]).await.map_err(transfer_error)?);
            while let Some(found) = rows.try_next().await.map_err(transfer_error)? {
                row(to_row(&found).map_err(transfer_error)?.0)?;
            }
            Ok(())
        })
    }

    fn write_rows(
        &mut self,
        table: &str,
        columns: &[Column],
        next_row: &mut dyn FnMut() -> Result<Option<Vec<Value>>, TransferError>,
    ) -> Result<(), TransferError> {
        let key_column = BUCKET_KEY_COLUMNS.into_iter().find(|(name, _)| *name == table).map(|(_, column)| column);
        let key_index = columns.iter().position(|column| Some(column.name.as_str()) == key_column);
        let names = column_list(columns) + if key_index.is_some() { ", bucket" } else { "" };
        self.runtime.block_on(async {
            let statement =
                self.client.prepare(&format!("select {names} from {table}")).await.map_err(transfer_error)?;
            let types: Vec<Type> = statement.columns().iter().map(|column| column.type_().clone()).collect();
            let copy = format!("copy {table} ({names}) from stdin (format binary)");
            let sink = self.client.copy_in(&copy).await.map_err(transfer_error)?;
            let mut writer = pin!(BinaryCopyInWriter::new(sink, &types));
            while let Some(mut row) = next_row()? {
                if let Some(bucket) = key_index.and_then(|index| row.get(index)).and_then(bucket_of) {
                    row.push(Value::Int(bucket.number().into()));
                }
                writer.as_mut().write_raw(&row).await.map_err(transfer_error)?;
            }
            writer.finish().await.map_err(transfer_error)?;
            Ok(())
        })
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        self.execute("commit")?;
        // Updates the statistics, because the planner still has those of empty tables.
        self.execute("analyze")
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::url::{StoreAddress, StoreUrl};

    /// Creates an empty database. Returns its URL.
    #[expect(clippy::disallowed_methods, reason = "the test runner passes the server address")]
    pub(in crate::transfer) async fn create_database() -> String {
        let server = std::env::var("POSTGRES_FOR_TESTS")
            .expect("POSTGRES_FOR_TESTS names no PostgreSQL server: run `make test`");
        let StoreAddress::Postgres(address) = server.parse::<StoreUrl>().unwrap().0 else { panic!("{server}") };
        let client = connect_for_migrations(&address).await.unwrap();
        let name = format!("transfer_{}", std::process::id());
        client.batch_execute(&format!("create database {name}")).await.unwrap();
        let (base, _) = server.rsplit_once('/').unwrap();
        format!("{base}/{name}")
    }
}
