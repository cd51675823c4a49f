//! Durable check creation over HTTP on PostgreSQL, against `pgbench` with single-row inserts of the same rows and the
//! same number of clients; and creation of verifications against that of checks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::json;

use crate::{
    cpu_cost::CpuCost,
    deployment::{Deployment, json_request},
    load,
    postgres::{CLIENTS, SingleRowInserts},
    report::{self, Rates},
};

const ROUND_SECONDS: u64 = 2;
const ROUNDS: usize = 7;
pub const CHECKS_PATH: &str = "/v1/number-verification/reverse-sms-checks";

pub async fn compare() -> anyhow::Result<bool> {
    report::heading("Check creation on PostgreSQL: over HTTP, 128 connections, synchronous_commit=on");
    let deployment = Deployment::start("bench_creates", "")?;
    let project = deployment.sandbox_project().await?;
    let database = &deployment.database;
    let (checks, minimal) =
        (SingleRowInserts::CHECKS.create_table(&database.url)?, SingleRowInserts::MINIMAL.create_table(&database.url)?);

    let numbers = NumberSequence::default();
    let creates = async |seconds| {
        let (token, numbers) = (project.token.clone(), numbers.clone());
        let write = move |request: &mut Vec<u8>| {
            let body = format!(r#"{{"phone_number":"{}"}}"#, numbers.next());
            request.extend_from_slice(json_request("POST", CHECKS_PATH, &token, &body).as_bytes());
        };
        load::generated_rate(deployment.address, CLIENTS, Duration::from_secs(seconds), write).await
    };
    let mut ours = Rates::new("ringtrue");
    let mut pgbench = Rates::new("pgbench, single-row inserts");
    let mut minimal_rates = Rates::new("pgbench, inserts of three columns");
    let mut cost = CpuCost::on_postgres(&deployment)?;
    creates(1).await?;
    for round in 0..ROUNDS {
        ours.rounds.push(cost.measure(creates(ROUND_SECONDS)).await?);
        pgbench.rounds.push(checks.rate(&database.url, ROUND_SECONDS, round)?);
        minimal_rates.rounds.push(minimal.rate(&database.url, ROUND_SECONDS, round)?);
    }
    report::rates(&ours, "rows/s");
    cost.report();
    report::rates(&pgbench, "rows/s");
    report::rates(&minimal_rates, "rows/s");
    Ok(report::ratio_at_least(&ours, &pgbench, 2.0))
}

/// Creates of verifications, each with its first step, against creates of Reverse SMS checks.
pub async fn compare_verifications() -> anyhow::Result<bool> {
    report::heading("Creation of verifications against Reverse SMS checks, over HTTP on PostgreSQL, 128 connections");
    let deployment = Deployment::start("bench_verifications", "")?;
    let project = deployment.configured_project(&json!({})).await?;
    let token = async |scope| deployment.token(&project.client_id, &project.client_secret, scope).await;
    let (checks_token, verifications_token) = (token("reverse_sms").await?, token("verification").await?);
    let numbers = NumberSequence::default();
    let creates = async |path: &'static str, token: &str, seconds| {
        let (token, numbers) = (token.to_owned(), numbers.clone());
        let write = move |request: &mut Vec<u8>| {
            let body = format!(r#"{{"phone_number":"{}"}}"#, numbers.next());
            request.extend_from_slice(json_request("POST", path, &token, &body).as_bytes());
        };
        load::generated_rate(deployment.address, CLIENTS, Duration::from_secs(seconds), write).await
    };
    let mut ours = Rates::new("verifications");
    let mut baseline = Rates::new("Reverse SMS checks");
    creates(CHECKS_PATH, &checks_token, 1).await?;
    for _ in 0..ROUNDS {
        ours.rounds.push(creates("/v1/verifications", &verifications_token, ROUND_SECONDS).await?);
        baseline.rounds.push(creates(CHECKS_PATH, &checks_token, ROUND_SECONDS).await?);
    }
    report::rates(&ours, "creates/s");
    report::rates(&baseline, "creates/s");
    Ok(report::ratio_at_least(&ours, &baseline, 0.7))
}

/// Distinct simulated numbers without scripted outcomes, which end in 90 to 99.
#[derive(Clone, Default)]
pub struct NumberSequence(Arc<AtomicU64>);

impl NumberSequence {
    pub fn next(&self) -> String {
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        format!("+990{:010}{:02}", number / 80, number % 80 + 10)
    }

    /// The next number whose SMS match: the simulated operator changes the sender of an odd number's SMS.
    pub fn next_matching(&self) -> String {
        loop {
            let number = self.next();
            if number.ends_with(['0', '2', '4', '6', '8']) {
                return number;
            }
        }
    }
}
