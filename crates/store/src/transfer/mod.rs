//! Exports a whole deployment to a file, and imports it into another database of either kind.
//!
//! [`TABLES`] lists the tables. Columns and their types are read from the database. An import converts each value to
//! the type that its column has in the target database. [`mod@format`] describes the file.
//!
//! An export reads one snapshot. An import is one transaction: the database has all rows of a verified file, or none.
//! Neither holds more than a row in memory.

mod format;
mod postgres;
mod sqlite;

use std::{
    io::{self, BufRead, Write},
    time::Duration,
};

use jiff::Timestamp;
use ringtrue_engine::ports::store::StoreError;

use self::{
    format::{Column, ColumnType, ExportReader, ExportWriter, Header, TableHeader},
    postgres::PostgresTables,
    sqlite::SqliteTables,
};
use crate::{
    migration::{Migration, POSTGRES, SQLITE, SchemaState},
    row::Value,
    schema_state,
    url::{StoreAddress, StoreUrl},
};

/// A server whose last heartbeat is younger than this counts as running.
const MAX_HEARTBEAT_AGE: Duration = Duration::from_secs(5);

/// How a transfer treats a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TransferMode {
    /// Copies all rows into an empty table.
    Rows,
    /// Overwrites the single row, which a migration has inserted.
    SingleRow,
    /// Copies nothing: the rows describe this database or the servers that use it.
    Local,
}

/// All tables. A table comes after those that its foreign keys refer to.
const TABLES: [(&str, TransferMode); 41] = [
    ("workspaces", TransferMode::Rows),
    ("projects", TransferMode::Rows),
    ("logos", TransferMode::Rows),
    ("credentials", TransferMode::Rows),
    ("sealed_keys", TransferMode::Rows),
    ("revocations", TransferMode::Rows),
    ("audit_events", TransferMode::Rows),
    ("accounts", TransferMode::Rows),
    ("memberships", TransferMode::Rows),
    ("invitations", TransferMode::Rows),
    ("sessions", TransferMode::Rows),
    ("account_links", TransferMode::Rows),
    ("login_throttle", TransferMode::Rows),
    ("idempotency_keys", TransferMode::Rows),
    ("checks", TransferMode::Rows),
    ("deadlines", TransferMode::Rows),
    ("redirect_sessions", TransferMode::Rows),
    ("verifications", TransferMode::Rows),
    ("sign_ins", TransferMode::Rows),
    ("pushed_authorizations", TransferMode::Rows),
    ("sign_in_sessions", TransferMode::Rows),
    ("used_assertions", TransferMode::Rows),
    ("callbacks", TransferMode::Rows),
    ("callback_attempts", TransferMode::Rows),
    ("erasures", TransferMode::Rows),
    ("usage_counters", TransferMode::Rows),
    ("usage_days", TransferMode::Rows),
    ("activity", TransferMode::Rows),
    ("funnel_counts", TransferMode::Rows),
    ("requests", TransferMode::Rows),
    ("concatenated_sms", TransferMode::Rows),
    ("sms_parts", TransferMode::Rows),
    ("simulated_sim_swaps", TransferMode::Rows),
    ("control_version", TransferMode::SingleRow),
    ("database_state", TransferMode::SingleRow),
    ("check_retention", TransferMode::SingleRow),
    ("nodes", TransferMode::Local),
    ("leases", TransferMode::Local),
    // Exists only in PostgreSQL. After an import, the count of checks per number starts at zero.
    ("number_limits", TransferMode::Local),
    ("node_demand", TransferMode::Local),
    ("schema_compatibility", TransferMode::Local),
];

/// Returns the tables whose rows are transferred.
fn moved_tables() -> impl Iterator<Item = (&'static str, TransferMode)> {
    TABLES.into_iter().filter(|(_, mode)| *mode != TransferMode::Local)
}

