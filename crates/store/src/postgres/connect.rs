//! Making connections, all with the same settings.

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

/// Settings of every session. A commit is durable when it is answered, whatever the server's default. A transaction
/// whose client has died does not keep its locks for long: all nodes may be waiting for the one that it holds.
const SESSION: &str = "-c statement_timeout=5000 -c synchronous_commit=on -c idle_in_transaction_session_timeout=2000 \
                       -c default_transaction_isolation=read\\ committed -c jit=off";
/// Settings of a lane's sessions, on top of those. Lanes find rows by their keys and never scan: a plan that was made
/// while a table was small must not scan it when it has grown.
const LANE_SESSION: &str = "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_hashjoin=off \
                            -c enable_mergejoin=off";
/// A migration takes the time that it takes.
const MIGRATION_SESSION: &str = "-c statement_timeout=0 -c synchronous_commit=on";

#[derive(Clone)]
pub(super) struct Connector {
    config: Arc<Config>,
    tls: Option<MakeRustlsConnect>,
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector").field("tls", &self.tls.is_some()).finish_non_exhaustive()
    }
}

impl Connector {
    pub(super) fn new(address: &PostgresAddress) -> Result<Self, StoreError> {
        Self::with_session(address, SESSION)
    }

    pub(super) fn for_migrations(address: &PostgresAddress) -> Result<Self, StoreError> {
        Self::with_session(address, MIGRATION_SESSION)
    }

    /// For connections that carry batches.
    pub(super) fn for_lanes(address: &PostgresAddress) -> Result<Self, StoreError> {
        Self::with_session(address, &format!("{SESSION} {LANE_SESSION}"))
    }

    /// For lists and searches, whose statements may run this long.
    pub(super) fn for_searches(address: &PostgresAddress, timeout: Duration) -> Result<Self, StoreError> {
        Self::with_session(address, &format!("{SESSION} -c statement_timeout={}", timeout.as_millis().max(1)))
    }

    fn with_session(address: &PostgresAddress, session: &str) -> Result<Self, StoreError> {
        let mut config = address.config.clone();
        let options = match config.get_options() {
            Some(options) => format!("{options} {session}"),
            None => session.to_owned(),
        };
        config.options(options).connect_timeout(CONNECT_TIMEOUT);
        // A server that vanished without a word is noticed within seconds.
        config
            .keepalives_idle(Duration::from_secs(5))
            .keepalives_interval(Duration::from_secs(2))
            .keepalives_retries(3)
            .tcp_user_timeout(Duration::from_secs(10));
        if config.get_application_name().is_none() {
            config.application_name("ringtrue");
        }
        Ok(Connector { config: Arc::new(config), tls: tls(&address.tls)? })
    }

    /// A connection, and the task that drives it.
    pub(super) async fn connect(&self) -> Result<(Client, JoinHandle<()>), StoreError> {
        self.connect_and_hint(None).await
    }

    /// A connection that passes what it is notified of on to `hint`.
    pub(super) async fn connect_and_hint(
        &self,
        hint: Option<Arc<Notify>>,
    ) -> Result<(Client, JoinHandle<()>), StoreError> {
        match timeout(CONNECT_TIMEOUT, self.connect_unbounded(hint)).await {
            Ok(connected) => connected.map_err(|error| store_error(&error)),
            Err(_) => Err(StoreError::Unavailable("the server does not answer".to_owned())),
        }
    }

    async fn connect_unbounded(
        &self,
        hint: Option<Arc<Notify>>,
    ) -> Result<(Client, JoinHandle<()>), tokio_postgres::Error> {
        match &self.tls {
            None => {
                let (client, connection) = self.config.connect(NoTls).await?;
                Ok((client, drive(connection, hint)))
            }
            Some(tls) => {
                let (client, connection) = self.config.connect(tls.clone()).await?;
                Ok((client, drive(connection, hint)))
            }
        }
    }
}

impl deadpool_postgres::Connect for Connector {
    /// The pool hands us its own copy of the settings; ours has the session's in it.
    fn connect(&self, _: &Config) -> BoxFuture<'_, Result<(Client, JoinHandle<()>), tokio_postgres::Error>> {
        Box::pin(self.connect_unbounded(None))
    }
}

/// Moves the bytes of a connection until it ends, which it does when its client is dropped.
#[expect(clippy::disallowed_methods, reason = "the task ends with its connection: there is nothing to wait for")]
fn drive<S, T>(mut connection: Connection<S, T>, hint: Option<Arc<Notify>>) -> JoinHandle<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
            match (message, &hint) {
                (Ok(AsyncMessage::Notification(_)), Some(hint)) => hint.notify_one(),
                (Ok(AsyncMessage::Notice(notice)), _) => {
                    tracing::debug!(notice.message = notice.message(), "the database remarks");
                }
                (Ok(_), _) => {}
                (Err(error), _) => {
                    tracing::warn!(error = %store_error(&error), "a connection to the database has ended");
                    return;
                }
            }
        }
    })
}

fn tls(tls: &Tls) -> Result<Option<MakeRustlsConnect>, StoreError> {
    let Tls::On { root_certificates } = tls else { return Ok(None) };
    let roots = match root_certificates {
        Some(path) => roots_of(path)
            .map_err(|problem| StoreError::Refused(format!("sslrootcert {}: {problem}", path.display())))?,
        None => roots_of_the_system(),
    };
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| StoreError::Refused(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Some(MakeRustlsConnect::new(config)))
}

fn roots_of(path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| error.to_string())? {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    if roots.is_empty() { Err("there is no certificate in it".to_owned()) } else { Ok(roots) }
}

fn roots_of_the_system() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::url::{Address, StoreUrl};

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "where the test server is comes from whoever started it")]
    async fn a_session_that_does_nothing_keeps_its_locks_for_two_seconds() {
        let server = std::env::var("POSTGRES_FOR_TESTS")
            .expect("POSTGRES_FOR_TESTS names no PostgreSQL server: run `make test`");
        let Address::Postgres(address) = server.parse::<StoreUrl>().unwrap().0 else { panic!("{server}") };
        for connector in [Connector::new(&address).unwrap(), Connector::for_lanes(&address).unwrap()] {
            let (client, _) = connector.connect().await.unwrap();
            let row = client.query_one("show idle_in_transaction_session_timeout", &[]).await.unwrap();
            assert_eq!(row.get::<_, String>(0), "2s");
        }
    }
}
