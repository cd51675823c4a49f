//! The database of one test, and operations on it that the store does not offer.

use std::{env, sync::Arc};

use ringtrue_domain::tenancy::ProjectId;
use ringtrue_engine::ports::Store;
use ringtrue_store::{StoreOptions, StoreUrl, migrate, open};
use ringtrue_test_support::poll_until;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls};

use crate::sample;

/// A migrated database, and a store over it.
pub struct StoreFixture {
    pub store: Arc<dyn Store>,
    pub database: Database,
}

/// An empty database. Tests bypass the store only through it.
pub enum Database {
    Sqlite { directory: TempDir },
    Postgres { server: String, name: String },
}

impl StoreFixture {
    pub async fn sqlite() -> Self {
        Self::with_database(Database::sqlite()).await
    }

    pub async fn postgres() -> Self {
        Self::with_database(Database::postgres().await).await
    }

    async fn with_database(database: Database) -> Self {
        migrate(&database.url(), sample::now()).await.unwrap();
        let store = database.open().await;
        StoreFixture { store, database }
    }

    /// Drops the database. After a failed test it stays until the server stops.
    pub async fn clear(self) {
        drop(self.store);
        self.database.clear().await;
    }
}

impl Database {
    pub fn sqlite() -> Self {
        Database::Sqlite { directory: tempfile::tempdir().unwrap() }
    }

    #[expect(clippy::disallowed_methods, reason = "the test runner passes the server address")]
    pub async fn postgres() -> Self {
        let server =
            env::var("POSTGRES_FOR_TESTS").expect("POSTGRES_FOR_TESTS names no PostgreSQL server: run `make test`");
        let name = format!("rt_{}", sample::uuid().simple());
        let database = Database::Postgres { server, name: name.clone() };
        database.on_server(&format!("create database {name}")).await;
        database
    }

    /// Creates another empty database of the same kind.
    pub async fn another(&self) -> Self {
        match self {
            Database::Sqlite { .. } => Database::sqlite(),
            Database::Postgres { .. } => Database::postgres().await,
        }
    }

    pub fn url(&self) -> StoreUrl {
        match self {
            Database::Sqlite { directory } => {
                format!("sqlite:{}", directory.path().join("ringtrue.db").display()).parse().unwrap()
            }
            Database::Postgres { server, name } => in_database(server, name).parse().unwrap(),
        }
    }

    /// The PostgreSQL database through a proxy on this port.
    pub fn url_through(&self, port: u16) -> StoreUrl {
        let Database::Postgres { server, name } = self else { panic!("SQLite has no server") };
        let (user, _) = server.rsplit_once('@').unwrap();
        format!("{user}@127.0.0.1:{port}/{name}").parse().unwrap()
    }

    /// Opens another store over the database, as another process would.
    pub async fn open(&self) -> Arc<dyn Store> {
        self.open_with(StoreOptions { connections: 4, readers: 2, ..StoreOptions::default() }).await
    }

    pub async fn open_with(&self, options: StoreOptions) -> Arc<dyn Store> {
        open(&self.url(), &options).await.unwrap()
    }

    /// Runs SQL without the store.
    pub async fn execute(&self, sql: &str) {
        match self {
            Database::Sqlite { .. } => {
                let connection = rusqlite::Connection::open(self.url().sqlite_path().unwrap()).unwrap();
                connection.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
                connection.execute_batch(sql).unwrap();
            }
            Database::Postgres { server, name } => execute(&in_database(server, name), sql).await,
        }
    }

    /// Makes writes fail until [`allow_writes`](Database::allow_writes).
    pub async fn block_writes(&self) -> Option<rusqlite::Connection> {
        match self {
            Database::Sqlite { .. } => {
                // A write transaction of another process that does not end.
                let connection = rusqlite::Connection::open(self.url().sqlite_path().unwrap()).unwrap();
                connection.execute_batch("begin immediate").unwrap();
                Some(connection)
            }
            Database::Postgres { name, .. } => {
                self.on_server(&format!("alter database {name} set default_transaction_read_only = on")).await;
                self.cut_connections().await;
                None
            }
        }
    }

    pub async fn allow_writes(&self, blocked: Option<rusqlite::Connection>) {
        drop(blocked);
        if let Database::Postgres { name, .. } = self {
            self.on_server(&format!("alter database {name} reset default_transaction_read_only")).await;
            self.cut_connections().await;
        }
    }