#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("cannot read or write the file: {0}")]
    File(#[from] io::Error),
    #[error("the schema of the database is not the one of this release: run `ringtrue doctor`")]
    SchemaMismatch,
    #[error(
        "servers are running on this database ({count}): stop them first, or they accept changes that are not in the \
         export"
    )]
    ServersRunning { count: i64 },
    #[error("the table {table} of the database has rows: import into a new database, after `ringtrue migrate`")]
    NotEmpty { table: String },
    #[error("the file is not an export of Ringtrue")]
    NotAnExport,
    #[error("the file has the format version {found}; this release reads version {supported}: use a newer release")]
    UnsupportedVersion { found: u32, supported: u32 },
    #[error(
        "the file was exported from the schema {found}, and the database has the schema {expected}: export and import \
         with the same release"
    )]
    OtherSchema { found: String, expected: String },
    #[error("line {line} of the file is damaged: {problem}")]
    Damaged { line: u64, problem: String },
    #[error("the file is incomplete: it ends after line {line}, without the checksum at the end of an export")]
    Truncated { line: u64 },
    #[error("the checksum of the file is wrong: it was changed or damaged")]
    WrongChecksum,
    #[error("{table}.{column}: {problem}")]
    Column { table: String, column: String, problem: String },
}

/// Progress of a transfer: the current table, and the number of its rows transferred so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferProgress {
    pub table: &'static str,
    /// Position of the table among the transferred tables, from 1.
    pub number: u64,
    /// Number of transferred tables.
    pub total: u64,
    pub rows: u64,
    /// Whether all rows of the table were transferred.
    pub is_complete: bool,
}

/// Receives progress reports: one every few thousand rows, and one at the end of each table.
pub type ReportProgress<'p> = dyn FnMut(TransferProgress) + Send + 'p;

const ROWS_PER_REPORT: u64 = 5_000;

/// Counts and reports the rows of one table.
struct RowCounter<'r, 'p> {
    table: &'static str,
    number: u64,
    rows: u64,
    report: &'r mut ReportProgress<'p>,
}

impl<'r, 'p> RowCounter<'r, 'p> {
    fn new((number, table): (u64, &'static str), report: &'r mut ReportProgress<'p>) -> Self {
        RowCounter { table, number, rows: 0, report }
    }

    fn count_row(&mut self) {
        self.rows += 1;
        if self.rows.is_multiple_of(ROWS_PER_REPORT) {
            self.report_progress(false);
        }
    }

    fn complete(mut self) -> u64 {
        self.report_progress(true);
        self.rows
    }

    fn report_progress(&mut self, is_complete: bool) {
        let RowCounter { table, number, rows, .. } = *self;
        (self.report)(TransferProgress { table, number, total: moved_tables().count() as u64, rows, is_complete });
    }
}

/// A column of a table in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TableColumn {
    column: Column,
    /// Whether an insert must set the column: it has no default, and is not nullable.
    is_required: bool,
}

/// Access to the tables of a database within one transaction.
trait Tables {
    /// Returns the names of all tables, without partitions.
    #[cfg(test)]
    fn names(&mut self) -> Result<Vec<String>, StoreError>;

    /// Returns the columns of a table, without those that cannot be written.
    fn columns(&mut self, table: &str) -> Result<Vec<TableColumn>, TransferError>;

    fn count_rows(&mut self, from: &str) -> Result<i64, StoreError>;

    /// Runs a statement that has no parameters and returns no rows.
    fn execute(&mut self, sql: &str) -> Result<(), StoreError>;

    /// Reads the rows of a table, and passes each to a callback.
    fn read_rows(
        &mut self,
        table: &str,
        columns: &[Column],
        row: &mut dyn FnMut(Vec<Value>) -> Result<(), TransferError>,
    ) -> Result<(), TransferError>;

    /// Inserts rows until `next_row` returns `None`.
    fn write_rows(
        &mut self,
        table: &str,
        columns: &[Column],
        next_row: &mut dyn FnMut() -> Result<Option<Vec<Value>>, TransferError>,
    ) -> Result<(), TransferError>;

    fn commit(&mut self) -> Result<(), StoreError>;
}

/// Kind of transaction that a transfer uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// A read-only transaction over one snapshot.
    Read,
    Write,
}

