//! The PostgreSQL server that `make bench` has started, and `pgbench` on it.

use std::process::Command;

use anyhow::{Context, bail};

/// As many as there are callers on the other side.
pub const CLIENTS: usize = crate::load::CONNECTIONS;

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

/// The table that [`single_rows`] fills.
pub fn make_single_rows(url: &str) -> anyhow::Result<()> {
    let table =
        "create table single_rows (token uuid primary key, expires_at bigint not null, changed bigint not null)";
    psql(url, table).map(drop)
}

/// Rows per second by `pgbench`, one in each transaction.
pub fn single_rows(url: &str, seconds: u64) -> anyhow::Result<f64> {
    let script = tempfile::NamedTempFile::new()?;
    std::fs::write(&script, "insert into single_rows values (gen_random_uuid(), 1800000000000, 1);\n")?;
    let (clients, seconds) = (CLIENTS.to_string(), seconds.to_string());
    let output = Command::new("pgbench")
        .args(["--no-vacuum", "--protocol", "prepared", "--jobs", "2", "--client", &clients, "--time", &seconds])
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
