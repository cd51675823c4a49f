//! A real Kannel in front of the real binary: `fakesmsc` sends, `bearerbox` accepts, `smsbox` calls our ingress.
//!
//! Kannel is configured according to docs/connectors.md. If we are down or respond with 503, it must retry, so that
//! checks conclude without a second SMS.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

#[path = "../http/client.rs"]
#[expect(dead_code, reason = "not all of the client is needed here")]
mod client;
#[path = "../http/database.rs"]
#[expect(dead_code, reason = "nor of the database")]
mod database;
mod deployment;
mod gateway;

use std::{
    process::Command,
    time::{Duration, Instant},
};

use client::WAIT_LIMIT;
use database::{Database, server};
use deployment::{Deployment, RECEIVER};
use gateway::{Kannel, Ports, Way};

const NUMBER: &str = "+447700900123";

#[tokio::test]
async fn kannel_retries_after_our_restart() {
    let database = Database::sqlite().await;
    let ports = Ports::free();
    let deployment = Deployment::new(database.address(), &ports);
    let node = deployment.serve();
    let project = deployment.project(&node).await;
    let kannel = Kannel::start(&ports, Way::Get).await;

    let check = node.create(&project, NUMBER).await;
    let texting = kannel.text(NUMBER, RECEIVER, &check.body);
    node.completed(&project, &check.id).await;
    assert_eq!(node.inbound("accepted").await, 1);
    drop(texting);

    let check = node.create(&project, NUMBER).await;
    node.kill();
    let texting = kannel.text(NUMBER, RECEIVER, &check.body);
    eventually("Kannel has tried in vain", async || kannel.retries(&check.body)).await;

    let node = deployment.serve();
    node.completed(&project, &check.id).await;
    assert_eq!((node.inbound("accepted").await, node.inbound("duplicate").await), (1, 0));
    drop(texting);
}

#[tokio::test]
async fn kannel_retries_after_a_store_outage() {
    let database = Database::postgres().await;
    let ports = Ports::free();
    let deployment = Deployment::new(database.address(), &ports);
    let node = deployment.serve();
    let project = deployment.project(&node).await;
    let kannel = Kannel::start(&ports, Way::Post).await;

    let check = node.create(&project, NUMBER).await;
    let texting = kannel.text(NUMBER, RECEIVER, &check.body);
    node.completed(&project, &check.id).await;
    drop(texting);

    let check = node.create(&project, NUMBER).await;
    block_database(&database);
    let texting = kannel.text(NUMBER, RECEIVER, &check.body);
    eventually("Kannel got 503", async || node.inbound("store_down").await > 0).await;
    assert_eq!(node.inbound("accepted").await, 1, "only the first");

    unblock_database(&database);
    node.completed(&project, &check.id).await;
    assert_eq!((node.inbound("accepted").await, node.inbound("duplicate").await), (2, 0));
    drop(texting);
}

/// Terminates all connections to the database and rejects new ones.
fn block_database(database: &Database) {
    let name = name(database);
    psql(&format!("alter database {name} allow_connections false"));
    psql(&format!("select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'"));
}

fn unblock_database(database: &Database) {
    psql(&format!("alter database {} allow_connections true", name(database)));
}

fn name(database: &Database) -> String {
    let address = url::Url::parse(database.address()).unwrap();
    address.path().trim_start_matches('/').to_owned()
}

fn psql(statement: &str) {
    let output = Command::new("psql").args([&server(), "--no-psqlrc", "--quiet", "--command", statement]).output();
    let output = output.expect("psql runs");
    assert!(output.status.success(), "{statement}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Waits for an asynchronous effect.
async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < WAIT_LIMIT, "still not: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
