//! The nodes, and the faults that they and their database suffer.

use std::{
    fs::{File, OpenOptions},
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, ensure};
use parking_lot::Mutex;
use tokio::{
    task::spawn_blocking,
    time::{Instant, sleep_until},
};

use super::faults::{FaultKind, FaultLog};
use crate::{
    deployment::{Deployment, listen_address},
    process::Process,
    report,
};

const KILL_INTERVAL: Duration = Duration::from_secs(20);
/// Nodes that are killed by turns. One more lives from beginning to end, and shows whether memory grows.
const MORTAL_NODES: usize = 2;
/// Delay before a supervisor starts a node again that did not become ready.
const RESTART_DELAY: Duration = Duration::from_millis(500);
/// Restarts of the database, in hundredths of the duration. Between the first and the last third, whose response times
/// are compared.
const DATABASE_RESTARTS: [u32; 2] = [40, 55];
/// Script that starts and stops database servers.
const POSTGRES_SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/postgres");

pub struct Nodes {
    mortal: Vec<MortalNode>,
    pub deployment: Arc<Deployment>,
}

struct MortalNode {
    address: SocketAddr,
    log: PathBuf,
    /// `None` while the node is down.
    process: Arc<Mutex<Option<Process>>>,
}

impl Nodes {
    pub fn start(deployment: Deployment, logs: &Path) -> anyhow::Result<Self> {
        let mut mortal = Vec::new();
        for number in 1..=MORTAL_NODES {
            // On an address of its own: a client's connection could take the port while the node is down.
            let listen = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 10 + u8::try_from(number)?), 0));
            let log = logs.join(format!("node-{number}.log"));
            let process = deployment.start_node(listen, append(&log)?)?;
            let address = listen_address(&process)?;
            mortal.push(MortalNode { address, log, process: Arc::new(Mutex::new(Some(process))) });
        }
        Ok(Nodes { mortal, deployment: Arc::new(deployment) })
    }

    /// The node that is never killed is the last.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.mortal.iter().map(|node| node.address).chain([self.deployment.address])
    }

    /// Process ids in the order of the addresses; `None` while a node is down.
    pub fn process_ids(&self) -> Vec<Option<u32>> {
        let mortal = self.mortal.iter().map(|node| node.process.lock().as_ref().map(Process::id));
        mortal.chain([Some(self.deployment.process_id())]).collect()
    }

    /// Connections to the database. `None`: it is down.
    pub async fn count_database_connections(&self) -> anyhow::Result<Option<u32>> {
        let deployment = Arc::clone(&self.deployment);
        let count = "select count(*) from pg_stat_activity where application_name = 'ringtrue'";
        Ok(spawn_blocking(move || deployment.database.run(count)).await?.ok().and_then(|count| count.parse().ok()))
    }

    /// Kills a node every 20 s, until the end of the load.
    pub async fn kill_by_turns(&self, faults: &FaultLog, started: Instant, duration: Duration) -> anyhow::Result<()> {
        for kill in 0.. {
            let at = started + KILL_INTERVAL * (kill + 1);
            if at >= started + duration {
                break;
            }
            sleep_until(at).await;
            let index = kill as usize % self.mortal.len();
            let node = &self.mortal[index];
            faults.begin(FaultKind::NodeKilled(index));
            let killed = node.process.lock().take();
            // Kills the process and waits for its end.
            spawn_blocking(move || drop(killed)).await?;
            let process = self.restart(node).await?;
            *node.process.lock() = Some(process);
            faults.end(FaultKind::NodeKilled(index));
        }
        Ok(())
    }

    /// Starts a node until it is ready: it exits if the database is down.
    async fn restart(&self, node: &MortalNode) -> anyhow::Result<Process> {
        loop {
            let (deployment, address, log) = (Arc::clone(&self.deployment), node.address, append(&node.log)?);
            match spawn_blocking(move || deployment.start_node(address, log)).await? {
                Ok(process) => return Ok(process),
                Err(_) => tokio::time::sleep(RESTART_DELAY).await,
            }
        }
    }

    /// Stops the database without a checkpoint, and starts it again, twice. On Citus, first a worker, then the
    /// coordinator.
    pub async fn restart_database(
        faults: &FaultLog,
        workers: &[PathBuf],
        started: Instant,
        duration: Duration,
    ) -> anyhow::Result<()> {
        let coordinator = server_directory()?;
        let servers = [workers.first().unwrap_or(&coordinator).clone(), coordinator.clone()];
        for (percent, server) in DATABASE_RESTARTS.into_iter().zip(servers) {
            sleep_until(started + duration * percent / 100).await;
            faults.begin(FaultKind::DatabaseRestart);
            for command in ["halt", "resume"] {
                let server = server.clone();
                spawn_blocking(move || run_postgres_script(command, &server)).await??;
            }
            let outage = faults.end(FaultKind::DatabaseRestart);
            report::note(&format!("database restarted, outage of {:.1} s", outage.as_secs_f64()));
        }
        Ok(())
    }
}

fn append(log: &Path) -> anyhow::Result<File> {
    Ok(OpenOptions::new().create(true).append(true).open(log)?)
}

#[expect(clippy::disallowed_methods, reason = "`scripts/postgres` passes the server's directory")]
fn server_directory() -> anyhow::Result<PathBuf> {
    Ok(std::env::var("POSTGRES_DIRECTORY").context("POSTGRES_DIRECTORY is not set; run `scripts/soak`")?.into())
}

fn run_postgres_script(command: &str, server: &Path) -> anyhow::Result<()> {
    let status = Command::new(POSTGRES_SCRIPT).arg(command).arg(server).status()?;
    ensure!(status.success(), "scripts/postgres {command} failed: {status}");
    Ok(())
}
