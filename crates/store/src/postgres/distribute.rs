//! Distributes the tables over the servers of a Citus cluster.
//!
//! Rows of a check are placed by its bucket, so that a transaction on one check stays on one server, and a lookup by id
//! or SMS code goes to one shard. What the same transactions write has a bucket too: limits of numbers, idempotency keys
//! and usage counters. The activity and the request log are placed by project. Control-plane tables are copied to every
//! server, so that counters can be joined with projects. Tables that coordinate nodes (`database_state`, `nodes`,
//! `node_demand`, `control_version`) stay on the coordinator, to which all nodes connect.

use std::collections::BTreeSet;

use ringtrue_engine::ports::store::StoreError;
use tokio_postgres::{Client, types::ToSql};

use super::{
    connect::{PostgresConnector, store_error},
    placement::{self, LOCAL_GROUP, LOCK_SHARDS, ServerKey, TEST_SHARDS},
    schema::LOCK_SQL,
};
use crate::url::PostgresAddress;

#[derive(Clone, Copy, Debug)]
enum TablePlacement {
    /// Every server has a copy of the table.
    Reference,
    /// Rows are placed by the hash of `column`. Rows of the table `like` with the same hash are on the same server.
    Distributed { column: &'static str, like: &'static str },
}

const BY_BUCKET: TablePlacement = TablePlacement::Distributed { column: "bucket", like: "checks" };
const BY_PROJECT: TablePlacement = TablePlacement::Distributed { column: "project_id", like: "activity" };

/// Number of shards for each worker. With many shards batches are slow, because a batch writes to every shard of a
/// server. With few shards, the rows cannot be spread over more servers later.
const SHARDS_PER_WORKER: i64 = 4;

/// The tables to distribute. A table comes after those that its foreign keys refer to.
const TABLES: &[(&str, TablePlacement)] = &[
    ("workspaces", TablePlacement::Reference),
    ("projects", TablePlacement::Reference),
    ("logos", TablePlacement::Reference),
    ("credentials", TablePlacement::Reference),
    ("accounts", TablePlacement::Reference),
    ("memberships", TablePlacement::Reference),
    ("sessions", TablePlacement::Reference),
    ("account_links", TablePlacement::Reference),
    ("invitations", TablePlacement::Reference),
    ("audit_events", TablePlacement::Reference),
    ("revocations", TablePlacement::Reference),
    ("sealed_keys", TablePlacement::Reference),
    ("login_throttle", TablePlacement::Reference),
    ("erasures", TablePlacement::Reference),
    ("sign_ins", TablePlacement::Distributed { column: "id", like: "none" }),
    ("pushed_authorizations", TablePlacement::Distributed { column: "reference_hash", like: "none" }),
    ("sign_in_sessions", TablePlacement::Distributed { column: "token_hash", like: "none" }),
    ("used_assertions", TablePlacement::Distributed { column: "assertion_hash", like: "none" }),
    ("activity", TablePlacement::Distributed { column: "project_id", like: "none" }),
    ("funnel_counts", BY_PROJECT),
    ("requests", BY_PROJECT),
    ("checks", TablePlacement::Distributed { column: "bucket", like: "none" }),
    ("callbacks", BY_BUCKET),
    ("callback_attempts", BY_BUCKET),
    ("deadlines", BY_BUCKET),
    ("redirect_sessions", BY_BUCKET),
    ("verifications", BY_BUCKET),
    ("number_limits", BY_BUCKET),
    ("idempotency_keys", BY_BUCKET),
    ("usage_counters", BY_BUCKET),
    ("usage_days", BY_BUCKET),
];

/// How Citus has distributed the tables of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DistributionState {
    /// The database has no Citus extension.
    NoCitus,
    /// The cluster has no worker.
    NoWorkers,
    /// These tables are not distributed yet.
    Pending(Vec<String>),
    Distributed(ShardDistribution),
}

/// How evenly the shards are spread over the servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardDistribution {
    /// Number of tables that are copied to every server.
    pub reference_tables: usize,
    pub distributed_tables: usize,
    /// Each server's address, with the number and the total size in bytes of its shards.
    pub servers: Vec<(String, i64, i64)>,
}

