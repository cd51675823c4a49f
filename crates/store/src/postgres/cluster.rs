//! The servers of the database: one `PostgreSQL`, or the coordinator and the workers of a Citus cluster.
//!
//! A node connects to the server in `store.url`, and reads from its metadata which worker has which rows. Statements on
//! checks go to the worker that has them, with the user, password and settings of the URL. If a worker cannot be reached,
//! they take the detour through the coordinator.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use deadpool_postgres::{Object, Pool, PoolError, TimeoutType};
use futures_util::future::join_all;
use parking_lot::{Mutex, RwLock};
use ringtrue_domain::lifecycle::Bucket;
use ringtrue_engine::ports::store::StoreError;
use tokio::{
    task::AbortHandle,
    time::{sleep, timeout},
};
use tokio_postgres::{Error, types::ToSql};

use super::{
    BatchQueues, POOL_WAIT_TIMEOUT, TRANSACTION_TIMEOUT,
    batch_queue::{BatchError, pipeline::BatchSession},
    build_pool,
    connect::{PostgresConnector, pool_error, store_error},
    placement::{CurrentPlacement, LOCAL_GROUP, Placement, ServerKey, TEST_SHARDS, with_tables},
    transaction::to_row,
};
use crate::{
    CitusAccess, StoreOptions,
    row::{Row, Value},
    url::PostgresAddress,
};

/// How often the placement is read from the metadata, besides when it proves to be wrong.
const REFRESH_INTERVAL: Duration = Duration::from_secs(5);
/// Minimum time between two reads of the placement.
const MIN_REFRESH_INTERVAL: Duration = Duration::from_millis(200);
/// How long an unreachable worker is not tried again.
const AVOID_DURATION: Duration = Duration::from_secs(5);

/// How batches reach a server.
#[derive(Debug)]
pub(super) struct ServerLink {
    pub(super) key: ServerKey,
    pub(super) connector: PostgresConnector,
    /// Connects to the coordinator instead. `None`: this is the configured server.
    detour: Option<PostgresConnector>,
    pub(super) placement: Arc<CurrentPlacement>,
    avoided_until: Mutex<Option<Instant>>,
}

impl ServerLink {
    #[cfg(test)]
    pub(super) fn for_tests(address: &PostgresAddress) -> Arc<Self> {
        Arc::new(ServerLink {
            key: ServerKey::Configured,
            connector: PostgresConnector::for_batches(address).unwrap(),
            detour: None,
            placement: Arc::new(CurrentPlacement::new(Placement::whole())),
            avoided_until: Mutex::default(),
        })
    }

    /// Whether statements take the detour, because the server could not be reached recently.
    pub(super) fn is_avoided(&self) -> bool {
        self.avoided_until.lock().is_some_and(|until| Instant::now() < until)
    }

    fn avoid(&self, error: &dyn std::fmt::Display) {
        let until = Instant::now() + AVOID_DURATION;
        if self.avoided_until.lock().replace(until).is_none_or(|before| before + AVOID_DURATION < until) {
            tracing::warn!(server = ?self.key, %error, "worker not reachable: using the coordinator");
        }
        self.placement.report_stale();
    }

    pub(super) async fn open_session(&self, slot: i16) -> Result<BatchSession, BatchError> {
        let is_for_shards = !self.placement.get().is_whole();
        let Some(detour) = &self.detour else {
            let (client, _) = self.connector.connect().await.map_err(BatchError::Server)?;
            return Ok(BatchSession::start(client, slot, self.connector.is_distributed(), is_for_shards).await?);
        };
        if !self.is_avoided() {
            match self.connector.connect().await {
                Ok((client, _)) => return Ok(BatchSession::start(client, slot, true, is_for_shards).await?),
                Err(error) => self.avoid(&error),
            }
        }
        let (client, _) = detour.connect().await.map_err(BatchError::Server)?;
        let mut session = BatchSession::start(client, slot, true, false).await?;
        session.is_detour = true;
        Ok(session)
    }
}

/// A server, and the connections of this node to it.
#[derive(Debug)]
pub(super) struct Server {
    link: Arc<ServerLink>,
    pub(super) queues: BatchQueues,
    pool: Pool,
}

impl Server {
    fn start(address: &PostgresAddress, connections: usize, link: ServerLink) -> Result<Arc<Self>, StoreError> {
        let pool = build_pool(address, &PostgresConnector::new(address)?, connections, POOL_WAIT_TIMEOUT)?;
        let link = Arc::new(link);
        Ok(Arc::new(Server { queues: BatchQueues::start(&link), link, pool }))
    }
}

