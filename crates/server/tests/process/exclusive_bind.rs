//! Tests several processes on one PostgreSQL database with an SMSC that allows one bind per account.

use ringtrue_sandbox::smsc::{DeliveryOutcome, Sms, Smsc, SmscConfig};
use ringtrue_test_support::{database::Database, http_client::Request, server_process::ServerProcess};

use crate::{
    deployment::{Deployment, wait_until_known},
    smsc::{self, PendingCheck, metric, wait_for_metric},
};

const BINDS: &str = "ringtrue_smpp_binds{connector=\"o2\"}";
const STANDBY: &str = "ringtrue_smpp_standby{connector=\"o2\"}";
const UP: &str = "ringtrue_connector_up{connector=\"o2\",kind=\"SMPP\"}";

#[tokio::test]
async fn another_process_takes_over_the_bind() {
    let smsc = smsc::start(SmscConfig { max_binds: 1, max_attempts: 1_000, ..SmscConfig::default() }).await;
    let database = Database::postgres().await;
    let deployment = Deployment::new(database.address());
    let settings = smsc::settings(&smsc, "exclusive = true");
    let serve = || deployment.serve_with(&settings.variables);

    let mut first = serve();
    smsc.observer().wait_until(|counts| counts.binds == 1).await;
    let mut second = serve();
    let token = deployment.live_token(&first).await;
    wait_until_known(&second, &token).await;
    wait_for_metric(&second, STANDBY, 1.0).await;
    wait_for_metric(&first, BINDS, 1.0).await;
    assert_eq!((metric(&first, STANDBY).await, metric(&second, BINDS).await), (Some(0.0), Some(0.0)));
    for node in [&first, &second] {
        assert_eq!(metric(node, UP).await, Some(1.0));
        node.send(Request::get("/readyz")).await.assert(200);
    }
    let (is_healthy, doctor) = deployment.run_with(&["doctor"], &settings.variables);
    assert!(is_healthy && doctor.contains("✓ exclusive binds: bound: o2 on node "), "{doctor}");
    // The node without the bind creates a check. The other node receives the SMS that concludes it.
    let check = PendingCheck::create(&second, &token, "+447700900101").await;
    receive(&smsc, &check).await;
    check.assert_matched(&second, &token).await;

    // The node with the bind is killed, so its lease has to expire. Meanwhile the other node accepts checks, and the
    // SMSC keeps their SMS.
    first.kill();
    let check = PendingCheck::create(&second, &token, "+447700900102").await;
    receive(&smsc, &check).await;
    check.assert_matched(&second, &token).await;
    wait_for_metric(&second, BINDS, 1.0).await;
    assert_eq!(metric(&second, STANDBY).await, Some(0.0));

    // The node with the bind is stopped, so it releases its lease. The next node binds and receives the SMS of the
    // stopped node's checks.
    let check = PendingCheck::create(&second, &token, "+447700900103").await;
    let third = serve();
    wait_for_metric(&third, STANDBY, 1.0).await;
    second.terminate();
    assert!(second.wait_for_exit().await.success());
    receive(&smsc, &check).await;
    check.assert_matched(&third, &token).await;
    wait_for_metric(&third, BINDS, 1.0).await;
    assert_eq!(smsc.counts().binds_rejected, 0, "no two nodes ever bound together");
}

/// Sends the SMS of a check and waits until a node has acknowledged it.
async fn receive(smsc: &Smsc, check: &PendingCheck) {
    let sms = Sms::new(check.from.as_str(), check.to.as_str(), check.text.as_str());
    assert_eq!(smsc.send(sms).unwrap().wait_for_outcome().await, DeliveryOutcome::Acknowledged);
}

/// A node that cannot bind serves requests but receives no SMS, and reports this.
#[tokio::test]
async fn nodes_report_a_missing_bind() {
    let smsc = smsc::start(SmscConfig { max_binds: 1, ..SmscConfig::default() }).await;
    let database = Database::postgres().await;
    let deployment = Deployment::new(database.address());
    let settings = smsc::settings(&smsc, "exclusive = true\ngrace = 0");
    let (is_healthy, doctor) = deployment.run_with(&["doctor"], &settings.variables);
    assert!(is_healthy && doctor.contains("- exclusive binds: no server is running"), "{doctor}");
    smsc.set_refuse_binds(true);
    let nodes: [ServerProcess; 2] = std::array::from_fn(|_| deployment.serve_with(&settings.variables));
    for node in &nodes {
        wait_for_metric(node, UP, 0.0).await;
        assert_eq!((metric(node, BINDS).await, metric(node, STANDBY).await), (Some(0.0), Some(0.0)));
        node.send(Request::get("/readyz")).await.assert(200);
    }
    let (is_healthy, doctor) = deployment.run_with(&["doctor"], &settings.variables);
    assert!(!is_healthy && doctor.contains("✗ exclusive binds: no node is bound: o2\n"), "{doctor}");
    smsc.set_refuse_binds(false);
    for node in &nodes {
        wait_for_metric(node, UP, 1.0).await;
    }
}
