//! Opens connections with uniform session settings, listens for notifications, and maps errors to temporary
//! (`Unavailable`) or permanent (`Refused`) store errors.

use std::{
    error::Error as _,
    future::poll_fn,
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use deadpool_postgres::{PoolError, TimeoutType};
use futures_util::future::BoxFuture;
use ringtrue_engine::ports::store::StoreError;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, pem::PemObject},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::Notify,
    task::{AbortHandle, JoinHandle},
    time::{sleep, timeout},
};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, Error, NoTls, error::SqlState};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::url::{PostgresAddress, PostgresTls};

pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
pub(super) const STATEMENT_TIMEOUT: Duration = Duration::from_secs(5);

/// Settings of every session:
///
/// Commits are durable, whatever the server's default. The server soon ends an idle transaction of a dead client,
/// because all nodes may wait for its locks. A statement uses a single process: starting parallel workers takes longer
/// than most statements, and a search of one tenant must not take all processors.
///
/// With Citus, a transaction uses one connection to each worker instead of one for each shard, and these connections
/// are kept for later transactions. The coordinator waits two seconds for a connection to a worker, as nodes do, instead
/// of 30: meanwhile the statement holds a connection of the node. Servers without Citus ignore its settings.
const SESSION_SETTINGS: &str = "-c statement_timeout=5000 -c synchronous_commit=on -c idle_in_transaction_session_timeout=2000 \
                       -c default_transaction_isolation=read\\ committed -c jit=off \
                       -c max_parallel_workers_per_gather=0 \
                       -c citus.multi_shard_modify_mode=sequential -c citus.max_cached_conns_per_worker=4 \
                       -c citus.node_connection_timeout=2000";
/// Additional settings of the sessions that run batches. Batches find rows by key, so other plans are disabled: a plan
/// made while a table was small would otherwise still scan the whole table after it has grown.
const BATCH_SESSION_SETTINGS: &str = "-c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off";
/// Settings of migration sessions, whose statements have no timeout.
const MIGRATION_SESSION_SETTINGS: &str = "-c statement_timeout=0 -c synchronous_commit=on";

const LISTEN_SQL: &str = "listen ringtrue_control";

const RECONNECT_DELAY: Duration = Duration::from_secs(1);

#[derive(Clone, derive_more::Debug)]
pub(super) struct PostgresConnector {
    /// Not shown by `Debug`, because it contains the password.
    #[debug(skip)]
    config: Arc<Config>,
    settings: Arc<str>,
    #[debug("{}", tls.is_some())]
    tls: Option<MakeRustlsConnect>,
    is_distributed: Arc<AtomicBool>,
}

impl PostgresConnector {
    pub(super) fn new(address: &PostgresAddress) -> Result<Self, StoreError> {
        Self::with_settings(address, SESSION_SETTINGS)
    }

    pub(super) fn for_migrations(address: &PostgresAddress) -> Result<Self, StoreError> {
        Self::with_settings(address, MIGRATION_SESSION_SETTINGS)
    }

    pub(super) fn for_batches(address: &PostgresAddress) -> Result<Self, StoreError> {
        Self::with_settings(address, &format!("{SESSION_SETTINGS} {BATCH_SESSION_SETTINGS}"))
    }

    /// Creates a connector for lists and searches. `timeout` limits each statement.
    pub(super) fn for_searches(address: &PostgresAddress, timeout: Duration) -> Result<Self, StoreError> {
        Self::with_settings(address, &format!("{SESSION_SETTINGS} -c statement_timeout={}", timeout.as_millis().max(1)))
    }

    fn with_settings(address: &PostgresAddress, settings: &str) -> Result<Self, StoreError> {
        Ok(Self::with_tls(address, settings.into(), build_tls(&address.tls)?))
    }

    /// Returns a connector for another server of the cluster. It shares the root certificates, which are not read
    /// again.
    pub(super) fn on_server(&self, address: &PostgresAddress) -> Self {
        Self::with_tls(address, Arc::clone(&self.settings), self.tls.clone())
    }