/// Connects to each server that has shards, and tests that its shards can be locked, as nodes do. Returns the number of
/// servers, or the problem with one.
pub(crate) async fn test_servers(address: &PostgresAddress) -> Result<Result<usize, String>, StoreError> {
    let (client, _) = PostgresConnector::new(address)?.connect().await?;
    let placement = placement::Placement::read(&client, &placement::Placement::unsharded()).await;
    let placement = placement.map_err(|error| store_error(&error))?;
    if placement.is_unsharded() {
        return Ok(Err("a server lacks the metadata, or not all tables are placed alike".to_owned()));
    }
    let servers = placement.servers();
    let number = servers.len();
    for (server, shards) in servers {
        let address = match server {
            ServerKey::Configured => address.clone(),
            ServerKey::Worker { host, port } => address.on_server(host, *port),
        };
        let shards: Vec<i64> = shards.into_iter().map(|index| placement.shard(index).id).collect();
        if let Err(error) = test_server(&address, &shards).await {
            return Ok(Err(match server {
                ServerKey::Configured => error.to_string(),
                ServerKey::Worker { host, port } => format!("{host}:{port}: {error}"),
            }));
        }
    }
    Ok(Ok(number))
}

async fn test_server(address: &PostgresAddress, shards: &[i64]) -> Result<(), StoreError> {
    let (mut client, _) = PostgresConnector::new(address)?.connect().await?;
    let test = async {
        let transaction = client.transaction().await?;
        transaction.query(LOCK_SHARDS, &[&shards]).await?;
        let group: i32 = transaction.query_one(LOCAL_GROUP, &[]).await?.try_get(0)?;
        transaction.query(TEST_SHARDS, &[&shards, &group]).await?;
        transaction.rollback().await
    };
    test.await.map_err(|error| store_error(&error))
}

/// Reports the table that is being distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DistributionProgress {
    pub table: &'static str,
    pub number: usize,
    pub total: usize,
}

/// Reads which tables are distributed. Changes nothing.
pub(crate) async fn distribution_state(address: &PostgresAddress) -> Result<DistributionState, StoreError> {
    let (client, _) = PostgresConnector::new(address)?.connect().await?;
    read_state(&client).await.map_err(|error| store_error(&error))
}

async fn read_state(client: &Client) -> Result<DistributionState, tokio_postgres::Error> {
    if !has_citus(client).await? {
        return Ok(DistributionState::NoCitus);
    }
    let workers = "select count(*) from citus_get_active_worker_nodes()";
    if client.query_one(workers, &[]).await?.try_get::<_, i64>(0)? == 0 {
        return Ok(DistributionState::NoWorkers);
    }
    let pending = pending_tables(client).await?;
    if !pending.is_empty() {
        return Ok(DistributionState::Pending(pending.into_iter().map(|(table, _)| table.to_owned()).collect()));
    }
    let servers = client
        .query(
            "select nodename || ':' || nodeport, count(*), coalesce(sum(shard_size), 0)::bigint from citus_shards
              where citus_table_type = 'distributed' group by 1 order by 1",
            &[],
        )
        .await?;
    let servers = servers.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)));
    let reference_tables =
        TABLES.iter().filter(|(_, placement)| matches!(placement, TablePlacement::Reference)).count();
    Ok(DistributionState::Distributed(ShardDistribution {
        reference_tables,
        distributed_tables: TABLES.len() - reference_tables,
        servers: servers.collect::<Result<_, tokio_postgres::Error>>()?,
    }))
}

async fn has_citus(client: &Client) -> Result<bool, tokio_postgres::Error> {
    client.query_one("select exists (select from pg_extension where extname = 'citus')", &[]).await?.try_get(0)
}

async fn pending_tables(client: &Client) -> Result<Vec<(&'static str, TablePlacement)>, tokio_postgres::Error> {
    // Citus also lists tables that a reference table refers to, as local tables. These are not distributed.
    let rows =
        client.query("select logicalrelid::text from pg_dist_partition where partmethod = 'h' or repmodel = 't'", &[]);
    let distributed: BTreeSet<String> = rows.await?.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    Ok(TABLES.iter().filter(|(table, _)| !distributed.contains(*table)).copied().collect())
}

