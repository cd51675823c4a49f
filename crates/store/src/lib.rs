//! Implements the engine's store ports over `SQLite` and `PostgreSQL`.
//!
//! [`open`] chooses the database by its URL. The code common to both databases is written once: the queries
//! (`queries`), the row mapping (`row_mapping`, `check_row_mapping`), filters (`filter`) and migrations (`migration`).
//! The rest is in `sqlite` and `postgres`. The same contract tests run against both.
//!
//! Frequent operations (`operation`) use group commit: calls that arrive while a transaction commits run together in
//! the next transaction. In `PostgreSQL` each kind of operation has a queue (`postgres::batch_queue`). In `SQLite` all
//! writes go through one writer thread. A call returns only after its transaction is durable.
//!
//! Every call ends within seconds. If the database is unreachable, full or read-only, the call fails with
//! [`StoreError::Unavailable`](ringtrue_engine::ports::store::StoreError). The store never reads the clock. It never
//! retries, except for a batch that conflicts with a concurrent transaction.

mod batch_delay;
mod check_row_mapping;
mod driver;
mod filter;
mod list_turns;
mod migration;
mod operation;
mod postgres;
mod queries;
mod row;
mod row_mapping;
mod sqlite;
mod time_span;
mod transfer;
mod url;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use ringtrue_engine::ports::{combined::Store, store::StoreError};

pub use migration::{MigrateError, SchemaState};
pub use postgres::{DistributionProgress, DistributionState, ShardDistribution};
pub use transfer::{ExportOptions, TransferError, TransferProgress, export, import};
pub use url::{InvalidStoreUrl, StoreUrl};

use queries::SqlStore;
use url::StoreAddress;

/// Connections, threads and time limits of a store. The defaults suit one node of a deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// `PostgreSQL`: maximum number of connections for transactions that are not batched. The store opens up to 16
    /// more: 11 for batches, 2 for lists, 2 reserved for the node itself, and 1 for notifications. Together with those
    /// for [`searches`](Self::searches), a node opens up to 25 by default.
    pub connections: usize,
    /// `SQLite`: number of reader threads. The store starts three more: two for lists, and one reserved for the node
    /// itself.
    pub readers: usize,
    /// Maximum number of concurrent searches. Each has its own connection or thread.
    pub searches: usize,
    /// Time limit of a search or list.
    pub search_timeout: Duration,
    /// How nodes reach the rows of a Citus cluster.
    pub citus: CitusAccess,
}

/// How nodes reach the rows of a Citus cluster. Of no effect in a database without Citus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CitusAccess {
    /// Nodes connect to all servers, and ask the one that has the rows.
    #[default]
    Direct,
    /// Nodes connect to the coordinator only, which forwards statements.
    Coordinator,
}

impl Default for StoreOptions {
    fn default() -> Self {
        StoreOptions {
            connections: 8,
            readers: 4,
            searches: 1,
            search_timeout: Duration::from_secs(2),
            citus: CitusAccess::Direct,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("the database is empty: run `ringtrue migrate`")]
    Empty,
    #[error("the database lacks the migrations {}: run `ringtrue migrate`", .missing.join(", "))]
    Behind { missing: Vec<String> },
    #[error("the database was migrated by a newer release of Ringtrue ({}): run that release, or restore a backup", .names.join(", "))]
    Unknown { names: Vec<String> },
    #[error("applied migrations differ from those of this release: {}; the database was modified or belongs to an unofficial build", .names.join(", "))]
    Altered { names: Vec<String> },
}

/// Opens a store. Fails unless the schema is the one that this binary was built for, or a newer one that this binary
/// can use.
///
/// Call it inside a Tokio runtime, which then drives the connections.
pub async fn open(url: &StoreUrl, options: &StoreOptions) -> Result<Arc<dyn Store>, OpenError> {
    match schema_state(url).await? {
        SchemaState::Current | SchemaState::Newer { .. } => {}
        SchemaState::Empty => return Err(OpenError::Empty),
        SchemaState::Behind { missing } => return Err(OpenError::Behind { missing }),
        SchemaState::Unknown { names } => return Err(OpenError::Unknown { names }),
        SchemaState::Altered { names } => return Err(OpenError::Altered { names }),
    }
    Ok(match &url.0 {
        StoreAddress::Sqlite(path) => Arc::new(SqlStore::new(sqlite::Sqlite::open(path, options).await?)),
        StoreAddress::Postgres(address) => Arc::new(SqlStore::new(postgres::Postgres::open(address, options).await?)),
    })
}

/// Checks that the certificate file named in a URL can be read. Does not open the database.
pub fn check_files(url: &StoreUrl) -> Result<(), StoreError> {
    match &url.0 {
        StoreAddress::Sqlite(_) => Ok(()),
        StoreAddress::Postgres(address) => postgres::check_files(address),
    }
}

/// Returns the maximum number of connections or threads that a store opens. `workers` is the number of workers of a Citus
/// cluster to which it connects.
pub fn max_connections(url: &StoreUrl, options: &StoreOptions, workers: usize) -> usize {
    match &url.0 {
        StoreAddress::Sqlite(_) => options.readers + options.searches + 3,
        StoreAddress::Postgres(_) => postgres::max_connections(options, workers),
    }
}

/// Compares the schema of a database with the schema that this binary was built for. Changes nothing.
pub async fn schema_state(url: &StoreUrl) -> Result<SchemaState, StoreError> {
    match &url.0 {
        StoreAddress::Sqlite(path) => sqlite::schema_state(path.clone()).await,
        StoreAddress::Postgres(address) => postgres::schema_state(address).await,
    }
}

/// Applies pending migrations, each in its own transaction, and returns their names. Concurrent calls are serialised.
/// Creates a missing `SQLite` file, readable only by its owner.
pub async fn migrate(url: &StoreUrl, now: Timestamp) -> Result<Vec<&'static str>, MigrateError> {
    match &url.0 {
        StoreAddress::Sqlite(path) => sqlite::migrate(path.clone(), now).await,
        StoreAddress::Postgres(address) => postgres::migrate(address, now).await,
    }
}

