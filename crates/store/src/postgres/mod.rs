//! The ports over `PostgreSQL`.
//!
//! The store uses several kinds of connections, so that none waits for the wrong work:
//! - a pool for infrequent transactions,
//! - one or more connections for each [`batch_queue`],
//! - one for the notifications of other nodes ([`change_listener`]),
//! - two reserved ones, for the reads and writes that keep the node alive while tenants use up the pool,
//! - pools for lists and for searches.
//!
//! Broken connections are replaced. Every wait for the server has a timeout.
//!
//! Connections rely on session settings, so a connection pooler must work in session mode.

mod batch_queue;
mod callbacks;
mod change_listener;
mod checks;
mod connect;
mod counters;
mod create_check;
mod create_concluded;
mod data_plane;
mod error;
mod redirect_sessions;
mod rows_by_id;
mod schema;
mod transaction;

use std::{sync::Arc, time::Duration};

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime, TimeoutType};
use ringtrue_engine::{ports::StoreError, search_limit::SearchPermit};
use tokio::{
    sync::{Notify, oneshot},
    time::timeout,
};
use tokio_postgres::IsolationLevel;

use crate::{
    StoreOptions,
    driver::{Database, ReadFuture, TransactionEnd, TransactionFuture, Tx},
    migration::{self, Migration},
    url::PostgresAddress,
};
use change_listener::ChangeListener;
use connect::{CONNECT_TIMEOUT, PostgresConnector, STATEMENT_TIMEOUT};
use data_plane::BatchQueues;
use error::{pool_error, store_error};
use transaction::PostgresTx;

pub(crate) use schema::{migrate, schema_state};

/// Limit of waiting for a connection of a pool.
const POOL_WAIT_TIMEOUT: Duration = Duration::from_secs(2);
/// The same for lists and searches, which may wait for others that run to their deadlines.
const SEARCH_POOL_WAIT_TIMEOUT: Duration = Duration::from_secs(5);
const LIST_CONNECTIONS: usize = 2;
/// Longer than `statement_timeout`, so that a responsive server reports the timeout itself.
const TRANSACTION_TIMEOUT: Duration = STATEMENT_TIMEOUT.saturating_add(Duration::from_secs(1));

#[derive(Debug)]
pub(crate) struct Postgres {
    pool: Pool,
    reserved_writer: Pool,
    reserved_reader: Pool,
    lists: Pool,
    searches: Pool,
    search_timeout: Duration,
    queues: BatchQueues,
    listener: ChangeListener,
}

impl Postgres {
    pub(crate) fn open(address: &PostgresAddress, options: &StoreOptions) -> Result<Self, StoreError> {
        let connector = PostgresConnector::new(address)?;
        let connections = |number| build_pool(address, &connector, number, POOL_WAIT_TIMEOUT);
        let search_timeout = options.search_timeout;
        let searcher = PostgresConnector::for_searches(address, search_timeout)?;
        Ok(Postgres {
            lists: build_pool(address, &searcher, LIST_CONNECTIONS, SEARCH_POOL_WAIT_TIMEOUT)?,
            searches: build_pool(address, &searcher, options.searches.max(1), SEARCH_POOL_WAIT_TIMEOUT)?,
            search_timeout,
            pool: connections(options.connections.max(1))?,
            reserved_writer: connections(1)?,
            reserved_reader: connections(1)?,
            queues: BatchQueues::start(&PostgresConnector::for_batches(address)?),
            listener: ChangeListener::start(connector.clone()),
        })
    }
}

