//! Migrations of a file.

use std::{
    fs::OpenOptions,
    io,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use ringtrue_engine::ports::StoreError;
use rusqlite::{Connection, TransactionBehavior, params};

use super::{
    connection::{Access, open},
    error::store_error,
    stopped,
};
use crate::migration::{self, Applied, MigrateError, Migration, SQLITE, SchemaState};

pub(crate) async fn schema_state(path: PathBuf) -> Result<SchemaState, StoreError> {
    let read = move || {
        if !path.try_exists().is_ok_and(|exists| exists) {
            return Ok(SchemaState::Empty);
        }
        let connection = open(&path, Access::Read)?;
        let applied = applied(&connection).map_err(|error| store_error(&error))?;
        Ok(SchemaState::of(SQLITE, &applied))
    };
    tokio::task::spawn_blocking(read).await.map_err(|_| stopped())?
}

pub(crate) async fn migrate(path: PathBuf, now: Timestamp) -> Result<Vec<&'static str>, MigrateError> {
    tokio::task::spawn_blocking(move || migrate_file(&path, now)).await.map_err(|_| stopped())?
}

fn migrate_file(path: &Path, now: Timestamp) -> Result<Vec<&'static str>, MigrateError> {
    make_private(path)?;
    let mut connection = open(path, Access::Create)?;
    let mut names = Vec::new();
    while let Some(step) = next_step(&mut connection, now)? {
        tracing::info!(migration = step.name, "applied");
        names.push(step.name);
    }
    Ok(names)
}

/// Makes an empty file that only its owner can read. `SQLite` gives the files beside it the same permissions.
fn make_private(path: &Path) -> Result<(), StoreError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(StoreError::Unavailable(format!("{} cannot be made: {error}", path.display()))),
    }
}

/// Applies one step. Looking and applying happen under the file's write lock: another process waits.
fn next_step(connection: &mut Connection, now: Timestamp) -> Result<Option<&'static Migration>, MigrateError> {
    let database = |error: rusqlite::Error| MigrateError::Database(store_error(&error));
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(database)?;
    let applied = applied(&transaction).map_err(database)?;
    migration::check(SQLITE, &applied)?;
    let Some(step) = migration::missing(SQLITE, &applied).next() else { return Ok(None) };

    let apply = || {
        transaction.execute_batch(migration::CREATE_TABLE)?;
        transaction.execute_batch(step.sql)?;
        transaction
            .execute(migration::INSERT, params![step.version, step.name, step.checksum(), now.as_millisecond()])?;
        transaction.commit()
    };
    apply().map_err(|error| MigrateError::Step { name: step.name, cause: store_error(&error) })?;
    Ok(Some(step))
}

fn applied(connection: &Connection) -> rusqlite::Result<Vec<Applied>> {
    let has_table = "select 1 from sqlite_schema where type = 'table' and name = 'schema_migrations'";
    if !connection.prepare(has_table)?.exists([])? {
        return Ok(vec![]);
    }
    let mut statement = connection.prepare(migration::SELECT)?;
    let rows = statement
        .query_map([], |row| Ok(Applied { version: row.get(0)?, name: row.get(1)?, checksum: row.get(2)? }))?;
    rows.collect()
}
