//! Memory and connections of the nodes over time.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::nodes::Nodes;
use crate::{process::ProcessResources, report};

const SAMPLES: u32 = 20;

/// Memory of the node that is never killed.
#[derive(Default)]
pub struct MemoryHistory(Vec<f64>);

impl MemoryHistory {
    /// Prints samples until the end of the load. `describe` adds columns.
    pub async fn record(
        nodes: &Nodes,
        started: Instant,
        duration: Duration,
        describe: impl Fn() -> String,
    ) -> anyhow::Result<Self> {
        let mut history = MemoryHistory::default();
        report::note("time    memory of the nodes in MiB   sockets of the nodes   database connections   load");
        for sample in 1..=SAMPLES {
            let at = started + duration * sample / SAMPLES;
            sleep_until(at).await;
            let resources: Vec<_> = nodes.process_ids().iter().map(|id| ProcessResources::read((*id)?)).collect();
            let column = |value: fn(&ProcessResources) -> String| {
                let values = resources.iter().map(|node| node.as_ref().map_or_else(|| "-".to_owned(), value));
                values.map(|value| format!("{value:>6}")).collect::<Vec<_>>().concat()
            };
            let memory = column(|node| format!("{:.0}", node.resident_mib()));
            let sockets = column(|node| node.sockets.to_string());
            let connections = nodes.count_database_connections().await?;
            let connections = connections.map_or_else(|| "-".to_owned(), |count| count.to_string());
            let seconds = (at - started).as_secs();
            report::note(&format!("{seconds:>4} s {memory:>28} {sockets:>22} {connections:>22}   {}", describe()));
            history.0.extend(resources.last().and_then(Option::as_ref).map(ProcessResources::resident_mib));
        }
        Ok(history)
    }

    /// Compares the last quarter with the second, because caches fill first. Prints the result; returns whether the
    /// growth is at most `max`.
    pub fn report_growth(&self, max: f64) -> bool {
        let quarter = self.0.len() / 4;
        #[expect(clippy::cast_precision_loss, reason = "a few samples")]
        let mean = |samples: &[f64]| samples.iter().sum::<f64>() / samples.len() as f64;
        let (second, last) = (mean(&self.0[quarter..2 * quarter]), mean(&self.0[self.0.len() - quarter..]));
        report::at_most("memory in the last quarter / in the second", last / second, max)
    }
}
