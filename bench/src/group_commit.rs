//! Durable writes on PostgreSQL: group commit against `pgbench` with single-row inserts and the same number of clients.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use jiff::SignedDuration;
use ringtrue_domain::id::uuid_v7;
use ringtrue_engine::ports::{
    clock::{Clock, SystemClock},
    combined::Store,
    entropy::{Entropy, SystemEntropy},
    idempotency::IdempotencyClaim,
};
use ringtrue_store::{StoreOptions, StoreUrl};
use tokio::{task::JoinSet, time::Instant};

use crate::{
    load::per_second,
    postgres::{CLIENTS, Database, SingleRowInserts},
    report::{self, Rates},
};

const ROUND_SECONDS: u64 = 2;
const ROUNDS: usize = 7;

pub async fn compare() -> anyhow::Result<bool> {
    report::heading("Durable single-row writes on PostgreSQL: 128 writers, synchronous_commit=on");
    let database = Database::create("bench_group_commit")?;
    let store_url: StoreUrl = database.url.parse()?;
    ringtrue_store::migrate(&store_url, SystemClock.now()).await?;
    let store = ringtrue_store::open(&store_url, &StoreOptions::default()).await?;
    let rows = SingleRowInserts::MINIMAL.create_table(&database.url)?;

    let mut ours = Rates::new("ringtrue group commit");
    let mut pgbench = Rates::new("pgbench, single-row inserts");
    for round in 0..ROUNDS {
        ours.rounds.push(measure_claims(Arc::clone(&store)).await?);
        pgbench.rounds.push(rows.rate(&database.url, ROUND_SECONDS, round)?);
    }
    report::rates(&ours, "rows/s");
    report::rates(&pgbench, "rows/s");
    Ok(report::ratio_at_least(&ours, &pgbench, 2.0))
}

/// Each writer waits until its row is durable before the next one.
async fn measure_claims(store: Arc<dyn Store>) -> anyhow::Result<f64> {
    let written = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let mut writers = JoinSet::new();
    for _ in 0..CLIENTS {
        let (store, written, stop) = (Arc::clone(&store), Arc::clone(&written), Arc::clone(&stop));
        writers.spawn(async move {
            let entropy: &dyn Entropy = &SystemEntropy::default();
            while !stop.load(Ordering::Relaxed) {
                let now = SystemClock.now();
                let claim = IdempotencyClaim {
                    tenant: uuid_v7(now, entropy.bytes()),
                    key_digest: entropy.bytes(),
                    fingerprint: entropy.bytes(),
                    claim_id: uuid_v7(now, entropy.bytes()),
                    now,
                    lease_until: now + SignedDuration::from_secs(30),
                    expires_at: now + SignedDuration::from_hours(24),
                };
                store.claim_idempotency_key(&claim).await?;
                written.fetch_add(1, Ordering::Relaxed);
            }
            anyhow::Ok(())
        });
    }
    let started = Instant::now();
    tokio::time::sleep(Duration::from_secs(ROUND_SECONDS)).await;
    let count = written.load(Ordering::Relaxed);
    let elapsed = started.elapsed();
    stop.store(true, Ordering::Relaxed);
    while let Some(ended) = writers.join_next().await {
        ended??;
    }
    Ok(per_second(count, elapsed))
}
