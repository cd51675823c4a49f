//! Implements the engine's store ports over `PostgreSQL`.
//!
//! The store uses separate connections for different kinds of work, so that short operations do not wait for long ones.
//! With the default settings a node opens up to 25 to the configured server, and up to 19 to each worker of a Citus
//! cluster: those for transactions and batches, and one for creates that also write rows of another worker. While a
//! worker cannot be reached, its batches take up to 11 more to the configured server.
//!
//! | For | Connections |
//! |---|---|
//! | transactions and reads that are not batched | `store.connections`, 8 by default |
//! | batches: create, conclude, find, redirect | 2 each |
//! | batches: results of callback attempts (settle), idempotency keys (claim), sign-ins | 1 each |
//! | lists | 2 |
//! | searches | `store.searches`, 1 by default |
//! | reads and writes of the node itself, such as heartbeats, which tenants must not delay | 1 each |
//! | notifications from other nodes ([`ChangeListener`]) | 1 |
//!
//! Connections are opened on first use, and replaced when they break. Every wait for the server has a timeout.
//!
//! Connections rely on session settings, so a connection pooler such as `PgBouncer` must run in session mode.

mod batch_queue;
mod checks;
mod claims;
mod cluster;
mod connect;
mod counter_slots;
mod create;
mod distribute;
mod pipelining;
mod placement;
mod reachability;
mod redirects;
mod schema;
mod server_link;
mod settle;
mod sign_ins;
mod transaction;
mod value_mapping;

use std::{sync::Arc, time::Duration};

use cluster::Cluster;
use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime, TimeoutType};
use ringtrue_domain::lifecycle::ShardBucket;
use ringtrue_engine::ports::{
    callbacks::AttemptSettlement,
    idempotency::IdempotencyClaim,
    search_limit::SearchPermit,
    store::{Completeness, StoreError},
};
use tokio::{
    sync::{Notify, oneshot},
    time::timeout,
};
use tokio_postgres::IsolationLevel;
use uuid::Uuid;

use crate::{
    StoreOptions,
    driver::{Database, TransactionEnd, Work, work},
    list_turns::ListTurn,
    migration::{self, Migration},
    operation::{ConcludeCheck, FindCheck, InsertCheck, RedirectOperation, Run, SignInOperation},
    row::{Row, Value},
    url::PostgresAddress,
};
use batch_queue::{BatchQueue, BatchedOperation};
use connect::{CONNECT_TIMEOUT, ChangeListener, PostgresConnector, STATEMENT_TIMEOUT, pool_error};
use server_link::ServerLink;
use transaction::PostgresTx;

pub(crate) use connect::store_error;
pub use distribute::{DistributionProgress, DistributionState, ShardDistribution};
pub(crate) use distribute::{distribute, distribute_if_empty, distribution_state, test_servers};
pub(crate) use schema::{migrate, schema_state};
pub(crate) use value_mapping::to_row;

/// Maximum wait for a free connection of a pool.
const POOL_WAIT_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum wait for a connection for lists or searches. Longer than `POOL_WAIT_TIMEOUT`, because other lists and
/// searches may run to their deadlines.
const SEARCH_POOL_WAIT_TIMEOUT: Duration = Duration::from_secs(5);
const LIST_CONNECTIONS: usize = 2;
/// Connections for batches to the configured server.
const BATCH_CONNECTIONS: usize = InsertCheck::CONNECTIONS
    + ConcludeCheck::CONNECTIONS
    + FindCheck::CONNECTIONS
    + RedirectOperation::CONNECTIONS
    + AttemptSettlement::CONNECTIONS
    + IdempotencyClaim::CONNECTIONS
    + SignInOperation::CONNECTIONS;
/// Connections for batches to a worker, which has no sign-ins, and one connection for creates on two servers.
const WORKER_BATCH_CONNECTIONS: usize = BATCH_CONNECTIONS - SignInOperation::CONNECTIONS + 1;
/// Connections besides those for transactions, batches, lists and searches: reserved ones, and for notifications.
const OTHER_CONNECTIONS: usize = 3;
/// Counter slot of the connection for creates on two servers. The slots of the other connections begin at
/// [`BatchedOperation::FIRST_COUNTER_SLOT`].
const SLOT_FOR_TWO_SERVERS: i16 = 8;
/// Time limit of a transaction. Longer than `statement_timeout`, so that a server that responds reports the timeout
/// itself.
const TRANSACTION_TIMEOUT: Duration = STATEMENT_TIMEOUT.saturating_add(Duration::from_secs(1));

#[derive(Debug)]
pub(crate) struct Postgres {
    connector: PostgresConnector,
    cluster: Cluster,
    reserved_writer: Pool,
    reserved_reader: Pool,
    lists: Pool,
    searches: Pool,
    search_timeout: Duration,
    listener: ChangeListener,
}

