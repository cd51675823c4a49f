//! `tail`: what happens to checks, as it happens.

use serde_json::{Value, json};

use super::{MATCHING, OTHER, World, text};
use crate::process::Server;

#[track_caller]
fn line(tail: &Server, word: &str) -> Value {
    serde_json::from_str(&tail.wait_for(word)).expect("a line of JSON")
}

#[test]
fn checks_of_all_products_are_told_of_as_they_change() {
    let world = World::signed_in();
    world.run(&format!("reverse-sms create {MATCHING} --reference-id before")).expect_code(0);
    let mut tail = world.going_on("tail --output json");
    tail.wait_for("Following");

    let id = text(&world.json(&format!("reverse-sms create {MATCHING}")), "check_id").to_owned();
    let first = line(&tail, "{");
    let shown = |line: &Value| [&line["check_id"], &line["product"], &line["status"]].map(Value::clone);
    assert_eq!(shown(&first), [json!(id), json!("reverse_sms"), json!("ACCEPTED")]);
    world.run(&format!("trigger {id}")).expect_code(0);
    let ended = line(&tail, "{");
    assert_eq!((shown(&ended), &ended["match"]), ([json!(id), json!("reverse_sms"), json!("COMPLETED")], &json!(true)));
    world.run(&format!("sim-swap create {OTHER}")).expect_code(0);
    let swap = line(&tail, "{");
    assert_eq!((&swap["product"], &swap["no_sim_change"]), (&json!("sim_swap"), &json!(false)));
    tail.signal("INT");
    assert_eq!(tail.end().code(), Some(0));
}

#[test]
fn a_search_and_a_product_narrow_it_down() {
    let world = World::signed_in();
    let tail = world.going_on("tail --product reverse-sms --search reference_id==wanted --output csv");
    tail.wait_for("Following");
    world.run(&format!("sim-swap create {OTHER} --reference-id wanted")).expect_code(0);
    world.run(&format!("reverse-sms create {OTHER} --reference-id other")).expect_code(0);
    world.run(&format!("reverse-sms create {MATCHING} --reference-id wanted")).expect_code(0);
    assert!(tail.wait_for(",").starts_with("product,check_id,status,match,"));
    assert!(tail.wait_for(",").contains(",wanted,"));
    tail.stop();
    let wrong = world.run("tail --search nonsense").expect_code(1);
    assert!(wrong.errors().contains("(search_invalid)"), "{}", wrong.errors());
}

#[test]
fn a_server_that_goes_away_is_waited_for() {
    let mut world = World::signed_in();
    let tail = world.going_on("tail --output json");
    tail.wait_for("Following");
    world.stop();
    tail.wait_for("Trying on.");
    world.start_again();
    let id = text(&world.json(&format!("reverse-sms create {MATCHING}")), "check_id").to_owned();
    assert_eq!(line(&tail, &id)["status"], "ACCEPTED");
    tail.wait_for("The server answers again.");
    tail.stop();
}
