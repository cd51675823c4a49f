//! Concatenated SMS whose parts arrive at two processes on one PostgreSQL database.

use ringtrue_sandbox::smsc::{DeliveryOutcome, FaultScript, Sms, Smsc, SmscConfig};
use ringtrue_test_support::{database::Database, server_process::ServerProcess};

use crate::{
    deployment::{Deployment, wait_until_known},
    smsc::{self, PendingCheck, metric},
};

const PARTS: &str = "ringtrue_inbound_sms_total{connector=\"o2\",outcome=\"part_taken\"}";
const CONCLUDED: &str = "ringtrue_inbound_sms_total{connector=\"o2\",outcome=\"concluded\"}";

async fn send(smsc: &Smsc, check: &PendingCheck, faults: FaultScript) {
    let sms = Sms::new(check.from.as_str(), check.to.as_str(), check.text.as_str()).with_faults(faults);
    assert_eq!(smsc.send(sms).unwrap().wait_for_outcome().await, DeliveryOutcome::Acknowledged);
}

async fn total(nodes: &[&ServerProcess], name: &str) -> f64 {
    let mut total = 0.0;
    for node in nodes {
        total += metric(node, name).await.unwrap();
    }
    total
}

#[tokio::test]
async fn parts_at_two_processes_are_joined() {
    let smsc = smsc::start(SmscConfig::default()).await;
    let database = Database::postgres().await;
    let deployment = Deployment::new(database.address());
    let settings = smsc::settings(&smsc, "");
    let [first, second] = [(); 2].map(|()| deployment.serve_with(&settings.variables));
    smsc.observer().wait_until(|counts| counts.binds == 2).await;
    let token = deployment.live_token(&first).await;
    wait_until_known(&second, &token).await;
    let split = || FaultScript::new().split_into(3).spread_over_binds();
    for (number, faults) in [split(), split().parts_reversed(), split().duplicated(1)].into_iter().enumerate() {
        let check = PendingCheck::create(&first, &token, &format!("+44770090020{number}")).await;
        send(&smsc, &check, faults).await;
        check.assert_matched(&second, &token).await;
    }
    let nodes = [&first, &second];
    assert!((total(&nodes, CONCLUDED).await - 3.0).abs() < 0.5, "each SMS is concluded by one node");
    for node in nodes {
        assert!(metric(node, PARTS).await.unwrap() >= 2.0, "both nodes received parts");
    }
}

/// A part that was acknowledged survives the process that acknowledged it.
#[tokio::test]
async fn acknowledged_part_survives_a_kill() {
    // Simulates two sites of one SMSC. Each site sends one part of the SMS, with the same concatenation reference.
    let [one, other] = [smsc::start(SmscConfig::default()).await, smsc::start(SmscConfig::default()).await];
    let database = Database::postgres().await;
    let deployment = Deployment::new(database.address());
    let settings = [smsc::settings(&one, ""), smsc::settings(&other, "")];
    let [mut first, second] = settings.each_ref().map(|settings| deployment.serve_with(&settings.variables));
    let token = deployment.live_token(&first).await;
    wait_until_known(&second, &token).await;

    let check = PendingCheck::create(&first, &token, "+447700900301").await;
    send(&one, &check, FaultScript::new().split_into(2).without_part(2)).await;
    assert_eq!(check.read(&second, &token).await["status"], "PENDING");
    first.kill();
    send(&other, &check, FaultScript::new().split_into(2).without_part(1)).await;
    check.assert_matched(&second, &token).await;
}
