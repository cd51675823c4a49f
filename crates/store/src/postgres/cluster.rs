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
use ringtrue_domain::lifecycle::ShardBucket;
use ringtrue_engine::ports::store::{Completeness, StoreError};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    task::AbortHandle,
    time::{sleep, timeout},
};
use tokio_postgres::{Error, types::ToSql};

use super::{
    BatchQueues, POOL_WAIT_TIMEOUT, TRANSACTION_TIMEOUT,
    batch_queue::BatchedOperation,
    build_pool,
    connect::{PostgresConnector, is_server_full, pool_error, store_error},
    placement::{CurrentPlacement, HAS_SHARD, LOCAL_GROUP, Placement, ServerKey, TEST_SHARDS, with_tables},
    server_link::ServerLink,
    value_mapping::to_row,
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
/// How long the coordinator is not asked for the rows of all servers after it has failed to return them. Callers that
/// make do with some of the rows ask several times a second.
const SHARD_DETOUR_PAUSE: Duration = Duration::from_secs(5);

/// A server, and the connections of this node to it.
#[derive(Debug)]
pub(super) struct Server {
    link: Arc<ServerLink>,
    pub(super) queues: BatchQueues,
    pool: Pool,
    /// Probes a worker. The configured server has no detour, so it needs no probe.
    probes: Option<AbortHandle>,
}

impl Server {
    #[expect(clippy::disallowed_methods, reason = "the task is aborted when the server is dropped")]
    fn start(
        address: &PostgresAddress,
        connector: &PostgresConnector,
        connections: usize,
        link: ServerLink,
    ) -> Result<Arc<Self>, StoreError> {
        let pool = build_pool(address, connector, connections, POOL_WAIT_TIMEOUT)?;
        let link = Arc::new(link);
        let probed = link.has_detour().then(|| Arc::clone(&link));
        let probes = probed.map(|link| tokio::spawn(async move { link.run_probes().await }).abort_handle());
        Ok(Arc::new(Server { queues: BatchQueues::start(&link), link, pool, probes }))
    }

    /// Whether the server is not avoided, or has an idle connection, which may still work.
    fn is_usable(&self) -> bool {
        !self.link.reachability.is_avoided() || self.pool.status().available > 0
    }

    /// Returns a connection to a worker that has the shard. `None`: it does not have the shard, or cannot be reached,
    /// so the caller asks the coordinator.
    ///
    /// The test of the shard also finds out whether the connection works, before anything is written over it.
    async fn connection_for(&self, shard: i64) -> Result<Option<Object>, StoreError> {
        let reachability = &self.link.reachability;
        if !self.is_usable() {
            return Ok(None);
        }
        let Some(client) = self.pooled_connection().await? else { return Ok(None) };
        let test = async {
            let test = client.prepare_cached(HAS_SHARD).await?;
            client.query_one(&test, &[&shard]).await?.try_get::<_, bool>(0)
        };
        match timeout(reachability.response_timeout(), test).await {
            Ok(Ok(true)) => Ok(Some(client)),
            Ok(Ok(false)) => {
                self.link.placement.report_stale();
                Ok(None)
            }
            _ => {
                drop(Object::take(client));
                reachability.suspect();
                Ok(None)
            }
        }
    }

    /// Returns a connection of the pool. `None`: the worker cannot be reached, or accepts no further connection.
    async fn pooled_connection(&self) -> Result<Option<Object>, StoreError> {
        match self.pool.get().await {
            Ok(client) => Ok(Some(client)),
            Err(PoolError::Backend(error)) if is_server_full(&error) => Ok(None),
            Err(error @ (PoolError::Backend(_) | PoolError::Timeout(TimeoutType::Create))) => {
                self.link.avoid(&pool_error(&error));
                Ok(None)
            }
            Err(error) => Err(pool_error(&error)),
        }
    }

    /// Runs statements on shards of the server.
    async fn read_shards(
        &self,
        statements: &[(String, i64)],
        values: &[Value],
        completeness: Completeness,
    ) -> Result<Vec<Row>, StoreError> {
        if !self.link.has_detour() {
            return read(&self.pool, statements, values, TRANSACTION_TIMEOUT).await;
        }
        let reachability = &self.link.reachability;
        let limit = match completeness {
            Completeness::All => TRANSACTION_TIMEOUT,
            Completeness::Reachable => reachability.response_timeout(),
        };
        let started = Instant::now();
        let rows = read(&self.pool, statements, values, limit).await;
        match &rows {
            Ok(_) => reachability.record_response(started.elapsed()),
            // The probe finds out whether the worker can be reached.
            Err(_) => reachability.suspect(),
        }
        rows
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(probes) = &self.probes {
            probes.abort();
        }
    }
}

/// A connection to the server that has the rows of a bucket, or to the coordinator in its place.
pub(super) struct ClusterConnection<'c> {
    pub(super) client: Object,
    /// The bucket in which the server counts usage, if it has one.
    pub(super) counter_bucket: Option<ShardBucket>,
    _detour: Option<SemaphorePermit<'c>>,
}

