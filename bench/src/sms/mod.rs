//! SMS over SMPP: Ringtrue matches each SMS with its check and concludes the check durably before it acknowledges the
//! SMS. Kannel forwards the same messages to an HTTP receiver.
//!
//! Both bind once to an SMSC with the same window. Kannel runs without its store and log.

mod kannel;
mod smsc;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::ensure;
use bytes::Bytes;
use serde_json::Value;
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};

use crate::{
    cpu_cost::CpuCost,
    creates::CHECKS_PATH,
    deployment::{Deployment, Project, json_request, json_text},
    load::{self, Connection, per_second},
    receiver::CallbackReceiver,
    report::{self, Rates},
};
use kannel::Kannel;
use smsc::{BenchSmsc, Sms, encode_messages};

const ROUNDS: usize = 5;
const MESSAGES: u64 = 10_000;
const WINDOW: usize = 256;
const ROUND_TIMEOUT: Duration = Duration::from_mins(1);
const NETWORK: &str = "23410";
const RECEIVER: &str = "+447700900001";

pub async fn compare() -> anyhow::Result<bool> {
    report::heading("SMS over SMPP on PostgreSQL: received, matched and concluded durably; window of 256");
    let mut our_smsc = BenchSmsc::start(WINDOW).await?;
    let deployment = Deployment::start("bench_sms", &settings(our_smsc.address.port()))?;
    let project = deployment.live_project(NETWORK).await?;
    timeout(ROUND_TIMEOUT, our_smsc.wait_for_bind()).await??;

    let mut kannel_smsc = BenchSmsc::start(WINDOW).await?;
    let receiver = CallbackReceiver::start().await?;
    let _kannel = Kannel::start(kannel_smsc.address, receiver.address)?;
    timeout(ROUND_TIMEOUT, kannel_smsc.wait_for_bind()).await??;

    let mut ours = Rates::new("ringtrue");
    let mut kannel = Rates::new("Kannel with an HTTP receiver");
    let mut cost = CpuCost::on_postgres(&deployment)?;
    for round in 0..=ROUNDS {
        let messages = encode_messages(&create_checks(&deployment, &project).await?)?;
        let our_rate = cost.measure(measure_ringtrue(&mut our_smsc, messages.clone())).await?;
        let their_rate = measure_kannel(&mut kannel_smsc, &receiver, messages).await?;
        // Round 0 is a warm-up.
        if round > 0 {
            ours.rounds.push(our_rate);
            kannel.rounds.push(their_rate);
        }
    }
    let sent = (MESSAGES * (ROUNDS as u64 + 1)).to_string();
    let matched = deployment.database.run("select count(*) from checks where status = 'COMPLETED' and matched")?;
    ensure!(matched == sent, "only {matched} of {sent} checks were matched");
    report::rates(&ours, "SMS/s");
    cost.report();
    report::rates(&kannel, "SMS/s");
    Ok(report::ratio_at_least(&ours, &kannel, 3.0))
}

fn settings(port: u16) -> String {
    format!(
        r#"
        [networks.{NETWORK}]
        name = "Bench"
        country = "GB"
        prefixes = ["+447"]
        receivers = ["{RECEIVER}"]

        [connectors.bench]
        kind = "smpp"
        host = "127.0.0.1"
        port = {port}
        system_id = "sandbox"
        password_env = "BENCH_SMSC_PASSWORD"
        receivers = ["{RECEIVER}"]
        window = {WINDOW}
        "#
    )
}

/// Creates checks and returns the SMS that match them.
async fn create_checks(deployment: &Deployment, project: &Project) -> anyhow::Result<Vec<Sms>> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let remaining = Arc::new(AtomicU64::new(MESSAGES));
    let mut clients = JoinSet::new();
    for _ in 0..load::CONNECTIONS {
        let mut connection = Connection::open(deployment.address).await?;
        let (remaining, token) = (Arc::clone(&remaining), project.token.clone());
        clients.spawn(async move {
            let mut messages = Vec::new();
            while remaining.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1)).is_ok() {
                let number = format!("+447{:09}", NEXT.fetch_add(1, Ordering::Relaxed));
                let body = format!(r#"{{"phone_number":"{number}"}}"#);
                let request = json_request("POST", CHECKS_PATH, &token, &body);
                let created: Value = serde_json::from_slice(connection.fetch_body(request.as_bytes()).await?)?;
                let (to, body) =
                    (json_text(&created, "/receiver_phone_number")?, json_text(&created, "/expected_sms_body")?);
                messages.push(Sms { from: number, to, text: body });
            }
            anyhow::Ok(messages)
        });
    }
    let mut messages = Vec::new();
    while let Some(ended) = clients.join_next().await {
        messages.extend(ended??);
    }
    Ok(messages)
}

/// Measures until the last SMS is acknowledged, after its check is concluded durably.
async fn measure_ringtrue(smsc: &mut BenchSmsc, messages: Vec<Bytes>) -> anyhow::Result<f64> {
    let started = Instant::now();
    smsc.deliver(messages).await?;
    Ok(per_second(MESSAGES, started.elapsed()))
}

/// Measures until the last SMS has reached the HTTP receiver.
async fn measure_kannel(
    smsc: &mut BenchSmsc,
    receiver: &CallbackReceiver,
    messages: Vec<Bytes>,
) -> anyhow::Result<f64> {
    let expected = receiver.received() + MESSAGES;
    let started = Instant::now();
    smsc.deliver(messages).await?;
    receiver.wait_for(expected, ROUND_TIMEOUT).await?;
    Ok(per_second(MESSAGES, started.elapsed()))
}