#[derive(Debug)]
struct BatchQueues {
    create: BatchQueue<InsertCheck>,
    create_on_two_servers: BatchQueue<InsertCheck>,
    conclude: BatchQueue<ConcludeCheck>,
    find: BatchQueue<FindCheck>,
    redirect: BatchQueue<RedirectOperation>,
    settle: BatchQueue<AttemptSettlement>,
    claim: BatchQueue<IdempotencyClaim>,
    sign_in: BatchQueue<SignInOperation>,
}

impl BatchQueues {
    fn start(server: &Arc<ServerLink>) -> Self {
        BatchQueues {
            create: BatchQueue::start(server),
            create_on_two_servers: BatchQueue::start_with(server, 1, SLOT_FOR_TWO_SERVERS),
            conclude: BatchQueue::start(server),
            find: BatchQueue::start(server),
            redirect: BatchQueue::start(server),
            settle: BatchQueue::start(server),
            claim: BatchQueue::start(server),
            sign_in: BatchQueue::start(server),
        }
    }
}

impl Postgres {
    pub(crate) async fn open(address: &PostgresAddress, options: &StoreOptions) -> Result<Self, StoreError> {
        let connector = PostgresConnector::new(address)?;
        let connections = |number| build_pool(address, &connector, number, POOL_WAIT_TIMEOUT);
        let search_timeout = options.search_timeout;
        let searcher = PostgresConnector::for_searches(address, search_timeout)?;
        let reserved_reader = connections(1)?;
        Ok(Postgres {
            lists: build_pool(address, &searcher, LIST_CONNECTIONS, SEARCH_POOL_WAIT_TIMEOUT)?,
            searches: build_pool(address, &searcher, options.searches.max(1), SEARCH_POOL_WAIT_TIMEOUT)?,
            search_timeout,
            reserved_writer: connections(1)?,
            cluster: Cluster::open(address, &connector, &reserved_reader, options).await?,
            reserved_reader,
            listener: ChangeListener::start(connector.clone()),
            connector,
        })
    }
}

/// Returns the maximum number of connections that a node opens to a database with this number of workers. For each
/// worker, this includes those to the coordinator while the worker cannot be reached.
pub(crate) fn max_connections(options: &StoreOptions, workers: usize) -> usize {
    let connections = options.connections.max(1);
    let configured = connections + options.searches.max(1) + BATCH_CONNECTIONS + LIST_CONNECTIONS + OTHER_CONNECTIONS;
    configured + workers * (connections + 2 * WORKER_BATCH_CONNECTIONS)
}

/// Checks that the root certificates can be read. Does not connect.
pub(crate) fn check_files(address: &PostgresAddress) -> Result<(), StoreError> {
    PostgresConnector::new(address).map(drop)
}

/// Opens a connection without a statement timeout.
pub(crate) async fn connect_for_migrations(address: &PostgresAddress) -> Result<tokio_postgres::Client, StoreError> {
    Ok(PostgresConnector::for_migrations(address)?.connect().await?.0)
}

/// Builds a pool that connects on demand.
fn build_pool(
    address: &PostgresAddress,
    connector: &PostgresConnector,
    connections: usize,
    wait: Duration,
) -> Result<Pool, StoreError> {
    let manager = Manager::from_connect(
        address.config.clone(),
        connector.clone(),
        ManagerConfig { recycling_method: RecyclingMethod::Fast },
    );
    Pool::builder(manager)
        .max_size(connections)
        .wait_timeout(Some(wait))
        .create_timeout(Some(CONNECT_TIMEOUT))
        .recycle_timeout(Some(CONNECT_TIMEOUT))
        .runtime(Runtime::Tokio1)
        .build()
        .map_err(|error| StoreError::Refused(error.to_string()))
}

async fn connection(pool: &Pool) -> Result<Object, StoreError> {
    pool.get().await.map_err(|error| pool_error(&error))
}

/// Runs `work` on a connection of a pool. Discards the connection after an error, because it may be broken or have stale
/// prepared statements.
async fn with_connection<T>(
    mut client: Object,
    work: impl AsyncFnOnce(&mut Object) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let late = |_| StoreError::Unavailable("the transaction timed out".to_owned());
    let result = timeout(TRANSACTION_TIMEOUT, work(&mut client)).await.map_err(late).flatten();
    if matches!(result, Err(StoreError::Unavailable(_) | StoreError::Refused(_))) {
        drop(Object::take(client));
    }
    result
}

