//! Migrates `PostgreSQL` databases.

use jiff::Timestamp;
use ringtrue_engine::ports::store::StoreError;
use tokio_postgres::Client;

use super::connect::{PostgresConnector, store_error};
use crate::{
    migration::{self, AppliedMigration, AppliedSchema, MigrateError, Migration, POSTGRES, SchemaState},
    url::PostgresAddress,
};

/// Takes the lock that serialises migrations and distribution. The number is "ringtrue" in ASCII.
pub(super) const LOCK_SQL: &str = "select pg_advisory_lock(8244241983492748645)";

pub(crate) async fn schema_state(address: &PostgresAddress) -> Result<SchemaState, StoreError> {
    let (client, _) = PostgresConnector::new(address)?.connect().await?;
    let applied = select_applied(&client).await.map_err(|error| store_error(&error))?;
    Ok(SchemaState::compare(POSTGRES, &applied))
}

pub(crate) async fn migrate(address: &PostgresAddress, now: Timestamp) -> Result<Vec<&'static str>, MigrateError> {
    let database = |error: tokio_postgres::Error| MigrateError::Database(store_error(&error));
    let (mut client, _) = PostgresConnector::for_migrations(address)?.connect().await?;
    // The lock is released when the connection closes.
    client.batch_execute(LOCK_SQL).await.map_err(database)?;
    let before = select_applied(&client).await.map_err(database)?;
    migration::ensure_compatible(POSTGRES, &before)?;
    let mut names = Vec::new();
    for migration in migration::pending_migrations(POSTGRES, &before) {
        apply(&mut client, migration, now)
            .await
            .map_err(|error| MigrateError::Failed { name: migration.name, cause: store_error(&error) })?;
        tracing::info!(migration.name = migration.name, "migration applied");
        names.push(migration.name);
    }
    Ok(names)
}

async fn apply(client: &mut Client, migration: &Migration, now: Timestamp) -> Result<(), tokio_postgres::Error> {
    let transaction = client.transaction().await?;
    transaction.batch_execute(migration::CREATE_TABLE).await?;
    transaction.batch_execute(migration.sql).await?;
    transaction
        .execute(
            migration::INSERT,
            &[&migration.version, &migration.name, &migration.checksum(), &now.as_millisecond()],
        )
        .await?;
    transaction.commit().await
}

async fn select_applied(client: &Client) -> Result<AppliedSchema, tokio_postgres::Error> {
    let tables = "select to_regclass('schema_migrations') is not null, to_regclass('schema_compatibility') is not null";
    let tables = client.query_one(tables, &[]).await?;
    if !tables.try_get::<_, bool>(0)? {
        return Ok(AppliedSchema::default());
    }
    let rows = client.query(migration::SELECT, &[]).await?;
    let to_applied = |row: &tokio_postgres::Row| {
        Ok(AppliedMigration { version: row.try_get(0)?, name: row.try_get(1)?, checksum: row.try_get(2)? })
    };
    let migrations = rows.iter().map(to_applied).collect::<Result<_, tokio_postgres::Error>>()?;
    let oldest_version = if tables.try_get(1)? {
        let row = client.query_opt(migration::SELECT_OLDEST_VERSION, &[]).await?;
        row.map(|row| row.try_get(0)).transpose()?
    } else {
        None
    };
    Ok(AppliedSchema { migrations, oldest_version })
}