/// Opens a database and begins a transaction. Blocks the thread, which must be inside a Tokio runtime for `PostgreSQL`.
fn open_tables(url: &StoreUrl, access: Access) -> Result<Box<dyn Tables>, StoreError> {
    Ok(match &url.0 {
        StoreAddress::Sqlite(path) => Box::new(SqliteTables::open(path, access)?),
        StoreAddress::Postgres(address) => Box::new(PostgresTables::open(address, access)?),
    })
}

/// Returns the name of the database kind, and its migrations.
fn database_kind(url: &StoreUrl) -> (&'static str, &'static [Migration]) {
    match &url.0 {
        StoreAddress::Sqlite(_) => ("sqlite", SQLITE),
        StoreAddress::Postgres(_) => ("postgresql", POSTGRES),
    }
}

/// Returns the name of the newest migration, which identifies the schema.
fn schema_name(url: &StoreUrl) -> &'static str {
    database_kind(url).1.last().map_or("", |migration| migration.name)
}

/// Options of an [`export`].
#[derive(Clone, Copy, Debug)]
pub struct ExportOptions {
    /// The current time, by the clock of the database.
    pub now: Timestamp,
    /// Exports even if servers are running. The file lacks their later changes, so use it only to rehearse a move.
    pub allow_running_servers: bool,
}

/// Exports a deployment to a file. Returns the number of rows.
pub async fn export(
    url: &StoreUrl,
    options: ExportOptions,
    file: impl Write + Send + 'static,
    mut report: impl FnMut(TransferProgress) + Send + 'static,
) -> Result<u64, TransferError> {
    ensure_current_schema(url).await?;
    let url = url.clone();
    run_blocking(move || export_blocking(&url, options, file, &mut report)).await
}

fn export_blocking(
    url: &StoreUrl,
    options: ExportOptions,
    file: impl Write,
    report: &mut ReportProgress<'_>,
) -> Result<u64, TransferError> {
    let mut tables = open_tables(url, Access::Read)?;
    if !options.allow_running_servers {
        let dead_before = options.now.saturating_sub(MAX_HEARTBEAT_AGE).unwrap_or(Timestamp::MIN).as_millisecond();
        let count = tables.count_rows(&format!("nodes where seen_at >= {dead_before}"))?;
        if count > 0 {
            return Err(TransferError::ServersRunning { count });
        }
    }
    let mut headers = Vec::new();
    for (name, _) in moved_tables() {
        let columns = tables.columns(name)?.into_iter().map(|column| column.column).collect();
        headers.push(TableHeader { name: name.to_owned(), columns });
    }
    let header = Header::new(database_kind(url).0, schema_name(url), options.now, headers);
    let mut writer = ExportWriter::begin(file, &header)?;
    let mut total = 0;
    for (number, ((name, _), table)) in (1..).zip(moved_tables().zip(&header.tables)) {
        writer.begin_table(name)?;
        let mut counter = RowCounter::new((number, name), report);
        tables.read_rows(name, &table.columns, &mut |row| {
            counter.count_row();
            writer.write_row(table, &row)
        })?;
        total += counter.complete();
    }
    writer.finish()?;
    Ok(total)
}

/// Imports a deployment from a file into an empty database. Returns the number of rows.
pub async fn import(
    url: &StoreUrl,
    file: impl BufRead + Send + 'static,
    mut report: impl FnMut(TransferProgress) + Send + 'static,
) -> Result<u64, TransferError> {
    ensure_current_schema(url).await?;
    let url = url.clone();
    run_blocking(move || import_blocking(&url, file, &mut report)).await
}

