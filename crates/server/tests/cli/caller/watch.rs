//! `watch`: one check until its end, or all of them.

use std::process::Stdio;

use serde_json::{Value, json};

use super::{MATCHING, World, text};
use crate::process::Server;

#[test]
fn a_check_is_followed_to_its_end() {
    let world = World::signed_in();
    let id = text(&world.json(&format!("reverse-sms create {MATCHING}")), "check_id").to_owned();
    let mut watching = Server::start(world.command(&format!("reverse-sms watch {id}")).stderr(Stdio::null()));
    watching.wait_for("ACCEPTED");
    world.run(&format!("trigger {id}")).expect_code(0);
    watching.wait_for("COMPLETED  true");
    assert_eq!(watching.end().code(), Some(0));
    world.run(&format!("reverse-sms watch {id}")).expect_code(0);
}

#[test]
fn a_check_that_does_not_complete_is_a_failure() {
    let world = World::signed_in();
    world.run("secure-sna create +990123456700").expect_code(0);
    let failed = world.run("trigger --sim +990123456799 --output json").expect_code(1).text();
    let failed: Value = serde_json::from_str(&failed).unwrap();
    let watched = world.run(&format!("secure-sna watch {} --output json", text(&failed, "check_id"))).expect_code(1);
    let line: Value = serde_json::from_str(&watched.text()).unwrap();
    assert_eq!((&line["status"], &line["error_code"]), (&json!("ERROR"), &json!("mno_server_error")));
    assert_eq!(watched.errors(), "");
}

#[test]
fn all_checks_are_followed_until_told_to_stop() {
    let world = World::signed_in();
    world.run(&format!("reverse-sms create {MATCHING} --reference-id before")).expect_code(0);
    let following = world.going_on("reverse-sms watch --output csv");
    // A remark says when it has looked for the first time.
    following.wait_for("Following");

    world.run(&format!("reverse-sms create {MATCHING} --reference-id after")).expect_code(0);
    assert!(following.wait_for(",").starts_with("check_id,status,match,"));
    assert!(following.wait_for(",after,").contains(",ACCEPTED,"));
    world.run("trigger").expect_code(0);
    assert!(following.wait_for(",after,").contains(",COMPLETED,true,"));
    following.stop();
}

#[test]
fn creating_may_go_on_watching() {
    let world = World::signed_in();
    let line = format!("reverse-sms create {MATCHING} --watch --output json");
    let mut creating = Server::start(world.command(&line).stderr(Stdio::null()));
    let created: Value = serde_json::from_str(&creating.wait_for("expected_sms_body")).unwrap();
    world.run(&format!("trigger {}", text(&created, "check_id"))).expect_code(0);
    let ended: Value = serde_json::from_str(&creating.wait_for("COMPLETED")).unwrap();
    assert_eq!(ended["match"], json!(true));
    assert_eq!(creating.end().code(), Some(0));
}
