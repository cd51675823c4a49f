//! `whoami`, `open`, `usage`, `audit`, `logs` and `api`.

use serde_json::{Value, json};

use super::{MATCHING, TestClient, field, text};
use crate::process::get;

const CHECKS: &str = "/v1/number-verification/reverse-sms-checks";

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).expect("the output is JSON")
}

#[test]
fn whoami_shows_workspace_project_and_scopes() {
    let client = TestClient::signed_in();
    let dev = client.dev();
    let shown = client.json("whoami");
    assert_eq!((&shown["profile"], &shown["base_url"]), (&json!("default"), &dev["base_url"]));
    for owner in ["workspace", "project"] {
        assert_eq!(shown[format!("{owner}_id")], dev[owner][format!("{owner}_id")]);
        assert_eq!(shown[format!("{owner}_client_id")], dev[owner]["client_id"]);
    }
    assert_eq!((&shown["project_name"], &shown["project_mode"]), (&json!("First project"), &json!("sandbox")));
    let scopes = shown["scopes"].as_array().unwrap();
    assert!(scopes.contains(&json!("reverse_sms")) && scopes.contains(&json!("management")), "{shown}");
    assert!(text(&shown, "tokens_expire_at").ends_with('Z'), "{shown}");

    let created = client.json("projects create Till --products sim-swap --use");
    let shown = client.json("whoami");
    assert_eq!(shown["project_id"], created["project_id"]);
    assert_eq!(shown["scopes"], json!(["sim_swap", "management"]));
    let table = client.run("whoami").expect_code(0).text();
    assert!(table.contains("SCOPES") && table.contains("sim_swap,management") && !table.contains("rts_"), "{table}");

    client
        .run(&format!(
            "credentials delete {} --project {}",
            text(&shown, "project_client_id"),
            text(&shown, "project_id")
        ))
        .expect_code(0);
    client.run("whoami").expect_code(6);
}

#[test]
fn open_prints_pages_that_the_server_has() {
    let client = TestClient::signed_in();
    let dev = client.dev();
    let base_url = text(&dev, "base_url");
    for (page, path) in [
        ("", "/console"),
        (" docs", "/docs"),
        (" reference", "/docs"),
        (" errors", "/errors"),
        (" openapi", "/openapi.json"),
    ] {
        assert_eq!(client.run(&format!("open{page}")).expect_code(0).text(), format!("{base_url}{path}\n"));
        let (status, _) = get(base_url, path);
        assert!([200, 303].contains(&status), "{path}: {status}");
    }
    assert_eq!(client.json("open docs"), json!({"url": format!("{base_url}/docs")}));
    let refused = client.run("open elsewhere").expect_code(2).errors();
    assert!(refused.contains("console, docs, errors, openapi"), "{refused}");
}

#[test]
fn usage_is_counted_by_product_and_period() {
    let client = TestClient::signed_in();
    assert_eq!(client.json("usage"), json!([]));
    client.conclude_check(MATCHING, "http://127.0.0.1:9/a");
    client.run(&format!("sim-swap create {MATCHING}")).expect_code(0);
    for period in ["hour", "day", "month"] {
        let rows = client.csv(&format!("usage --by {period}"));
        let counts = |row: &Vec<(String, String)>| {
            ["product", "total", "completed", "match", "no_match", "open"].map(|name| field(row, name).to_owned())
        };
        let rows: Vec<_> = rows.iter().map(counts).collect();
        assert_eq!(rows, [["reverse_sms", "1", "1", "1", "0", "0"], ["sim_swap", "1", "1", "1", "0", "0"]], "{period}");
    }
    let project = text(&client.dev()["project"], "project_id").to_owned();
    let detailed = client.json(&format!("usage --detailed --since 2h --project {project}"));
    assert_eq!(detailed.as_array().unwrap().len(), 2);
    assert_eq!(detailed[0]["project_id"], project);
    assert_eq!(client.json("usage --since 2020-01-01T00:00:00Z --until 2020-02-01T00:00:00Z"), json!([]));
    let too_long = client.run("usage --since 2020-01-01T00:00:00Z").expect_code(1).errors();
    assert!(too_long.contains("(bad_request)"), "{too_long}");
}

#[test]
fn audit_log_is_listed() {
    let client = TestClient::signed_in();
    let project = client.json("projects create Shop");
    let id = text(&project, "project_id");
    let events = client.json("audit --all");
    let created = events.as_array().unwrap().iter().find(|event| event["target"]["id"] == id).expect("the event");
    assert_eq!((&created["action"], &created["actor"]["type"]), (&json!("project.created"), &json!("credential")));
    let rows = client.csv("audit --size 2");
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().any(|row| field(row, "target") == format!("project {id}")), "{rows:?}");
    assert!(client.run("audit").expect_code(0).errors().starts_with("Page 1 of "));
}

