//! `ringtrue trigger`.

use serde_json::{Value, json};

use super::{MATCHING, OTHER, TestClient, field, text};

/// Returns the JSON output of a command that exits with 1.
fn failed(client: &TestClient, command: &str) -> Value {
    let done = client.run(&format!("{command} --output json")).expect_code(1);
    serde_json::from_str(&done.text()).expect("the output is JSON")
}

#[test]
fn trigger_sends_the_sms() {
    let client = TestClient::signed_in();
    for (number, matches) in [(MATCHING, true), (OTHER, false)] {
        let id = text(&client.json(&format!("reverse-sms create {number}")), "check_id").to_owned();
        let ended = client.json("trigger");
        assert_eq!((text(&ended, "check_id"), text(&ended, "status")), (id.as_str(), "COMPLETED"));
        assert_eq!(ended["match"], json!(matches), "{number}");
    }
}

#[test]
fn faults_are_injected() {
    let client = TestClient::signed_in();
    for (fault, status, matched) in [
        ("--fault duplicate=2", "COMPLETED", json!(true)),
        ("--fault split=2", "COMPLETED", json!(true)),
        ("--fault spoofed", "COMPLETED", json!(false)),
        ("--sim +990123456702", "COMPLETED", json!(false)),
        ("--fault late=3600", "ACCEPTED", json!(null)),
    ] {
        // Uses another number for each fault, because the number of checks for each phone number is limited.
        let number = format!("+9901234{:04}00", fault.len());
        client.run(&format!("reverse-sms create {number}")).expect_code(0);
        let after = client.json(&format!("trigger {fault}"));
        assert_eq!((text(&after, "status"), &after["match"]), (status, &matched), "{fault}");
    }
}

#[test]
fn trigger_opens_the_url_of_a_silent_check() {
    let client = TestClient::signed_in();
    let created = client.json(&format!("secure-sna create {MATCHING} --reference-id r"));
    let id = text(&created, "check_id");
    let opened = client.json(&format!("trigger {id}"));
    assert_eq!((&opened["check_id"], &opened["reference_id"]), (&created["check_id"], &json!("r")));
    let wrong = client.run(&format!("secure-sna redeem {id} wrong")).expect_code(1).errors();
    assert!(wrong.contains("(code_invalid)"), "{wrong}");
    // The code is read from standard input.
    let redeem = format!("secure-sna redeem {id} - --output json");
    let redeemed = client.pipe(&redeem, text(&opened, "code")).json();
    assert_eq!((text(&redeemed, "status"), &redeemed["match"]), ("COMPLETED", &json!(true)));

    client.run("discovery create").expect_code(0);
    let row = client.csv("trigger --redeem --sim +990123456702").remove(0);
    assert_eq!((field(&row, "status"), field(&row, "phone_number")), ("COMPLETED", "+990123456702"));

    client.run(&format!("secure-sna create {MATCHING}")).expect_code(0);
    let failed = failed(&client, "trigger --sim +990123456799");
    assert_eq!(failed["error"], "mno_server_error", "{failed}");
}

#[test]
fn operator_that_never_answers_is_reported() {
    let client = TestClient::signed_in();
    let created = client.json("secure-sna create +990123456798");
    let silent = client.run("trigger").expect_code(1).errors();
    assert!(silent.contains("the operator did not answer"), "{silent}");
    let check = client.json(&format!("secure-sna get {}", text(&created, "check_id")));
    assert_eq!(text(&check, "status"), "PENDING");
}

#[test]
fn check_with_error_fails_the_command() {
    let client = TestClient::signed_in();
    client.run("reverse-sms create +990123456799").expect_code(0);
    let ended = failed(&client, "trigger");
    assert_eq!((text(&ended, "status"), text(&ended, "error_code")), ("ERROR", "internal_error"));

    let redirect = "--redirect-url http://127.0.0.1:9/end";
    for (create, error) in [
        ("secure-sna create +990123456799".to_owned(), "mno_server_error"),
        (format!("secure-sna create +990123456795 {redirect}"), "mno_timeout"),
        (format!("secure-sna create {MATCHING} --device-ip 198.51.100.7"), "not_mobile_ip"),
    ] {
        client.run(&create).expect_code(0);
        assert_eq!(text(&failed(&client, "trigger --redeem"), "error"), error, "{create}");
    }
}

#[test]
fn foreign_redirect_is_not_followed() {
    let client = TestClient::signed_in();
    client.run(&format!("secure-sna create {MATCHING} --redirect-url http://127.0.0.1:9/end?a=b")).expect_code(0);
    let end = client.json("trigger");
    assert!(!text(&end, "code").is_empty() && end.get("a").is_none(), "{end}");
}

#[test]
fn invalid_trigger_is_rejected_with_a_hint() {
    let client = TestClient::signed_in();
    let none = client.run("trigger").expect_code(1).errors();
    assert!(none.contains("no recent check in this profile") && none.contains("reverse-sms create"), "{none}");
    client.run("discovery create").expect_code(0);
    client.run("trigger --fault garbled").expect_code(2);
    client.run("trigger 0199b0a8-0000-7000-8000-000000000000").expect_code(1);
    client.run(&format!("reverse-sms create {MATCHING}")).expect_code(0);
    client.run("trigger --redeem").expect_code(2);
}
