//! Time from the start of a node until it is ready, after its first run, and its memory when idle. Figures only: they
//! depend on the machine.

use std::time::Duration;

use anyhow::Context;
use tokio::time::sleep;

use crate::{
    deployment::Deployment,
    process::ProcessResources,
    report::{self, Times},
};

const STARTS: usize = 15;
/// Until the memory of the start is released.
const IDLE_TIME: Duration = Duration::from_secs(10);

pub async fn measure() -> anyhow::Result<bool> {
    report::heading("Start and idle memory of a node");
    measure_store("on SQLite", Deployment::start_on_sqlite("")?).await?;
    measure_store("on PostgreSQL", Deployment::start("bench_startup", "")?).await?;
    Ok(true)
}

async fn measure_store<D>(store: &str, mut deployment: Deployment<D>) -> anyhow::Result<()> {
    let mut times = Times::default();
    for _ in 0..STARTS {
        times.0.push(deployment.restart()?);
    }
    sleep(IDLE_TIME).await;
    let resources = ProcessResources::read(deployment.process_id()).context("the node has exited")?;
    report::median_time(&format!("start to ready {store}"), &times);
    report::note(&format!(
        "idle memory {store:<32} {:>9.1} MiB   (resident, {:.1} of them not backed by files)",
        resources.resident_mib(),
        resources.anonymous_mib()
    ));
    Ok(())
}