#[test]
fn request_log_is_shown_and_followed() {
    let client = TestClient::signed_in();
    let mut follower = client.start_command("logs --follow --status 4xx");
    follower.wait_for("Watching for changes");
    for _ in 0..2 {
        client.run("reverse-sms create 0123").expect_code(1);
        let line = follower.wait_for("reverse-sms-checks");
        assert!(line.contains("method POST") && line.contains("  status 400  "), "{line}");
    }
    follower.signal("TERM");
    assert_eq!(follower.wait_for_exit().code(), Some(0));

    let entries = client.json("logs --status 4xx");
    assert_eq!(entries.as_array().unwrap().len(), 2, "{entries}");
    assert_eq!((&entries[0]["route"], &entries[0]["authenticated"]), (&json!(CHECKS), &json!(true)));
    assert!(!text(&entries[0], "body").contains("0123"), "values are masked: {entries}");
    assert!(entries[0]["at"].as_str() <= entries[1]["at"].as_str(), "oldest first");
    let id = text(&entries[1], "request_id");
    let found = client.csv(&format!("logs --request-id {id}"));
    assert_eq!((found.len(), field(&found[0], "request_id")), (1, id));
    assert_eq!(client.json("logs --error-code unknown"), json!([]));

    // A profile without a project id cannot choose between several projects.
    client.run("projects create Shop").expect_code(0);
    let dev = client.dev();
    let login = |owner: &str| {
        let url = text(&dev, "base_url");
        client
            .pipe(
                &format!("login --profile other --base-url {url} --client-id {}", text(&dev[owner], "client_id")),
                text(&dev[owner], "client_secret"),
            )
            .expect_code(0);
    };
    login("project");
    client.run("logs --profile other").expect_code(6);
    login("workspace");
    let several = client.run("logs --profile other").expect_code(2).errors();
    let project = text(&dev["project"], "project_id");
    assert!(several.contains("--project ID") && several.contains(&format!("{project}  First project")), "{several}");
    client.run(&format!("logs --profile other --project {project}")).expect_code(0);
}

#[test]
fn api_sends_any_request() {
    let client = TestClient::signed_in();
    let dev = client.dev();
    let got = client.run("api GET /v1/management/workspaces/{workspace_id}/projects/{project_id}").expect_code(0);
    assert_eq!(json_of(&got.text())["project_id"], dev["project"]["project_id"]);
    assert_eq!(got.errors(), "200 OK\n");

    let body = json!({"phone_number": MATCHING}).to_string();
    client.pipe(&format!("api POST {CHECKS} --data -"), &body).expect_code(0);
    std::fs::write(client.path("body.json"), &body).unwrap();
    let keyed = format!("api post {CHECKS} --data @body.json --idempotency-key once");
    let created = client.run(&keyed).expect_code(0);
    assert_eq!(created.errors(), "201 Created\n");
    assert_eq!(created.text(), client.run(&keyed).text(), "the same response");
    let check = json_of(&created.text());
    let read = json_of(&client.run(&format!("api GET {CHECKS}/{}", text(&check, "check_id"))).expect_code(0).text());
    assert_eq!(read["check_id"], check["check_id"]);
    let keys = client.run("api GET /.well-known/jwks.json").expect_code(0).text();
    assert!(json_of(&keys)["keys"].is_array(), "{keys}");

    let refused = client.run(&format!("api POST {CHECKS} --data {{}}")).expect_code(1);
    assert_eq!(json_of(&refused.text())["error_code"], "bad_request");
    assert!(refused.errors().starts_with("400 Bad Request\n"), "{}", refused.errors());
    let forbidden = client.run(&format!("api GET {CHECKS} --scope sim_swap")).expect_code(1);
    assert!(forbidden.errors().starts_with("403 Forbidden\n"), "{}", forbidden.errors());
    for (line, hint) in [
        ("api GET /v1/unknown", "--scope to one of: reverse_sms, "),
        ("api GET https://example.com/v1/verifications", "/v1/verifications"),
        ("api GET //example.com/v1/verifications", "/v1/verifications"),
        ("token --scope everything", "reverse_sms, secure_sna"),
    ] {
        let errors = client.run(line).expect_code(2).errors();
        assert!(errors.contains(hint), "{line}: {errors}");
    }
    let unreadable = client.run(&format!("api POST {CHECKS} --data @missing.json")).expect_code(1).errors();
    assert!(unreadable.contains("cannot read missing.json") && unreadable.contains("--data @FILE"), "{unreadable}");
}