/// The servers of the database.
#[derive(derive_more::Debug)]
pub(super) struct Cluster {
    /// Not shown by `Debug`, because it contains the password.
    #[debug(skip)]
    address: PostgresAddress,
    connections: usize,
    configured: Arc<Server>,
    workers: Arc<RwLock<BTreeMap<ServerKey, Arc<Server>>>>,
    placement: Arc<CurrentPlacement>,
    /// Keeps the placement up to date. `None`: all statements go to the configured server.
    refresh: Option<AbortHandle>,
}

impl Cluster {
    pub(super) async fn open(address: &PostgresAddress, options: &StoreOptions) -> Result<Self, StoreError> {
        let placement = Arc::new(CurrentPlacement::new(Placement::whole()));
        let connections = options.connections.max(1);
        let link = ServerLink {
            key: ServerKey::Configured,
            connector: PostgresConnector::for_batches(address)?,
            detour: None,
            placement: Arc::clone(&placement),
            avoided_until: Mutex::default(),
        };
        let configured = Server::start(address, connections, link)?;
        let workers = Arc::<RwLock<BTreeMap<ServerKey, Arc<Server>>>>::default();
        let refresh = match options.citus {
            CitusAccess::Coordinator => None,
            CitusAccess::Direct => {
                let refresher = Refresher {
                    pool: configured.pool.clone(),
                    placement: Arc::clone(&placement),
                    workers: Arc::clone(&workers),
                };
                refresher.refresh().await;
                Some(refresher.start())
            }
        };
        Ok(Cluster { address: address.clone(), connections, configured, workers, placement, refresh })
    }

    pub(super) fn pool(&self) -> &Pool {
        &self.configured.pool
    }

    pub(super) fn placement(&self) -> Arc<Placement> {
        self.placement.get()
    }

    /// Returns the server that has the rows of a bucket, or the rows in no bucket.
    pub(super) fn server_of(&self, bucket: Option<Bucket>) -> Result<Arc<Server>, StoreError> {
        match bucket {
            Some(bucket) => self.server(self.placement.get().server(bucket)),
            None => Ok(Arc::clone(&self.configured)),
        }
    }

    fn server(&self, key: &ServerKey) -> Result<Arc<Server>, StoreError> {
        let ServerKey::Worker { host, port } = key else { return Ok(Arc::clone(&self.configured)) };
        if let Some(server) = self.workers.read().get(key) {
            return Ok(Arc::clone(server));
        }
        let mut workers = self.workers.write();
        if let Some(server) = workers.get(key) {
            return Ok(Arc::clone(server));
        }
        let address = self.address.on_server(host, *port);
        let link = ServerLink {
            key: key.clone(),
            connector: PostgresConnector::for_batches(&address)?,
            detour: Some(self.configured.link.connector.clone()),
            placement: Arc::clone(&self.placement),
            avoided_until: Mutex::default(),
        };
        let server = Server::start(&address, self.connections, link)?;
        workers.insert(key.clone(), Arc::clone(&server));
        Ok(server)
    }

    /// Returns a connection to the server that has the rows of a bucket, or to the coordinator if that server cannot be
    /// reached. Also returns the bucket in which the server counts usage, if it has one.
    pub(super) async fn connect_to(&self, bucket: Bucket) -> Result<(Object, Option<Bucket>), StoreError> {
        let placement = self.placement.get();
        let server = self.server(placement.server(bucket))?;
        if !server.link.is_avoided() {
            match server.pool.get().await {
                Ok(client) => return Ok((client, placement.counter_bucket(&server.link.key))),
                Err(PoolError::Backend(_) | PoolError::Timeout(TimeoutType::Create))
                    if server.link.detour.is_some() =>
                {
                    server.link.avoid(&"cannot connect");
                }
                Err(error) => return Err(pool_error(&error)),
            }
        }
        let client = self.configured.pool.get().await.map_err(|error| pool_error(&error))?;
        Ok((client, None))
    }

