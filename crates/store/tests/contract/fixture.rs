//! Creates the database of one test, and changes it in ways that the store does not offer.

use std::{env, fs, path::PathBuf, sync::Arc, time::Duration};

use ringtrue_domain::tenancy::ProjectId;
use ringtrue_engine::ports::{combined::Store, node::NodeId};
use ringtrue_store::{StoreOptions, StoreUrl, distribute, migrate, open};
use ringtrue_test_support::{database::TestSigner, poll_until};
use tempfile::TempDir;
use tokio::{
    sync::{Mutex, OnceCell},
    task::{JoinHandle, JoinSet},
    time::timeout,
};
use tokio_postgres::{Client, NoTls};

use crate::sample;

/// A migrated database, and a store over it.
pub struct StoreFixture {
    pub store: Arc<dyn Store>,
    pub database: Database,
}

/// A database. Tests access it directly only through this type.
pub enum Database {
    Sqlite {
        directory: TempDir,
    },
    /// With Citus, every server of the cluster has a database with this name. The first server is the coordinator.
    Postgres {
        servers: Vec<String>,
        name: String,
    },
}

impl StoreFixture {
    pub async fn sqlite() -> Self {
        Self::with_database(Database::migrated_sqlite().await).await
    }

    pub async fn postgres() -> Self {
        Self::with_database(Database::migrated_postgres().await).await
    }

    pub async fn citus() -> Self {
        Self::with_database(Database::citus().await).await
    }

    async fn with_database(database: Database) -> Self {
        let store = database.open().await;
        StoreFixture { store, database }
    }

    /// Counts the rows of a table. `table` may include a condition: `checks where concluded_at is null`.
    pub async fn count(&self, table: &str) -> i64 {
        self.database.count(&format!("select count(*) from {table}")).await
    }

    /// Adds up the column `count` of a table of counters.
    pub async fn sum(&self, table: &str) -> i64 {
        self.database.count(&format!("select cast(sum(count) as bigint) from {table}")).await
    }

    /// Drops the database. If the test fails, the database stays until the server stops.
    pub async fn clear(self) {
        drop(self.store);
        self.database.clear().await;
    }
}

impl Database {
    pub fn sqlite() -> Self {
        Database::Sqlite { directory: tempfile::tempdir().unwrap() }
    }

    pub async fn postgres() -> Self {
        let name = format!("rt_{}", sample::uuid().simple());
        let database = Database::Postgres { servers: vec![server()], name: name.clone() };
        database.on_server(&format!("create database {name}")).await;
        database
    }

    /// Creates a copy of a migrated database, which is faster than running the migrations.
    async fn migrated_sqlite() -> Self {
        static TEMPLATE: OnceCell<Vec<u8>> = OnceCell::const_new();
        let template = TEMPLATE.get_or_init(async || {
            let template = Database::sqlite();
            migrate(&template.url(), sample::now()).await.unwrap();
            fs::read(template.url().sqlite_path().unwrap()).unwrap()
        });
        let database = Database::sqlite();
        fs::write(database.url().sqlite_path().unwrap(), template.await).unwrap();
        database
    }

    /// Creates a copy of a migrated database.
    async fn migrated_postgres() -> Self {
        static TEMPLATE: OnceCell<Vec<String>> = OnceCell::const_new();
        let servers = TEMPLATE.get_or_init(async || {
            let server = server();
            execute(&server, &format!("create database {MIGRATED}")).await;
            migrate(&in_database(&server, MIGRATED).parse().unwrap(), sample::now()).await.unwrap();
            vec![server]
        });
        let servers = servers.await.clone();
        let name = copy(MIGRATED, &servers).await;
        Database::Postgres { servers, name }
    }

    /// Creates a copy of a migrated and distributed database.
    pub async fn citus() -> Self {
        static TEMPLATE: OnceCell<Vec<String>> = OnceCell::const_new();
        let servers = TEMPLATE.get_or_init(create_distributed_template).await.clone();
        let name = copy(DISTRIBUTED, &servers).await;
        let database = Database::Postgres { servers, name };
        database.count_statements().await;
        database
    }

    /// Creates an empty database on each server of the cluster, without migrations.
    pub async fn empty_citus() -> Self {
        let (servers, name) = (cluster().await, format!("rt_{}", sample::uuid().simple()));
        join_cluster(&servers, &name).await;
        Database::Postgres { servers, name }
    }

