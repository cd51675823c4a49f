//! `ringtrue selftest`.

use std::fs;

use serde_json::Value;

use super::{TestClient, field};

fn results(cases: &Value) -> Vec<(&str, &str)> {
    let cases = cases.as_array().expect("a list");
    cases.iter().map(|case| (case["trial"].as_str().unwrap(), case["result"].as_str().unwrap())).collect()
}

#[test]
fn all_cases_pass_on_a_temporary_server() {
    let client = TestClient::empty();
    let temporary = client.path("tmp");
    fs::create_dir(&temporary).unwrap();
    let mut command = client.command("selftest --output json");
    let cases = crate::process::run(command.env("TMPDIR", &temporary)).json();
    let results = results(&cases);
    assert!(results.len() > 12, "{results:?}");
    for (case, result) in results {
        assert_eq!(result, "works", "{case}");
    }
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "the temporary directory is deleted");
}

#[test]
fn profile_server_is_tested() {
    let client = TestClient::signed_in();
    let lines = client.run("selftest --profile default").expect_code(0).text();
    for start in [
        "ok    Server: ready",
        "ok    Reverse SMS: signed callback",
        "ok    Reverse SMS: callback resent",
        "-     Reverse SMS: expired",
        "\nAll cases passed",
    ] {
        assert!(lines.contains(start), "{start}: {lines}");
    }
    let rows = client.csv("selftest --profile default");
    assert!(rows.iter().all(|row| field(row, "result") != "fails"));
}

#[test]
fn failed_cases_are_reported() {
    let client = TestClient::signed_in();
    let project = client.dev()["project"]["project_id"].as_str().unwrap().to_owned();
    // With this credential, only the cases of Discovery can pass.
    let narrow = client.json(&format!("credentials create --project {project} --scopes discovery"));
    let [id, secret] = ["client_id", "client_secret"].map(|name| narrow[name].as_str().unwrap().to_owned());
    let base_url = client.dev()["base_url"].as_str().unwrap().to_owned();
    client.pipe(&format!("login --profile narrow --base-url {base_url} --client-id {id}"), &secret).expect_code(0);
    let done = client.run("selftest --profile narrow").expect_code(1);
    let lines = done.text();
    for start in ["ok    Discovery: number returned", "FAIL  Reverse SMS: match", "-     Management: projects listed"] {
        assert!(lines.contains(start), "{start}: {lines}");
    }
    assert!(lines.contains(" cases failed.") && !lines.contains(&secret), "{lines}");
}
