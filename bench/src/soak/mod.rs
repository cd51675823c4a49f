//! `scripts/soak`: three nodes on PostgreSQL or Citus under mixed load, while nodes are killed, the database is restarted, and
//! callback receivers fail.
//!
//! The load is open: requests arrive at half of the measured maximum, whether or not earlier ones are answered, and
//! response times count from the scheduled arrival. Load generators do not fit: oha and wrk2 repeat single requests,
//! goose, drill and rlt run closed loops, and k6 shares no state between its users. A flow here depends on earlier
//! responses, and its acknowledgements are compared with callbacks and the final state ([`ledger`]).

mod balancer;
mod faults;
mod flows;
mod latencies;
mod ledger;
mod nodes;
mod receivers;
mod resources;
mod violations;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Context;
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use self::{
    balancer::Balancer,
    faults::FaultLog,
    flows::{Backend, Flow, REVERSE_SMS_TTL, VERIFICATION_TTL},
    latencies::Latencies,
    ledger::{Conclusion, Ledger},
    nodes::Nodes,
    receivers::Receivers,
    resources::MemoryHistory,
    violations::Violations,
};
use crate::{deployment::Deployment, load::per_second, postgres::worker_directories, report};

const WARM_UP: Duration = Duration::from_secs(5);
const CALIBRATION: Duration = Duration::from_secs(15);
/// Concurrent flows, enough to keep the machine busy.
const CALIBRATION_CLIENTS: usize = 64;
/// Between the measurement of the maximum and the load, for callbacks that are queued.
const PAUSE: Duration = Duration::from_secs(5);
/// The first and the last part, whose response times are compared. At most a third of the duration.
const WINDOW: Duration = Duration::from_mins(1);
const VERIFYING_CLIENTS: usize = 64;
const MAX_LATENCY_DRIFT: f64 = 1.5;
const MAX_MEMORY_GROWTH: f64 = 1.1;

/// A fixed base URL, because a flow moves between nodes.
const SETTINGS: &str = r#"
    base_url = "http://127.0.0.1"

    [callbacks]
    allowed_addresses = ["127.0.0.0/8"]
"#;

pub async fn run(minutes: u32, on_citus: bool) -> anyhow::Result<bool> {
    let duration = Duration::from_mins(minutes.into());
    let workers = if on_citus { worker_directories()? } else { Vec::new() };
    let database = if on_citus { format!("Citus with {} workers", workers.len()) } else { "PostgreSQL".to_owned() };
    report::heading(&format!("Mixed load on three nodes with faults for {minutes} min, on {database}"));
    let logs = tempfile::tempdir()?;
    let deployment = if on_citus {
        Deployment::start_on_citus("soak", &workers, SETTINGS)?
    } else {
        Deployment::start("soak", SETTINGS)?
    };
    let nodes = Arc::new(Nodes::start(deployment, logs.path())?);
    let (violations, faults) = (Violations::default(), Arc::<FaultLog>::default());
    let ledger = Arc::new(Ledger::new(violations.clone()));
    let receivers = Receivers::start(&ledger, &violations).await?;
    let configuration = json!({
        "reverse_sms": { "ttl": REVERSE_SMS_TTL.as_secs() },
        "verification": { "ttl": VERIFICATION_TTL.as_secs() },
    });
    let project = nodes.deployment.configured_project(&configuration).await?;
    // The other nodes load changes within a second.
    sleep(Duration::from_secs(2)).await;
    let balancer = Arc::new(Balancer::new(nodes.addresses(), violations.clone()));
    let backend = Arc::new(Backend::start(balancer, ledger, receivers, project).await?);

    measure_maximum(&backend, WARM_UP).await?;
    let maximum = measure_maximum(&backend, CALIBRATION).await?;
    let rate = maximum / 2.0;
    report::note(&format!("maximum: {maximum:.0} flows/s; load: {rate:.0} flows/s"));
    sleep(PAUSE).await;

    let started = Instant::now();
    backend.balancer.measure(Latencies::new(started, duration, WINDOW.min(duration / 3))?);
    let (arrived, in_flight) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let describe = || {
        let (arrived, in_flight) = (arrived.load(Ordering::Relaxed), in_flight.load(Ordering::Relaxed));
        format!("{arrived} flows, {in_flight} in flight")
    };
    let (memory, (), (), ()) = tokio::try_join!(
        MemoryHistory::record(&nodes, started, duration, describe),
        generate_load(&backend, rate, started + duration, &arrived, &in_flight),
        nodes.kill_by_turns(&faults, started, duration),
        Nodes::restart_database(&faults, &workers, started, duration),
    )?;
    let latencies = backend.balancer.take_latencies().context("no latencies")?;

    report::note("waiting for checks to expire and callbacks to be delivered");
    while backend.ledger.undelivered() > 0 {
        sleep(Duration::from_secs(1)).await;
    }
    let conclusions = read_conclusions(&backend, &violations).await?;
    backend.ledger.verify(&conclusions, &faults);
    for (at, response) in backend.balancer.unavailable() {
        if !faults.is_unavailability_expected(at) {
            violations.add("503 responses without a database restart", || {
                format!("{:.1} s: {response}", (at - started).as_secs_f64())
            });
        }
    }

    latencies.report();
    report_outcomes(&backend, &conclusions, &faults);
    let is_complete = violations.report();
    let is_steady = latencies.report_drift(MAX_LATENCY_DRIFT);
    let is_bounded = memory.report_growth(MAX_MEMORY_GROWTH);
    let passed = is_complete && is_steady && is_bounded;
    if !passed {
        report::note(&format!("logs of the nodes: {}", logs.keep().display()));
    }
    report::note(if passed { "PASSED" } else { "FAILED" });
    Ok(passed)
}