    /// Delays reads of the audit log while the returned session exists.
    pub async fn delay_audit_log_reads(&self) -> Option<Session> {
        match self {
            Database::Sqlite { .. } => {
                // SQLite readers never wait for a lock, so the view computes for a while.
                self.execute(
                    "alter table audit_events rename to quick_events;
                     create view audit_events as
                       with recursive step (n) as (select 1 union all select n + 1 from step where n < 4000000)
                       select * from quick_events where (select count(*) from step) > 0",
                )
                .await;
                None
            }
            Database::Postgres { server, name } => {
                let session = Session::start(&in_database(server, name)).await;
                session.client.batch_execute("begin; lock table audit_events in access exclusive mode").await.unwrap();
                Some(session)
            }
        }
    }

    /// Makes statements that read the references of a project's checks run forever.
    pub async fn make_references_endless(&self, project: ProjectId) {
        let columns = self.check_columns().await.join(", ");
        let id = project.0;
        let (prepare, project, endless) = match self {
            Database::Sqlite { .. } => (
                "",
                format!("x'{}'", id.simple()),
                "(with recursive step (n) as (select 1 union all select n + 1 from step)
                  select cast(count(*) as text) from step)",
            ),
            Database::Postgres { .. } => (
                "create function endless(uuid) returns text stable language plpgsql
                     as 'begin perform pg_sleep(3600); return null; end';",
                format!("'{id}'"),
                "endless(project_id)",
            ),
        };
        self.execute(&format!(
            "{prepare}
             alter table checks rename to stored_checks;
             create view checks as
             select {columns}, case when project_id = {project} then {endless} else reference_id end as reference_id
               from stored_checks"
        ))
        .await;
    }

    /// Undoes [`make_references_endless`](Database::make_references_endless).
    pub async fn make_references_end(&self) {
        self.execute("drop view checks; alter table stored_checks rename to checks").await;
    }

    /// The columns of `checks` without the reference.
    async fn check_columns(&self) -> Vec<String> {
        let mut columns: Vec<String> = match self {
            Database::Sqlite { .. } => {
                let connection = rusqlite::Connection::open(self.url().sqlite_path().unwrap()).unwrap();
                let mut statement = connection.prepare("select name from pragma_table_info('checks')").unwrap();
                statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
            }
            Database::Postgres { server, name } => {
                let session = Session::start(&in_database(server, name)).await;
                let sql = "select column_name::text from information_schema.columns where table_name = 'checks'";
                let rows = session.client.query(sql, &[]).await.unwrap();
                session.end().await;
                rows.iter().map(|row| row.get(0)).collect()
            }
        };
        columns.retain(|column| column != "reference_id");
        columns
    }

    /// Terminates all sessions, as a server restart does. Does nothing for SQLite.
    pub async fn cut_connections(&self) {
        if let Database::Postgres { name, .. } = self {
            let cut = "select pg_terminate_backend(pid) from pg_stat_activity where datname";
            self.on_server(&format!("{cut} = '{name}'")).await;
        }
    }

    /// Number of deadlocks that the server has detected. Ends all sessions: a session may report its deadlocks late.
    pub async fn deadlocks(&self) -> i64 {
        let Database::Postgres { server, name } = self else { return 0 };
        self.cut_connections().await;
        let session = Session::start(server).await;
        let sessions = format!("select count(*) from pg_stat_activity where datname = '{name}'");
        poll_until("all sessions have ended", async || {
            session.client.query_one(&sessions, &[]).await.unwrap().get::<_, i64>(0) == 0
        })
        .await;
        let deadlocks = format!("select deadlocks from pg_stat_database where datname = '{name}'");
        let deadlocks = session.client.query_one(&deadlocks, &[]).await.unwrap().get(0);
        session.end().await;
        deadlocks
    }

    /// Runs SQL in another database of the same server.
    pub async fn on_server(&self, sql: &str) {
        if let Database::Postgres { server, .. } = self {
            execute(server, sql).await;
        }
    }

    pub async fn clear(self) {
        if let Database::Postgres { name, .. } = &self {
            self.on_server(&format!("drop database {name} with (force)")).await;
        }
    }
}

fn in_database(server: &str, name: &str) -> String {
    let (base, _) = server.rsplit_once('/').unwrap();
    format!("{base}/{name}")
}

async fn execute(url: &str, sql: &str) {
    let session = Session::start(url).await;
    session.client.batch_execute(sql).await.unwrap();
    session.end().await;
}

/// A connection that does not belong to the store.
pub struct Session {
    client: Client,
    driver: JoinHandle<Result<(), tokio_postgres::Error>>,
}

impl Session {
    #[expect(clippy::disallowed_methods, reason = "the task ends with the connection")]
    async fn start(url: &str) -> Self {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        Session { client, driver: tokio::spawn(connection) }
    }

    async fn end(self) {
        drop(self.client);
        self.driver.await.unwrap().unwrap();
    }
}