fn import_blocking(url: &StoreUrl, file: impl BufRead, report: &mut ReportProgress<'_>) -> Result<u64, TransferError> {
    let (mut reader, header) = ExportReader::open(file)?;
    let expected = schema_name(url);
    if header.schema != expected {
        return Err(TransferError::OtherSchema { found: header.schema, expected: expected.to_owned() });
    }
    let mut tables = open_tables(url, Access::Write)?;
    for (name, mode) in moved_tables() {
        if mode == TransferMode::Rows && tables.count_rows(&format!("(select 1 from {name} limit 1) as found"))? > 0 {
            return Err(TransferError::NotEmpty { table: name.to_owned() });
        }
    }
    if !header.tables.iter().map(|table| table.name.as_str()).eq(moved_tables().map(|(name, _)| name)) {
        return Err(TransferError::Damaged { line: 1, problem: "the list of tables is not complete".to_owned() });
    }
    let mut total = 0;
    for (number, ((name, mode), table)) in (1..).zip(moved_tables().zip(&header.tables)) {
        let columns = target_columns(&mut *tables, table)?;
        if mode == TransferMode::SingleRow {
            tables.execute(&format!("delete from {name}"))?;
        }
        reader.begin_table(name)?;
        let mut counter = RowCounter::new((number, name), report);
        tables.write_rows(name, &columns, &mut || {
            let Some(row) = reader.next_row(table)? else { return Ok(None) };
            counter.count_row();
            let converted = row.into_iter().zip(&columns).map(|(value, column)| {
                convert(value, column.kind).map_err(|problem| TransferError::Column {
                    table: name.to_owned(),
                    column: column.name.clone(),
                    problem: problem.to_owned(),
                })
            });
            converted.collect::<Result<_, _>>().map(Some)
        })?;
        total += counter.complete();
    }
    reader.finish()?;
    // The imported row has the identity of the exported database. If it stayed, nodes would take the difference for a
    // restored backup.
    tables.execute("update database_state set identity = null")?;
    tables.commit()?;
    Ok(total)
}

/// Returns the database column for each column of the file, in the same order. Fails if a column is missing on either
/// side, or if its type cannot be converted.
fn target_columns(tables: &mut dyn Tables, file: &TableHeader) -> Result<Vec<Column>, TransferError> {
    let found = tables.columns(&file.name)?;
    let error = |column: &str, problem: String| TransferError::Column {
        table: file.name.clone(),
        column: column.to_owned(),
        problem,
    };
    for TableColumn { column, is_required } in &found {
        if *is_required && file.columns.iter().all(|other| other.name != column.name) {
            return Err(error(&column.name, "the file has no values for this column of the database".to_owned()));
        }
    }
    let target = |column: &Column| {
        let same_name = found.iter().find(|other| other.column.name == column.name);
        let target =
            &same_name.ok_or_else(|| error(&column.name, "the database has no such column".to_owned()))?.column;
        if is_convertible(column.kind, target.kind) {
            Ok(target.clone())
        } else {
            let problem = format!("the file has values of type {}, and the column is {}", column.kind, target.kind);
            Err(error(&column.name, problem))
        }
    };
    file.columns.iter().map(target).collect()
}

/// Whether a value can be converted. `SQLite` has no types for booleans and UUIDs: it stores 0 or 1, and 16 bytes.
fn is_convertible(from: ColumnType, to: ColumnType) -> bool {
    use ColumnType::{Boolean, Bytes, Integer, Uuid};
    from == to || matches!((from, to), (Integer, Boolean) | (Boolean, Integer) | (Bytes, Uuid) | (Uuid, Bytes))
}

fn convert(value: Value, to: ColumnType) -> Result<Value, &'static str> {
    Ok(match (value, to) {
        (Value::Int(number @ (0 | 1)), ColumnType::Boolean) => Value::Bool(number == 1),
        (Value::Int(_), ColumnType::Boolean) => return Err("a number other than 0 and 1 is not a boolean"),
        (Value::Bool(boolean), ColumnType::Integer) => Value::Int(boolean.into()),
        (Value::Bytes(bytes), ColumnType::Uuid) => {
            Value::Uuid(uuid::Uuid::from_slice(&bytes).map_err(|_| "a UUID has 16 bytes")?)
        }
        (Value::Uuid(id), ColumnType::Bytes) => Value::Bytes(id.as_bytes().to_vec()),
        (value, _) => value,
    })
}