/// The servers of the database.
#[derive(derive_more::Debug)]
pub(super) struct Cluster {
    /// Not shown by `Debug`, because it contains the password.
    #[debug(skip)]
    address: PostgresAddress,
    /// Opens connections to the configured server for transactions.
    connector: PostgresConnector,
    connections: usize,
    configured: Arc<Server>,
    workers: Arc<RwLock<BTreeMap<ServerKey, Arc<Server>>>>,
    placement: Arc<CurrentPlacement>,
    /// Permits to use connections of the coordinator's pool for statements that it has to forward to a worker that this
    /// node cannot reach. The coordinator may have to wait for the worker, too. Meanwhile the other connections serve
    /// what concerns the coordinator alone, such as the control plane.
    detours: Semaphore,
    /// When the coordinator may be asked for the rows of all servers again, after it has failed to return them.
    shard_detour_after: Mutex<Option<Instant>>,
    /// Keeps the placement up to date. `None`: all statements go to the configured server.
    refresh: Option<AbortHandle>,
}

impl Cluster {
    /// `connector` opens connections for transactions. `metadata` is the pool from whose connections the placement is
    /// read.
    pub(super) async fn open(
        address: &PostgresAddress,
        connector: &PostgresConnector,
        metadata: &Pool,
        options: &StoreOptions,
    ) -> Result<Self, StoreError> {
        let placement = Arc::new(CurrentPlacement::new(Placement::unsharded()));
        let connections = options.connections.max(1);
        let link = ServerLink::configured(PostgresConnector::for_batches(address)?, Arc::clone(&placement));
        let configured = Server::start(address, connector, connections, link)?;
        let workers = Arc::<RwLock<BTreeMap<ServerKey, Arc<Server>>>>::default();
        let refresh = match options.citus {
            CitusAccess::Coordinator => None,
            CitusAccess::Direct => {
                let mut refresher = Refresher {
                    pool: metadata.clone(),
                    placement: Arc::clone(&placement),
                    workers: Arc::clone(&workers),
                    was_ok: true,
                };
                refresher.refresh().await;
                Some(refresher.start())
            }
        };
        Ok(Cluster {
            address: address.clone(),
            connector: connector.clone(),
            connections,
            configured,
            workers,
            placement,
            detours: Semaphore::new((connections / 2).max(1)),
            shard_detour_after: Mutex::default(),
            refresh,
        })
    }

    pub(super) fn pool(&self) -> &Pool {
        &self.configured.pool
    }

    pub(super) fn placement(&self) -> Arc<Placement> {
        self.placement.get()
    }

    /// Returns the server that has the rows of a bucket, or the rows in no bucket.
    pub(super) fn server_of(&self, bucket: Option<ShardBucket>) -> Result<Arc<Server>, StoreError> {
        let server = match bucket {
            Some(bucket) => self.server(self.placement.get().server(bucket))?,
            None => None,
        };
        Ok(server.unwrap_or_else(|| Arc::clone(&self.configured)))
    }

    /// Whether all rows of an operation are on one server. Fails if rows are on another server that cannot be reached:
    /// the operation would hold up those that do not need that server.
    pub(super) fn is_on_one_server(&self, operation: &impl BatchedOperation) -> Result<bool, StoreError> {
        let placement = self.placement.get();
        let Some(bucket) = operation.bucket().filter(|_| !placement.is_unsharded()) else { return Ok(true) };
        let others = placement.other_servers(placement.server(bucket), operation.other_buckets());
        for key in &others {
            if self.server(key)?.is_some_and(|server| server.link.reachability.is_isolated()) {
                return Err(StoreError::Unavailable(format!("worker {key} cannot be reached")));
            }
        }
        Ok(others.is_empty())
    }