    fn with_tls(address: &PostgresAddress, settings: Arc<str>, tls: Option<MakeRustlsConnect>) -> Self {
        let mut config = address.config.clone();
        let options = match config.get_options() {
            Some(options) => format!("{options} {settings}"),
            None => settings.to_string(),
        };
        config.options(options).connect_timeout(CONNECT_TIMEOUT);
        // Keepalives detect an unreachable server within seconds.
        config
            .keepalives_idle(Duration::from_secs(5))
            .keepalives_interval(Duration::from_secs(2))
            .keepalives_retries(3)
            .tcp_user_timeout(Duration::from_secs(10));
        if config.get_application_name().is_none() {
            config.application_name("ringtrue");
        }
        PostgresConnector { config: Arc::new(config), settings, tls, is_distributed: Arc::default() }
    }

    /// Whether Citus had distributed tables when the last connection was opened.
    pub(super) fn is_distributed(&self) -> bool {
        self.is_distributed.load(Ordering::Relaxed)
    }

    /// Returns a connection and the task that drives it.
    pub(super) async fn connect(&self) -> Result<(Client, JoinHandle<()>), StoreError> {
        self.try_connect(None).await.map_err(ConnectError::into_store_error)
    }

    /// As [`connect`](Self::connect). Also signals `hint` for each notification from the server.
    pub(super) async fn connect_and_notify(
        &self,
        hint: Option<Arc<Notify>>,
    ) -> Result<(Client, JoinHandle<()>), StoreError> {
        self.try_connect(hint).await.map_err(ConnectError::into_store_error)
    }

    /// As [`connect`](Self::connect). The error says whether the server was reached.
    pub(super) async fn connect_client(&self) -> Result<Client, ConnectError> {
        Ok(self.try_connect(None).await?.0)
    }

    async fn try_connect(&self, hint: Option<Arc<Notify>>) -> Result<(Client, JoinHandle<()>), ConnectError> {
        match timeout(CONNECT_TIMEOUT, self.connect_unbounded(hint)).await {
            Ok(connected) => connected.map_err(ConnectError::Failed),
            Err(_) => Err(ConnectError::TimedOut),
        }
    }

    async fn connect_unbounded(&self, hint: Option<Arc<Notify>>) -> Result<(Client, JoinHandle<()>), Error> {
        let (client, driver) = match &self.tls {
            None => {
                let (client, connection) = self.config.connect(NoTls).await?;
                (client, spawn_driver(connection, hint))
            }
            Some(tls) => {
                let (client, connection) = self.config.connect(tls.clone()).await?;
                (client, spawn_driver(connection, hint))
            }
        };
        self.is_distributed.store(has_distributed_tables(&client).await?, Ordering::Relaxed);
        Ok((client, driver))
    }
}

/// Why a connection could not be opened.
#[derive(Debug)]
pub(super) enum ConnectError {
    Failed(Error),
    TimedOut,
}

impl ConnectError {
    /// Whether the server responded, but accepts no further connection now.
    pub(super) fn is_full(&self) -> bool {
        matches!(self, ConnectError::Failed(error) if is_server_full(error))
    }

    pub(super) fn into_store_error(self) -> StoreError {
        match self {
            ConnectError::Failed(error) => store_error(&error),
            ConnectError::TimedOut => StoreError::Unavailable("timed out connecting to the server".to_owned()),
        }
    }
}

/// Whether the server has run out of connections or memory (class 53 of error codes).
pub(super) fn is_server_full(error: &Error) -> bool {
    error.code().is_some_and(|code| code.code().starts_with("53"))
}

impl deadpool_postgres::Connect for PostgresConnector {
    /// Ignores the configuration from the pool, which lacks the session settings.
    fn connect(&self, _: &Config) -> BoxFuture<'_, Result<(Client, JoinHandle<()>), Error>> {
        Box::pin(self.connect_unbounded(None))
    }
}

