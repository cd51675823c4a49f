//! Creates a database for one test, and drops it at the end.
//!
//! Migrations are slow, so they run once, and each test gets a copy of the migrated database.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    sync::{
        Arc, LazyLock,
        mpsc::{self, Receiver, Sender},
    },
};

use aws_lc_rs::digest::{SHA256, digest};
use jiff::Timestamp;
use parking_lot::Mutex;
use ringtrue_engine::ports::{
    combined::Store,
    entropy::{Entropy, SystemEntropy},
    row_mac::{RowFields, RowMac, RowSigner},
    store::StoreError,
};
use ringtrue_store::{StoreOptions, StoreUrl};
use tempfile::TempDir;
use tokio::sync::OnceCell;

/// Signs rows in tests that use the store without an engine. An engine would set its own signer.
#[derive(Clone, Copy, Debug)]
pub struct TestSigner;

impl RowSigner for TestSigner {
    fn sign(&self, fields: &RowFields) -> Result<RowMac, StoreError> {
        let parts = fields.parts().into_iter().flat_map(|part| [&part.len().to_be_bytes()[..], part].concat());
        let hash = digest(&SHA256, &parts.collect::<Vec<u8>>());
        Ok(RowMac(hash.as_ref().try_into().expect("32 bytes")))
    }
}

#[derive(Debug)]
pub struct Database {
    address: String,
    location: DatabaseLocation,
}

#[derive(Debug)]
enum DatabaseLocation {
    Folder(TempDir),
    Server {
        name: String,
    },
    /// A database with this name on the Citus coordinator and on each worker.
    Cluster {
        name: String,
        ports: Vec<u16>,
    },
}

impl Database {
    pub async fn sqlite() -> Self {
        static EMPTY: OnceCell<Vec<u8>> = OnceCell::const_new();
        let empty = EMPTY.get_or_init(|| async {
            let folder = folder();
            let path = folder.path().join("empty.db");
            migrate(&sqlite_address(&path)).await;
            assert!(!path.with_extension("db-wal").exists(), "the WAL is checkpointed into the file");
            fs::read(path).expect("a database")
        });
        let folder = folder();
        let path = folder.path().join("ringtrue.db");
        fs::write(&path, empty.await).expect("a copy");
        Database { address: sqlite_address(&path), location: DatabaseLocation::Folder(folder) }
    }

    /// Creates a database on the PostgreSQL server that `make test` has started.
    pub async fn postgres() -> Self {
        static READY: OnceCell<Arc<Mutex<Receiver<String>>>> = OnceCell::const_new();
        let ready = READY.get_or_init(|| async {
            let empty = unused_name();
            psql(&format!("create database {empty}"));
            migrate(&postgres_address(&empty)).await;
            Arc::new(Mutex::new(copies_of(empty)))
        });
        let ready = Arc::clone(ready.await);
        let next = move || ready.lock().recv().ok();
        let name = tokio::task::spawn_blocking(next).await.ok().flatten().expect("a new database");
        Database { address: postgres_address(&name), location: DatabaseLocation::Server { name } }
    }

    /// Creates a database that is distributed over the Citus cluster that `make test` has started.
    pub async fn citus() -> Self {
        let name = unused_name();
        let ports = psql("select nodeport from pg_dist_node order by groupid");
        let ports: Vec<u16> = ports.split_whitespace().map(|port| port.parse().expect("a port")).collect();
        for port in &ports {
            psql_at(&server_at(*port), &format!("create database {name}"));
            // Fewer shards than by default, because tests have few rows.
            psql_at(&server_at(*port), &format!("alter database {name} set citus.shard_count = 4"));
            psql_at(&database_at(*port, &name), "create extension citus");
        }
        let address = postgres_address(&name);
        psql_at(&address, &format!("select citus_set_coordinator_host('127.0.0.1', {})", ports[0]));
        for worker in &ports[1..] {
            psql_at(&address, &format!("select citus_add_node('127.0.0.1', {worker})"));
        }
        migrate(&address).await;
        ringtrue_store::distribute(&store_url(&address), |_| {}).await.expect("distributed tables");
        Database { address, location: DatabaseLocation::Cluster { name, ports } }
    }

