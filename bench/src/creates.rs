//! Creating checks over HTTP on PostgreSQL, each durable when it is answered, against `pgbench` with single-row inserts
//! of the same rows and as many clients.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::{
    cost::Cost,
    deployment::{Deployment, json_request},
    load,
    postgres::{CLIENTS, SingleRows},
    report::{self, Rates},
};

const SECONDS: u64 = 2;
const ROUNDS: usize = 7;
pub const PATH: &str = "/v1/number-verification/reverse-sms-checks";

pub async fn compare() -> anyhow::Result<bool> {
    report::heading("Creates on PostgreSQL: over HTTP, 128 connections, synchronous_commit=on");
    let deployment = Deployment::start("bench_creates", "")?;
    let project = deployment.sandbox_project().await?;
    let database = &deployment.database;
    let (checks, narrow) = (SingleRows::CHECKS.prepare(&database.url)?, SingleRows::NARROW.prepare(&database.url)?);

    let numbers = Numbers::default();
    let creates = async |seconds| {
        let (token, numbers) = (project.token.clone(), numbers.clone());
        let write = move |request: &mut Vec<u8>| {
            let body = format!(r#"{{"phone_number":"{}"}}"#, numbers.next());
            request.extend_from_slice(json_request("POST", PATH, &token, &body).as_bytes());
        };
        load::rate_of(deployment.address, CLIENTS, Duration::from_secs(seconds), write).await
    };
    let mut ours = Rates::new("creates");
    let mut pgbench = Rates::new("pgbench, single-row inserts");
    let mut narrowest = Rates::new("pgbench, rows of three columns");
    let mut cost = Cost::of(&deployment)?;
    creates(1).await?;
    for round in 0..ROUNDS {
        ours.rounds.push(cost.count(creates(SECONDS)).await?);
        pgbench.rounds.push(checks.rate(&database.url, SECONDS, round)?);
        narrowest.rounds.push(narrow.rate(&database.url, SECONDS, round)?);
    }
    report::rates(&ours, "rows/s");
    cost.report();
    report::rates(&pgbench, "rows/s");
    report::rates(&narrowest, "rows/s");
    Ok(report::ratio(&ours, &pgbench, 2.0))
}

/// Simulated numbers, each once. All are served: the scripted ones end in 90 to 99.
#[derive(Clone, Default)]
pub struct Numbers(Arc<AtomicU64>);

impl Numbers {
    pub fn next(&self) -> String {
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        format!("+990{:010}{:02}", number / 80, number % 80 + 10)
    }
}
