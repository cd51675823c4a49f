//! The ports over `PostgreSQL`.
//!
//! Five kinds of connections: a pool for whatever is rare, one connection or more for each [`lane`] of verbs that are
//! committed together, one that [`listen`]s for changes of other nodes, two apart, to read and to write what keeps
//! the node itself alive while tenants keep the pool busy, and pools for lists and for searches, which nothing else waits
//! for. Each is replaced when it breaks; nothing waits for an absent server longer than its deadline.
//!
//! Connections are sessions with settings of their own, so a pooler in between must work in session mode.

mod callbacks;
mod checks;
mod connect;
mod counters;
mod create;
mod create_ended;
mod data_plane;
mod error;
mod journeys;
mod lane;
mod listen;
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
    driver::{Database, Ended, Ending, Reading, Tx},
    migration::{self, Migration},
    url::PostgresAddress,
};
use connect::{CONNECT_TIMEOUT, Connector, STATEMENT_TIMEOUT};
use data_plane::Lanes;
use error::{pool_error, store_error};
use listen::Listener;
use transaction::PostgresTx;

pub(crate) use schema::{migrate, schema_state};

/// How long a caller waits for a connection while all are in use.
const POOL_WAIT: Duration = Duration::from_secs(2);
/// The same for a list or a search. Others may be running to their deadlines.
const SEARCH_POOL_WAIT: Duration = Duration::from_secs(5);
const LIST_CONNECTIONS: usize = 2;
/// A whole transaction. A server that is alive ends a statement sooner by itself.
const TRANSACTION_TIMEOUT: Duration = STATEMENT_TIMEOUT.saturating_add(Duration::from_secs(1));

#[derive(Debug)]
pub(crate) struct Postgres {
    pool: Pool,
    /// One connection that only writes for the node.
    writer_apart: Pool,
    /// One connection that only reads for the node.
    reader_apart: Pool,
    lists: Pool,
    searches: Pool,
    search_timeout: Duration,
    lanes: Lanes,
    listener: Listener,
}

impl Postgres {
    pub(crate) fn open(address: &PostgresAddress, options: &StoreOptions) -> Result<Self, StoreError> {
        let connector = Connector::new(address)?;
        let connections = |number| pool(address, &connector, number, POOL_WAIT);
        let search_timeout = options.search_timeout;
        let searcher = Connector::for_searches(address, search_timeout)?;
        Ok(Postgres {
            lists: pool(address, &searcher, LIST_CONNECTIONS, SEARCH_POOL_WAIT)?,
            searches: pool(address, &searcher, options.searches.max(1), SEARCH_POOL_WAIT)?,
            search_timeout,
            pool: connections(options.connections.max(1))?,
            writer_apart: connections(1)?,
            reader_apart: connections(1)?,
            lanes: Lanes::start(&Connector::for_lanes(address)?),
            listener: Listener::start(connector.clone()),
        })
    }
}

/// Reads the certificates that are to be trusted. Connects to nothing.
pub(crate) fn check_files(address: &PostgresAddress) -> Result<(), StoreError> {
    Connector::new(address).map(drop)
}