    /// Runs SQL directly in the database, without the store.
    pub fn execute(&self, sql: &str) {
        let mut command = match &self.location {
            DatabaseLocation::Folder(folder) => {
                let mut sqlite3 = Command::new("sqlite3");
                sqlite3.args(["-bail", "-cmd", ".timeout 10000"]).arg(folder.path().join("ringtrue.db")).arg(sql);
                sqlite3
            }
            DatabaseLocation::Server { .. } | DatabaseLocation::Cluster { .. } => {
                let mut psql = Command::new("psql");
                psql.args([&self.address, "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--command", sql]);
                psql
            }
        };
        let output = command.output().expect("the client of the database runs");
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Runs a query on PostgreSQL, and returns a line for each row, with `|` between columns.
    pub fn query(&self, sql: &str) -> String {
        let output = Command::new("psql")
            .args([&self.address, "--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--command", sql])
            .output()
            .expect("psql runs");
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    /// Returns the URL of the database, to pass to another process.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the same database, with the port of a proxy in its URL.
    #[must_use]
    pub fn behind_proxy(mut self, port: u16) -> Self {
        let mut address = url::Url::parse(&self.address).expect("a URL");
        address.set_port(Some(port)).expect("a port");
        self.address = address.to_string();
        self
    }

    pub async fn open(&self) -> Arc<dyn Store> {
        self.open_with(&StoreOptions::default()).await
    }

    pub async fn open_with(&self, options: &StoreOptions) -> Arc<dyn Store> {
        let store = ringtrue_store::open(&store_url(&self.address), options).await.expect("a store");
        store.set_row_signer(Arc::new(TestSigner));
        store
    }

    /// Locks a PostgreSQL table until the guard is dropped.
    pub fn lock(&self, table: &str) -> TableLock {
        let mut psql = Command::new("psql")
            .args([&self.address, "--no-psqlrc", "--quiet"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("psql runs");
        let lock = format!("begin;\nlock table {table} in access exclusive mode;\n\\echo locked\n");
        psql.stdin.as_mut().expect("stdin is piped").write_all(lock.as_bytes()).expect("psql reads the commands");
        let mut line = String::new();
        BufReader::new(psql.stdout.as_mut().expect("stdout is piped"))
            .read_line(&mut line)
            .expect("psql prints a line");
        assert_eq!(line, "locked\n", "the lock on {table}");
        TableLock { psql }
    }

    /// Returns the number of sessions that wait for a lock.
    pub fn waiting_sessions(&self) -> usize {
        let DatabaseLocation::Server { name } = &self.location else { panic!("not a PostgreSQL server") };
        let waiting =
            format!("select count(*) from pg_stat_activity where datname = '{name}' and wait_event_type = 'Lock'");
        psql(&waiting).trim().parse().expect("a number")
    }

    /// Makes the database read-only or writable, and terminates its connections so that the setting applies.
    pub fn set_read_only(&self, is_read_only: bool) {
        let DatabaseLocation::Server { name } = &self.location else { panic!("not a PostgreSQL server") };
        psql(&format!("alter database {name} set default_transaction_read_only = {is_read_only}"));
        psql(&format!("select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'"));
    }

    /// Terminates all connections to the PostgreSQL database and rejects new ones, or accepts them again.
    pub fn set_blocked(&self, is_blocked: bool) {
        let DatabaseLocation::Server { name } = &self.location else { panic!("not a PostgreSQL server") };
        psql(&format!("alter database {name} allow_connections {}", !is_blocked));
        if is_blocked {
            psql(&format!("select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'"));
        }
    }

    /// Returns a new database with the data of a backup that is taken now.
    #[must_use]
    pub fn restored_copy(&self) -> Self {
        match &self.location {
            DatabaseLocation::Folder(original) => {
                let copy = folder();
                let path = copy.path().join("ringtrue.db");
                let backup = Command::new("sqlite3")
                    .arg(original.path().join("ringtrue.db"))
                    .arg(format!(".backup {}", path.display()))
                    .status();
                assert!(backup.expect("sqlite3 runs").success());
                Database { address: sqlite_address(&path), location: DatabaseLocation::Folder(copy) }
            }
            DatabaseLocation::Server { .. } | DatabaseLocation::Cluster { .. } => {
                let name = unused_name();
                psql(&format!("create database {name}"));
                let mut restore = Command::new("psql")
                    .args([&postgres_address(&name), "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1"])
                    .stdin(Stdio::piped())
                    .stdout(Stdio::null())
                    .spawn()
                    .expect("psql runs");
                restore.stdin.take().expect("stdin is piped").write_all(&self.dump()).expect("psql reads the commands");
                assert!(restore.wait().expect("the restore ends").success());
                Database { address: postgres_address(&name), location: DatabaseLocation::Server { name } }
            }
        }
    }

    /// Returns all stored data as bytes. PostgreSQL dumps binary columns in hex.
    pub fn dump(&self) -> Vec<u8> {
        match &self.location {
            DatabaseLocation::Folder(folder) => {
                let files = fs::read_dir(folder.path()).expect("a folder");
                files.flat_map(|file| fs::read(file.expect("a file").path()).expect("its bytes")).collect()
            }
            DatabaseLocation::Server { name } | DatabaseLocation::Cluster { name, .. } => {
                let output = Command::new("pg_dump")
                    .args([&postgres_address(name), "--inserts"])
                    .output()
                    .expect("pg_dump runs");
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                output.stdout
            }
        }
    }
}

#[derive(Debug)]
pub struct TableLock {
    psql: Child,
}

impl Drop for TableLock {
    fn drop(&mut self) {
        // `psql` rolls the transaction back when its input closes.
        drop(self.psql.stdin.take());
        let _ = self.psql.wait();
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // Dropped in the background, because the server first writes a checkpoint, which takes a while.
        match &self.location {
            DatabaseLocation::Folder(_) => {}
            DatabaseLocation::Server { name } => {
                // Fails only if the thread that drops databases has panicked, which it has reported.
                let _ = UNUSED.send(name.clone());
            }
            DatabaseLocation::Cluster { name, ports } => {
                let drop_it = format!("drop database {name} with (force)");
                let servers: Vec<String> = ports.iter().copied().map(server_at).collect();
                std::thread::spawn(move || servers.iter().for_each(|server| drop(psql_at(server, &drop_it))));
            }
        }
    }
}

/// Names of databases of the server that no test uses any more.
static UNUSED: LazyLock<Sender<String>> = LazyLock::new(|| {
    let (unused, names) = mpsc::channel::<String>();
    std::thread::spawn(move || {
        let mut session = AdminSession::start();
        for name in &names {
            session.execute(&format!("drop database {name} with (force)"));
        }
    });
    unused
});

/// A `psql` on the server that executes many statements. Each start of `psql` takes longer than most of them.
struct AdminSession {
    psql: Child,
    output: BufReader<ChildStdout>,
}

impl AdminSession {
    fn start() -> Self {
        let mut psql = Command::new("psql")
            .args([&postgres_server_url(), "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("psql runs");
        let output = BufReader::new(psql.stdout.take().expect("stdout is piped"));
        AdminSession { psql, output }
    }

    fn execute(&mut self, statement: &str) {
        let input = self.psql.stdin.as_mut().expect("stdin is piped");
        write!(input, "{statement};\n\\echo done\n").expect("psql reads the commands");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("psql prints a line");
        assert_eq!(line, "done\n", "{statement}");
    }
}

impl Drop for AdminSession {
    fn drop(&mut self) {
        // `psql` exits when its input closes.
        drop(self.psql.stdin.take());
        let _ = self.psql.wait();
    }
}

async fn migrate(address: &str) {
    ringtrue_store::migrate(&store_url(address), Timestamp::UNIX_EPOCH).await.expect("a schema");
}

fn store_url(address: &str) -> StoreUrl {
    address.parse().expect("a store's URL")
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn sqlite_address(path: &Path) -> String {
    format!("sqlite:{}", path.display())
}

fn postgres_address(name: &str) -> String {
    let mut address = url::Url::parse(&postgres_server_url()).expect("a URL");
    address.set_path(name);
    address.to_string()
}

/// Returns the URL of another server of the cluster.
fn server_at(port: u16) -> String {
    let mut address = url::Url::parse(&postgres_server_url()).expect("a URL");
    address.set_port(Some(port)).expect("a port");
    address.to_string()
}

fn database_at(port: u16, name: &str) -> String {
    let mut address = url::Url::parse(&server_at(port)).expect("a URL");
    address.set_path(name);
    address.to_string()
}

fn unused_name() -> String {
    let random = (&SystemEntropy::default() as &dyn Entropy).bytes();
    format!("http_{:016x}", u64::from_be_bytes(random))
}

#[expect(clippy::disallowed_methods, reason = "the server's address is given to tests, not configured")]
pub fn postgres_server_url() -> String {
    std::env::var("POSTGRES_FOR_TESTS").expect("tests on PostgreSQL need a server of their own: run `make test`")
}

/// Creates copies of a database in advance, because each copy takes a while.
fn copies_of(empty: String) -> Receiver<String> {
    let (ready, copies) = mpsc::sync_channel(2);
    std::thread::spawn(move || {
        let mut session = AdminSession::start();
        loop {
            let name = unused_name();
            // `file_copy` is faster here: the default strategy writes all pages to the WAL.
            session.execute(&format!("create database {name} template {empty} strategy file_copy"));
            if ready.send(name).is_err() {
                return;
            }
        }
    });
    copies
}

fn psql(statement: &str) -> String {
    psql_at(&postgres_server_url(), statement)
}

fn psql_at(address: &str, statement: &str) -> String {
    let output = Command::new("psql")
        .args([address, "--no-psqlrc", "--quiet", "--tuples-only", "--command", statement])
        .output()
        .expect("psql runs");
    assert!(output.status.success(), "{statement}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}
