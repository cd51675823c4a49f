//! What an operation costs: time on a core, which does not depend on what else the machine does meanwhile.

use std::{collections::HashMap, path::Path, time::Duration};

use anyhow::Context;

use crate::{
    deployment::{Deployment, Sqlite},
    report,
};

/// Of `/proc/<pid>/stat`, on every Linux.
const TICK: Duration = Duration::from_millis(10);

/// Adds up the time that the processes of a deployment were on a core.
pub struct Cost {
    server: u32,
    /// The parent of all processes of PostgreSQL. `None`: the server has its database in itself.
    database: Option<u32>,
    operations: f64,
    spent: [Duration; 3],
}

impl Cost {
    pub fn of(deployment: &Deployment) -> anyhow::Result<Self> {
        let database = std::fs::read_to_string(deployment.database.run("show data_directory")? + "/postmaster.pid")?;
        let database = database.lines().next().context("no process of the database")?.trim().parse()?;
        Ok(Cost {
            server: deployment.process_id(),
            database: Some(database),
            operations: 0.0,
            spent: [Duration::ZERO; 3],
        })
    }

    pub fn on_sqlite(deployment: &Deployment<Sqlite>) -> Self {
        Cost { server: deployment.process_id(), database: None, operations: 0.0, spent: [Duration::ZERO; 3] }
    }

    /// Runs `work`, which gives its operations per second, and counts what it costs.
    pub async fn count(&mut self, work: impl Future<Output = anyhow::Result<f64>>) -> anyhow::Result<f64> {
        let (begun, before) = (tokio::time::Instant::now(), self.read()?);
        let rate = work.await?;
        let after = self.read()?;
        for (spent, (after, before)) in self.spent.iter_mut().zip(after.into_iter().zip(before)) {
            *spent += after.saturating_sub(before);
        }
        self.operations += rate * begun.elapsed().as_secs_f64();
        Ok(rate)
    }

    pub fn report(&self) {
        let [server, database, load] = self.spent.map(|spent| spent.as_secs_f64() * 1e6 / self.operations);
        let database = self.database.map(|_| format!(" {database:.1} in PostgreSQL,")).unwrap_or_default();
        report::note(&format!(
            "time on a core for each: {server:.1} µs in the server,{database} {load:.1} in the load"
        ));
    }

    fn read(&self) -> anyhow::Result<[Duration; 3]> {
        let mut parents = HashMap::new();
        for entry in std::fs::read_dir("/proc")? {
            // A process may be gone before it is looked at.
            let Some(process) = entry.ok().and_then(|entry| stat(&entry.path())) else { continue };
            *parents.entry(process.parent).or_insert(Duration::ZERO) += process.spent;
        }
        let own = |id: u32| stat(Path::new(&format!("/proc/{id}"))).context("a process is gone");
        let database = self.database.and_then(|id| parents.get(&id).copied()).unwrap_or_default();
        Ok([own(self.server)?.spent, database, own(std::process::id())?.spent])
    }
}

struct Stat {
    parent: u32,
    spent: Duration,
}

fn stat(process: &Path) -> Option<Stat> {
    let text = std::fs::read_to_string(process.join("stat")).ok()?;
    // The name, in brackets, may hold anything.
    let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
    let ticks = fields.get(11)?.parse::<u32>().ok()? + fields.get(12)?.parse::<u32>().ok()?;
    Some(Stat { parent: fields.get(1)?.parse().ok()?, spent: TICK * ticks })
}
