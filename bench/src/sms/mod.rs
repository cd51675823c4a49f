//! SMS over SMPP: ours takes them in, finds their checks and ends these durably, before it answers the message centre;
//! Kannel takes the same messages in and hands them to a plain HTTP receiver.
//!
//! Both are clients of the same kind of message centre, with the same window, on connections of one bind. Kannel is spared its store and its log.

mod centre;
mod kannel;

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
    cost::Cost,
    creates::PATH,
    deployment::{Deployment, Project, json_request, text},
    load::{self, Connection, per_second},
    receiver::Receiver,
    report::{self, Rates},
};
use centre::{Centre, Sms, written_down};
use kannel::Kannel;

const ROUNDS: usize = 5;
const MESSAGES: u64 = 10_000;
const WINDOW: usize = 256;
const PATIENCE: Duration = Duration::from_mins(1);
const NETWORK: &str = "23410";
const RECEIVER: &str = "+447700900001";

pub async fn compare() -> anyhow::Result<bool> {
    report::heading("SMS over SMPP on PostgreSQL: taken in, matched and durably concluded; a window of 256");
    let mut our_centre = Centre::start(WINDOW).await?;
    let deployment = Deployment::start("bench_sms", &settings(our_centre.address.port()))?;
    let project = deployment.live_project(NETWORK).await?;
    timeout(PATIENCE, our_centre.bound()).await??;

    let mut their_centre = Centre::start(WINDOW).await?;
    let receiver = Receiver::start().await?;
    let _kannel = Kannel::start(their_centre.address, receiver.address)?;
    timeout(PATIENCE, their_centre.bound()).await??;

    let mut ours = Rates::new("ringtrue");
    let mut kannel = Rates::new("Kannel to an HTTP receiver");
    let mut cost = Cost::of(&deployment)?;
    for round in 0..=ROUNDS {
        let messages = written_down(&invited(&deployment, &project).await?)?;
        let our_rate = cost.count(concluded(&mut our_centre, messages.clone())).await?;
        let their_rate = handed_over(&mut their_centre, &receiver, messages).await?;
        // Nobody is measured cold.
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
    Ok(report::ratio(&ours, &kannel, 4.0))
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

/// Creates checks, and gives what their subjects are to send.
async fn invited(deployment: &Deployment, project: &Project) -> anyhow::Result<Vec<Sms>> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let left = Arc::new(AtomicU64::new(MESSAGES));
    let mut callers = JoinSet::new();
    for _ in 0..load::CONNECTIONS {
        let mut connection = Connection::open(deployment.address).await?;
        let (left, token) = (Arc::clone(&left), project.token.clone());
        callers.spawn(async move {
            let mut messages = Vec::new();
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
                let number = format!("+447{:09}", NEXT.fetch_add(1, Ordering::Relaxed));
                let body = format!(r#"{{"phone_number":"{number}"}}"#);
                let request = json_request("POST", PATH, &token, &body);
                let created: Value = serde_json::from_slice(connection.exchange(request.as_bytes()).await?)?;
                let (to, body) = (text(&created, "/receiver_phone_number")?, text(&created, "/expected_sms_body")?);
                messages.push(Sms { from: number, to, text: body });
            }
            anyhow::Ok(messages)
        });
    }
    let mut messages = Vec::new();
    while let Some(ended) = callers.join_next().await {
        messages.extend(ended??);
    }
    Ok(messages)
}

/// Until the last one was acknowledged, which it is when its check has durably ended.
async fn concluded(centre: &mut Centre, messages: Vec<Bytes>) -> anyhow::Result<f64> {
    let begun = Instant::now();
    centre.deliver(messages).await?;
    Ok(per_second(MESSAGES, begun.elapsed()))
}

/// Until the last one has reached the receiver.
async fn handed_over(centre: &mut Centre, receiver: &Receiver, messages: Vec<Bytes>) -> anyhow::Result<f64> {
    let wanted = receiver.received() + MESSAGES;
    let begun = Instant::now();
    centre.deliver(messages).await?;
    receiver.wait_for(wanted, PATIENCE).await?;
    Ok(per_second(MESSAGES, begun.elapsed()))
}