/// Connections that are made when they are needed.
fn pool(
    address: &PostgresAddress,
    connector: &Connector,
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

/// Runs `work` on a connection of the pool. One that has seen an error is not used again: it may be broken, or its
/// prepared statements may be out of date.
async fn on_connection<T>(
    pool: &Pool,
    work: impl AsyncFnOnce(&mut Object) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let mut client = pool.get().await.map_err(|error| pool_error(&error))?;
    let late = |_| StoreError::Unavailable("the transaction took too long".to_owned());
    let answer = timeout(TRANSACTION_TIMEOUT, work(&mut client)).await.map_err(late).flatten();
    if matches!(answer, Err(StoreError::Unavailable(_) | StoreError::Refused(_))) {
        drop(Object::take(client));
    }
    answer
}

async fn transact<T, W>(pool: &Pool, work: W) -> Result<T, StoreError>
where
    W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> Ended<'t, T>,
{
    let refused = |error: tokio_postgres::Error| store_error(&error);
    on_connection(pool, async move |client| {
        let mut tx = PostgresTx::new(client.transaction().await.map_err(refused)?);
        let ending = work(&mut tx).await;
        match ending {
            Ok(Ending::Commit(answer)) => tx.commit().await.map(|()| answer),
            Ok(Ending::Rollback(answer)) => tx.rollback().await.map(|()| answer),
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
    W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> Reading<'t, T>,
{
    let refused = |error: tokio_postgres::Error| store_error(&error);
    on_connection(pool, async move |client| {
        let snapshot =
            client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true).start();
        let mut tx = PostgresTx::new(snapshot.await.map_err(refused)?);
        let answer = work(&mut tx).await?;
        tx.commit().await?;
        Ok(answer)
    })
    .await
}

/// As [`read`], within `limit`. The statements run to their end or to the limit even if the future is dropped, and
/// `permit` is held for as long: a caller that disconnects does not make room for its next search.
#[expect(clippy::disallowed_methods, reason = "the task ends by its deadline: there is nothing to wait for")]
async fn read_within<P, T, W>(pool: &Pool, limit: Duration, permit: P, work: W) -> Result<T, StoreError>
where
    P: Send + 'static,
    T: Send + 'static,
    W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> Reading<'t, T> + Send + 'static,
{
    let pool = pool.clone();
    let (mut reply, answer) = oneshot::channel();
    tokio::spawn(async move {
        let connected = tokio::select! {
            connected = pool.get() => connected,
            () = reply.closed() => return,
        };
        let read = match connected {
            Ok(client) => read_on(client, limit, work).await,
            Err(PoolError::Timeout(TimeoutType::Wait)) => Err(StoreError::DeadlineExceeded(limit)),
            Err(error) => Err(pool_error(&error)),
        };
        // Before the answer: the caller's next search needs it.
        drop(permit);
        drop(reply.send(read));
    });
    answer.await.map_err(|_| StoreError::Unavailable("the query was broken off".to_owned()))?
}

async fn read_on<T, W>(mut client: Object, limit: Duration, work: W) -> Result<T, StoreError>
where
    W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> Reading<'t, T>,
{
    let refused = |error: tokio_postgres::Error| store_error(&error);
    let read = async {
        let snapshot =
            client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true).start();
        let mut tx = PostgresTx::with_deadline(snapshot.await.map_err(refused)?, limit);
        let answer = work(&mut tx).await?;
        tx.commit().await?;
        Ok(answer)
    };
    // The server stops statements by itself. One that does not answer at all is not waited for.
    let late = |_| StoreError::DeadlineExceeded(limit);
    let answer = timeout(limit + CONNECT_TIMEOUT, read).await.map_err(late).flatten();
    if answer.is_err() {
        drop(Object::take(client));
    }
    answer
}

impl Database for Postgres {
    const SCHEMA: &'static [Migration] = migration::POSTGRES;

    const RAISE_VERSION: &'static str = listen::RAISE_VERSION;

    /// There is no `min` of UUIDs. Their text sorts as they do.
    const MIN_ID: &'static str = r#"min(id::text collate "C")::uuid"#;

    /// A restored dump has another table, a copy another database, and a server that was recovered or promoted another
    /// timeline, with whose number the names of its log files begin.
    const IDENTITY: Option<&'static str> = Some(
        "select substring(pg_walfile_name(pg_current_wal_lsn()) for 8) || '-' || database.oid || '-' ||
                'roll_call'::regclass::oid
           from pg_database database where datname = current_database()",
    );

    const READ_TIME: &'static str =
        "select latest_at, floor(extract(epoch from clock_timestamp()) * 1000)::bigint from roll_call where id = 1";

    async fn transact<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> Ended<'t, T> + Send + 'static,
    {
        transact(&self.pool, work).await
    }

    async fn read<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> Reading<'t, T> + Send + 'static,
    {
        read(&self.pool, work).await
    }

    async fn transact_apart<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> Ended<'t, T> + Send + 'static,
    {
        transact(&self.writer_apart, work).await
    }

    async fn read_apart<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> Reading<'t, T> + Send + 'static,
    {
        read(&self.reader_apart, work).await
    }

    async fn read_list<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> Reading<'t, T> + Send + 'static,
    {
        read_within(&self.lists, self.search_timeout, (), work).await
    }

    async fn search<T, W>(&self, permit: SearchPermit, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> Reading<'t, T> + Send + 'static,
    {
        read_within(&self.searches, self.search_timeout, permit, work).await
    }

    fn change_hint(&self) -> &Arc<Notify> {
        self.listener.hint()
    }

    /// The listener hears of it as everybody else does.
    fn has_changed(&self) {}
}
