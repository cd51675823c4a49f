use jiff::SignedDuration;
use ringtrue_domain::account::Role;
use serde_json::json;
use strum::VariantArray as _;

use super::{
    browser::{Browser, location},
    console_routes,
    pages::assert_well_formed,
};
use ringtrue_test_support::poll_until;

use crate::{
    client::Request,
    management::allowed_networks::configure,
    on_both_stores,
    operators::networks::world_with,
    products::reverse_sms::{EVEN, ReverseSmsClient},
    world::World,
};

const NETWORKS: &str = r#"
    [networks.23410]
    name = "O2"
    country = "GB"
    aliases = ["23411"]
    prefixes = ["+447700"]
    receivers = ["+447700900001"]

    [connectors.kannel]
    kind = "sms_http"
    driver = "kannel"
    public_url = "http://127.0.0.1/southbound/sms/kannel"
    path_secret_env = "PATH_SECRET"
    receivers = ["+447700900001"]

    [connectors.smsc]
    kind = "smpp"
    host = "127.0.0.1"
    port = 1
    system_id = "sandbox"
    password_env = "SMSC_PASSWORD"
    receivers = ["+447700900001"]
"#;

on_both_stores!(administrators_read_and_filter_the_deployment_audit_log, owners_read_the_audit_log_of_their_workspace);

/// Tests every route below `/console/deployment`, including those that are added later.
#[tokio::test]
async fn deployment_pages_require_an_administrator() {
    let world = World::sqlite().await;
    let mut admin = Browser::admin(&world).await;
    let routes = console_routes();
    let all = routes.iter().map(|route| (route.method, route.path));
    let pages: Vec<_> = all.filter(|(_, path)| path.starts_with("/console/deployment")).collect();
    assert!(pages.len() >= 6);
    for &(_, path) in pages.iter().filter(|(method, _)| *method == "GET") {
        let response = admin.get(path).await.assert(200);
        assert_well_formed(path, &response);
        assert!(response.text().contains("aria-current=\"page\""), "{path} is not in the menu");
    }
    for &role in Role::VARIANTS {
        let mut member = Browser::member(&world, &world.acme, role).await;
        let workspace = format!("/console/workspaces/{}", world.acme.workspace_id);
        let token = member.form_token(&workspace).await;
        assert!(!member.get(&workspace).await.text().contains("/console/deployment"), "{role}");
        for &(method, path) in &pages {
            let response = if method == "POST" { member.post(path, &token, &[]).await } else { member.get(path).await };
            assert_eq!(response.status, 403, "{role}: {method} {path}");
            assert!(response.text().contains("Only administrators of this deployment can do this."), "{path}");
        }
    }
}

