//! Projects and credentials, with a workspace credential.

use serde_json::json;

use super::{MATCHING, TestClient, field, text};

#[test]
fn projects_are_created_shown_and_used() {
    let client = TestClient::signed_in();
    let made = client.json("projects create Shop --callback-url http://127.0.0.1:9/a --products reverse_sms,discovery");
    assert!(text(&made["credentials"][0], "client_secret").starts_with("rts_"));
    let id = text(&made, "project_id");
    let got = client.json(&format!("projects get {id}"));
    assert_eq!(got["configuration"]["discovery"]["callback_url"], "http://127.0.0.1:9/a");
    assert_eq!(got["products"], json!(["reverse_sms", "discovery"]));
    let table = client.run(&format!("projects get {id}")).expect_code(0).text();
    assert!(table.contains("Shop") && table.contains("reverse_sms,discovery"), "{table}");

    let names: Vec<_> = client.csv("projects list").iter().map(|row| field(row, "name").to_owned()).collect();
    assert_eq!(names, ["Shop", "First project"]);
    let taken = client.run("projects create Shop").expect_code(1).errors();
    assert!(taken.contains("(project_name_taken)"), "{taken}");

    // `--use` saves the secret in the profile instead of printing it.
    client.run(&format!("reverse-sms create {MATCHING}")).expect_code(0);
    let used = client.run("projects create Till --use").expect_code(0);
    assert!(!used.text().contains("rts_") && used.errors().contains("now uses this project"));
    assert_eq!(client.json("reverse-sms list"), json!([]), "the new project has no checks");
}

#[test]
fn workspace_and_project_credentials_are_created_listed_and_deleted() {
    let client = TestClient::signed_in();
    let project = text(&client.dev()["project"], "project_id").to_owned();
    for (owner, scopes, count) in
        [("", json!(["management"]), 2), (&*format!(" --project {project}"), json!(["discovery"]), 2)]
    {
        let scoped = if owner.is_empty() { "" } else { " --scopes discovery" };
        let made = client.json(&format!("credentials create{owner}{scoped} --expires-at 2099-01-31T00:00:00Z"));
        assert_eq!((&made["scopes"], &made["expires_at"]), (&scopes, &json!("2099-01-31T00:00:00.000Z")));
        assert!(text(&made, "client_secret").starts_with("rts_"));
        let id = text(&made, "client_id");
        let listed = client.run(&format!("credentials list{owner} --output json")).json();
        assert_eq!(listed.as_array().unwrap().len(), count);
        assert!(!listed.to_string().contains("rts_"));
        assert_eq!(field(&client.csv(&format!("credentials get {id}{owner}"))[0], "client_id"), id);
        client.run(&format!("credentials delete {id}{owner}")).expect_code(0);
        let gone = client.run(&format!("credentials get {id}{owner}")).expect_code(1).errors();
        assert!(gone.contains("(credential_not_found)"), "{gone}");
    }
    let last = text(&client.json("credentials list")[0], "client_id").to_owned();
    let kept = client.run(&format!("credentials delete {last}")).expect_code(1).errors();
    assert!(kept.contains("(last_credential)"), "{kept}");
}