/// Runs `work` as one transaction, which counts usage in `counter_bucket` if the server has one.
async fn transact<T>(
    client: Object,
    counter_bucket: Option<ShardBucket>,
    work: impl Work<TransactionEnd<T>>,
) -> Result<T, StoreError> {
    with_connection(client, async move |client| {
        let transaction = client.transaction().await.map_err(|error| store_error(&error))?;
        let mut tx = PostgresTx::new(transaction, None).counting_in(counter_bucket);
        let end = work(&mut tx).await;
        match end {
            Ok(TransactionEnd::Commit(output)) => tx.commit().await.map(|()| output),
            Ok(TransactionEnd::Rollback(output)) => tx.rollback().await.map(|()| output),
            Err(error) => {
                tx.rollback().await?;
                Err(error)
            }
        }
    })
    .await
}

/// Runs `work` against one snapshot. `limit` is the time limit for all statements together.
async fn read<T>(client: &mut Object, limit: Option<Duration>, work: impl Work<T>) -> Result<T, StoreError> {
    let snapshot = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true).start();
    let mut tx = PostgresTx::new(snapshot.await.map_err(|error| store_error(&error))?, limit);
    let output = work(&mut tx).await?;
    tx.commit().await?;
    Ok(output)
}

/// As [`read`]. The statements continue if the future is dropped, and hold `permit` until they end. A client that
/// disconnects can therefore not start another search early.
#[expect(clippy::disallowed_methods, reason = "the task ends at its deadline")]
async fn read_with_deadline<T: Send + 'static>(
    pool: &Pool,
    limit: Duration,
    permit: impl Send + 'static,
    work: impl Work<T>,
) -> Result<T, StoreError> {
    let pool = pool.clone();
    let (mut reply, result) = oneshot::channel();
    tokio::spawn(async move {
        let connected = tokio::select! {
            connected = pool.get() => connected,
            () = reply.closed() => return,
        };
        let read = match connected {
            Ok(mut client) => {
                // The server enforces `limit`. This longer timeout is for a server that does not respond.
                let read = timeout(limit + CONNECT_TIMEOUT, read(&mut client, Some(limit), work)).await;
                let read = read.map_err(|_| StoreError::DeadlineExceeded(limit)).flatten();
                if read.is_err() {
                    drop(Object::take(client));
                }
                read
            }
            Err(PoolError::Timeout(TimeoutType::Wait)) => Err(StoreError::DeadlineExceeded(limit)),
            Err(error) => Err(pool_error(&error)),
        };
        // The permit is released before the reply, because the caller may start its next search immediately.
        drop(permit);
        drop(reply.send(read));
    });
    result.await.map_err(|_| StoreError::Unavailable("the query was aborted".to_owned()))?
}

impl<O: BatchedOperation> Run<O> for Postgres {
    async fn run(&self, operation: O) -> Result<O::Output, StoreError> {
        let server = self.cluster.server_of(operation.bucket())?;
        let queue = if self.cluster.is_on_one_server(&operation)? {
            O::queue(&server.queues)
        } else {
            O::queue_for_two_servers(&server.queues)
        };
        queue.submit(operation).await
    }
}

impl Database for Postgres {
    const MIGRATIONS: &'static [Migration] = migration::POSTGRES;

    /// The server sends the notification when the transaction commits.
    const INCREMENT_VERSION_SQL: &'static str = "update control_version set version = version + 1 where id = 1
         returning version, pg_notify('ringtrue_control', '')";

    /// PostgreSQL has no `min(uuid)`. The text form has the same order.
    const MIN_ID_SQL: &'static str = r#"min(id::text collate "C")::uuid"#;