/// Distributes the tables that are not distributed yet, and returns their names. Ringtrue servers may keep running:
/// Citus copies rows while others are written. If a call is interrupted, the next one continues with the interrupted
/// table.
///
/// Calls `progress` before each table.
pub(crate) async fn distribute(
    address: &PostgresAddress,
    mut progress: impl FnMut(DistributionProgress) + Send,
) -> Result<Vec<&'static str>, StoreError> {
    let (client, _) = PostgresConnector::for_migrations(address)?.connect().await?;
    // The lock is released when the connection closes.
    client.batch_execute(LOCK_SQL).await.map_err(|error| store_error(&error))?;
    match read_state(&client).await.map_err(|error| store_error(&error))? {
        DistributionState::NoCitus => {
            return Err(StoreError::Refused(
                "the database has no Citus extension: run `create extension citus` in it, on every server".to_owned(),
            ));
        }
        DistributionState::NoWorkers => {
            return Err(StoreError::Refused("Citus has no worker: add one with `citus_add_node`".to_owned()));
        }
        DistributionState::Distributed(_) => return Ok(Vec::new()),
        DistributionState::Pending(_) => {}
    }
    choose_shard_count(&client).await.map_err(|error| store_error(&error))?;
    let pending = pending_tables(&client).await.map_err(|error| store_error(&error))?;
    let total = pending.len();
    let mut distributed = Vec::with_capacity(total);
    for (index, (table, placement)) in pending.into_iter().enumerate() {
        progress(DistributionProgress { table, number: index + 1, total });
        distribute_table(&client, table, placement).await.map_err(|error| store_error(&error))?;
        tracing::info!(table, "table distributed");
        distributed.push(table);
    }
    Ok(distributed)
}

/// Sets the number of shards for this session, unless the administrator has configured one.
async fn choose_shard_count(client: &Client) -> Result<(), tokio_postgres::Error> {
    let choose = "select set_config('citus.shard_count', ($1 * count(*))::text, false)
                    from citus_get_active_worker_nodes()
                  having (select source from pg_settings where name = 'citus.shard_count') = 'default'";
    client.query_opt(choose, &[&SHARDS_PER_WORKER]).await.map(drop)
}

async fn distribute_table(
    client: &Client,
    table: &str,
    placement: TablePlacement,
) -> Result<(), tokio_postgres::Error> {
    match placement {
        TablePlacement::Reference => {
            client.execute("select create_reference_table($1::text::regclass)", &[&table]).await?
        }
        TablePlacement::Distributed { column, like } => {
            let is_empty = format!("select not exists (select from {table})");
            let is_empty: bool = client.query_one(&is_empty, &[]).await?.try_get(0)?;
            let parameters: [&(dyn ToSql + Sync); 3] = [&table, &column, &like];
            // The concurrent variant copies rows, which takes seconds. An empty table does not need it.
            let create = if is_empty {
                "select create_distributed_table($1::text::regclass, $2, colocate_with => $3)"
            } else {
                "select create_distributed_table_concurrently($1::text::regclass, $2, colocate_with => $3)"
            };
            client.execute(create, &parameters).await?
        }
    };
    // The coordinator's local table still has the copied rows, which no query sees.
    client.execute("select truncate_local_data_after_distributing_table($1::text::regclass)", &[&table]).await?;
    Ok(())
}

/// Distributes the tables of a database without data, or the tables of a distributed database that are not distributed
/// yet, such as those of a new release. Returns the names of the newly distributed tables.
pub(crate) async fn distribute_if_empty(address: &PostgresAddress) -> Result<Vec<&'static str>, StoreError> {
    let (client, _) = PostgresConnector::new(address)?.connect().await?;
    let state = read_state(&client).await.map_err(|error| store_error(&error))?;
    let DistributionState::Pending(pending) = state else { return Ok(Vec::new()) };
    let is_first_time = pending.len() == TABLES.len();
    let has_data = "select exists (select from workspaces) or exists (select from accounts)";
    let row = client.query_one(has_data, &[]).await.map_err(|error| store_error(&error))?;
    // The test for data applies only the first time. A database that is already distributed gets the tables of a new
    // release, which are empty.
    if is_first_time && row.try_get::<_, bool>(0).map_err(|error| store_error(&error))? {
        return Ok(Vec::new());
    }
    drop(client);
    distribute(address, |_| {}).await
}
