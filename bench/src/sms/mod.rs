//! SMS over SMPP: ours takes them in, finds their checks and ends these durably, before it answers the message centre;
//! Kannel takes the same messages in and hands them to a plain HTTP receiver.
//!
//! Both are clients of the same kind of message centre, the sandbox's, with the same window, on connections of one
//! bind. Kannel is spared its store and its log.

mod kannel;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use ringtrue_sandbox::smsc::{Outcome, Sms, Smsc, SmscConfig};
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
use kannel::Kannel;

const ROUNDS: usize = 5;
const MESSAGES: u64 = 10_000;
const WINDOW: usize = 256;
const PATIENCE: Duration = Duration::from_mins(1);
const NETWORK: &str = "23410";
const RECEIVER: &str = "+447700900001";

pub async fn compare() -> anyhow::Result<bool> {
    report::heading("SMS over SMPP on PostgreSQL: taken in, matched and durably concluded; a window of 256");
    let our_centre = centre().await?;
    let deployment = Deployment::start("bench_sms", &settings(our_centre.address().port()))?;
    let project = deployment.live_project(NETWORK).await?;
    bound(&our_centre).await?;

    let their_centre = centre().await?;
    let receiver = Receiver::start().await?;
    let _kannel = Kannel::start(their_centre.address(), receiver.address)?;
    bound(&their_centre).await?;

    let mut ours = Rates::new("ringtrue");
    let mut kannel = Rates::new("Kannel to an HTTP receiver");
    let mut cost = Cost::of(&deployment)?;
    for round in 0..=ROUNDS {
        let messages = invited(&deployment, &project).await?;
        let our_rate = cost.count(concluded(&our_centre, &messages)).await?;
        let their_rate = handed_over(&their_centre, &receiver, &messages).await?;
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

async fn centre() -> anyhow::Result<Smsc> {
    let mut config = SmscConfig { queue_length: usize::MAX, remembered: 1, ..SmscConfig::default() };
    config.session.request_window = WINDOW;
    Ok(Smsc::start(config).await?)
}

async fn bound(centre: &Smsc) -> anyhow::Result<()> {
    let observer = centre.observer();
    timeout(PATIENCE, observer.wait_until(|counts| counts.binds > 0)).await.context("nobody binds")?;
    Ok(())
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
                messages.push(Sms::new(number, to, body));
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
async fn concluded(centre: &Smsc, messages: &[Sms]) -> anyhow::Result<f64> {
    let begun = Instant::now();
    let tickets = messages.iter().map(|sms| centre.send(sms.clone())).collect::<Result<Vec<_>, _>>()?;
    for ticket in tickets {
        match ticket.delivered().await {
            Outcome::Acknowledged => {}
            other => bail!("an SMS was not taken: {other:?}"),
        }
    }
    Ok(per_second(MESSAGES, begun.elapsed()))
}

/// Until the last one has reached the receiver.
async fn handed_over(centre: &Smsc, receiver: &Receiver, messages: &[Sms]) -> anyhow::Result<f64> {
    let wanted = receiver.received() + MESSAGES;
    let begun = Instant::now();
    for sms in messages {
        centre.send(sms.clone())?;
    }
    receiver.wait_for(wanted, PATIENCE).await?;
    Ok(per_second(MESSAGES, begun.elapsed()))
}