    /// Runs a statement on every shard, at once on all servers. See
    /// [`Database::read_shards`](crate::driver::Database::read_shards).
    pub(super) async fn read_shards(&self, sql: &str, values: &[Value]) -> Result<Vec<Row>, StoreError> {
        let placement = self.placement.get();
        let servers = placement.servers();
        if servers.is_empty() {
            return read(&self.configured.pool, &[(with_tables(sql, None).into_owned(), 0)], values).await;
        }
        let reads = servers.into_iter().map(|(key, shards)| {
            let shards = shards.into_iter().map(|index| placement.shard(index));
            let statements: Vec<_> =
                shards.map(|shard| (with_tables(sql, Some(shard)).into_owned(), shard.id)).collect();
            async move { read(&self.server(key)?.pool, &statements, values).await }
        });
        let (mut rows, mut failure, mut has_succeeded) = (Vec::new(), None, false);
        for read in join_all(reads).await {
            match read {
                Ok(found) => {
                    has_succeeded = true;
                    rows.extend(found);
                }
                Err(error) => {
                    self.placement.report_stale();
                    failure = Some(error);
                }
            }
        }
        match failure {
            Some(error) if !has_succeeded => Err(error),
            _ => Ok(rows),
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(refresh) = &self.refresh {
            refresh.abort();
        }
    }
}

/// Runs statements on shards of one server, together, and then tests that it has these shards. The id of a table that is
/// not a shard is 0.
async fn read(pool: &Pool, statements: &[(String, i64)], values: &[Value]) -> Result<Vec<Row>, StoreError> {
    let client = pool.get().await.map_err(|error| pool_error(&error))?;
    let read = async {
        let mut prepared = Vec::with_capacity(statements.len());
        for (sql, _) in statements {
            prepared.push(client.prepare_cached(sql).await?);
        }
        let parameters: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value as _).collect();
        let found = join_all(prepared.iter().map(|statement| client.query(statement, &parameters))).await;
        let mut rows = Vec::new();
        for row in found.into_iter().collect::<Result<Vec<_>, Error>>()?.iter().flatten() {
            rows.push(to_row(row)?);
        }
        let shards: Vec<i64> = statements.iter().map(|(_, shard)| *shard).filter(|shard| *shard != 0).collect();
        if !shards.is_empty() {
            let group = client.prepare_cached(LOCAL_GROUP).await?;
            let group: i32 = client.query_one(&group, &[]).await?.try_get(0)?;
            let test = client.prepare_cached(TEST_SHARDS).await?;
            client.query_one(&test, &[&shards, &group]).await?;
        }
        Ok::<_, Error>(rows)
    };
    let late = |_| StoreError::Unavailable("the statements timed out".to_owned());
    let result = timeout(TRANSACTION_TIMEOUT, read).await.map_err(late);
    let result = result.and_then(|rows| rows.map_err(|error| store_error(&error)));
    if result.is_err() {
        drop(Object::take(client));
    }
    result
}

/// Keeps the placement up to date.
struct Refresher {
    pool: Pool,
    placement: Arc<CurrentPlacement>,
    workers: Arc<RwLock<BTreeMap<ServerKey, Arc<Server>>>>,
}

impl Refresher {
    #[expect(clippy::disallowed_methods, reason = "the task is aborted when the cluster is dropped")]
    fn start(self) -> AbortHandle {
        let task = tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = sleep(REFRESH_INTERVAL) => {}
                    () = self.placement.reported_stale() => {}
                }
                self.refresh().await;
                sleep(MIN_REFRESH_INTERVAL).await;
            }
        });
        task.abort_handle()
    }

    /// Reads the placement. Keeps the last one if the metadata cannot be read.
    async fn refresh(&self) {
        let read = async {
            let client = self.pool.get().await.map_err(|error| pool_error(&error))?;
            let read = timeout(TRANSACTION_TIMEOUT, Placement::read(&client, &self.placement.get())).await;
            let late = |_| StoreError::Unavailable("timed out".to_owned());
            let read = read.map_err(late).and_then(|read| read.map_err(|error| store_error(&error)));
            if read.is_err() {
                drop(Object::take(client));
            }
            read
        };
        match read.await {
            Ok(placement) => {
                if let Some(servers) = self.placement.replace(placement) {
                    self.drop_others(&servers);
                }
            }
            Err(error) => tracing::debug!(%error, "cannot read which server has which shard"),
        }
    }

    /// Closes the connections to servers that have no shard any more. Their queues end when they are empty.
    fn drop_others(&self, servers: &BTreeSet<ServerKey>) {
        tracing::info!(servers = servers.len(), "shard placement changed");
        self.workers.write().retain(|key, _| servers.contains(key));
    }
}