    /// As [`empty_citus`](Self::empty_citus), but the last worker has not joined the cluster yet.
    pub async fn citus_without_last_worker() -> Self {
        let (servers, name) = (cluster().await, format!("rt_{}", sample::uuid().simple()));
        let (last, others) = servers.split_last().unwrap();
        join_cluster(others, &name).await;
        create_citus_database(last, &name).await;
        Database::Postgres { servers, name }
    }

    pub async fn join_last_worker(&self) {
        let Database::Postgres { servers, .. } = self else { panic!("SQLite has no workers") };
        self.execute(&format!("select citus_add_node('127.0.0.1', {})", port(&servers[servers.len() - 1]))).await;
    }

    /// Returns the first row of a query.
    pub async fn query_one(&self, sql: &str) -> tokio_postgres::Row {
        let Database::Postgres { servers, name } = self else { panic!("not for SQLite") };
        let session = Session::start(&in_database(&servers[0], name)).await;
        let row = session.client.query_one(sql, &[]).await.unwrap();
        session.end().await;
        row
    }

    /// Runs a query on every server of a cluster, and returns the first row of each.
    pub async fn query_every_server(&self, sql: &str) -> Vec<tokio_postgres::Row> {
        let Database::Postgres { servers, name } = self else { panic!("not for SQLite") };
        let mut rows = Vec::new();
        for server in servers {
            let session = Session::start(&in_database(server, name)).await;
            rows.push(session.client.query_one(sql, &[]).await.unwrap());
            session.end().await;
        }
        rows
    }

    /// Runs SQL in the database's part on every server of a cluster.
    pub async fn execute_everywhere(&self, sql: &str) {
        let Database::Postgres { servers, name } = self else { panic!("not for SQLite") };
        for server in servers {
            execute(&in_database(server, name), sql).await;
        }
    }

    /// Has Citus count the statements that it executes, in new sessions.
    pub async fn count_statements(&self) {
        let Database::Postgres { servers, name } = self else { panic!("SQLite has no Citus") };
        for server in servers {
            let count = format!("alter database {name} set citus.enable_stat_counters = on");
            execute(server, &format!("set citus.enable_ddl_propagation = off; {count}")).await;
        }
    }

    /// Returns the part of the database that is on the first worker.
    pub fn worker(&self) -> Worker {
        let Database::Postgres { servers, name } = self else { panic!("SQLite has no workers") };
        Worker { url: in_database(&servers[1], name) }
    }

    /// As [`worker`](Self::worker), on the last worker.
    pub fn last_worker(&self) -> Worker {
        let Database::Postgres { servers, name } = self else { panic!("SQLite has no workers") };
        Worker { url: in_database(&servers[servers.len() - 1], name) }
    }

    pub fn name(&self) -> &str {
        let Database::Postgres { name, .. } = self else { panic!("SQLite databases have no name") };
        name
    }

    /// Runs statements in a transaction that stays open while the returned session exists. `None`: the database is
    /// SQLite, which has only one writer.
    pub async fn begin(&self, sql: &str) -> Option<Session> {
        let Database::Postgres { servers, name } = self else { return None };
        let session = Session::start(&in_database(&servers[0], name)).await;
        session.client.batch_execute(&format!("begin; {sql}")).await.unwrap();
        Some(session)
    }

    /// Whether tables have the column `bucket`.
    pub fn has_buckets(&self) -> bool {
        matches!(self, Database::Postgres { .. })
    }

    /// Whether the database deletes old checks only by whole months.
    pub fn deletes_months(&self) -> bool {
        matches!(self, Database::Postgres { .. })
    }

    /// Creates another empty database of the same kind.
    pub async fn another(&self) -> Self {
        match self {
            Database::Sqlite { .. } => Database::sqlite(),
            Database::Postgres { .. } => Database::postgres().await,
        }
    }

    /// Creates an empty database of the other kind.
    pub async fn other_kind(&self) -> Self {
        match self {
            Database::Sqlite { .. } => Database::postgres().await,
            Database::Postgres { .. } => Database::sqlite(),
        }
    }

