//! Projects and credentials, by the credential of a workspace.

use serde_json::json;

use super::{MATCHING, World, field, text};

#[test]
fn projects_are_made_shown_and_used() {
    let world = World::signed_in();
    let made = world.json("projects create Shop --callback-url http://127.0.0.1:9/a --products reverse_sms,discovery");
    assert!(text(&made["credentials"][0], "client_secret").starts_with("rts_"));
    let id = text(&made, "project_id");
    let got = world.json(&format!("projects get {id}"));
    assert_eq!(got["configuration"]["discovery"]["callback_url"], "http://127.0.0.1:9/a");
    assert_eq!(got["products"], json!(["reverse_sms", "discovery"]));
    let table = world.run(&format!("projects get {id}")).expect_code(0).text();
    assert!(table.contains("Shop") && table.contains("reverse_sms,discovery"), "{table}");

    let names: Vec<_> = world.csv("projects list").iter().map(|row| field(row, "name").to_owned()).collect();
    assert_eq!(names, ["Shop", "First project"]);
    let taken = world.run("projects create Shop").expect_code(1).errors();
    assert!(taken.contains("(project_name_taken)"), "{taken}");

    // A project of its own for a profile, whose secret nobody sees.
    world.run(&format!("reverse-sms create {MATCHING}")).expect_code(0);
    let used = world.run("projects create Till --use").expect_code(0);
    assert!(!used.text().contains("rts_") && used.errors().contains("uses this project from now on"));
    assert_eq!(world.json("reverse-sms list"), json!([]), "it is another project");
}

#[test]
fn credentials_of_workspace_and_project_are_made_listed_and_deleted() {
    let world = World::signed_in();
    let project = text(&world.dev()["project"], "project_id").to_owned();
    for (owner, scopes, count) in
        [("", json!(["management"]), 2), (&*format!(" --project {project}"), json!(["discovery"]), 2)]
    {
        let scoped = if owner.is_empty() { "" } else { " --scopes discovery" };
        let made = world.json(&format!("credentials create{owner}{scoped} --expires-at 2099-01-31T00:00:00Z"));
        assert_eq!((&made["scopes"], &made["expires_at"]), (&scopes, &json!("2099-01-31T00:00:00.000Z")));
        assert!(text(&made, "client_secret").starts_with("rts_"));
        let id = text(&made, "client_id");
        let listed = world.run(&format!("credentials list{owner} --output json")).json();
        assert_eq!(listed.as_array().unwrap().len(), count);
        assert!(!listed.to_string().contains("rts_"));
        assert_eq!(field(&world.csv(&format!("credentials get {id}{owner}"))[0], "client_id"), id);
        world.run(&format!("credentials delete {id}{owner}")).expect_code(0);
        let gone = world.run(&format!("credentials get {id}{owner}")).expect_code(1).errors();
        assert!(gone.contains("(credential_not_found)"), "{gone}");
    }
}
