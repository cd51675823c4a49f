//! `ringtrue verify` and `ringtrue verification`.

use serde_json::{Value, json};

use super::{MATCHING, OTHER, TestClient, field, text};

/// Parses the last line of a command that prints one JSON object for each change.
fn last_line(output: &str) -> Value {
    serde_json::from_str(output.lines().last().expect("a line")).expect("the output is JSON")
}

#[test]
fn verify_walks_every_path() {
    let client = TestClient::signed_in();
    for (arguments, code, expected) in [
        (MATCHING.to_owned(), 0, json!({"status": "COMPLETED", "match": true, "method": "secure_sna"})),
        (OTHER.to_owned(), 1, json!({"status": "COMPLETED", "match": false, "method": "secure_sna"})),
        (
            format!("{MATCHING} --no-mobile-data --sim-swap-period 60"),
            0,
            json!({"status": "COMPLETED", "match": true, "method": "reverse_sms", "no_sim_change": true}),
        ),
        (
            format!("{MATCHING} --device-ip 198.51.100.7"),
            0,
            json!({"status": "COMPLETED", "match": true, "method": "reverse_sms"}),
        ),
        (format!("{MATCHING} --methods reverse_sms"), 0, json!({"status": "COMPLETED", "method": "reverse_sms"})),
        ("+990123456799".to_owned(), 1, json!({"status": "ERROR", "error_code": "methods_exhausted"})),
    ] {
        let done = client.run(&format!("verify {arguments} --output json")).expect_code(code);
        let end = last_line(&done.text());
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(&end[name], value, "{arguments}: {end}");
        }
    }
    let refused = client.run("verify +990123456797").expect_code(1).errors();
    assert!(refused.contains("(mno_not_supported)"), "{refused}");
    let table = client.run(&format!("verify {MATCHING} --no-mobile-data")).expect_code(0);
    assert!(table.text().contains("status COMPLETED  match true  method reverse_sms"), "{}", table.text());
    let notes =
        "The phone skips secure_sna.\nsecure_sna failed: given_up\nThe phone sends the SMS.\nThe number is verified.\n";
    assert_eq!(table.errors(), notes);
}

#[test]
fn operator_that_never_answers_leads_to_the_next_method() {
    let client = TestClient::signed_in();
    let done = client.run("verify +990123456798 --methods secure_sna --output json").expect_code(1);
    assert!(done.errors().contains("The operator did not answer. The phone goes on"), "{}", done.errors());
    let end = last_line(&done.text());
    assert_eq!((&end["error_code"], &end["steps"][0]["error_code"]), (&json!("methods_exhausted"), &json!("given_up")));
}

#[test]
fn first_trial_can_be_repeated() {
    let client = TestClient::signed_in();
    for _ in 0..8 {
        client.run(&format!("verify {MATCHING}")).expect_code(0);
        client.run(&format!("reverse-sms create {MATCHING}")).expect_code(0);
        client.run(&format!("secure-sna create {MATCHING}")).expect_code(0);
    }
}

#[test]
fn verification_is_driven_step_by_step() {
    let client = TestClient::signed_in();
    let created = client.json(&format!("verification create {MATCHING} --reference-id r1"));
    let id = text(&created, "verification_id");
    assert_eq!(created["next_step"]["method"], "secure_sna");
    let opened = client.json(&format!("trigger {id}"));
    let wrong = client.run(&format!("verification redeem {id} wrong")).expect_code(1).errors();
    assert!(wrong.contains("(code_invalid)"), "{wrong}");
    // The device already has a code for this step, so `next` does not give the step up.
    let next = client.json(&format!("verification next {id} --method secure_sna"));
    assert_eq!((&next["steps"][0]["status"], &next["next_step"]["method"]), (&json!("PENDING"), &json!("secure_sna")));
    for _ in 0..2 {
        client.run(&format!("verification redeem {id} wrong")).expect_code(1);
    }
    let late = format!("verification redeem {id} {}", text(&opened, "code"));
    client.run(&late).expect_code(1);
    let row = client.csv(&format!("verification get {id}")).remove(0);
    assert_eq!((field(&row, "next_method"), field(&row, "verification_id")), ("reverse_sms", id));
    let steps = field(&row, "steps");
    assert!(
        steps.contains("secure_sna ERROR code_attempts_exceeded") && steps.contains("reverse_sms ACCEPTED"),
        "{steps}"
    );
    assert!(field(&row, "expected_sms_body").starts_with("VERIFY "), "{row:?}");

    let ended = client.json("trigger");
    assert_eq!((text(&ended, "status"), text(&ended, "method")), ("COMPLETED", "reverse_sms"));
    assert_eq!(client.json("verification list --search method==reverse_sms"), json!([ended]));
    client.run(&format!("verification watch {id}")).expect_code(0);
    let none = client.run("trigger").expect_code(1).errors();
    assert!(none.contains("requires no action of the user"), "{none}");

    let table = client.run(&format!("verification create {MATCHING} --methods reverse_sms")).expect_code(0);
    for part in ["VERIFICATION ID", "NEXT METHOD", "reverse_sms", "/v/", "?body=VERIFY%20"] {
        assert!(table.text().contains(part), "{part}: {}", table.text());
    }
    assert!(table.errors().contains("ringtrue verification watch "), "{}", table.errors());
    let created = client.json("verification create +990-1234-567-00 --locale pt-br");
    let cancel = format!("verification cancel {}", text(&created, "verification_id"));
    for _ in 0..2 {
        let cancelled = client.json(&cancel);
        assert_eq!((text(&cancelled, "status"), text(&cancelled, "error_code")), ("ERROR", "cancelled"));
    }
    let national = client.run("verification create 012 --country GB").expect_code(1).errors();
    assert!(national.contains("(phone_number_invalid)"), "{national}");
    client.run(&format!("verification create {MATCHING}")).expect_code(0);
    let redeemed = client.json("trigger --redeem");
    assert_eq!((text(&redeemed, "status"), text(&redeemed, "method")), ("COMPLETED", "secure_sna"));
}