    /// Consists of the WAL timeline, the database OID and a table OID. The timeline, which is the prefix of WAL file
    /// names, differs after a recovery or promotion. The database OID differs in a copied database. The table OID
    /// differs in a restored dump.
    const READ_IDENTITY_SQL: Option<&'static str> = Some(
        "select substring(pg_walfile_name(pg_current_wal_lsn()) for 8) || '-' || database.oid || '-' ||
                'database_state'::regclass::oid
           from pg_database database where datname = current_database()",
    );

    const CREATE_PARTITIONS_SQL: Option<&'static str> = Some("select create_check_partitions($1, $2)");

    const DROP_PARTITIONS_SQL: Option<&'static str> = Some("select drop_check_partitions($1)");

    const DELETE_NUMBER_LIMITS_SQL: Option<&'static str> = Some("delete from number_limits where number_hash = $1");

    const DELETE_EXPIRED_NUMBER_LIMITS_SQL: Option<&'static str> = Some(
        "delete from number_limits where (number_hash, project_id, product) in
           (select number_hash, project_id, product from number_limits where expires_at < $1
             order by expires_at, number_hash, project_id, product limit 1000)
           and expires_at < $1
         returning 1",
    );

    const READ_TIME_SQL: &'static str = "select latest_at, floor(extract(epoch from clock_timestamp()) * 1000)::bigint
           from database_state where id = 1";

    async fn transact<T: Send + 'static>(&self, work: impl Work<TransactionEnd<T>>) -> Result<T, StoreError> {
        transact(connection(self.cluster.pool()).await?, None, work).await
    }

    async fn read<T: Send + 'static>(&self, work: impl Work<T>) -> Result<T, StoreError> {
        let client = connection(self.cluster.pool()).await?;
        with_connection(client, async move |client| read(client, None, work).await).await
    }

    async fn transact_at_bucket<T: Send + 'static>(
        &self,
        bucket: ShardBucket,
        work: impl Work<TransactionEnd<T>>,
    ) -> Result<T, StoreError> {
        let connection = self.cluster.connect_to(bucket).await?;
        let transaction = transact(connection.client, connection.counter_bucket, work).await;
        if let Err(StoreError::Unavailable(_) | StoreError::Refused(_)) = &transaction {
            self.cluster.report_failure(bucket);
        }
        transaction
    }

    async fn read_at_bucket<T: Send + 'static>(
        &self,
        bucket: ShardBucket,
        work: impl Work<T>,
    ) -> Result<T, StoreError> {
        let connection = self.cluster.connect_to(bucket).await?;
        let read = with_connection(connection.client, async move |client| read(client, None, work).await).await;
        if let Err(StoreError::Unavailable(_) | StoreError::Refused(_)) = &read {
            self.cluster.report_failure(bucket);
        }
        read
    }

    async fn read_shards(
        &self,
        sql: String,
        values: Vec<Value>,
        completeness: Completeness,
    ) -> Result<Vec<Row>, StoreError> {
        self.cluster.read_shards(&sql, &values, completeness).await
    }

    fn server_index(&self, bucket: ShardBucket) -> usize {
        self.cluster.placement().server_index(bucket)
    }

    async fn look_up<const N: usize>(&self, sql: &'static str, values: [Value; N]) -> Result<Option<Row>, StoreError> {
        self.read(work!(|tx| tx.first(sql, &values).await)).await
    }

    async fn transact_reserved<T: Send + 'static>(&self, work: impl Work<TransactionEnd<T>>) -> Result<T, StoreError> {
        transact(connection(&self.reserved_writer).await?, None, work).await
    }

    async fn read_reserved<T: Send + 'static>(&self, work: impl Work<T>) -> Result<T, StoreError> {
        let client = connection(&self.reserved_reader).await?;
        with_connection(client, async move |client| read(client, None, work).await).await
    }

    async fn read_for_list<T: Send + 'static>(&self, turn: ListTurn, work: impl Work<T>) -> Result<T, StoreError> {
        read_with_deadline(&self.lists, self.search_timeout, turn, work).await
    }

    async fn search<T: Send + 'static>(&self, permit: SearchPermit, work: impl Work<T>) -> Result<T, StoreError> {
        read_with_deadline(&self.searches, self.search_timeout, permit, work).await
    }

    const HAS_BUCKETS: bool = true;

    fn same_bucket_condition(left: &str, right: &str) -> String {
        format!(" and {left}.bucket = {right}.bucket")
    }

    /// Returns nothing with Citus, which cannot lock rows on several shards.
    fn skip_locked_sql(&self) -> &'static str {
        if self.connector.is_distributed() { "" } else { "for no key update skip locked" }
    }

    /// An array, so that there is one statement, whatever the number of ids. Each connection keeps the statements on
    /// shards.
    fn none_of_condition(column: &str, ids: &[Uuid], values: &mut Vec<Value>) -> String {
        values.push(Value::Uuids(ids.to_vec()));
        format!("{column} <> all(${})", values.len())
    }

    fn has_one_server(&self) -> bool {
        !self.connector.is_distributed()
    }

    fn change_notification(&self) -> &Arc<Notify> {
        self.listener.change_notification()
    }

    /// Does nothing, because the listener also receives the notifications that this node causes.
    fn notify_change(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::values;

    /// Connections keep the prepared statements, so their number must not depend on that of the ids.
    #[test]
    fn excluded_ids_are_one_parameter() {
        let condition = |ids: &[Uuid]| {
            let mut values = values![1].to_vec();
            let condition = Postgres::none_of_condition("project_id", ids, &mut values);
            (condition, values.len())
        };
        for ids in [&[][..], &[Uuid::nil()], &[Uuid::nil(), Uuid::max()]] {
            assert_eq!(condition(ids), ("project_id <> all($2)".to_owned(), 2));
        }
    }

    /// If a number changes, update it in the documentation of [`StoreOptions`], in that of this module, and in
    /// `docs/scaling.md`.
    #[test]
    fn a_node_opens_25_connections_by_default() {
        assert_eq!(BATCH_CONNECTIONS, 11);
        assert_eq!(max_connections(&StoreOptions::default(), 0), 25);
        let direct = max_connections(&StoreOptions::default(), 1) - 25;
        assert_eq!(direct, 19 + 11, "to a worker, and to the coordinator in its place");
    }
}