/// Starts the task that drives a connection until its client is dropped.
#[expect(clippy::disallowed_methods, reason = "the task ends with its connection")]
fn spawn_driver<S, T>(mut connection: Connection<S, T>, hint: Option<Arc<Notify>>) -> JoinHandle<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
            match (message, &hint) {
                (Ok(AsyncMessage::Notification(_)), Some(hint)) => hint.notify_one(),
                (Ok(AsyncMessage::Notice(notice)), _) => {
                    tracing::debug!(notice.message = notice.message(), "PostgreSQL notice");
                }
                (Ok(_), _) => {}
                (Err(error), _) => {
                    tracing::warn!(error = %store_error(&error), "database connection lost");
                    return;
                }
            }
        }
    })
}

fn build_tls(tls: &PostgresTls) -> Result<Option<MakeRustlsConnect>, StoreError> {
    let PostgresTls::On { root_certificates } = tls else { return Ok(None) };
    let roots = match root_certificates {
        Some(path) => load_roots(path)
            .map_err(|problem| StoreError::Refused(format!("sslrootcert {}: {problem}", path.display())))?,
        None => load_system_roots(),
    };
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| StoreError::Refused(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Some(MakeRustlsConnect::new(config)))
}

fn load_roots(path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| error.to_string())? {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    if roots.is_empty() { Err("the file contains no certificate".to_owned()) } else { Ok(roots) }
}

fn load_system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

/// Listens for control-plane changes by other nodes.
///
/// Notifications only make changes take effect sooner: nodes also poll. A broken connection is reopened after a delay.
/// Then listeners are notified once, in case notifications were missed.
#[derive(Debug)]
pub(super) struct ChangeListener {
    change_notification: Arc<Notify>,
    task: AbortHandle,
}

impl ChangeListener {
    #[expect(clippy::disallowed_methods, reason = "the task is aborted when the listener is dropped")]
    pub(super) fn start(connector: PostgresConnector) -> Self {
        let change_notification = Arc::new(Notify::new());
        let task = tokio::spawn(listen(connector, Arc::clone(&change_notification))).abort_handle();
        ChangeListener { change_notification, task }
    }

    pub(super) fn change_notification(&self) -> &Arc<Notify> {
        &self.change_notification
    }
}

impl Drop for ChangeListener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn listen(connector: PostgresConnector, hint: Arc<Notify>) {
    loop {
        match subscribe(&connector, &hint).await {
            Ok((client, connection)) => {
                hint.notify_one();
                // The client is still alive, so the task ends only when the connection breaks.
                drop(connection.await);
                drop(client);
            }
            Err(error) => tracing::debug!(%error, "cannot listen for control-plane changes; polling only"),
        }
        sleep(RECONNECT_DELAY).await;
    }
}

async fn subscribe(connector: &PostgresConnector, hint: &Arc<Notify>) -> Result<(Client, JoinHandle<()>), StoreError> {
    let (client, connection) = connector.connect_and_notify(Some(Arc::clone(hint))).await?;
    match timeout(CONNECT_TIMEOUT, client.batch_execute(LISTEN_SQL)).await {
        Ok(Ok(())) => Ok((client, connection)),
        Ok(Err(error)) => Err(store_error(&error)),
        Err(_) => Err(StoreError::Unavailable("timed out waiting for the server".to_owned())),
    }
}

