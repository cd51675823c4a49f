//! CPU time of an operation, which does not depend on other load of the machine.

use std::{collections::HashMap, path::Path, time::Duration};

use anyhow::Context;

use crate::{
    deployment::{Deployment, Sqlite},
    report,
};

/// Clock tick of `/proc/<pid>/stat`.
const CLOCK_TICK: Duration = Duration::from_millis(10);

/// Accumulates the CPU time of a deployment's processes.
pub struct CpuCost {
    server: u32,
    /// Parent process of PostgreSQL; `None` for SQLite.
    database: Option<u32>,
    operations: f64,
    cpu_time: [Duration; 3],
}

impl CpuCost {
    pub fn on_postgres(deployment: &Deployment) -> anyhow::Result<Self> {
        let database = std::fs::read_to_string(deployment.database.run("show data_directory")? + "/postmaster.pid")?;
        let database = database.lines().next().context("no process id in postmaster.pid")?.trim().parse()?;
        Ok(CpuCost {
            server: deployment.process_id(),
            database: Some(database),
            operations: 0.0,
            cpu_time: [Duration::ZERO; 3],
        })
    }

    pub fn on_sqlite(deployment: &Deployment<Sqlite>) -> Self {
        CpuCost { server: deployment.process_id(), database: None, operations: 0.0, cpu_time: [Duration::ZERO; 3] }
    }

    /// Runs `work`, which returns its operations per second, and adds its CPU time.
    pub async fn measure(&mut self, work: impl Future<Output = anyhow::Result<f64>>) -> anyhow::Result<f64> {
        let (started, before) = (tokio::time::Instant::now(), self.read()?);
        let rate = work.await?;
        let after = self.read()?;
        for (cpu_time, (after, before)) in self.cpu_time.iter_mut().zip(after.into_iter().zip(before)) {
            *cpu_time += after.saturating_sub(before);
        }
        self.operations += rate * started.elapsed().as_secs_f64();
        Ok(rate)
    }

    pub fn report(&self) {
        let [server, database, load] = self.cpu_time.map(|cpu_time| cpu_time.as_secs_f64() * 1e6 / self.operations);
        let database = self.database.map(|_| format!(" {database:.1} µs in PostgreSQL,")).unwrap_or_default();
        report::note(&format!(
            "CPU time per operation: {server:.1} µs in the server,{database} {load:.1} µs in the load generator"
        ));
    }

    fn read(&self) -> anyhow::Result<[Duration; 3]> {
        let mut cpu_time_by_parent = HashMap::new();
        for entry in std::fs::read_dir("/proc")? {
            // A process may exit before it is read.
            let Some(process) = entry.ok().and_then(|entry| read_stat(&entry.path())) else { continue };
            *cpu_time_by_parent.entry(process.parent).or_insert(Duration::ZERO) += process.cpu_time;
        }
        let stat_of = |id: u32| read_stat(Path::new(&format!("/proc/{id}"))).context("process has exited");
        let database = self.database.and_then(|id| cpu_time_by_parent.get(&id).copied()).unwrap_or_default();
        Ok([stat_of(self.server)?.cpu_time, database, stat_of(std::process::id())?.cpu_time])
    }
}

pub struct ProcessStat {
    pub parent: u32,
    pub cpu_time: Duration,
    /// CPU time of its processes that have exited.
    pub cpu_time_of_ended: Duration,
}

/// Reads a directory in `/proc`. `None`: the process has exited.
pub fn read_stat(process: &Path) -> Option<ProcessStat> {
    let text = std::fs::read_to_string(process.join("stat")).ok()?;
    // The process name in parentheses may contain spaces.
    let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
    let time = |field: usize| {
        Some(CLOCK_TICK * (fields.get(field)?.parse::<u32>().ok()? + fields.get(field + 1)?.parse::<u32>().ok()?))
    };
    Some(ProcessStat { parent: fields.get(1)?.parse().ok()?, cpu_time: time(11)?, cpu_time_of_ended: time(13)? })
}
