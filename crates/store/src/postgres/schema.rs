//! Migrations of a database.

use jiff::Timestamp;
use ringtrue_engine::ports::StoreError;
use tokio_postgres::Client;

use super::{connect::Connector, error::store_error};
use crate::{
    migration::{self, Applied, MigrateError, Migration, POSTGRES, SchemaState},
    url::PostgresAddress,
};

/// Whoever migrates holds this lock. The number is "ringtrue" in ASCII.
const LOCK: &str = "select pg_advisory_lock(8244241983492748645)";

pub(crate) async fn schema_state(address: &PostgresAddress) -> Result<SchemaState, StoreError> {
    let (client, _) = Connector::new(address)?.connect().await?;
    let applied = applied(&client).await.map_err(|error| store_error(&error))?;
    Ok(SchemaState::of(POSTGRES, &applied))
}

pub(crate) async fn migrate(address: &PostgresAddress, now: Timestamp) -> Result<Vec<&'static str>, MigrateError> {
    let database = |error: tokio_postgres::Error| MigrateError::Database(store_error(&error));
    let (mut client, _) = Connector::for_migrations(address)?.connect().await?;
    // The lock goes with the connection.
    client.batch_execute(LOCK).await.map_err(database)?;
    let before = applied(&client).await.map_err(database)?;
    migration::check(POSTGRES, &before)?;
    let mut names = Vec::new();
    for step in migration::missing(POSTGRES, &before) {
        apply(&mut client, step, now)
            .await
            .map_err(|error| MigrateError::Step { name: step.name, cause: store_error(&error) })?;
        tracing::info!(migration = step.name, "applied");
        names.push(step.name);
    }
    Ok(names)
}

async fn apply(client: &mut Client, step: &Migration, now: Timestamp) -> Result<(), tokio_postgres::Error> {
    let transaction = client.transaction().await?;
    transaction.batch_execute(migration::CREATE_TABLE).await?;
    transaction.batch_execute(step.sql).await?;
    transaction
        .execute(migration::INSERT, &[&step.version, &step.name, &step.checksum(), &now.as_millisecond()])
        .await?;
    transaction.commit().await
}

async fn applied(client: &Client) -> Result<Vec<Applied>, tokio_postgres::Error> {
    let has_table = client.query_one("select to_regclass('schema_migrations') is not null", &[]).await?;
    if !has_table.try_get::<_, bool>(0)? {
        return Ok(vec![]);
    }
    let rows = client.query(migration::SELECT, &[]).await?;
    let step = |row: &tokio_postgres::Row| {
        Ok(Applied { version: row.try_get(0)?, name: row.try_get(1)?, checksum: row.try_get(2)? })
    };
    rows.iter().map(step).collect()
}
