//! CPU time of creates, reads by id and Reverse SMS flows at a fixed load: on one PostgreSQL, and on Citus with one, two
//! and four workers. CPU time does not depend on how many servers share the machine, so it shows what more machines would
//! give.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;

use crate::{cpu_cost::read_stat, deployment::Deployment, postgres::worker_directories, report, scaling::Candidate};

/// Operations per second, for creates, reads and flows. Low enough for two cores.
const RATES: [(&str, f64); 3] = [("create", 1_000.0), ("read", 2_000.0), ("flow", 300.0)];
const DURATION: Duration = Duration::from_secs(15);
/// Highest ratio of the sum over all servers to one PostgreSQL.
const MAX_RATIO: f64 = 1.3;

/// CPU time of one operation, in microseconds.
struct Cost {
    node: f64,
    coordinator: f64,
    workers: Vec<f64>,
}

impl Cost {
    fn database(&self) -> f64 {
        self.coordinator + self.workers.iter().sum::<f64>()
    }

    fn sum(&self) -> f64 {
        self.node + self.database()
    }
}

pub async fn compare() -> anyhow::Result<bool> {
    report::heading(
        "CPU time per operation at a fixed load: Citus with one, two and four workers, against one PostgreSQL",
    );
    let coordinator = server_directory()?;
    let directories = worker_directories()?;
    let plain = Candidate::start(Deployment::start("bench_plain", "")?).await?;
    let baseline = measure(&plain, &coordinator, &[]).await?;
    drop(plain);
    print("one PostgreSQL", &baseline, None);
    let mut is_met = true;
    for workers in [1, 2, 4] {
        let Some(directories) = directories.get(..workers) else { break };
        let deployment = Deployment::start_on_citus("bench_servers", directories, "")?;
        let candidate = Candidate::start(deployment).await?;
        let costs = measure(&candidate, &coordinator, directories).await?;
        drop(candidate);
        is_met &= print(&format!("{workers} workers"), &costs, Some(&baseline));
    }
    Ok(is_met)
}

fn print(name: &str, costs: &[Cost], baseline: Option<&[Cost]>) -> bool {
    let mut is_met = true;
    for (index, (cost, (operation, rate))) in costs.iter().zip(RATES).enumerate() {
        let workers: Vec<String> = cost.workers.iter().map(|micros| format!("{micros:.0}")).collect();
        let workers = if workers.is_empty() { String::new() } else { format!(", workers {}", workers.join(" + ")) };
        report::note(&format!(
            "{name}, {operation} at {rate}/s: node {:.0} µs, server in the URL {:.0} µs{workers}, sum {:.0} µs",
            cost.node,
            cost.coordinator,
            cost.sum()
        ));
        if let Some(before) = baseline.and_then(|baseline| baseline.get(index)) {
            report::note(&format!("  databases / one PostgreSQL = {:.2}", cost.database() / before.database()));
            let label = format!("  {name}, {operation}: sum / sum with one PostgreSQL");
            is_met &= report::at_most(&label, cost.sum() / before.sum(), MAX_RATIO);
        }
    }
    is_met
}

async fn measure<D>(candidate: &Candidate<D>, coordinator: &Path, workers: &[PathBuf]) -> anyhow::Result<Vec<Cost>> {
    let mut costs = Vec::new();
    for (operation, rate) in RATES {
        // Warm-up: opens connections and prepares statements.
        candidate.run_at(operation, rate, DURATION / 5).await?;
        let before = read_cpu_time(candidate, coordinator, workers)?;
        let count = candidate.run_at(operation, rate, DURATION).await?;
        let after = read_cpu_time(candidate, coordinator, workers)?;
        let micros =
            before.iter().zip(after).map(|(before, after)| after.saturating_sub(*before).as_secs_f64() * 1e6 / count);
        let [node, coordinator, workers @ ..] = &micros.collect::<Vec<f64>>()[..] else { continue };
        costs.push(Cost { node: *node, coordinator: *coordinator, workers: workers.to_vec() });
    }
    Ok(costs)
}

/// Returns the CPU time of the node, of the server in the URL, and of each worker.
fn read_cpu_time<D>(
    candidate: &Candidate<D>,
    coordinator: &Path,
    workers: &[PathBuf],
) -> anyhow::Result<Vec<Duration>> {
    let node = read_stat(Path::new(&format!("/proc/{}", candidate.process_id()))).context("the node has exited")?;
    let mut times = vec![node.cpu_time];
    let mut by_parent = HashMap::<u32, Duration>::new();
    for entry in std::fs::read_dir("/proc")? {
        // A process may exit before it is read.
        let Some(process) = entry.ok().and_then(|entry| read_stat(&entry.path())) else { continue };
        *by_parent.entry(process.parent).or_default() += process.cpu_time;
    }
    for directory in [coordinator].into_iter().chain(workers.iter().map(PathBuf::as_path)) {
        let id = std::fs::read_to_string(directory.join("data/postmaster.pid"))?;
        let id: u32 = id.lines().next().context("no process id in postmaster.pid")?.trim().parse()?;
        let server = read_stat(Path::new(&format!("/proc/{id}"))).context("the server has exited")?;
        times.push(server.cpu_time + server.cpu_time_of_ended + by_parent.get(&id).copied().unwrap_or_default());
    }
    Ok(times)
}

#[expect(clippy::disallowed_methods, reason = "`scripts/bench servers` passes the directory")]
fn server_directory() -> anyhow::Result<PathBuf> {
    Ok(std::env::var("POSTGRES_DIRECTORY")
        .context("POSTGRES_DIRECTORY is not set; run `scripts/bench servers`")?
        .into())
}
