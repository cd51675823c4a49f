//! The engine's ports over `SQLite` and `PostgreSQL`.
//!
//! [`open`] gives a store that is chosen by its URL. Everything that is not particular to a database is written once:
//! the verbs (`verbs`), the mapping of rows (`rows`, `check_rows`), filters (`filter`), migrations (`migration`). What is particular
//! lives in `sqlite` and `postgres`, and one suite of tests holds both to the same behaviour.
//!
//! Writes of the data plane are committed in groups: whoever comes while a transaction is being made durable goes with
//! the next one. `postgres::lane` tells how a verb joins in; in `SQLite` there is one writer and everybody goes through
//! it. An answer is given only after the transaction that it depends on is durable.
//!
//! Every call ends within seconds, with [`StoreError::Unavailable`](ringtrue_engine::ports::StoreError) when the
//! database is away, full or read-only. Nothing here retries for the caller, and nothing reads the clock: instants come
//! in.

mod check_rows;
mod driver;
mod filter;
mod gathering;
mod guard;
mod migration;
mod period;
mod postgres;
mod row;
mod rows;
mod span_filter;
mod sqlite;
mod url;
mod verbs;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use ringtrue_engine::ports::{Store, StoreError};

pub use migration::{MigrateError, SchemaState};
pub use url::{InvalidStoreUrl, StoreUrl};

use url::Address;
use verbs::SqlStore;

/// How much a store may use. The defaults suit one node of a deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// `PostgreSQL`: connections for everything that is not gathered. Up to 24 more are opened for what is, for lists and
    /// for the node itself.
    pub connections: usize,
    /// `SQLite`: threads that read. One more reads for the node itself, and two read lists.
    pub readers: usize,
    /// Searches that run at the same time, on connections or threads of their own.
    pub searches: usize,
    /// How long a search or list may run before it is stopped.
    pub search_timeout: Duration,
}

impl Default for StoreOptions {
    fn default() -> Self {
        StoreOptions { connections: 8, readers: 4, searches: 1, search_timeout: Duration::from_secs(2) }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("the database is empty: run `ringtrue migrate`")]
    Empty,
    #[error("the database lacks {}: run `ringtrue migrate`", .missing.join(", "))]
    Behind { missing: Vec<String> },
    #[error("a newer Ringtrue wrote this database ({}): run that one, or restore a backup", .names.join(", "))]
    Unknown { names: Vec<String> },
    #[error("the database was migrated with another content of {}: it was not made by a release of Ringtrue", .names.join(", "))]
    Altered { names: Vec<String> },
}

/// Opens a store whose schema is exactly the one that this binary knows.
///
/// Must be called inside a Tokio runtime, which then drives the connections.
pub async fn open(url: &StoreUrl, options: &StoreOptions) -> Result<Arc<dyn Store>, OpenError> {
    match schema_state(url).await? {
        SchemaState::Current => {}
        SchemaState::Empty => return Err(OpenError::Empty),
        SchemaState::Behind { missing } => return Err(OpenError::Behind { missing }),
        SchemaState::Unknown { names } => return Err(OpenError::Unknown { names }),
        SchemaState::Altered { names } => return Err(OpenError::Altered { names }),
    }
    Ok(match &url.0 {
        Address::Sqlite(path) => Arc::new(SqlStore::over(sqlite::Sqlite::open(path, options).await?)),
        Address::Postgres(address) => Arc::new(SqlStore::over(postgres::Postgres::open(address, options)?)),
    })
}

/// Finds what is wrong with the files that a URL names, apart from the database itself, which is left alone.
pub fn check_files(url: &StoreUrl) -> Result<(), StoreError> {
    match &url.0 {
        Address::Sqlite(_) => Ok(()),
        Address::Postgres(address) => postgres::check_files(address),
    }
}

/// Compares the schema of a database with the one that this binary knows. Changes nothing.
pub async fn schema_state(url: &StoreUrl) -> Result<SchemaState, StoreError> {
    match &url.0 {
        Address::Sqlite(path) => sqlite::schema_state(path.clone()).await,
        Address::Postgres(address) => postgres::schema_state(address).await,
    }
}

/// Applies the steps that are missing, each in a transaction of its own, and gives their names. Several may try at
/// once: they take turns. A `SQLite` file that does not exist is made, readable by its owner alone.
pub async fn migrate(url: &StoreUrl, now: Timestamp) -> Result<Vec<&'static str>, MigrateError> {
    match &url.0 {
        Address::Sqlite(path) => sqlite::migrate(path.clone(), now).await,
        Address::Postgres(address) => postgres::migrate(address, now).await,
    }
}
