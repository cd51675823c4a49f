//! `watch` of one check and of all checks.

use std::process::Stdio;

use serde_json::{Value, json};

use super::{MATCHING, TestClient, text};
use crate::process::RunningCommand;

#[test]
fn watch_ends_with_the_check() {
    let client = TestClient::signed_in();
    let id = text(&client.json(&format!("reverse-sms create {MATCHING}")), "check_id").to_owned();
    let mut watching = RunningCommand::start(client.command(&format!("reverse-sms watch {id}")).stderr(Stdio::null()));
    watching.wait_for("ACCEPTED");
    client.run(&format!("trigger {id}")).expect_code(0);
    watching.wait_for("COMPLETED  true");
    assert_eq!(watching.wait_for_exit().code(), Some(0));
    client.run(&format!("reverse-sms watch {id}")).expect_code(0);
}

#[test]
fn watch_fails_unless_the_check_completes() {
    let client = TestClient::signed_in();
    client.run("secure-sna create +990123456700").expect_code(0);
    let failed = client.run("trigger --sim +990123456799 --output json").expect_code(1).text();
    let failed: Value = serde_json::from_str(&failed).unwrap();
    let watched = client.run(&format!("secure-sna watch {} --output json", text(&failed, "check_id"))).expect_code(1);
    let line: Value = serde_json::from_str(&watched.text()).unwrap();
    assert_eq!((&line["status"], &line["error_code"]), (&json!("ERROR"), &json!("mno_server_error")));
    assert_eq!(watched.errors(), "");
}

#[test]
fn watch_all_prints_changes_until_stopped() {
    let client = TestClient::signed_in();
    client.run(&format!("reverse-sms create {MATCHING} --reference-id before")).expect_code(0);
    let following = client.start_command("reverse-sms watch --output csv");
    // Printed after the first poll.
    following.wait_for("Watching for changes");

    client.run(&format!("reverse-sms create {MATCHING} --reference-id after")).expect_code(0);
    assert!(following.wait_for(",").starts_with("check_id,status,match,"));
    assert!(following.wait_for(",after,").contains(",ACCEPTED,"));
    client.run("trigger").expect_code(0);
    assert!(following.wait_for(",after,").contains(",COMPLETED,true,"));
    following.stop();
}

#[test]
fn create_with_watch_prints_the_conclusion() {
    let client = TestClient::signed_in();
    let line = format!("reverse-sms create {MATCHING} --watch --output json");
    let mut creating = RunningCommand::start(client.command(&line).stderr(Stdio::null()));
    let created: Value = serde_json::from_str(&creating.wait_for("expected_sms_body")).unwrap();
    client.run(&format!("trigger {}", text(&created, "check_id"))).expect_code(0);
    let ended: Value = serde_json::from_str(&creating.wait_for("COMPLETED")).unwrap();
    assert_eq!(ended["match"], json!(true));
    assert_eq!(creating.wait_for_exit().code(), Some(0));
}