/// Whether Citus has distributed tables of this database, or has begun to do so.
async fn has_distributed_tables(client: &Client) -> Result<bool, Error> {
    let has_citus = "select exists (select from pg_extension where extname = 'citus')";
    if !client.query_one(has_citus, &[]).await?.try_get::<_, bool>(0)? {
        return Ok(false);
    }
    // True as soon as Citus lists a table, even if the table is not distributed yet: statements on this table already
    // need plans made by Citus.
    let is_distributed = "select exists (select from pg_dist_partition)";
    client.query_one(is_distributed, &[]).await?.try_get(0)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorOrigin {
    /// The server is unreachable, full, read-only or overloaded. Any other statement would fail too.
    Server,
    /// The statement or one of its rows is invalid. Other statements may succeed.
    Statement,
}

pub(super) fn error_origin(error: &Error) -> ErrorOrigin {
    let Some(response) = error.as_db_error() else {
        // Errors of the driver itself, such as a value that does not fit its parameter, have a source that is not an
        // I/O error.
        let is_the_statement = error.source().is_some_and(|cause| !cause.is::<io::Error>()) && !error.is_closed();
        return if is_the_statement { ErrorOrigin::Statement } else { ErrorOrigin::Server };
    };
    let code = response.code();
    // If a worker rejects a row while rows are copied to it, Citus reports an internal error instead of the worker's
    // code.
    if *code == SqlState::INTERNAL_ERROR && response.message().contains("violates") {
        return ErrorOrigin::Statement;
    }
    let class = code.code().get(..2).unwrap_or_default();
    let is_temporary = matches!(class, "08" | "53" | "57" | "58" | "F0" | "XX")
        || [
            SqlState::READ_ONLY_SQL_TRANSACTION,
            SqlState::LOCK_NOT_AVAILABLE,
            SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        ]
        .contains(code);
    if is_temporary { ErrorOrigin::Server } else { ErrorOrigin::Statement }
}

/// Whether a concurrent transaction caused the error, so that a retry may succeed. Includes `feature_not_supported`: a
/// session reports it if Citus has distributed a table since the session began. A retry in a new session succeeds.
pub(super) fn is_conflict(error: &Error) -> bool {
    const CONFLICTS: [SqlState; 3] =
        [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED, SqlState::FEATURE_NOT_SUPPORTED];
    error.code().is_some_and(|code| CONFLICTS.contains(code))
}

pub(crate) fn store_error(error: &Error) -> StoreError {
    let text = describe(error);
    if error_origin(error) == ErrorOrigin::Server || is_conflict(error) {
        StoreError::Unavailable(text)
    } else {
        StoreError::Refused(text)
    }
}

pub(super) fn pool_error(error: &PoolError) -> StoreError {
    match error {
        PoolError::Backend(error) => StoreError::Unavailable(describe(error)),
        PoolError::Timeout(TimeoutType::Wait) => {
            StoreError::Unavailable("timed out waiting for a free connection".to_owned())
        }
        PoolError::Timeout(TimeoutType::Create | TimeoutType::Recycle) => ConnectError::TimedOut.into_store_error(),
        PoolError::Closed | PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(_) => {
            StoreError::Unavailable(error.to_string())
        }
    }
}

/// Formats an error without its `DETAIL`, which may quote stored values.
fn describe(error: &Error) -> String {
    match error.as_db_error() {
        Some(response) => match response.constraint() {
            Some(constraint) => format!("{} ({}, {constraint})", response.message(), response.code().code()),
            None => format!("{} ({})", response.message(), response.code().code()),
        },
        None => match error.source() {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::url::{StoreAddress, StoreUrl};

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "the test runner passes the server address")]
    async fn idle_transactions_time_out_after_two_seconds() {
        let server = std::env::var("POSTGRES_FOR_TESTS")
            .expect("POSTGRES_FOR_TESTS names no PostgreSQL server: run `make test`");
        let StoreAddress::Postgres(address) = server.parse::<StoreUrl>().unwrap().0 else { panic!("{server}") };
        for connector in [PostgresConnector::new(&address).unwrap(), PostgresConnector::for_batches(&address).unwrap()]
        {
            let (client, _) = connector.connect().await.unwrap();
            let row = client.query_one("show idle_in_transaction_session_timeout", &[]).await.unwrap();
            assert_eq!(row.get::<_, String>(0), "2s");
        }
    }
}
