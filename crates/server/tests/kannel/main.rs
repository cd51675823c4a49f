//! A real Kannel in front of the real binary: `fakesmsc` texts, `bearerbox` takes it, `smsbox` calls our ingress.
//!
//! Kannel is configured as docs/connectors.md tells operators to. When we are away, or answer 503, it has to come again:
//! a check ends all the same, and nobody texts twice.

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

use client::PATIENCE;
use database::{Database, server};
use deployment::{Deployment, RECEIVER};
use gateway::{Kannel, Ports, Way};

const NUMBER: &str = "+447700900123";

#[tokio::test]
async fn kannel_comes_again_after_we_were_gone() {
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
async fn kannel_comes_again_after_our_store_was_gone() {
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
    take_away(&database);
    let texting = kannel.text(NUMBER, RECEIVER, &check.body);
    eventually("Kannel was answered 503", async || node.inbound("store_down").await > 0).await;
    assert_eq!(node.inbound("accepted").await, 1, "only the first");

    give_back(&database);
    node.completed(&project, &check.id).await;
    assert_eq!((node.inbound("accepted").await, node.inbound("duplicate").await), (2, 0));
    drop(texting);
}

/// Ends every connection to the database, and lets nobody in.
fn take_away(database: &Database) {
    let name = name(database);
    psql(&format!("alter database {name} allow_connections false"));
    psql(&format!("select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'"));
}

fn give_back(database: &Database) {
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

/// Waits for what others do in their own time.
async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < PATIENCE, "still not: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