#[tokio::test]
async fn networks_page_shows_connectors_receivers_and_networks() {
    let world = world_with(NETWORKS).await;
    let mut admin = Browser::admin(&world).await;
    let page = "/console/deployment/networks";
    let mut text = String::new();
    poll_until("the connector is down", async || {
        text = admin.get(page).await.assert(200).text();
        text.contains("Connection failed: ")
    })
    .await;
    let node = world.node.engine.node.id().0.to_string();
    for part in [
        &*node,
        "kannel <span class=\"status s3\">idle",
        "SMS by webhook",
        "0 of 1",
        "+447700900001",
        "23411",
        "simulated",
        "CAMARA",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for secret in [crate::operators::networks::SECRET, crate::operators::networks::AUTH_TOKEN] {
        assert!(!text.contains(secret));
    }
    assert_well_formed(page, &admin.get(page).await);
}

#[tokio::test]
async fn networks_are_searched_and_paginated() {
    let world = World::sqlite().await;
    let ids: Vec<String> = (0..6_000).map(|number| (200_000 + number).to_string()).collect();
    configure(&world, ids.iter().map(String::as_str));
    let mut admin = Browser::admin(&world).await;
    let page = "/console/deployment/networks";
    let first = admin.get(page).await.assert(200);
    assert_well_formed(page, &first);
    let text = first.text();
    assert!(text.len() < 100_000, "{} bytes", text.len());
    assert!(text.contains("6000 total") && text.contains("Page 1 of 240"), "{text}");
    assert!(text.contains("200000") && !text.contains("200025"), "{text}");
    let second = admin.get(&format!("{page}?page=2")).await.assert(200).text();
    assert!(second.contains("200025") && !second.contains(">200000<"), "{second}");
    for (query, total, shown) in
        [("20599", "10 total", "205999"), ("network+205123", "1 total", "205123"), ("gb", "6000 total", "200000")]
    {
        let found = admin.get(&format!("{page}?q={query}")).await.assert(200);
        assert_well_formed(page, &found);
        assert!(found.text().contains(total) && found.text().contains(shown), "{query}: {}", found.text());
    }
    let none = admin.get(&format!("{page}?q=%3Cb%3E")).await.assert(200);
    assert_well_formed(page, &none);
    assert!(none.text().contains("No matching networks") && !none.text().contains("<b>"), "{}", none.text());
    admin.get(&format!("{page}?page=0")).await.assert(400);
}

#[tokio::test]
async fn networks_page_counts_simulated_messages() {
    let world = World::sqlite().await;
    let backend = ReverseSmsClient::sandbox(&world).await;
    let check = backend.create(json!({"phone_number": EVEN})).await;
    backend.text(EVEN, &check.receiver, &check.body).await;
    backend.expect_status(&check.id, "COMPLETED").await;
    let text = Browser::admin(&world).await.get("/console/deployment/networks").await.assert(200).text();
    for part in ["1 of 1", "Conclusion latency", "<dt>Accepted</dt><dd>1</dd>"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains(EVEN) && !text.contains(&check.body));
}

#[tokio::test]
async fn eligibility_is_explained_gate_by_gate() {
    let world = world_with(NETWORKS).await;
    let project = world.project("Live", json!({"mode": "live", "products": ["reverse_sms"]})).await;
    let page = format!("/console/workspaces/{}/projects/{}/eligibility", world.acme.workspace_id, project.project_id);
    let mut developer = Browser::member(&world, &world.acme, Role::Developer).await;
    assert_well_formed(&page, &developer.get(&page).await);
    for (user, status, parts) in [
        (
            "+447700900123",
            200,
            &["O2", "23410", "prefixes", "The product is not enabled for the project.", "not evaluated"][..],
        ),
        ("+353851234567", 200, &["No network:"]),
        ("203.0.113.9", 200, &["No network:", "an IPv4 address"]),
        ("hello", 400, &["Neither a phone number in E.164 form nor an IP address"]),
        ("+1234x", 400, &["Invalid phone number"]),
    ] {
        let response = developer.submit(&page, &page, &[("user", user)]).await;
        assert_eq!(response.status, status, "{user}: {}", response.text());
        assert_well_formed(&page, &response);
        let text = response.text();
        for part in parts {
            assert!(text.contains(part), "{user}: {part}: {text}");
        }
        // The page does not show the submitted number again. Only the example number appears.
        assert!(user == "+447700900123" || !text.contains(user), "{user}");
    }
    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let text = viewer.get(&page).await.assert(200).text();
    assert!(text.contains("Your role has read-only access") && !text.contains("name=\"user\""));

    let mut admin = Browser::admin(&world).await;
    let everywhere = "/console/deployment/eligibility";
    for (project, status, part) in [
        ("", 200, "yes"),
        (&*project.project_id, 200, "in project Live"),
        ("01a1d990-1c2d-7e3f-8a4b-5c6d7e8f9a0b", 400, "No project has this id."),
    ] {
        let fields = [("user", "+447700900123"), ("project", project)];
        let response = admin.submit(everywhere, everywhere, &fields).await;
        assert_eq!(response.status, status, "{project}");
        assert!(response.text().contains(part), "{part}: {}", response.text());
    }
}

#[tokio::test]
async fn key_rotation_requires_confirmation() {
    let world = World::sqlite().await;
    let mut admin = Browser::admin(&world).await;
    let page = "/console/deployment/keys";
    let published = async |of_id_tokens: bool| {
        let keys = world.send(Request::get("/.well-known/jwks.json")).await.assert(200).json();
        let keys =
            keys["keys"].as_array().unwrap().iter().filter(|key| (key["use_mode"] == "id_token") == of_id_tokens);
        keys.map(|key| key["kid"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let kids = async || published(false).await;
    let first = kids().await;
    let shown = admin.get(page).await.text();
    assert!(first.iter().chain(&published(true).await).all(|kid| shown.contains(kid)), "{shown}");
    assert!(shown.contains("Rotate the ID token (ES256) key"), "{shown}");

    for (fields, status) in [
        (&[("purpose", "callback")][..], 400),
        (&[("purpose", "callback"), ("confirm", "yes"), ("emergency", "yes")], 400),
        (&[("purpose", "other"), ("confirm", "yes")], 404),
        (&[("purpose", "hash"), ("confirm", "yes")], 409),
        (&[("purpose", "callback"), ("confirm", "yes")], 303),
        (&[("purpose", "callback"), ("confirm", "yes")], 409),
        (&[("purpose", "seal"), ("confirm", "yes")], 303),
        (&[("purpose", "id_token_ec"), ("confirm", "yes")], 303),
    ] {
        let response = admin.submit(page, page, fields).await;
        assert_eq!(response.status, status, "{fields:?}: {}", response.text());
        assert_well_formed(page, &follow_redirect(response, page, &mut admin).await);
    }
    assert_eq!(kids().await.len(), 3, "the next key is published with the first two");
    assert_eq!(published(true).await.len(), 3, "the next key is published with the first two");

    world.advance(SignedDuration::from_secs(1));
    let at_once = [("purpose", "callback"), ("emergency", "yes"), ("confirm", "callback")];
    let done = admin.submit(page, page, &at_once).await;
    assert_eq!(location(&done), "/console/deployment/keys?rotated=callback");
    assert!(
        admin.get("/console/deployment/keys?rotated=callback").await.text().contains("A new callback key was created.")
    );
    let last = kids().await;
    assert!(last.len() == 2 && last[0] == first[1] && !first.contains(&last[1]), "{last:?}");

    let text = admin.get("/console/deployment/audit?action=key.rotated").await.assert(200).text();
    assert!(text.contains("4 total") && text.contains("root@example.com"), "{text}");
}

/// If the response is a redirect, loads `page` instead. Returns other responses unchanged.
async fn follow_redirect(
    response: crate::client::HttpResponse,
    page: &str,
    browser: &mut Browser,
) -> crate::client::HttpResponse {
    if response.status == 303 { browser.get(page).await } else { response }
}

async fn administrators_read_and_filter_the_deployment_audit_log(world: World) {
    let other = world.another_tenant().await;
    world.project_of(&other, "Theirs", json!({})).await;
    let mut admin = Browser::admin(&world).await;
    let page = "/console/deployment/audit";
    let text = admin.get(page).await.assert(200).text();
    for part in ["account.signed_in", "project.created", "Acme", "Other", "root@example.com", &other.client_id] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for (query, shown, hidden) in [
        ("?action=account.signed_in", "account.signed_in</td>", "project.created</td>"),
        ("?who=ROOT@example.com", "account.signed_in</td>", "project.created</td>"),
        ("?who=operator", "workspace.created</td>", "project.created</td>"),
        ("?who=system", "key.created</td>", "project.created</td>"),
        (&format!("?who={}", other.client_id), "project.created</td>", "account.signed_in</td>"),
        ("?who=nobody@example.com", "No matching events.", "</td>"),
        ("?who=what", "No matching events.", "</td>"),
        ("?action=project.created&who=root@example.com", "No matching events.", "</td>"),
    ] {
        let response = admin.get(&format!("{page}{query}")).await.assert(200);
        assert_well_formed(query, &response);
        let text = response.text();
        assert!(text.contains(shown) && !text.contains(hidden), "{query}: {text}");
    }
    admin.get(&format!("{page}?action=nothing")).await.assert(400);
    for number in 0..25 {
        world.project(&format!("Project {number}"), json!({})).await;
    }
    let text = admin.get(&format!("{page}?action=project.created&page=2")).await.assert(200).text();
    assert!(text.contains("Page 2 of 2") && text.contains("?action=project.created&#38;page=1"), "{text}");
}

async fn owners_read_the_audit_log_of_their_workspace(world: World) {
    let other = world.another_tenant().await;
    world.project_of(&other, "Theirs", json!({})).await;
    world.project("Ours", json!({})).await;
    let page = format!("/console/workspaces/{}/audit", world.acme.workspace_id);
    for (role, may) in [(Role::Viewer, false), (Role::Developer, false), (Role::Owner, true)] {
        let mut member = Browser::member(&world, &world.acme, role).await;
        let response = member.get(&page).await;
        assert_eq!(response.status, if may { 200 } else { 403 }, "{role}");
        let menu = member.get(&format!("/console/workspaces/{}", world.acme.workspace_id)).await.text();
        assert_eq!(menu.contains(&page), may, "{role}");
        if may {
            assert_well_formed(&page, &response);
            let text = response.text();
            assert!(text.contains("project.created") && text.contains("membership.granted"), "{text}");
            assert!(text.contains(&format!("viewer.{}@example.com", world.acme.workspace_id)), "{text}");
            assert!(!text.contains(&other.client_id) && !text.contains("account.signed_in</td>"), "{text}");
        }
    }
    Browser::member(&world, &other, Role::Owner).await.get(&page).await.assert(403);
}
