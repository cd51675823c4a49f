//! Opens connections with uniform session settings.

use std::{future::poll_fn, path::Path, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use ringtrue_engine::ports::StoreError;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, pem::PemObject},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::Notify,
    task::JoinHandle,
    time::timeout,
};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::store_error;
use crate::url::{PostgresAddress, Tls};

pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
pub(super) const STATEMENT_TIMEOUT: Duration = Duration::from_secs(5);

/// Settings of every session. Commits are durable whatever the server's default. An idle transaction of a dead client
/// loses its locks soon, because all nodes may wait for them.
const SESSION_SETTINGS: &str = "-c statement_timeout=5000 -c synchronous_commit=on -c idle_in_transaction_session_timeout=2000 \
                       -c default_transaction_isolation=read\\ committed -c jit=off";
/// Additional settings of batch sessions. Their statements find rows by key: a plan that was made for a small table
/// must not scan the table when it has grown.
const BATCH_SESSION_SETTINGS: &str = "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_hashjoin=off \
                            -c enable_mergejoin=off";
/// Migrations have no statement timeout.
const MIGRATION_SESSION_SETTINGS: &str = "-c statement_timeout=0 -c synchronous_commit=on";

#[derive(Clone)]
pub(super) struct PostgresConnector {
    config: Arc<Config>,
    tls: Option<MakeRustlsConnect>,
}

impl std::fmt::Debug for PostgresConnector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresConnector").field("tls", &self.tls.is_some()).finish_non_exhaustive()
    }
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

    /// `timeout` limits each statement.
    pub(super) fn for_searches(address: &PostgresAddress, timeout: Duration) -> Result<Self, StoreError> {
        Self::with_settings(address, &format!("{SESSION_SETTINGS} -c statement_timeout={}", timeout.as_millis().max(1)))
    }

    fn with_settings(address: &PostgresAddress, settings: &str) -> Result<Self, StoreError> {
        let mut config = address.config.clone();
        let options = match config.get_options() {
            Some(options) => format!("{options} {settings}"),
            None => settings.to_owned(),
        };
        config.options(options).connect_timeout(CONNECT_TIMEOUT);
        // Detects an unreachable server within seconds.
        config
            .keepalives_idle(Duration::from_secs(5))
            .keepalives_interval(Duration::from_secs(2))
            .keepalives_retries(3)
            .tcp_user_timeout(Duration::from_secs(10));
        if config.get_application_name().is_none() {
            config.application_name("ringtrue");
        }
        Ok(PostgresConnector { config: Arc::new(config), tls: build_tls(&address.tls)? })
    }

    /// Returns a connection and the task that drives it.
    pub(super) async fn connect(&self) -> Result<(Client, JoinHandle<()>), StoreError> {
        self.connect_and_notify(None).await
    }

    /// As [`connect`](Self::connect). Forwards notifications of the server to `hint`.
    pub(super) async fn connect_and_notify(
        &self,
        hint: Option<Arc<Notify>>,
    ) -> Result<(Client, JoinHandle<()>), StoreError> {
        match timeout(CONNECT_TIMEOUT, self.connect_unbounded(hint)).await {
            Ok(connected) => connected.map_err(|error| store_error(&error)),
            Err(_) => Err(StoreError::Unavailable("timed out connecting to the server".to_owned())),
        }
    }

    async fn connect_unbounded(
        &self,
        hint: Option<Arc<Notify>>,
    ) -> Result<(Client, JoinHandle<()>), tokio_postgres::Error> {
        match &self.tls {
            None => {
                let (client, connection) = self.config.connect(NoTls).await?;
                Ok((client, spawn_driver(connection, hint)))
            }
            Some(tls) => {
                let (client, connection) = self.config.connect(tls.clone()).await?;
                Ok((client, spawn_driver(connection, hint)))
            }
        }
    }
}

impl deadpool_postgres::Connect for PostgresConnector {
    /// Ignores the pool's configuration, which lacks the session settings.
    fn connect(&self, _: &Config) -> BoxFuture<'_, Result<(Client, JoinHandle<()>), tokio_postgres::Error>> {
        Box::pin(self.connect_unbounded(None))
    }
}

/// Drives a connection until its client is dropped.
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

fn build_tls(tls: &Tls) -> Result<Option<MakeRustlsConnect>, StoreError> {
    let Tls::On { root_certificates } = tls else { return Ok(None) };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::url::{Address, StoreUrl};

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "the test runner passes the server address")]
    async fn idle_transactions_time_out_after_two_seconds() {
        let server = std::env::var("POSTGRES_FOR_TESTS")
            .expect("POSTGRES_FOR_TESTS names no PostgreSQL server: run `make test`");
        let Address::Postgres(address) = server.parse::<StoreUrl>().unwrap().0 else { panic!("{server}") };
        for connector in [PostgresConnector::new(&address).unwrap(), PostgresConnector::for_batches(&address).unwrap()]
        {
            let (client, _) = connector.connect().await.unwrap();
            let row = client.query_one("show idle_in_transaction_session_timeout", &[]).await.unwrap();
            assert_eq!(row.get::<_, String>(0), "2s");
        }
    }
}
