//! Reads by id of one workspace with searches of another workspace at its rate limit, against the same reads without.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{bail, ensure};
use serde_json::Value;
use tokio::{
    sync::Mutex,
    task::JoinSet,
    time::{Instant, Interval, MissedTickBehavior, interval, sleep},
};

use crate::{
    creates::{CHECKS_PATH, NumberSequence},
    deployment::{Deployment, Project, get_request, json_request, json_text},
    load::Connection,
    report::{self, Times},
};

/// Checks of the searched project.
const CHECKS: usize = 23_000;
const CREATORS: usize = 64;
const SEARCHERS: usize = 12;
/// For all searchers together: the default limit of 100 reads per second of a workspace.
const SEARCH_INTERVAL: Duration = Duration::from_millis(10);
const WILDCARDS: usize = 50;
/// Time for the searches to start before reads are measured.
const WARM_UP: Duration = Duration::from_secs(1);
const READS_PER_ROUND: usize = 400;
const ROUNDS: usize = 7;
const MAX_RATIO: f64 = 3.0;

pub async fn compare() -> anyhow::Result<bool> {
    report::heading("Check reads by id: with and without 12 clients of another workspace searching 23,000 checks");
    let on_sqlite = measure("SQLite", &Deployment::start_on_sqlite("")?).await?;
    let on_postgres = measure("PostgreSQL", &Deployment::start("bench_search_isolation", "")?).await?;
    Ok(on_sqlite && on_postgres)
}

async fn measure<D>(store: &str, deployment: &Deployment<D>) -> anyhow::Result<bool> {
    let reader = deployment.sandbox_project().await?;
    let searcher = deployment.sandbox_project_of_another_workspace().await?;
    let numbers = NumberSequence::default();
    create_checks(deployment.address, &searcher, &numbers).await?;

    let mut connection = Connection::open(deployment.address).await?;
    let body = format!(r#"{{"phone_number":"{}"}}"#, numbers.next());
    let request = json_request("POST", CHECKS_PATH, &reader.token, &body);
    let created: Value = serde_json::from_slice(connection.fetch_body(request.as_bytes()).await?)?;
    let read = get_request(&format!("{CHECKS_PATH}/{}", json_text(&created, "/check_id")?), &reader.token);

    let (mut with, mut without) = (Times::default(), Times::default());
    let outcomes = Arc::new(SearchOutcomes::default());
    measure_reads(&mut connection, &read, &mut Times::default()).await?;
    for _ in 0..ROUNDS {
        measure_reads(&mut connection, &read, &mut without).await?;
        let mut running = start_searches(deployment.address, &searcher, &outcomes).await?;
        sleep(WARM_UP).await;
        measure_reads(&mut connection, &read, &mut with).await?;
        if let Some(ended) = running.try_join_next() {
            ended??;
        }
    }
    report::median_time(&format!("{store}: reads without searches"), &without);
    report::median_time(&format!("{store}: reads with searches"), &with);
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (found, rejected, stopped) = (count(&outcomes.found), count(&outcomes.rejected), count(&outcomes.stopped));
    report::note(&format!("searches: {found} completed, {rejected} rejected with 429, {stopped} stopped with 503"));
    ensure!(found + stopped > 0, "no search was executed");
    Ok(report::median_ratio_at_most(&format!("{store}: reads with / without searches"), &with, &without, MAX_RATIO))
}

/// Creates the searched checks, each with a reference.
async fn create_checks(address: SocketAddr, project: &Project, numbers: &NumberSequence) -> anyhow::Result<()> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut creators = JoinSet::new();
    for _ in 0..CREATORS {
        let (next, numbers, token) = (Arc::clone(&next), numbers.clone(), project.token.clone());
        let mut connection = Connection::open(address).await?;
        creators.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= CHECKS {
                    return anyhow::Ok(());
                }
                let body = format!(r#"{{"phone_number":"{}","reference_id":"order-{number}"}}"#, numbers.next());
                connection.fetch_body(json_request("POST", CHECKS_PATH, &token, &body).as_bytes()).await?;
            }
        });
    }
    while let Some(ended) = creators.join_next().await {
        ended??;
    }
    Ok(())
}

async fn measure_reads(connection: &mut Connection, request: &str, times: &mut Times) -> anyhow::Result<()> {
    for _ in 0..READS_PER_ROUND {
        let started = Instant::now();
        connection.fetch_body(request.as_bytes()).await?;
        times.0.push(started.elapsed());
    }
    Ok(())
}

/// Counts of search responses by status.
#[derive(Default)]
struct SearchOutcomes {
    found: AtomicU64,
    rejected: AtomicU64,
    stopped: AtomicU64,
}

/// Starts clients that search until dropped.
async fn start_searches(
    address: SocketAddr,
    project: &Project,
    outcomes: &Arc<SearchOutcomes>,
) -> anyhow::Result<JoinSet<anyhow::Result<()>>> {
    let wildcards: Vec<_> = (0..WILDCARDS).map(|number| format!("reference_id==*zz{number}*")).collect();
    let request = get_request(&format!("{CHECKS_PATH}?search={}", wildcards.join(",")), &project.token);
    let mut search_interval = interval(SEARCH_INTERVAL);
    search_interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let search_interval = Arc::new(Mutex::new(search_interval));
    let mut searchers = JoinSet::new();
    for _ in 0..SEARCHERS {
        let connection = Connection::open(address).await?;
        searchers.spawn(run_searches(connection, request.clone(), Arc::clone(&search_interval), Arc::clone(outcomes)));
    }
    Ok(searchers)
}

async fn run_searches(
    mut connection: Connection,
    request: String,
    search_interval: Arc<Mutex<Interval>>,
    outcomes: Arc<SearchOutcomes>,
) -> anyhow::Result<()> {
    loop {
        search_interval.lock().await.tick().await;
        let (head, _) = connection.fetch(request.as_bytes()).await?;
        let counter = match head.get(9..12) {
            Some(b"200") => &outcomes.found,
            Some(b"429") => &outcomes.rejected,
            Some(b"503") => &outcomes.stopped,
            _ => bail!("unexpected search response: {}", String::from_utf8_lossy(head)),
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
