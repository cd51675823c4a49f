//! Check reads by id on PostgreSQL, against a bare handler.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::{
    bare,
    cpu_cost::CpuCost,
    creates::{CHECKS_PATH, NumberSequence},
    deployment::{Deployment, get_request, json_request, json_text},
    load::{self, Connection},
    report::{self, Rates},
};

/// Distinct checks of the requests.
const CHECKS: usize = 2_000;

pub async fn compare() -> anyhow::Result<bool> {
    report::heading("Check reads by id on PostgreSQL: over HTTP, 256 connections");
    let deployment = Deployment::start("bench_reads", "")?;
    let project = deployment.sandbox_project().await?;
    let mut connection = Connection::open(deployment.address).await?;
    let (numbers, mut requests) = (NumberSequence::default(), Vec::new());
    for _ in 0..CHECKS {
        let body = format!(r#"{{"phone_number":"{}"}}"#, numbers.next());
        let request = json_request("POST", CHECKS_PATH, &project.token, &body);
        let created: Value = serde_json::from_slice(connection.fetch_body(request.as_bytes()).await?)?;
        requests.push(get_request(&format!("{CHECKS_PATH}/{}", json_text(&created, "/check_id")?), &project.token));
    }
    let size = connection.fetch_body(requests[0].as_bytes()).await?.len();
    let bare_handler = bare::start(size)?;

    let rate = async |address| {
        let (requests, turn) = (requests.clone(), AtomicUsize::new(0));
        let write = move |request: &mut Vec<u8>| {
            let turn = turn.fetch_add(1, Ordering::Relaxed);
            request.extend_from_slice(requests[turn % requests.len()].as_bytes());
        };
        load::generated_rate(address, load::CONNECTIONS, load::ROUND_DURATION, write).await
    };
    let mut ours = Rates::new("ringtrue");
    let mut bare = Rates::new("bare axum handler");
    let mut cost = CpuCost::on_postgres(&deployment)?;
    for address in [deployment.address, bare_handler.address] {
        rate(address).await?;
    }
    for _ in 0..load::ROUNDS {
        ours.rounds.push(cost.measure(rate(deployment.address)).await?);
        bare.rounds.push(rate(bare_handler.address).await?);
    }
    report::rates(&ours, "requests/s");
    cost.report();
    report::rates(&bare, "requests/s");
    Ok(report::ratio_at_least(&ours, &bare, 0.45))
}
