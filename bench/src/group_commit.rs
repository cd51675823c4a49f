//! Durable writes on PostgreSQL: our group commit against `pgbench` with single-row inserts and as many clients.

use std::{
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, bail};
use jiff::Timestamp;
use ringtrue_domain::id::time_ordered;
use ringtrue_engine::ports::{Clock, Entropy, Revocation, Store, SystemClock, SystemEntropy, TokenId};
use ringtrue_store::{StoreOptions, StoreUrl};
use tokio::{task::JoinSet, time::Instant};

use crate::report::{self, Rates};

const CLIENTS: usize = 64;
const SECONDS: u64 = 2;
const ROUNDS: usize = 7;

pub async fn compare() -> anyhow::Result<bool> {
    report::heading("Durable writes on PostgreSQL: one row each, 64 writers, synchronous_commit=on");
    let url = server()?;
    let store_url: StoreUrl = url.parse()?;
    ringtrue_store::migrate(&store_url, SystemClock.now()).await?;
    let store = ringtrue_store::open(&store_url, &StoreOptions::default()).await?;
    psql(
        &url,
        "create table single_rows (token uuid primary key, expires_at bigint not null, changed bigint not null)",
    )?;

    let mut ours = Rates::new("group commit");
    let mut pgbench = Rates::new("pgbench, single-row inserts");
    for _ in 0..ROUNDS {
        ours.rounds.push(revocations(Arc::clone(&store)).await?);
        pgbench.rounds.push(single_rows(&url)?);
    }
    report::rates(&ours, "rows/s");
    report::rates(&pgbench, "rows/s");
    Ok(report::ratio(&ours, &pgbench, 2.0))
}

/// Each writer waits until its row is durable before it sends the next.
async fn revocations(store: Arc<dyn Store>) -> anyhow::Result<f64> {
    let written = Arc::new(AtomicU64::new(0));
    let over = Arc::new(AtomicBool::new(false));
    let mut writers = JoinSet::new();
    for _ in 0..CLIENTS {
        let (store, written, over) = (Arc::clone(&store), Arc::clone(&written), Arc::clone(&over));
        writers.spawn(async move {
            let entropy: &dyn Entropy = &SystemEntropy::default();
            while !over.load(Ordering::Relaxed) {
                let token = TokenId(time_ordered(SystemClock.now(), entropy.bytes()));
                store.revoke(Revocation { token, expires_at: Timestamp::MAX }).await?;
                written.fetch_add(1, Ordering::Relaxed);
            }
            anyhow::Ok(())
        });
    }
    let started = Instant::now();
    tokio::time::sleep(Duration::from_secs(SECONDS)).await;
    let count = written.load(Ordering::Relaxed);
    let elapsed = started.elapsed();
    over.store(true, Ordering::Relaxed);
    while let Some(ended) = writers.join_next().await {
        ended??;
    }
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    Ok(count as f64 / elapsed.as_secs_f64())
}

fn single_rows(url: &str) -> anyhow::Result<f64> {
    let script = tempfile::NamedTempFile::new()?;
    std::fs::write(&script, "insert into single_rows values (gen_random_uuid(), 1800000000000, 1);\n")?;
    let (clients, seconds) = (CLIENTS.to_string(), SECONDS.to_string());
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

fn psql(url: &str, statement: &str) -> anyhow::Result<()> {
    let status = Command::new("psql").args([url, "--quiet", "--no-psqlrc", "--command", statement]).status()?;
    if status.success() { Ok(()) } else { bail!("psql failed: {statement}") }
}

#[expect(clippy::disallowed_methods, reason = "`make bench` starts the server and says where it is")]
fn server() -> anyhow::Result<String> {
    std::env::var("POSTGRES_FOR_TESTS").context("run `make bench`, which starts a PostgreSQL server")
}