    /// Returns a server. `None`: the worker has no shard any more.
    fn server(&self, key: &ServerKey) -> Result<Option<Arc<Server>>, StoreError> {
        let ServerKey::Worker { host, port } = key else { return Ok(Some(Arc::clone(&self.configured))) };
        if let Some(server) = self.workers.read().get(key) {
            return Ok(Some(Arc::clone(server)));
        }
        let mut workers = self.workers.write();
        if let Some(server) = workers.get(key) {
            return Ok(Some(Arc::clone(server)));
        }
        // The caller may have an older placement. A server that was dropped must not come back.
        if !self.placement.get().has_server(key) {
            return Ok(None);
        }
        let address = self.address.on_server(host, *port);
        let link = self.configured.link.link_to_worker(key, &address);
        let server = Server::start(&address, &self.connector.on_server(&address), self.connections, link)?;
        workers.insert(key.clone(), Arc::clone(&server));
        Ok(Some(server))
    }

    /// Returns a connection to the server that has the rows of a bucket, or to the coordinator if that server cannot be
    /// reached.
    pub(super) async fn connect_to(&self, bucket: ShardBucket) -> Result<ClusterConnection<'_>, StoreError> {
        let placement = self.placement.get();
        let shard = placement.shard_index(bucket).map(|index| placement.shard(index));
        let Some(shard) = shard.filter(|shard| shard.server != ServerKey::Configured) else {
            let client = self.configured.pool.get().await.map_err(|error| pool_error(&error))?;
            let counter_bucket = placement.counter_bucket(&ServerKey::Configured);
            return Ok(ClusterConnection { client, counter_bucket, _detour: None });
        };
        if let Some(server) = self.server(&shard.server)?
            && let Some(client) = server.connection_for(shard.id).await?
        {
            let counter_bucket = placement.counter_bucket(&shard.server);
            return Ok(ClusterConnection { client, counter_bucket, _detour: None });
        }
        let detour = self.acquire_detour_permit(POOL_WAIT_TIMEOUT).await?;
        let client = self.configured.pool.get().await.map_err(|error| pool_error(&error))?;
        Ok(ClusterConnection { client, counter_bucket: None, _detour: Some(detour) })
    }

    /// Has the placement read again soon, and the server of a bucket probed, after a transaction on it has failed.
    pub(super) fn report_failure(&self, bucket: ShardBucket) {
        let placement = self.placement.get();
        let key = placement.server(bucket);
        if *key == ServerKey::Configured {
            return;
        }
        self.placement.report_stale();
        if let Some(server) = self.workers.read().get(key) {
            server.link.reachability.suspect();
        }
    }

    async fn acquire_detour_permit(&self, wait: Duration) -> Result<SemaphorePermit<'_>, StoreError> {
        match timeout(wait, self.detours.acquire()).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(StoreError::Unavailable("too many statements wait for an unreachable worker".to_owned())),
        }
    }

    /// Runs a statement on every shard, at once on all servers. See
    /// [`Database::read_shards`](crate::driver::Database::read_shards).
    pub(super) async fn read_shards(
        &self,
        sql: &str,
        values: &[Value],
        completeness: Completeness,
    ) -> Result<Vec<Row>, StoreError> {
        let placement = self.placement.get();
        let servers = placement.servers();
        if servers.is_empty() {
            let statement = (with_tables(sql, None).into_owned(), 0);
            return read(&self.configured.pool, &[statement], values, TRANSACTION_TIMEOUT).await;
        }
        let (number, mut reads) = (servers.len(), Vec::with_capacity(servers.len()));
        for (key, shards) in servers {
            let Some(server) = self.server(key)?.filter(|server| server.is_usable()) else {
                continue;
            };
            let shards = shards.into_iter().map(|index| placement.shard(index));
            let statements: Vec<_> =
                shards.map(|shard| (with_tables(sql, Some(shard)).into_owned(), shard.id)).collect();
            reads.push(async move { server.read_shards(&statements, values, completeness).await });
        }
        let (mut rows, mut responses) = (Vec::new(), 0);
        for read in join_all(reads).await {
            match read {
                Ok(found) => {
                    responses += 1;
                    rows.extend(found);
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot read the shards of a server");
                    self.placement.report_stale();
                }
            }
        }
        if responses == number {
            return Ok(rows);
        }
        match self.read_shards_at_coordinator(sql, values, completeness).await {
            Err(error) if completeness == Completeness::Reachable && responses > 0 => {
                tracing::debug!(%error, "rows of a server are missing");
                Ok(rows)
            }
            all => all,
        }
    }

    /// Reads the rows of all shards at the coordinator, because a server cannot be reached or a shard has moved.
    async fn read_shards_at_coordinator(
        &self,
        sql: &str,
        values: &[Value],
        completeness: Completeness,
    ) -> Result<Vec<Row>, StoreError> {
        let link = &self.configured.link;
        let (limit, wait) = match completeness {
            Completeness::All => (TRANSACTION_TIMEOUT, POOL_WAIT_TIMEOUT),
            Completeness::Reachable => (link.reachability.response_timeout(), Duration::ZERO),
        };
        if completeness == Completeness::Reachable
            && self.shard_detour_after.lock().is_some_and(|after| Instant::now() < after)
        {
            return Err(StoreError::Unavailable("the coordinator did not reach all workers recently".to_owned()));
        }
        let _detour = self.acquire_detour_permit(wait).await?;
        let statement = (with_tables(sql, None).into_owned(), 0);
        let rows = read(&self.configured.pool, &[statement], values, limit).await;
        *self.shard_detour_after.lock() = rows.is_err().then(|| Instant::now() + SHARD_DETOUR_PAUSE);
        rows
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
/// not a shard is 0. `limit` is the time limit for the connection, and again for the statements.
async fn read(
    pool: &Pool,
    statements: &[(String, i64)],
    values: &[Value],
    limit: Duration,
) -> Result<Vec<Row>, StoreError> {
    let late = |_| StoreError::Unavailable("the statements timed out".to_owned());
    let client = timeout(limit, pool.get()).await.map_err(late)?.map_err(|error| pool_error(&error))?;
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
    let result = timeout(limit, read).await.map_err(late);
    let result = result.and_then(|rows| rows.map_err(|error| store_error(&error)));
    if result.is_err() {
        drop(Object::take(client));
    }
    result
}

/// Keeps the placement up to date.
struct Refresher {
    /// Connections that statements of tenants do not use, so that an outage that holds up those statements does not hold
    /// up the news that it is over.
    pool: Pool,
    placement: Arc<CurrentPlacement>,
    workers: Arc<RwLock<BTreeMap<ServerKey, Arc<Server>>>>,
    was_ok: bool,
}

impl Refresher {
    #[expect(clippy::disallowed_methods, reason = "the task is aborted when the cluster is dropped")]
    fn start(mut self) -> AbortHandle {
        let task = tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = sleep(REFRESH_INTERVAL) => {}
                    () = self.placement.wait_for_stale_report() => {}
                }
                self.refresh().await;
                sleep(MIN_REFRESH_INTERVAL).await;
            }
        });
        task.abort_handle()
    }

    /// Reads the placement. Keeps the last one if the metadata cannot be read.
    async fn refresh(&mut self) {
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
        let read = read.await;
        match &read {
            Err(error) if self.was_ok => {
                tracing::warn!(%error, "cannot read which server has which shard; using the last known placement");
            }
            Ok(_) if !self.was_ok => tracing::info!("shard placement can be read again"),
            _ => {}
        }
        self.was_ok = read.is_ok();
        if let Ok(placement) = read
            && let Some(servers) = self.placement.replace(placement)
        {
            self.drop_others(&servers);
        }
    }

    /// Closes the connections to servers that have no shard any more. Their queues end when they are empty.
    fn drop_others(&self, servers: &BTreeSet<ServerKey>) {
        if servers.is_empty() {
            tracing::warn!("shard placement is incomplete: using the coordinator for all statements");
        } else {
            tracing::info!(servers = servers.len(), "shard placement changed");
        }
        self.workers.write().retain(|key, _| servers.contains(key));
    }
}
