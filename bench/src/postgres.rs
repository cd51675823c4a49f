//! The PostgreSQL server that `make bench` has started, and `pgbench` on it.

use std::process::Command;

use anyhow::{Context, bail};

/// As many as there are callers on the other side.
/// Of `pgbench`, and of whatever is compared with it.
pub const CLIENTS: usize = 128;

/// The server's own database.
#[expect(clippy::disallowed_methods, reason = "`make bench` starts the server and says where it is")]
pub fn server() -> anyhow::Result<String> {
    std::env::var("POSTGRES_FOR_TESTS").context("run `make bench`, which starts a PostgreSQL server")
}

/// A database that is gone when this goes out of scope.
pub struct Database {
    name: &'static str,
    pub url: String,
}

impl Database {
    pub fn create(name: &'static str) -> anyhow::Result<Self> {
        let server = server()?;
        let (base, _) = server.rsplit_once('/').context("no database in the server's URL")?;
        let url = format!("{base}/{name}");
        psql(&server, &format!("create database {name}"))?;
        Ok(Database { name, url })
    }

    pub fn run(&self, statements: &str) -> anyhow::Result<String> {
        psql(&self.url, statements)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let _ = server().and_then(|server| psql(&server, &format!("drop database {} with (force)", self.name)));
    }
}

/// What the statements print, bare.
pub fn psql(url: &str, statements: &str) -> anyhow::Result<String> {
    let output = Command::new("psql")
        .args([url, "--quiet", "--no-psqlrc", "--tuples-only", "--no-align"])
        .args(["--set", "ON_ERROR_STOP=1", "--command", statements])
        .output()
        .context("psql, from the package `postgresql-client`, is needed")?;
    if !output.status.success() {
        bail!("psql failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// A table, and the statement that puts one row into it.
#[derive(Clone, Copy)]
pub struct SingleRows {
    table: &'static str,
    insert: &'static str,
}

impl SingleRows {
    /// The rows of the group commit's own comparison: as narrow as a row can be.
    pub const NARROW: Self = SingleRows {
        table: "create table single_rows (token uuid primary key, expires_at bigint not null, changed bigint not null)",
        insert: "insert into single_rows values (gen_random_uuid(), 1800000000000, 1);",
    };

    /// The rows that creates write, in a table like theirs, with ids in their order. What else belongs to a create is
    /// left out here: the guard, the deadline, the counters.
    pub const CHECKS: Self = SingleRows {
        table: "create table single_checks (like checks including all)",
        insert: r"\set n :n + 1
insert into single_checks (id, project_id, created_at, expires_at, product, mode, network_id, receiver, number_hash,
                           number_tail, code_hash, status)
values (('0190a000-0000-7000-8000-' || lpad(to_hex(:n::bigint * 1024 + :client_id), 12, '0'))::uuid,
        '0190a000-0000-7000-8000-000000000000', 1800000000000 + :n::bigint, 1800000300000 + :n::bigint, 'reverse_sms', 'sandbox',
        '99001', '+99000000001', uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()), '12',
        uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()), 'ACCEPTED');
",
    };

    pub fn prepare(self, url: &str) -> anyhow::Result<Self> {
        psql(url, self.table)?;
        Ok(self)
    }

    /// Rows per second by `pgbench`, one in each transaction. `round` keeps the keys of each run apart.
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
            .context("pgbench, from the package `postgresql`, is needed")?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            bail!("pgbench failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        let rate = text.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
        rate.with_context(|| format!("pgbench printed no rate: {text}"))
    }
}
