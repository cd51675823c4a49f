//! `watch` of one check and of all checks of a product; `tail` of all products.

use std::process::Stdio;

use serde_json::{Value, json};

use super::{MATCHING, OTHER, TestClient, text};
use crate::process::RunningCommand;

#[test]
fn watch_ends_with_the_check() {
    let client = TestClient::signed_in();
    let id = text(&client.json(&format!("reverse-sms create {MATCHING}")), "check_id").to_owned();
    let mut watching = RunningCommand::start(client.command(&format!("reverse-sms watch {id}")).stderr(Stdio::null()));
    watching.wait_for("ACCEPTED");
    client.run(&format!("trigger {id}")).expect_code(0);
    watching.wait_for("status COMPLETED  match true");
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
    // The command prints this after the first poll, and reports only changes from then on.
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

#[track_caller]
fn next_line(tail: &RunningCommand, word: &str) -> Value {
    serde_json::from_str(&tail.wait_for(word)).expect("a line of JSON")
}

#[test]
fn changes_of_all_products_are_printed() {
    let client = TestClient::signed_in();
    client.run(&format!("reverse-sms create {MATCHING} --reference-id before")).expect_code(0);
    let mut tail = client.start_command("tail --output json");
    tail.wait_for("Watching for changes");

    let id = text(&client.json(&format!("reverse-sms create {MATCHING}")), "check_id").to_owned();
    let first = next_line(&tail, "{");
    let shown = |line: &Value| [&line["check_id"], &line["product"], &line["status"]].map(Value::clone);
    assert_eq!(shown(&first), [json!(id), json!("reverse_sms"), json!("ACCEPTED")]);
    client.run(&format!("trigger {id}")).expect_code(0);
    let ended = next_line(&tail, "{");
    assert_eq!((shown(&ended), &ended["match"]), ([json!(id), json!("reverse_sms"), json!("COMPLETED")], &json!(true)));
    client.run(&format!("sim-swap create {OTHER}")).expect_code(0);
    let swap = next_line(&tail, "{");
    assert_eq!((&swap["product"], &swap["no_sim_change"]), (&json!("sim_swap"), &json!(false)));
    tail.signal("INT");
    assert_eq!(tail.wait_for_exit().code(), Some(0));
}

#[test]
fn search_and_product_filter_checks() {
    let client = TestClient::signed_in();
    let tail = client.start_command("tail --product reverse-sms --search reference_id==wanted --output csv");
    tail.wait_for("Watching for changes");
    client.run(&format!("sim-swap create {OTHER} --reference-id wanted")).expect_code(0);
    client.run(&format!("reverse-sms create {OTHER} --reference-id other")).expect_code(0);
    client.run(&format!("reverse-sms create {MATCHING} --reference-id wanted")).expect_code(0);
    assert!(tail.wait_for(",").starts_with("product,check_id,status,match,"));
    assert!(tail.wait_for(",").contains(",wanted,"));
    tail.stop();
    let wrong = client.run("tail --search nonsense").expect_code(1);
    assert!(wrong.errors().contains("(search_invalid)"), "{}", wrong.errors());
}

#[test]
fn tail_resumes_after_a_server_restart() {
    let mut client = TestClient::signed_in();
    let tail = client.start_command("tail --output json");
    tail.wait_for("Watching for changes");
    client.stop();
    tail.wait_for("Retrying.");
    client.restart_server();
    let id = text(&client.json(&format!("reverse-sms create {MATCHING}")), "check_id").to_owned();
    assert_eq!(next_line(&tail, &id)["status"], "ACCEPTED");
    tail.wait_for("The server is reachable again.");
    tail.stop();
}

#[test]
fn tail_and_listen_do_not_fill_the_request_log() {
    const CHECKS: &str = "/v1/number-verification/reverse-sms-checks";

    let client = TestClient::signed_in();
    let log = client.start_command("logs --follow --output json");
    log.wait_for("Watching for changes");
    let tail = client.start_command("tail --interval 1 --output json");
    tail.wait_for("Watching for changes");
    let listening = client.start_command("listen --project --output json");
    listening.wait_for("To stop");
    let id = text(&client.json(&format!("reverse-sms create {MATCHING}")), "check_id").to_owned();
    client.run(&format!("trigger {id}")).expect_code(0);
    // Both have polled at least once more since they started.
    tail.wait_for("COMPLETED");
    listening.wait_for(&id);
    tail.stop();
    listening.stop();

    // A list that the user asks for is logged, and entries are written in the order of their requests.
    client.run("reverse-sms list --size 7").expect_code(0);
    log.wait_for("size=7");
    log.stop();
    let entries = client.json("logs");
    let reads = entries.as_array().unwrap().iter().filter(|entry| entry["method"] == "GET");
    let polled = |route: &str| route == CHECKS || route.contains("callbacks");
    let shown: Vec<_> = reads
        .filter(|entry| polled(text(entry, "route")))
        .map(|entry| (text(entry, "route"), entry["query"].as_str()))
        .collect();
    assert_eq!(shown, [(CHECKS, Some("size=7&page=1"))], "{entries:#}");
}
