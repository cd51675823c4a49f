//! A real Kannel in front of the real binary: `fakesmsc` sends, `bearerbox` accepts, `smsbox` calls our ingress.
//!
//! Kannel is configured according to docs/connectors.md. If the service is down or responds with 503, Kannel must
//! retry, so that checks conclude without a second SMS.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests panic on failure")]

mod deployment;
mod gateway;

use deployment::{Deployment, RECEIVER};
use gateway::{Kannel, Ports, WebhookMethod};
use ringtrue_test_support::{database::Database, poll_until};

const NUMBER: &str = "+447700900123";

#[tokio::test]
async fn kannel_retries_after_our_restart() {
    let database = Database::sqlite().await;
    let ports = Ports::free();
    let deployment = Deployment::new(database.address(), &ports);
    let node = deployment.serve();
    let project = deployment.project(&node).await;
    let kannel = Kannel::start(&ports, WebhookMethod::Get).await;

    let check = node.create(&project, NUMBER).await;
    let texting = kannel.text(NUMBER, RECEIVER, &check.body);
    node.completed(&project, &check.id).await;
    assert_eq!(node.inbound("accepted").await, 1);
    drop(texting);

    let check = node.create(&project, NUMBER).await;
    node.kill();
    let texting = kannel.text(NUMBER, RECEIVER, &check.body);
    poll_until("Kannel has failed to deliver and retries", async || kannel.retries(&check.body)).await;

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
    let kannel = Kannel::start(&ports, WebhookMethod::Post).await;

    let check = node.create(&project, NUMBER).await;
    let texting = kannel.text(NUMBER, RECEIVER, &check.body);
    node.completed(&project, &check.id).await;
    drop(texting);

    let check = node.create(&project, NUMBER).await;
    database.set_blocked(true);
    let texting = kannel.text(NUMBER, RECEIVER, &check.body);
    poll_until("Kannel got 503", async || node.inbound("store_down").await > 0).await;
    assert_eq!(node.inbound("accepted").await, 1, "only the first SMS was accepted");

    database.set_blocked(false);
    node.completed(&project, &check.id).await;
    assert_eq!((node.inbound("accepted").await, node.inbound("duplicate").await), (2, 0));
    drop(texting);
}
