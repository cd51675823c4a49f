//! Tests this release beside the previous one on one PostgreSQL database: upgrades and rollbacks, node by node.

use std::{path::PathBuf, process::Command};

use ringtrue_test_support::{
    database::Database,
    http_client::{Request, token_request},
    poll_until,
    server_process::ServerProcess,
};
use serde_json::{Value, json};

use crate::deployment::{BINARY, CHECKS, Deployment, wait_until_known};

const NUMBER: &str = "+990123456700";

/// Builds the release with the newest tag. Fails if no release is tagged.
fn previous_release() -> PathBuf {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/previous-release");
    let built = Command::new(script).output().expect("the script runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    PathBuf::from(String::from_utf8(built.stdout).unwrap().trim())
}

#[tokio::test]
async fn both_releases_run_during_an_upgrade_and_a_rollback() {
    let (this, previous) = (PathBuf::from(BINARY), previous_release());
    for (from, to) in [(&previous, &this), (&this, &previous)] {
        let database = Database::postgres().await;
        let from = Deployment::of_release(from, database.address());
        let to = from.with_binary(to);

        let (mut first, mut second) = (from.serve(), from.serve());
        let token = from.product_token(&first, json!({})).await;
        wait_until_known(&second, &token).await;
        let before = create(&first, &token).await;
        assert!(to.run(&["migrate"]).status.success());

        stop(&mut first).await;
        let first = to.serve();
        wait_until_known(&first, &token).await;
        complete(&second, &first, &before, &token).await;
        for (here, there) in [(&first, &second), (&second, &first)] {
            let created = create(here, &token).await;
            complete(here, there, &created, &token).await;
        }

        verify(&from, &first, &second, "From first to second").await;
        verify(&from, &second, &first, "From second to first").await;

        stop(&mut second).await;
        let second = to.serve();
        wait_until_known(&second, &token).await;
        let created = create(&second, &token).await;
        complete(&first, &second, &created, &token).await;
    }
}

async fn token_of(server: &ServerProcess, credential: &Value, scope: &str) -> String {
    let [id, secret] = ["client_id", "client_secret"].map(|name| credential[name].as_str().unwrap());
    server.send(token_request(id, secret, scope)).await.access_token()
}

/// One node creates a verification in a new project, the other one receives its SMS.
async fn verify(deployment: &Deployment, creating: &ServerProcess, receiving: &ServerProcess, project: &str) {
    let manager = deployment.manager(creating.address).await;
    let create = Request::post(&format!("{}/projects", deployment.path())).bearer(&manager);
    let project = creating.send(create.json(&json!({"name": project}))).await.assert(201).json();
    let credential = &project["credentials"][0];
    let token = token_of(creating, credential, "verification").await;
    let sms_token = token_of(creating, credential, "reverse_sms").await;
    wait_until_known(receiving, &sms_token).await;
    let request = json!({"phone_number": NUMBER, "methods": ["reverse_sms"]});
    let create = Request::post("/v1/verifications").bearer(&token).json(&request);
    let created = creating.send(create).await.assert(201).json();
    let (to, body) = (&created["next_step"]["receiver_phone_number"], &created["next_step"]["expected_sms_body"]);
    let sms = json!({"from": NUMBER, "to": to, "body": body});
    receiving.send(Request::post("/v1/sandbox/inbound-sms").bearer(&sms_token).json(&sms)).await.assert(202);
    let path = format!("/v1/verifications/{}", created["verification_id"].as_str().unwrap());
    poll_until("the verification is completed", async || {
        let verification = creating.get(&path, &token).await.assert(200).json();
        verification["status"] == "COMPLETED" && verification["match"] == true
    })
    .await;
}

struct Created {
    path: String,
    sms: Value,
}

async fn create(server: &ServerProcess, token: &str) -> Created {
    let create = Request::post(CHECKS).bearer(token).json(&json!({"phone_number": NUMBER}));
    let check = server.send(create).await.assert(201).json();
    Created {
        path: format!("{CHECKS}/{}", check["check_id"].as_str().unwrap()),
        sms: json!({"from": NUMBER, "to": check["receiver_phone_number"], "body": check["expected_sms_body"]}),
    }
}

/// One node receives the SMS, the other one reads the completed check.
async fn complete(receiving: &ServerProcess, reading: &ServerProcess, created: &Created, token: &str) {
    assert_eq!(reading.get(&created.path, token).await.assert(200).json()["status"], "ACCEPTED");
    let sms = Request::post("/v1/sandbox/inbound-sms").bearer(token).json(&created.sms);
    receiving.send(sms).await.assert(202);
    poll_until("the check is completed", async || {
        let check = reading.get(&created.path, token).await.assert(200).json();
        check["status"] == "COMPLETED" && check["match"] == true
    })
    .await;
}

async fn stop(server: &mut ServerProcess) {
    server.terminate();
    assert!(server.wait_for_exit().await.success());
}
