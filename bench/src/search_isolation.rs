//! Reads by id of one workspace while another one searches as much as it may, against the same reads without that.

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
    creates::{Numbers, PATH},
    deployment::{Deployment, Project, get_request, json_request, text},
    load::Connection,
    report::{self, Times},
};

/// Checks of the project that is searched.
const CHECKS: usize = 23_000;
/// Connections over which they are created.
const CREATORS: usize = 64;
const SEARCHERS: usize = 12;
/// All of them together: a workspace's default limit of 100 reads per second.
const SEARCH_PAUSE: Duration = Duration::from_millis(10);
const WILDCARDS: usize = 50;
/// Before reads are measured, so that searches are under way.
const WARM_UP: Duration = Duration::from_secs(1);
const READS: usize = 400;
const ROUNDS: usize = 7;
const MOST: f64 = 3.0;

pub async fn compare() -> anyhow::Result<bool> {
    report::heading(
        "Reads by id: while another workspace has twelve clients search 23,000 checks with 50 wildcards, and without",
    );
    let on_sqlite = measure("SQLite", &Deployment::start_on_sqlite("")?).await?;
    let on_postgres = measure("PostgreSQL", &Deployment::start("bench_search_isolation", "")?).await?;
    Ok(on_sqlite && on_postgres)
}

async fn measure<D>(store: &str, deployment: &Deployment<D>) -> anyhow::Result<bool> {
    let reader = deployment.sandbox_project().await?;
    let searcher = deployment.sandbox_project_of_another_workspace().await?;
    let numbers = Numbers::default();
    fill(deployment.address, &searcher, &numbers).await?;

    let mut connection = Connection::open(deployment.address).await?;
    let body = format!(r#"{{"phone_number":"{}"}}"#, numbers.next());
    let request = json_request("POST", PATH, &reader.token, &body);
    let created: Value = serde_json::from_slice(connection.exchange(request.as_bytes()).await?)?;
    let read = get_request(&format!("{PATH}/{}", text(&created, "/check_id")?), &reader.token);

    let (mut with, mut without) = (Times::default(), Times::default());
    let answers = Arc::new(Answers::default());
    read_times(&mut connection, &read, &mut Times::default()).await?;
    for _ in 0..ROUNDS {
        read_times(&mut connection, &read, &mut without).await?;
        let mut running = search(deployment.address, &searcher, &answers).await?;
        sleep(WARM_UP).await;
        read_times(&mut connection, &read, &mut with).await?;
        if let Some(ended) = running.try_join_next() {
            ended??;
        }
    }
    report::times(&format!("{store}: reads without searches"), &without);
    report::times(&format!("{store}: reads with searches"), &with);
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (found, rejected, stopped) = (count(&answers.found), count(&answers.rejected), count(&answers.stopped));
    report::note(&format!("searches: {found} answered, {rejected} rejected with 429, {stopped} stopped with 503"));
    ensure!(found + stopped > 0, "no search has run");
    Ok(report::at_most(&format!("{store}: reads with / without searches"), &with, &without, MOST))
}

/// Creates the checks that are searched, each with a reference.
async fn fill(address: SocketAddr, project: &Project, numbers: &Numbers) -> anyhow::Result<()> {
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
                connection.exchange(json_request("POST", PATH, &token, &body).as_bytes()).await?;
            }
        });
    }
    while let Some(ended) = creators.join_next().await {
        ended??;
    }
    Ok(())
}

async fn read_times(connection: &mut Connection, request: &str, times: &mut Times) -> anyhow::Result<()> {
    for _ in 0..READS {
        let begun = Instant::now();
        connection.exchange(request.as_bytes()).await?;
        times.0.push(begun.elapsed());
    }
    Ok(())
}

/// How searches were answered.
#[derive(Default)]
struct Answers {
    found: AtomicU64,
    rejected: AtomicU64,
    stopped: AtomicU64,
}

/// Clients that search until they are dropped.
async fn search(
    address: SocketAddr,
    project: &Project,
    answers: &Arc<Answers>,
) -> anyhow::Result<JoinSet<anyhow::Result<()>>> {
    let wildcards: Vec<_> = (0..WILDCARDS).map(|number| format!("reference_id==*zz{number}*")).collect();
    let request = get_request(&format!("{PATH}?search={}", wildcards.join(",")), &project.token);
    let mut pace = interval(SEARCH_PAUSE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let pace = Arc::new(Mutex::new(pace));
    let mut searchers = JoinSet::new();
    for _ in 0..SEARCHERS {
        let connection = Connection::open(address).await?;
        searchers.spawn(keep_searching(connection, request.clone(), Arc::clone(&pace), Arc::clone(answers)));
    }
    Ok(searchers)
}

async fn keep_searching(
    mut connection: Connection,
    request: String,
    pace: Arc<Mutex<Interval>>,
    answers: Arc<Answers>,
) -> anyhow::Result<()> {
    loop {
        pace.lock().await.tick().await;
        let (head, _) = connection.answer(request.as_bytes()).await?;
        let counter = match head.get(9..12) {
            Some(b"200") => &answers.found,
            Some(b"429") => &answers.rejected,
            Some(b"503") => &answers.stopped,
            _ => bail!("a search was answered {}", String::from_utf8_lossy(head)),
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