/// Reads the root certificates. Does not connect.
pub(crate) fn check_files(address: &PostgresAddress) -> Result<(), StoreError> {
    PostgresConnector::new(address).map(drop)
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

/// Runs `work` on a connection of the pool. Discards the connection after an error: it may be broken, or its prepared
/// statements may be stale.
async fn with_connection<T>(
    pool: &Pool,
    work: impl AsyncFnOnce(&mut Object) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let mut client = pool.get().await.map_err(|error| pool_error(&error))?;
    let late = |_| StoreError::Unavailable("the transaction timed out".to_owned());
    let result = timeout(TRANSACTION_TIMEOUT, work(&mut client)).await.map_err(late).flatten();
    if matches!(result, Err(StoreError::Unavailable(_) | StoreError::Refused(_))) {
        drop(Object::take(client));
    }
    result
}

async fn transact<T, W>(pool: &Pool, work: W) -> Result<T, StoreError>
where
    W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> TransactionFuture<'t, T>,
{
    let refused = |error: tokio_postgres::Error| store_error(&error);
    with_connection(pool, async move |client| {
        let mut tx = PostgresTx::new(client.transaction().await.map_err(refused)?);
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

async fn read<T, W>(pool: &Pool, work: W) -> Result<T, StoreError>
where
    W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> ReadFuture<'t, T>,
{
    let refused = |error: tokio_postgres::Error| store_error(&error);
    with_connection(pool, async move |client| {
        let snapshot =
            client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true).start();
        let mut tx = PostgresTx::new(snapshot.await.map_err(refused)?);
        let output = work(&mut tx).await?;
        tx.commit().await?;
        Ok(output)
    })
    .await
}

/// As [`read`], within `limit`. The statements run on if the future is dropped, and hold `permit` until they end: a
/// client that disconnects gets no room for another search.
#[expect(clippy::disallowed_methods, reason = "the task ends at its deadline")]
async fn read_with_deadline<P, T, W>(pool: &Pool, limit: Duration, permit: P, work: W) -> Result<T, StoreError>
where
    P: Send + 'static,
    T: Send + 'static,
    W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> ReadFuture<'t, T> + Send + 'static,
{
    let pool = pool.clone();
    let (mut reply, result) = oneshot::channel();
    tokio::spawn(async move {
        let connected = tokio::select! {
            connected = pool.get() => connected,
            () = reply.closed() => return,
        };
        let read = match connected {
            Ok(client) => read_on_connection(client, limit, work).await,
            Err(PoolError::Timeout(TimeoutType::Wait)) => Err(StoreError::DeadlineExceeded(limit)),
            Err(error) => Err(pool_error(&error)),
        };
        // Before the reply: the caller's next search needs the permit.
        drop(permit);
        drop(reply.send(read));
    });
    result.await.map_err(|_| StoreError::Unavailable("the query was aborted".to_owned()))?
}

async fn read_on_connection<T, W>(mut client: Object, limit: Duration, work: W) -> Result<T, StoreError>
where
    W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> ReadFuture<'t, T>,
{
    let refused = |error: tokio_postgres::Error| store_error(&error);
    let read = async {
        let snapshot =
            client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true).start();
        let mut tx = PostgresTx::with_deadline(snapshot.await.map_err(refused)?, limit);
        let output = work(&mut tx).await?;
        tx.commit().await?;
        Ok(output)
    };
    // The server enforces the limit. This timeout is for a server that does not respond.
    let late = |_| StoreError::DeadlineExceeded(limit);
    let result = timeout(limit + CONNECT_TIMEOUT, read).await.map_err(late).flatten();
    if result.is_err() {
        drop(Object::take(client));
    }
    result
}

impl Database for Postgres {
    const MIGRATIONS: &'static [Migration] = migration::POSTGRES;

    const INCREMENT_VERSION_SQL: &'static str = change_listener::INCREMENT_VERSION_SQL;

    /// PostgreSQL has no `min(uuid)`. The text form sorts the same.
    const MIN_ID_SQL: &'static str = r#"min(id::text collate "C")::uuid"#;

    /// A restored dump has another table OID, a copied database another database OID, and a recovered or promoted
    /// server another timeline, which is the prefix of WAL file names.
    const READ_IDENTITY_SQL: Option<&'static str> = Some(
        "select substring(pg_walfile_name(pg_current_wal_lsn()) for 8) || '-' || database.oid || '-' ||
                'database_state'::regclass::oid
           from pg_database database where datname = current_database()",
    );

    const READ_TIME_SQL: &'static str = "select latest_at, floor(extract(epoch from clock_timestamp()) * 1000)::bigint
           from database_state where id = 1";

    async fn transact<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> TransactionFuture<'t, T> + Send + 'static,
    {
        transact(&self.pool, work).await
    }

    async fn read<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> ReadFuture<'t, T> + Send + 'static,
    {
        read(&self.pool, work).await
    }

    async fn transact_reserved<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> TransactionFuture<'t, T> + Send + 'static,
    {
        transact(&self.reserved_writer, work).await
    }

    async fn read_reserved<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> ReadFuture<'t, T> + Send + 'static,
    {
        read(&self.reserved_reader, work).await
    }

    async fn read_list<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> ReadFuture<'t, T> + Send + 'static,
    {
        read_with_deadline(&self.lists, self.search_timeout, (), work).await
    }

    async fn search<T, W>(&self, permit: SearchPermit, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> ReadFuture<'t, T> + Send + 'static,
    {
        read_with_deadline(&self.searches, self.search_timeout, permit, work).await
    }

    fn change_notification(&self) -> &Arc<Notify> {
        self.listener.change_notification()
    }

    /// Does nothing: the listener receives this node's notifications too.
    fn notify_change(&self) {}
}