    pub fn url(&self) -> StoreUrl {
        match self {
            Database::Sqlite { directory } => {
                format!("sqlite:{}", directory.path().join("ringtrue.db").display()).parse().unwrap()
            }
            Database::Postgres { servers, name } => in_database(&servers[0], name).parse().unwrap(),
        }
    }

    /// Returns the URL of the PostgreSQL database through a proxy on this port.
    pub fn url_through(&self, port: u16) -> StoreUrl {
        let Database::Postgres { servers, name } = self else { panic!("SQLite has no server") };
        let (user, _) = servers[0].rsplit_once('@').unwrap();
        format!("{user}@127.0.0.1:{port}/{name}").parse().unwrap()
    }

    /// Opens another store over the database, as another process would.
    pub async fn open(&self) -> Arc<dyn Store> {
        self.open_with(StoreOptions { connections: 4, readers: 2, ..StoreOptions::default() }).await
    }

    pub async fn open_with(&self, options: StoreOptions) -> Arc<dyn Store> {
        let store = open(&self.url(), &options).await.unwrap();
        store.set_row_signer(Arc::new(TestSigner));
        store
    }

    /// Runs SQL directly in the database.
    pub async fn execute(&self, sql: &str) {
        match self {
            Database::Sqlite { .. } => {
                let connection = rusqlite::Connection::open(self.url().sqlite_path().unwrap()).unwrap();
                connection.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
                connection.execute_batch(sql).unwrap();
            }
            Database::Postgres { servers, name } => execute(&in_database(&servers[0], name), sql).await,
        }
    }

    /// Runs a query directly in the database, and returns its only value, a number.
    pub async fn count(&self, sql: &str) -> i64 {
        match self {
            Database::Sqlite { .. } => {
                let connection = rusqlite::Connection::open(self.url().sqlite_path().unwrap()).unwrap();
                connection.query_row(sql, [], |row| row.get(0)).unwrap()
            }
            Database::Postgres { servers, name } => {
                let session = Session::start(&in_database(&servers[0], name)).await;
                let count = session.client.query_one(sql, &[]).await.unwrap().get(0);
                session.end().await;
                count
            }
        }
    }

    /// Makes writes fail until [`allow_writes`](Database::allow_writes).
    pub async fn block_writes(&self) -> Option<rusqlite::Connection> {
        match self {
            Database::Sqlite { .. } => {
                // Holds the write lock, like a transaction of another process that does not end.
                let connection = rusqlite::Connection::open(self.url().sqlite_path().unwrap()).unwrap();
                connection.execute_batch("begin immediate").unwrap();
                Some(connection)
            }
            Database::Postgres { name, .. } => {
                self.on_every_server(&format!("alter database {name} set default_transaction_read_only = on")).await;
                self.cut_connections().await;
                None
            }
        }
    }

    pub async fn allow_writes(&self, blocked: Option<rusqlite::Connection>) {
        drop(blocked);
        if let Database::Postgres { name, .. } = self {
            self.on_every_server(&format!("alter database {name} reset default_transaction_read_only")).await;
            self.cut_connections().await;
        }
    }

    /// Makes reads of the audit log slow: in PostgreSQL while the returned session exists, in SQLite permanently.
    pub async fn delay_audit_log_reads(&self) -> Option<Session> {
        match self {
            Database::Sqlite { .. } => {
                // SQLite readers never wait for a lock, so a view with a long computation makes them slow.
                self.execute(
                    "alter table audit_events rename to quick_events;
                     create view audit_events as
                       with recursive step (n) as (select 1 union all select n + 1 from step where n < 4000000)
                       select * from quick_events where (select count(*) from step) > 0",
                )
                .await;
                None
            }
            Database::Postgres { servers, name } => {
                let session = Session::start(&in_database(&servers[0], name)).await;
                session.client.batch_execute("begin; lock table audit_events in access exclusive mode").await.unwrap();
                Some(session)
            }
        }
    }

    /// Publishes a node's request counts, by which nodes divide rate limits, in a transaction that stays open while the
    /// returned session exists. `None`: the database is SQLite, which has only one writer.
    pub async fn lock_own_demand(&self, node: NodeId) -> Option<Session> {
        let publish = "insert into node_demand (node_id, published_at, demand) values";
        self.begin(&format!("{publish} ('{}', {}, '')", node.0, sample::now().as_millisecond())).await
    }

    /// Makes every statement that reads the `reference_id` of a project's checks run forever.
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

