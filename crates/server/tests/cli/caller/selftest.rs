//! `ringtrue selftest`.

use std::fs;

use serde_json::Value;

use super::{World, field};

fn results(trials: &Value) -> Vec<(&str, &str)> {
    let trials = trials.as_array().expect("a list");
    trials.iter().map(|trial| (trial["trial"].as_str().unwrap(), trial["result"].as_str().unwrap())).collect()
}

#[test]
fn everything_works_on_a_server_of_its_own() {
    let world = World::empty();
    let temporary = world.path("tmp");
    fs::create_dir(&temporary).unwrap();
    let mut command = world.command("selftest --output json");
    let trials = crate::process::run(command.env("TMPDIR", &temporary)).json();
    let results = results(&trials);
    assert!(results.len() > 12, "{results:?}");
    for (trial, result) in results {
        assert_eq!(result, "works", "{trial}");
    }
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn a_profile_is_tried_line_by_line() {
    let world = World::signed_in();
    let lines = world.run("selftest --profile default").expect_code(0).text();
    for start in [
        "ok    Server: ready",
        "ok    Reverse SMS: callback, signed",
        "ok    Reverse SMS: callback, sent again",
        "-     Reverse SMS: expired",
        "\nEverything that was tried works",
    ] {
        assert!(lines.contains(start), "{start}: {lines}");
    }
    let rows = world.csv("selftest --profile default");
    assert!(rows.iter().all(|row| field(row, "result") != "fails"));
}

#[test]
fn what_does_not_work_is_named_and_fails() {
    let world = World::signed_in();
    let project = world.dev()["project"]["project_id"].as_str().unwrap().to_owned();
    // A credential that opens nothing but Discovery.
    let narrow = world.json(&format!("credentials create --project {project} --scopes discovery"));
    let [id, secret] = ["client_id", "client_secret"].map(|name| narrow[name].as_str().unwrap().to_owned());
    let base_url = world.dev()["base_url"].as_str().unwrap().to_owned();
    world.pipe(&format!("login --profile narrow --base-url {base_url} --client-id {id}"), &secret).expect_code(0);
    let done = world.run("selftest --profile narrow").expect_code(1);
    let lines = done.text();
    for start in
        ["ok    Discovery: the number is told", "FAIL  Reverse SMS: match", "-     Management: projects are listed"]
    {
        assert!(lines.contains(start), "{start}: {lines}");
    }
    assert!(lines.contains(" failed.") && !lines.contains(&secret), "{lines}");
}
