//! `tail`.

use serde_json::{Value, json};

use super::{MATCHING, OTHER, TestClient, text};
use crate::process::RunningCommand;

#[track_caller]
fn line(tail: &RunningCommand, word: &str) -> Value {
    serde_json::from_str(&tail.wait_for(word)).expect("a line of JSON")
}

#[test]
fn changes_of_all_products_are_printed() {
    let client = TestClient::signed_in();
    client.run(&format!("reverse-sms create {MATCHING} --reference-id before")).expect_code(0);
    let mut tail = client.start_command("tail --output json");
    tail.wait_for("Watching for changes");

    let id = text(&client.json(&format!("reverse-sms create {MATCHING}")), "check_id").to_owned();
    let first = line(&tail, "{");
    let shown = |line: &Value| [&line["check_id"], &line["product"], &line["status"]].map(Value::clone);
    assert_eq!(shown(&first), [json!(id), json!("reverse_sms"), json!("ACCEPTED")]);
    client.run(&format!("trigger {id}")).expect_code(0);
    let ended = line(&tail, "{");
    assert_eq!((shown(&ended), &ended["match"]), ([json!(id), json!("reverse_sms"), json!("COMPLETED")], &json!(true)));
    client.run(&format!("sim-swap create {OTHER}")).expect_code(0);
    let swap = line(&tail, "{");
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
    assert_eq!(line(&tail, &id)["status"], "ACCEPTED");
    tail.wait_for("The server is reachable again.");
    tail.stop();
}