/// Runs flows in a closed loop without faults; returns flows per second.
async fn measure_maximum(backend: &Arc<Backend>, duration: Duration) -> anyhow::Result<f64> {
    let (completed, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut clients = JoinSet::new();
    for _ in 0..CALIBRATION_CLIENTS {
        let (backend, completed, stop) = (Arc::clone(backend), Arc::clone(&completed), Arc::clone(&stop));
        clients.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                backend.run(Instant::now(), Flow::random(), false).await?;
                completed.fetch_add(1, Ordering::Relaxed);
            }
            anyhow::Ok(())
        });
    }
    let started = Instant::now();
    sleep(duration).await;
    let rate = per_second(completed.load(Ordering::Relaxed), started.elapsed());
    stop.store(true, Ordering::Relaxed);
    join_all(clients).await?;
    Ok(rate)
}

/// Starts flows at independent random times, `rate` per second on average, and waits for their ends.
async fn generate_load(
    backend: &Arc<Backend>,
    rate: f64,
    until: Instant,
    arrived: &AtomicU64,
    in_flight: &Arc<AtomicU64>,
) -> anyhow::Result<()> {
    let mut flows = JoinSet::new();
    let mut scheduled = Instant::now();
    while scheduled < until {
        sleep_until(scheduled).await;
        let (backend, running) = (Arc::clone(backend), Arc::clone(in_flight));
        arrived.fetch_add(1, Ordering::Relaxed);
        in_flight.fetch_add(1, Ordering::Relaxed);
        flows.spawn(async move {
            let ended = backend.run(scheduled, Flow::random(), true).await;
            running.fetch_sub(1, Ordering::Relaxed);
            ended
        });
        while let Some(ended) = flows.try_join_next() {
            ended??;
        }
        // Exponentially distributed intervals.
        scheduled += Duration::from_secs_f64(-(1.0 - fastrand::f64()).ln() / rate);
    }
    join_all(flows).await
}

/// Reads the final state of all acknowledged checks.
async fn read_conclusions(
    backend: &Arc<Backend>,
    violations: &Violations,
) -> anyhow::Result<HashMap<String, Conclusion>> {
    let ids = Arc::new(backend.ledger.ids());
    let mut clients = JoinSet::new();
    for client in 0..VERIFYING_CLIENTS {
        let (backend, ids, violations) = (Arc::clone(backend), Arc::clone(&ids), violations.clone());
        clients.spawn(async move {
            let mut conclusions = Vec::new();
            for (id, path) in ids.iter().skip(client).step_by(VERIFYING_CLIENTS) {
                match backend.read(Instant::now(), id, path).await? {
                    Some(check) => {
                        conclusions.extend(Conclusion::parse(check.as_bytes())?.map(|found| (id.clone(), found)));
                    }
                    None => violations.add("acknowledged checks lost", || id.clone()),
                }
            }
            anyhow::Ok(conclusions)
        });
    }
    let mut conclusions = HashMap::new();
    while let Some(read) = clients.join_next().await {
        conclusions.extend(read??);
    }
    Ok(conclusions)
}

/// Index of a random share, as likely as its part of the sum.
fn random_share<const N: usize>(shares: [usize; N]) -> usize {
    let choice = fastrand::usize(..shares.iter().sum::<usize>());
    let ends = shares.into_iter().scan(0, |end, share| {
        *end += share;
        Some(*end)
    });
    ends.take_while(|end| *end <= choice).count()
}

async fn join_all(mut tasks: JoinSet<anyhow::Result<()>>) -> anyhow::Result<()> {
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

fn report_outcomes(backend: &Backend, conclusions: &HashMap<String, Conclusion>, faults: &FaultLog) {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for Conclusion { status, .. } in conclusions.values() {
        match counts.iter_mut().find(|(counted, _)| counted == status) {
            Some((_, count)) => *count += 1,
            None => counts.push((status, 1)),
        }
    }
    let counts: Vec<_> = counts.iter().map(|(status, count)| format!("{count} {status}")).collect();
    let (acknowledged, kills) = (backend.ledger.len(), faults.kills());
    report::note(&format!("{acknowledged} checks acknowledged: {}; {kills} kills", counts.join(", ")));
}