    /// Returns the columns of `checks`, without the reference.
    async fn check_columns(&self) -> Vec<String> {
        let mut columns: Vec<String> = match self {
            Database::Sqlite { .. } => {
                let connection = rusqlite::Connection::open(self.url().sqlite_path().unwrap()).unwrap();
                let mut statement = connection.prepare("select name from pragma_table_info('checks')").unwrap();
                statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
            }
            Database::Postgres { servers, name } => {
                let session = Session::start(&in_database(&servers[0], name)).await;
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
            self.on_every_server(&format!("{cut} = '{name}'")).await;
        }
    }

    /// Ends all sessions, so that the server's statistics include them. Stores that are open may start new ones at once.
    /// Does nothing for SQLite.
    pub async fn end_sessions(&self) {
        let Database::Postgres { servers, name } = self else { return };
        let session = Session::start(&servers[0]).await;
        let started = format!("select pid from pg_stat_activity where datname = '{name}'");
        let started = session.client.query(&started, &[]).await.unwrap();
        let started: Vec<i32> = started.iter().map(|row| row.get(0)).collect();
        self.cut_connections().await;
        let running =
            format!("select exists (select from pg_stat_activity where datname = '{name}' and pid = any($1))");
        poll_until("all sessions have ended", async || {
            !session.client.query_one(&running, &[&started]).await.unwrap().get::<_, bool>(0)
        })
        .await;
        session.end().await;
    }

    /// Returns the number of deadlocks that the server has detected. Ends all sessions first.
    pub async fn deadlocks(&self) -> i64 {
        let Database::Postgres { servers, name } = self else { return 0 };
        self.end_sessions().await;
        let session = Session::start(&servers[0]).await;
        let deadlocks = format!("select deadlocks from pg_stat_database where datname = '{name}'");
        let deadlocks = session.client.query_one(&deadlocks, &[]).await.unwrap().get(0);
        session.end().await;
        deadlocks
    }

    /// Runs SQL on the database's server, but in another database.
    pub async fn on_server(&self, sql: &str) {
        if let Database::Postgres { servers, .. } = self {
            execute(&servers[0], sql).await;
        }
    }

    /// As [`on_server`](Self::on_server), on all servers of a cluster.
    async fn on_every_server(&self, sql: &str) {
        let Database::Postgres { servers, .. } = self else { return };
        for server in servers {
            execute(server, sql).await;
        }
    }

    pub async fn clear(self) {
        if let Database::Postgres { servers, name } = &self {
            for server in servers {
                let session = Session::start(server).await;
                let drop_database = format!("drop database {name} with (force)");
                // Retried, because background processes of Citus may have started a session in the meantime.
                let drop_it = poll_until("the database is dropped", async || {
                    session.client.batch_execute(&drop_database).await.is_ok()
                });
                // If the drop times out, the database may stay: the server is deleted after the tests.
                let _ = timeout(MAX_DROP_DURATION, drop_it).await;
                session.end().await;
            }
        }
    }
}

/// Names of the template databases, which tests copy.
const MIGRATED: &str = "rt_migrated";
const DISTRIBUTED: &str = "rt_distributed";
/// Maximum time for dropping a database. A server under load takes a while to end the sessions of the database.
const MAX_DROP_DURATION: Duration = Duration::from_secs(10);

#[expect(clippy::disallowed_methods, reason = "the test runner passes the server address")]
fn server() -> String {
    env::var("POSTGRES_FOR_TESTS").expect("POSTGRES_FOR_TESTS names no PostgreSQL server: run `make test`")
}

/// Returns the URLs of the cluster's servers. The first is the coordinator.
#[expect(clippy::disallowed_methods, reason = "the test runner passes the server addresses")]
async fn cluster() -> Vec<String> {
    let coordinator = env::var("CITUS_FOR_TESTS").expect("CITUS_FOR_TESTS names no Citus cluster: run `make test`");
    let session = Session::start(&coordinator).await;
    let rows =
        session.client.query("select nodeport from pg_dist_node where groupid > 0 order by 1", &[]).await.unwrap();
    session.end().await;
    let ports: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
    let workers =
        ports.iter().map(|worker| coordinator.replace(&format!(":{}/", port(&coordinator)), &format!(":{worker}/")));
    [coordinator.clone()].into_iter().chain(workers).collect()
}

/// Copies a database on each server. Returns the name of the copies.
async fn copy(template: &str, servers: &[String]) -> String {
    // A database cannot be copied while another copy of it begins.
    static COPY: Mutex<()> = Mutex::const_new(());
    let name = format!("rt_{}", sample::uuid().simple());
    let _copy = COPY.lock().await;
    let mut copies = JoinSet::new();
    for server in servers {
        let (server, copy) = (server.clone(), format!("create database {name} template {template}"));
        copies.spawn(async move { execute(&server, &copy).await });
    }
    copies.join_all().await;
    name
}

/// Creates the distributed database that tests copy.
async fn create_distributed_template() -> Vec<String> {
    let servers = cluster().await;
    join_cluster(&servers, DISTRIBUTED).await;
    let url = in_database(&servers[0], DISTRIBUTED).parse().unwrap();
    migrate(&url, sample::now()).await.unwrap();
    distribute(&url, |_| {}).await.unwrap();
    for server in &servers {
        // A database with sessions, such as that of the Citus maintenance daemon, cannot be copied.
        execute(server, &format!("alter database {DISTRIBUTED} allow_connections false")).await;
        execute(
            server,
            &format!("select pg_terminate_backend(pid) from pg_stat_activity where datname = '{DISTRIBUTED}'"),
        )
        .await;
        let session = Session::start(server).await;
        let sessions = format!("select count(*) from pg_stat_activity where datname = '{DISTRIBUTED}'");
        poll_until("all sessions have ended", async || {
            session.client.query_one(&sessions, &[]).await.unwrap().get::<_, i64>(0) == 0
        })
        .await;
        session.end().await;
    }
    servers
}

/// Creates a database on each server, and joins the workers to the coordinator.
async fn join_cluster(servers: &[String], name: &str) {
    for server in servers {
        create_citus_database(server, name).await;
    }
    let coordinator = in_database(&servers[0], name);
    execute(&coordinator, &format!("select citus_set_coordinator_host('127.0.0.1', {})", port(&servers[0]))).await;
    for worker in &servers[1..] {
        execute(&coordinator, &format!("select citus_add_node('127.0.0.1', {})", port(worker))).await;
    }
}

async fn create_citus_database(server: &str, name: &str) {
    execute(server, &format!("create database {name}")).await;
    // Fewer shards than by default, because tests have few rows.
    execute(server, &format!("alter database {name} set citus.shard_count = 4")).await;
    execute(&in_database(server, name), "create extension citus").await;
}

pub struct Worker {
    url: String,
}

impl Worker {
    pub fn port(&self) -> &str {
        port(&self.url)
    }

