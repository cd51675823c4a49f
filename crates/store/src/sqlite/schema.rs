//! Migrates `SQLite` files.

use std::{
    fs::OpenOptions,
    io,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use ringtrue_engine::ports::store::StoreError;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::{
    connection::{Access, open, store_error},
    thread_stopped_error,
};
use crate::migration::{self, AppliedMigration, AppliedSchema, MigrateError, Migration, SQLITE, SchemaState};

pub(crate) async fn schema_state(path: PathBuf) -> Result<SchemaState, StoreError> {
    let read = move || {
        if !path.try_exists().is_ok_and(|exists| exists) {
            return Ok(SchemaState::Empty);
        }
        let connection = open(&path, Access::Read)?;
        let applied = select_applied(&connection).map_err(|error| store_error(&error))?;
        Ok(SchemaState::compare(SQLITE, &applied))
    };
    tokio::task::spawn_blocking(read).await.map_err(|_| thread_stopped_error())?
}

pub(crate) async fn migrate(path: PathBuf, now: Timestamp) -> Result<Vec<&'static str>, MigrateError> {
    tokio::task::spawn_blocking(move || migrate_file(&path, now)).await.map_err(|_| thread_stopped_error())?
}

fn migrate_file(path: &Path, now: Timestamp) -> Result<Vec<&'static str>, MigrateError> {
    create_private_file(path)?;
    let mut connection = open(path, Access::Create)?;
    let mut names = Vec::new();
    while let Some(migration) = apply_next_migration(&mut connection, now)? {
        tracing::info!(migration.name = migration.name, "migration applied");
        names.push(migration.name);
    }
    Ok(names)
}

/// Creates an empty file that only its owner can read. `SQLite` gives its journal files the same permissions.
fn create_private_file(path: &Path) -> Result<(), StoreError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(StoreError::Unavailable(format!("cannot create {}: {error}", path.display()))),
    }
}

/// Applies one pending migration under the file's write lock, so that concurrent processes take turns. `None`: no
/// migration is pending.
fn apply_next_migration(
    connection: &mut Connection,
    now: Timestamp,
) -> Result<Option<&'static Migration>, MigrateError> {
    let database = |error: rusqlite::Error| MigrateError::Database(store_error(&error));
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(database)?;
    let applied = select_applied(&transaction).map_err(database)?;
    migration::ensure_compatible(SQLITE, &applied)?;
    let Some(next) = migration::pending_migrations(SQLITE, &applied).next() else { return Ok(None) };

    let apply = || {
        transaction.execute_batch(migration::CREATE_TABLE)?;
        transaction.execute_batch(next.sql)?;
        transaction
            .execute(migration::INSERT, params![next.version, next.name, next.checksum(), now.as_millisecond()])?;
        transaction.commit()
    };
    apply().map_err(|error| MigrateError::Failed { name: next.name, cause: store_error(&error) })?;
    Ok(Some(next))
}

pub(super) fn select_applied(connection: &Connection) -> rusqlite::Result<AppliedSchema> {
    let has_table = |name: &str| {
        connection.prepare("select 1 from sqlite_schema where type = 'table' and name = ?1")?.exists([name])
    };
    if !has_table("schema_migrations")? {
        return Ok(AppliedSchema::default());
    }
    let mut statement = connection.prepare(migration::SELECT)?;
    let rows = statement
        .query_map([], |row| Ok(AppliedMigration { version: row.get(0)?, name: row.get(1)?, checksum: row.get(2)? }))?;
    let migrations = rows.collect::<Result<_, _>>()?;
    let oldest_version = if has_table("schema_compatibility")? {
        connection.query_row(migration::SELECT_OLDEST_VERSION, [], |row| row.get(0)).optional()?
    } else {
        None
    };
    Ok(AppliedSchema { migrations, oldest_version })
}
