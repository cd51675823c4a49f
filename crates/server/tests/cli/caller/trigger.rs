//! `ringtrue trigger`: what a user does, and what may befall it.

use serde_json::{Value, json};

use super::{MATCHING, OTHER, World, field, text};

/// What a command prints that fails.
fn failed(world: &World, command: &str) -> Value {
    let done = world.run(&format!("{command} --output json")).expect_code(1);
    serde_json::from_str(&done.text()).expect("the output is JSON")
}

#[test]
fn the_sms_of_a_check_is_sent() {
    let world = World::signed_in();
    for (number, matches) in [(MATCHING, true), (OTHER, false)] {
        let id = text(&world.json(&format!("reverse-sms create {number}")), "check_id").to_owned();
        let ended = world.json("trigger");
        assert_eq!((text(&ended, "check_id"), text(&ended, "status")), (id.as_str(), "COMPLETED"));
        assert_eq!(ended["match"], json!(matches), "{number}");
    }
}

#[test]
fn faults_befall_the_sms() {
    let world = World::signed_in();
    for (fault, status, matched) in [
        ("--fault duplicate=2", "COMPLETED", json!(true)),
        ("--fault split=2", "COMPLETED", json!(true)),
        ("--fault spoofed", "COMPLETED", json!(false)),
        ("--sim +990123456702", "COMPLETED", json!(false)),
        ("--fault late=3600", "ACCEPTED", json!(null)),
    ] {
        // Another number for each: only a few checks are made for the same one.
        let number = format!("+9901234{:04}00", fault.len());
        world.run(&format!("reverse-sms create {number}")).expect_code(0);
        let after = world.json(&format!("trigger {fault}"));
        assert_eq!((text(&after, "status"), &after["match"]), (status, &matched), "{fault}");
    }
}

#[test]
fn the_url_of_a_silent_check_is_opened() {
    let world = World::signed_in();
    let created = world.json(&format!("secure-sna create {MATCHING} --reference-id r"));
    let id = text(&created, "check_id");
    let opened = world.json(&format!("trigger {id}"));
    assert_eq!((&opened["check_id"], &opened["reference_id"]), (&created["check_id"], &json!("r")));
    let wrong = world.run(&format!("secure-sna redeem {id} wrong")).expect_code(1).errors();
    assert!(wrong.contains("(code_invalid)"), "{wrong}");
    // Redeemed from standard input: it stays out of the history of the shell.
    let redeem = format!("secure-sna redeem {id} - --output json");
    let redeemed = world.pipe(&redeem, text(&opened, "code")).json();
    assert_eq!((text(&redeemed, "status"), &redeemed["match"]), ("COMPLETED", &json!(true)));

    world.run("discovery create").expect_code(0);
    let row = world.csv("trigger --redeem --sim +990123456702").remove(0);
    assert_eq!((field(&row, "status"), field(&row, "phone_number")), ("COMPLETED", "+990123456702"));

    world.run(&format!("secure-sna create {MATCHING}")).expect_code(0);
    let failed = failed(&world, "trigger --sim +990123456799");
    assert_eq!(failed["error"], "mno_server_error", "{failed}");
}

#[test]
fn a_check_that_ends_in_error_fails_the_command() {
    let world = World::signed_in();
    world.run("reverse-sms create +990123456799").expect_code(0);
    let ended = failed(&world, "trigger");
    assert_eq!((text(&ended, "status"), text(&ended, "error_code")), ("ERROR", "internal_error"));

    let redirect = "--redirect-url http://127.0.0.1:9/end";
    for (create, error) in [
        ("secure-sna create +990123456799".to_owned(), "mno_server_error"),
        (format!("secure-sna create +990123456795 {redirect}"), "mno_timeout"),
        (format!("secure-sna create {MATCHING} --device-ip 198.51.100.7"), "not_mobile_ip"),
    ] {
        world.run(&create).expect_code(0);
        assert_eq!(text(&failed(&world, "trigger --redeem"), "error"), error, "{create}");
    }
}

#[test]
fn a_phone_that_would_be_sent_elsewhere_goes_no_further() {
    let world = World::signed_in();
    world.run(&format!("secure-sna create {MATCHING} --redirect-url http://127.0.0.1:9/end?a=b")).expect_code(0);
    let end = world.json("trigger");
    assert!(!text(&end, "code").is_empty() && end.get("a").is_none(), "{end}");
}

#[test]
fn what_cannot_be_triggered_is_refused_with_what_to_do() {
    let world = World::signed_in();
    let none = world.run("trigger").expect_code(1).errors();
    assert!(none.contains("no check was created from here") && none.contains("reverse-sms create"), "{none}");
    world.run("discovery create").expect_code(0);
    world.run("trigger --fault garbled").expect_code(1);
    world.run("trigger 0199b0a8-0000-7000-8000-000000000000").expect_code(1);
    world.run(&format!("reverse-sms create {MATCHING}")).expect_code(0);
    world.run("trigger --redeem").expect_code(1);
}