    pub async fn execute(&self, sql: &str) {
        execute(&self.url, sql).await;
    }

    /// Runs SQL in another database of the server.
    pub async fn on_server(&self, sql: &str) {
        execute(&in_database(&self.url, "postgres"), sql).await;
    }

    /// Returns the directory of the server.
    #[expect(clippy::disallowed_methods, reason = "the test runner passes the directories")]
    pub fn directory(&self) -> PathBuf {
        let workers = env::var("CITUS_WORKERS").expect("CITUS_WORKERS names no workers: run `make test`");
        let mut directories = workers.split(' ').map(PathBuf::from);
        let is_this = |directory: &PathBuf| fs::read_to_string(directory.join("port")).unwrap().trim() == self.port();
        directories.find(is_this).expect("the worker has a directory")
    }

    /// Returns the number of sessions that nodes have with the database on this server.
    pub async fn node_sessions(&self) -> i64 {
        let (_, name) = self.url.rsplit_once('/').unwrap();
        let server = Worker { url: in_database(&self.url, "postgres") };
        let count = "select count(*) from pg_stat_activity where application_name = 'ringtrue' and datname";
        server.query_one(&format!("{count} = '{name}'")).await.get(0)
    }

    /// Returns the first row of a query.
    pub async fn query_one(&self, sql: &str) -> tokio_postgres::Row {
        let session = Session::start(&self.url).await;
        let row = session.client.query_one(sql, &[]).await.unwrap();
        session.end().await;
        row
    }
}

fn port(server: &str) -> &str {
    server.rsplit_once('/').unwrap().0.rsplit_once(':').unwrap().1
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

/// A direct connection to the database, besides those of the store.
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