/// Returns how the tables of a `PostgreSQL` database are distributed. `None`: the database is `SQLite`.
pub async fn distribution_state(url: &StoreUrl) -> Result<Option<DistributionState>, StoreError> {
    match &url.0 {
        StoreAddress::Sqlite(_) => Ok(None),
        StoreAddress::Postgres(address) => postgres::distribution_state(address).await.map(Some),
    }
}

/// Connects to each server of a distributed database, as nodes with [`CitusAccess::Direct`] do. Returns the number of
/// servers, or why they use the coordinator instead.
pub async fn test_servers(url: &StoreUrl) -> Result<Result<usize, String>, StoreError> {
    match &url.0 {
        StoreAddress::Sqlite(_) => Ok(Err("SQLite has no server".to_owned())),
        StoreAddress::Postgres(address) => postgres::test_servers(address).await,
    }
}

/// Distributes the tables over the servers of a Citus cluster. Returns the names of the newly distributed tables.
/// Ringtrue servers may keep running. Concurrent calls are serialised, and an interrupted call can be repeated.
pub async fn distribute(
    url: &StoreUrl,
    progress: impl FnMut(DistributionProgress) + Send,
) -> Result<Vec<&'static str>, StoreError> {
    match &url.0 {
        StoreAddress::Sqlite(_) => Err(StoreError::Refused("SQLite cannot be distributed".to_owned())),
        StoreAddress::Postgres(address) => postgres::distribute(address, progress).await,
    }
}

/// As [`distribute`], but only if the database has neither workspaces nor accounts, or if some of its tables are
/// distributed already, such as after a new release has added tables. Does nothing without Citus.
pub async fn distribute_if_empty(url: &StoreUrl) -> Result<Vec<&'static str>, StoreError> {
    match &url.0 {
        StoreAddress::Sqlite(_) => Ok(Vec::new()),
        StoreAddress::Postgres(address) => postgres::distribute_if_empty(address).await,
    }
}

#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("PostgreSQL has its own backups")]
    NotSqlite,
    #[error("the database is empty")]
    Empty,
    #[error("{} exists already", .path.display())]
    Exists { path: PathBuf },
    #[error("the database file is locked by another process")]
    Locked,
    #[error("{}: {error}", .path.display())]
    File { path: PathBuf, error: io::Error },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupProgress {
    pub copied_pages: u64,
    pub total_pages: u64,
}

/// Copies a `SQLite` database to a new file while servers use the database. The copy has every write that was
/// acknowledged before the call. Returns the size of the copy in bytes.
pub async fn backup(
    url: &StoreUrl,
    target: &Path,
    mut report: impl FnMut(BackupProgress) + Send + 'static,
) -> Result<u64, BackupError> {
    let StoreAddress::Sqlite(source) = &url.0 else { return Err(BackupError::NotSqlite) };
    let (source, target) = (source.clone(), target.to_owned());
    let stopped = |_| BackupError::Store(StoreError::Unavailable("the backup was aborted".to_owned()));
    tokio::task::spawn_blocking(move || sqlite::back_up(&source, &target, &mut report)).await.map_err(stopped)?
}