async fn ensure_current_schema(url: &StoreUrl) -> Result<(), TransferError> {
    match schema_state(url).await? {
        SchemaState::Current => Ok(()),
        _ => Err(TransferError::SchemaMismatch),
    }
}

/// Runs a transfer on a separate thread, because file access and `SQLite` block.
async fn run_blocking<T: Send + 'static>(
    transfer: impl FnOnce() -> Result<T, TransferError> + Send + 'static,
) -> Result<T, TransferError> {
    let stopped = |_| TransferError::Store(StoreError::Unavailable("the transfer was aborted".to_owned()));
    tokio::task::spawn_blocking(transfer).await.map_err(stopped)?
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Creates and migrates a database of each kind.
    async fn migrated() -> (tempfile::TempDir, [StoreUrl; 2]) {
        let directory = tempfile::tempdir().unwrap();
        let sqlite = format!("sqlite:{}", directory.path().join("ringtrue.db").display());
        let urls = [sqlite, postgres::tests::create_database().await].map(|url| url.parse::<StoreUrl>().unwrap());
        for url in &urls {
            crate::migrate(url, Timestamp::UNIX_EPOCH).await.unwrap();
        }
        (directory, urls)
    }

    /// A new table must be listed in `TABLES`. A new column must exist in both databases, or be optional.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn tables_and_columns_match_both_schemas() {
        let (_directory, urls) = migrated().await;
        let listed: BTreeSet<_> = TABLES.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(listed.len(), TABLES.len());
        let schemas = urls.map(|url| {
            tokio::task::spawn_blocking(move || {
                let mut tables = open_tables(&url, Access::Read).unwrap();
                let names: BTreeSet<_> = tables.names().unwrap().into_iter().collect();
                let columns = |name| tables.columns(name).unwrap();
                (names, moved_tables().map(|(name, _)| name).map(columns).collect::<Vec<_>>())
            })
        });
        let mut columns = Vec::new();
        for schema in schemas {
            let (mut names, found) = schema.await.unwrap();
            assert!(names.remove("schema_migrations"));
            // SQLite has no table `number_limits`: it counts rows of `checks` instead.
            names.insert("number_limits".to_owned());
            assert_eq!(names, listed, "list new tables in TABLES");
            columns.push(found);
        }
        for ((name, _), (sqlite, postgres)) in moved_tables().zip(columns[0].iter().zip(&columns[1])) {
            for (from, to) in [(sqlite, postgres), (postgres, sqlite)] {
                for TableColumn { column, .. } in from {
                    let other = to.iter().find(|other| other.column.name == column.name);
                    let other = other.unwrap_or_else(|| panic!("{name}.{} exists in one database only", column.name));
                    assert!(is_convertible(column.kind, other.column.kind), "{name}.{}", column.name);
                }
            }
        }
    }

    #[test]
    fn values_are_converted_to_the_type_of_their_column() {
        let id = uuid::Uuid::from_u128(7);
        let bytes = Value::Bytes(id.as_bytes().to_vec());
        for (value, to, converted) in [
            (Value::Int(1), ColumnType::Boolean, Ok(Value::Bool(true))),
            (Value::Int(0), ColumnType::Boolean, Ok(Value::Bool(false))),
            (Value::Int(2), ColumnType::Boolean, Err(())),
            (Value::Bool(true), ColumnType::Integer, Ok(Value::Int(1))),
            (bytes.clone(), ColumnType::Uuid, Ok(Value::Uuid(id))),
            (Value::Bytes(vec![1]), ColumnType::Uuid, Err(())),
            (Value::Uuid(id), ColumnType::Bytes, Ok(bytes.clone())),
            (bytes.clone(), ColumnType::Bytes, Ok(bytes)),
            (Value::Null, ColumnType::Uuid, Ok(Value::Null)),
        ] {
            assert_eq!(convert(value.clone(), to).map_err(drop), converted, "{value:?} {to}");
        }
        assert!(!is_convertible(ColumnType::Text, ColumnType::Bytes));
    }
}
