//! Tests `callbacks resend` by check id and by start time.

use std::time::Instant;

use serde_json::{Value, json};

use super::{MATCHING, OTHER, TestClient, text};
use crate::{
    listen::web::Web,
    process::{CommandOutput, TIMEOUT},
};

const OK_RESPONSE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// Concludes a check, and waits for its callback.
fn conclude_and_receive(client: &TestClient, receiver: &Web, number: &str) -> String {
    let id = client.conclude_check(number, &receiver.url("/callbacks"));
    assert!(next(receiver).contains(&id));
    id
}

#[track_caller]
fn next(receiver: &Web) -> String {
    receiver.requests.recv_timeout(TIMEOUT).expect("a callback arrives")
}

/// Repeats a command while the server reports `callback_in_progress`, because the callback's previous delivery has not
/// ended yet.
fn run_until_settled(client: &TestClient, line: &str) -> CommandOutput {
    let started = Instant::now();
    loop {
        let done = client.run(line);
        let is_waiting = [done.text(), done.errors()].iter().any(|text| text.contains("callback_in_progress"));
        if !is_waiting || started.elapsed() > TIMEOUT {
            return done;
        }
    }
}

#[test]
fn callbacks_are_resent_by_check_id() {
    let client = TestClient::signed_in();
    let receiver = Web::start(OK_RESPONSE.to_owned());
    let id = conclude_and_receive(&client, &receiver, MATCHING);
    let sent = run_until_settled(&client, &format!("callbacks resend {id} --output json")).json();
    let scheduled_at = text(&sent[0], "scheduled_at");
    let expected = json!([{
        "check_id": id, "product": "reverse_sms", "result": "scheduled", "scheduled_at": scheduled_at, "detail": null,
    }]);
    assert_eq!(sent, expected);
    assert!(next(&receiver).contains(&id));

    // For one check, the command fails with that check's error. For several, it prints a line for each.
    let open = text(&client.json(&format!("reverse-sms create {OTHER}")), "check_id").to_owned();
    let refused = client.run(&format!("callbacks resend {open}")).expect_code(1);
    assert!(refused.errors().contains("(check_still_open)"), "{}", refused.errors());
    let unknown_id = "0199b0a8-0000-7000-8000-000000000000";
    let refused = client.run(&format!("callbacks resend {unknown_id}")).expect_code(1);
    assert!(refused.errors().contains("(check_not_found)"), "{}", refused.errors());
    let several =
        run_until_settled(&client, &format!("callbacks resend {id} {open} {unknown_id} --output json")).expect_code(1);
    let several: Value = serde_json::from_str(&several.text()).unwrap();
    let results: Vec<&str> = several.as_array().unwrap().iter().map(|one| text(one, "result")).collect();
    assert_eq!(results, ["scheduled", "check_still_open", "check_not_found"]);
    assert!(next(&receiver).contains(&id));
}

#[test]
fn callbacks_since_a_time_are_resent() {
    let client = TestClient::signed_in();
    let receiver = Web::start(OK_RESPONSE.to_owned());
    let ids = [MATCHING, OTHER].map(|number| conclude_and_receive(&client, &receiver, number));
    client.run("reverse-sms create +990123456702").expect_code(0);
    client.run("trigger").expect_code(0);

    for nothing in ["--since 10m --status error", "--since 10m --product discovery", "--since 2100-01-01T00:00:00Z"] {
        assert_eq!(client.json(&format!("callbacks resend {nothing}")), json!([]), "{nothing}");
    }
    let done = run_until_settled(&client, "callbacks resend --since 10m --status completed,expired --output csv")
        .expect_code(0);
    let lines = done.text();
    assert!(lines.starts_with("check_id,product,result,scheduled_at,detail\n"), "{lines}");
    let mut received = [next(&receiver), next(&receiver)];
    for id in &ids {
        assert!(lines.contains(id), "{lines}");
        assert_eq!(received.iter_mut().filter(|callback| callback.contains(id)).count(), 1);
    }
    let rows = run_until_settled(&client, "callbacks resend --since 1h").expect_code(0);
    assert!(rows.errors().contains("for 3 concluded checks; 1 without a callback."), "{}", rows.errors());
}

#[test]
fn resend_without_credential_exits_with_6() {
    TestClient::empty().run("callbacks resend --since 1h").expect_code(6);
}
