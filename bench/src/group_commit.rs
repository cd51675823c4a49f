//! Durable writes on PostgreSQL: our group commit against `pgbench` with single-row inserts and as many clients.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use ringtrue_domain::id::time_ordered;
use ringtrue_engine::ports::{Clock, Entropy, Revocation, Store, SystemClock, SystemEntropy, TokenId};
use ringtrue_store::{StoreOptions, StoreUrl};
use tokio::{task::JoinSet, time::Instant};

use crate::{
    load::per_second,
    postgres::{CLIENTS, Database, SingleRows},
    report::{self, Rates},
};

const SECONDS: u64 = 2;
const ROUNDS: usize = 7;

pub async fn compare() -> anyhow::Result<bool> {
    report::heading("Durable writes on PostgreSQL: one row each, 128 writers, synchronous_commit=on");
    let database = Database::create("bench_group_commit")?;
    let store_url: StoreUrl = database.url.parse()?;
    ringtrue_store::migrate(&store_url, SystemClock.now()).await?;
    let store = ringtrue_store::open(&store_url, &StoreOptions::default()).await?;
    let rows = SingleRows::NARROW.prepare(&database.url)?;

    let mut ours = Rates::new("group commit");
    let mut pgbench = Rates::new("pgbench, single-row inserts");
    for round in 0..ROUNDS {
        ours.rounds.push(revocations(Arc::clone(&store)).await?);
        pgbench.rounds.push(rows.rate(&database.url, SECONDS, round)?);
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
    Ok(per_second(count, elapsed))
}
