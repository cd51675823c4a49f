use jiff::SignedDuration;
use ringtrue_domain::account::Role;
use serde_json::json;

use super::{
    browser::{Browser, location},
    pages::assert_sound,
};
use crate::{client::Request, on_both_stores, world::World};

on_both_stores!(a_developer_makes_a_project_and_changes_it, credentials_are_made_shown_once_and_deleted);

async fn a_developer_makes_a_project_and_changes_it(world: World) {
    let mut browser = Browser::member(&world, &world.acme, Role::Developer).await;
    let workspace = format!("/console/workspaces/{}", world.acme.workspace_id);
    let new = format!("{workspace}/new-project");
    assert_sound(&new, &browser.get(&new).await.assert(200));
    let blank = browser.submit(&new, &new, &[("name", " ")]).await.assert(400);
    assert!(blank.text().contains("must not be empty"), "{}", blank.text());
    let made = browser.submit(&new, &new, &[("name", "Shop <1>")]).await.assert(200);
    assert_sound(&new, &made);
    assert!(made.text().contains("rts_") && made.text().contains("Shop &#60;1&#62;"), "{}", made.text());
    browser.submit(&new, &new, &[("name", "Shop <1>")]).await.assert(400);

    let listed = world.manage(Request::get(&format!("{}/projects", world.acme.path()))).await.json();
    let id = listed["content"][0]["project_id"].as_str().unwrap().to_owned();
    let settings = format!("{workspace}/projects/{id}/settings");
    assert_sound(&settings, &browser.get(&settings).await.assert(200));
    let fields = [
        ("name", "Store"),
        ("reverse_sms", "on"),
        ("reverse_sms_callback_url", "https://example.com/cb"),
        ("ttl", "120"),
        ("auto_reply", "on"),
        ("discovery_redirect_url", "https://example.com/done"),
    ];
    world.advance(SignedDuration::from_secs(1));
    let saved = browser.submit(&settings, &settings, &fields).await.assert(200);
    assert!(saved.text().contains("Saved."), "{}", saved.text());
    let project = world.manage(Request::get(&format!("{}/projects/{id}", world.acme.path()))).await.assert(200).json();
    assert_eq!((&project["name"], &project["products"]), (&json!("Store"), &json!(["reverse_sms"])));
    assert_eq!(project["configuration"]["reverse_sms"]["ttl"], 120);
    assert_eq!(project["configuration"]["discovery"]["redirect_url"], "https://example.com/done");

    for (name, value, why) in [
        ("ttl", "5", "60 to 900"),
        ("ttl", "x", "60 to 900"),
        ("reverse_sms_callback_url", "ftp://example.com", "reverse_sms/callback_url"),
    ] {
        let answer = browser.submit(&settings, &settings, &[("name", "Store"), (name, value)]).await.assert(400);
        assert!(answer.text().contains(why), "{}", answer.text());
    }
    let events = world.manage(Request::get(&format!("{}/audit-events", world.acme.path()))).await.json();
    assert_eq!(events["content"][0]["action"], "project.updated");
    assert_eq!(events["content"][0]["actor"]["type"], "account");
}

async fn credentials_are_made_shown_once_and_deleted(world: World) {
    let project = world.project("Shop", json!({})).await;
    let mut browser = Browser::member(&world, &world.acme, Role::Developer).await;
    let page = format!("/console/workspaces/{}/projects/{}/credentials", world.acme.workspace_id, project.project_id);
    let listed = browser.get(&page).await.assert(200);
    assert_sound(&page, &listed);
    assert!(listed.text().contains(&project.client_id) && !listed.text().contains(&project.client_secret));

    let made = browser.submit(&page, &page, &[]).await.assert(200).text();
    let after = |label: &str| {
        let rest = made.split(&format!("aria-label=\"{label}\"><code>")).nth(1).unwrap();
        rest.split('<').next().unwrap().to_owned()
    };
    let (id, secret) = (after("Client id"), after("Client secret"));
    world.token(&id, &secret, "reverse_sms").await;
    assert!(!browser.get(&page).await.text().contains(&secret), "a secret is shown once");

    let gone = browser.submit(&page, &format!("{page}/{id}/delete"), &[]).await;
    assert_eq!(location(&gone), page);
    assert_eq!(world.token_request(&id, &secret, "reverse_sms").await.status, 401);
    browser.submit(&page, &format!("{page}/{id}/delete"), &[]).await.assert(404);
    browser.submit(&page, &format!("{page}/{}/delete", world.acme.client_id), &[]).await.assert(403);
}
