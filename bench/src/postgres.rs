//! PostgreSQL server started by `make bench`, and `pgbench`.

use std::{path::PathBuf, process::Command};

use anyhow::{Context, bail};

/// Clients of `pgbench` and of the compared load.
pub const CLIENTS: usize = 128;

/// URL of the server's default database.
#[expect(clippy::disallowed_methods, reason = "`make bench` passes the server URL")]
pub fn server_url() -> anyhow::Result<String> {
    std::env::var("POSTGRES_FOR_TESTS").context("POSTGRES_FOR_TESTS is not set; run `make bench`")
}

/// A database that is dropped with this value. On a Citus cluster, every server has a part of it.
pub struct Database {
    name: &'static str,
    pub url: String,
    /// URLs of the servers, without a database. The first is the coordinator of a cluster.
    servers: Vec<String>,
}

impl Database {
    pub fn create(name: &'static str) -> anyhow::Result<Self> {
        let server = server_url()?;
        let (server, _) = server.rsplit_once('/').context("no database in the server URL")?;
        psql(&format!("{server}/postgres"), &format!("create database {name}"))?;
        Ok(Database { name, url: format!("{server}/{name}"), servers: vec![server.to_owned()] })
    }

    /// Creates a database on the server and on workers, which are given by their directories.
    pub fn create_on_cluster(name: &'static str, workers: &[PathBuf]) -> anyhow::Result<Self> {
        let mut database = Self::create(name)?;
        let coordinator = database.servers[0].clone();
        let (base, port) = coordinator.rsplit_once(':').context("no port in the server URL")?;
        database.run("create extension citus")?;
        database.run(&format!("select citus_set_coordinator_host('127.0.0.1', {port})"))?;
        for worker in workers {
            let port = std::fs::read_to_string(worker.join("port"))?;
            let (port, server) = (port.trim(), format!("{base}:{}", port.trim()));
            psql(&format!("{server}/postgres"), &format!("create database {name}"))?;
            psql(&format!("{server}/{name}"), "create extension citus")?;
            database.servers.push(server);
            database.run(&format!("select citus_add_node('127.0.0.1', {port})"))?;
        }
        Ok(database)
    }

    pub fn run(&self, statements: &str) -> anyhow::Result<String> {
        psql(&self.url, statements)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        for server in &self.servers {
            let _ = psql(&format!("{server}/postgres"), &format!("drop database {} with (force)", self.name));
        }
    }
}

/// Directories of the workers of a Citus cluster. Fails if there is no cluster.
#[expect(clippy::disallowed_methods, reason = "`scripts/postgres citus` passes the directories")]
pub fn worker_directories() -> anyhow::Result<Vec<PathBuf>> {
    let workers = std::env::var("CITUS_WORKERS").context("CITUS_WORKERS is not set; run `scripts/bench`")?;
    Ok(workers.split_whitespace().map(PathBuf::from).collect())
}

/// Returns the unformatted output.
pub fn psql(url: &str, statements: &str) -> anyhow::Result<String> {
    let output = Command::new("psql")
        .args([url, "--quiet", "--no-psqlrc", "--tuples-only", "--no-align"])
        .args(["--set", "ON_ERROR_STOP=1", "--command", statements])
        .output()
        .context("cannot run psql; install the package `postgresql-client`")?;
    if !output.status.success() {
        bail!("psql failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// A table and its single-row insert.
#[derive(Clone, Copy)]
pub struct SingleRowInserts {
    table: &'static str,
    insert: &'static str,
}

impl SingleRowInserts {
    /// Minimal rows, for the group commit comparison.
    pub const MINIMAL: Self = SingleRowInserts {
        table: "create table single_rows (token uuid primary key, expires_at bigint not null, changed bigint not null)",
        insert: "insert into single_rows values (gen_random_uuid(), 1800000000000, 1);",
    };

    /// Rows of created checks with ordered ids, without the number guard, deadline and counters of a real create.
    pub const CHECKS: Self = SingleRowInserts {
        table: "create table single_checks (like checks including all)",
        insert: r"\set n :n + 1
insert into single_checks (id, bucket, project_id, created_at, expires_at, product, mode, network_id, receiver,
                           number_hash, number_tail, code_hash, status)
values (('0190a000-0000-7000-8000-' || lpad(to_hex(:n::bigint * 1024 + :client_id), 12, '0'))::uuid,
        ((:n::bigint * 1024 + :client_id) & 4095)::smallint,
        '0190a000-0000-7000-8000-000000000000', 1800000000000 + :n::bigint, 1800000300000 + :n::bigint, 'reverse_sms', 'sandbox',
        '99001', '+99000000001', uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()), '12',
        uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()), 'ACCEPTED');
",
    };

    pub fn create_table(self, url: &str) -> anyhow::Result<Self> {
        psql(url, self.table)?;
        Ok(self)
    }

    /// Rows per second of `pgbench`, one per transaction. `round` makes the keys unique.
    pub fn rate(self, url: &str, seconds: u64, round: usize) -> anyhow::Result<f64> {
        let script = tempfile::NamedTempFile::new()?;
        std::fs::write(&script, self.insert)?;
        let (clients, seconds) = (CLIENTS.to_string(), seconds.to_string());
        let output = Command::new("pgbench")
            .args(["--no-vacuum", "--protocol", "prepared", "--jobs", "2", "--client", &clients, "--time", &seconds])
            .arg(format!("--define=n={}", round * 10_000_000))
            .arg("--file")
            .arg(script.path())
            .arg(url)
            .output()
            .context("cannot run pgbench; install the package `postgresql`")?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            bail!("pgbench failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        let rate = text.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
        rate.with_context(|| format!("no rate in the output of pgbench: {text}"))
    }
}
