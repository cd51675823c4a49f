use jiff::SignedDuration;
use ringtrue_domain::account::Role;
use serde_json::json;

use super::{
    browser::{Browser, location},
    pages::assert_well_formed,
};
use crate::{
    client::{self, Request},
    on_both_stores,
    receiver::Receiver,
    reverse_sms::{EVEN, ODD, ReverseSmsClient},
    world::{TestProject, World},
};

on_both_stores!(overview_counts_completed_checks, fast_checks_are_shown_in_milliseconds);

fn path_of(world: &World, project: &TestProject) -> String {
    format!("/console/workspaces/{}/projects/{}", world.acme.workspace_id, project.project_id)
}

/// The value of a metric on a page.
fn metric(text: &str, name: &str) -> String {
    let (_, rest) = text.split_once(&format!("<dt>{name}</dt><dd>")).unwrap_or_else(|| panic!("no {name}: {text}"));
    rest.split('<').next().unwrap().trim().to_owned()
}

async fn overview_counts_completed_checks(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    let right = backend.create(json!({"phone_number": EVEN, "callback_url": receiver.url("/cb")})).await;
    backend.create(json!({"phone_number": ODD})).await;
    world.advance(SignedDuration::from_secs(3));
    backend.text(EVEN, &right.receiver, &right.body).await;
    receiver.next().await;

    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let project = path_of(&world, &backend.project);
    let overview = format!("{project}/overview");
    assert_eq!(location(&viewer.get(&project).await), overview);
    world.wait_for_callback_results().await;
    let text = viewer.get(&overview).await.assert(200).text();
    for (name, value) in [
        ("Delivered", "1"),
        ("Checks", "2"),
        ("Completed", "1"),
        ("Median completion time", "4 s"),
        ("Open", "1 (50 %)"),
        ("Failed attempts", "0"),
        ("Undeliverable", "0"),
        ("Pending now", "0"),
    ] {
        assert_eq!(metric(&text, name), value, "{name}: {text}");
    }
    assert!(text.contains("Checks per minute: 2 in total."), "{text}");
    assert!(text.contains("aria-current=\"page\">Overview</a>"), "{text}");
    assert!(!text.contains(EVEN) && !text.contains(&right.body), "{text}");

    // Ten minutes later there is one more check.
    world.advance(SignedDuration::from_mins(10));
    backend.create(json!({"phone_number": EVEN})).await;
    for (query, checks) in [
        ("?span=day", "3"),
        ("?span=month", "3"),
        ("?span=&product=&network=", "3"),
        ("?product=reverse_sms", "3"),
        ("?network=00101", "3"),
        ("?span=day&product=reverse_sms&network=00101", "3"),
    ] {
        let response = viewer.get(&format!("{overview}{query}")).await.assert(200);
        assert_well_formed(query, &response);
        assert_eq!(metric(&response.text(), "Checks"), checks, "{query}");
    }
    for query in ["?product=discovery", "?network=23410"] {
        let text = viewer.get(&format!("{overview}{query}")).await.assert(200).text();
        assert!(text.contains("No checks in the last hour.") && text.contains(" selected>"), "{query}: {text}");
        let is_of_another_product = query.contains("product");
        let delivered = if is_of_another_product { "0" } else { "1" };
        assert_eq!(metric(&text, "Delivered"), delivered, "callbacks are not filtered by network: {query}");
    }
}

async fn fast_checks_are_shown_in_milliseconds(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    let check = backend.create(json!({"phone_number": EVEN, "callback_url": receiver.url("/cb")})).await;
    world.advance(SignedDuration::from_millis(8));
    backend.text(EVEN, &check.receiver, &check.body).await;
    receiver.next().await;
    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let text = viewer.get(&format!("{}/overview", path_of(&world, &backend.project))).await.assert(200).text();
    assert_eq!(metric(&text, "Median completion time"), "8 ms", "{text}");

    world.wait_for_callback_results().await;
    let metrics = client::send(world.node.metrics_address.unwrap(), &Request::get("/metrics")).await.text();
    for expected in [
        r#"ringtrue_check_duration_seconds_bucket{le="0.008",product="reverse_sms"} 1"#,
        "ringtrue_callback_attempt_duration_seconds_count{} 1",
        r#"ringtrue_callback_attempt_duration_seconds_bucket{le="0.001"}"#,
    ] {
        assert!(metrics.lines().any(|line| line.starts_with(expected)), "no {expected}: {metrics}");
    }
}

#[tokio::test]
async fn empty_overview_shows_a_hint() {
    let world = World::sqlite().await;
    for (name, mode, role, expected) in [
        ("Sandbox", "sandbox", Role::Developer, "/handset\">Create one with the handset"),
        ("Looked at", "sandbox", Role::Viewer, "to create one"),
        ("Live", "live", Role::Owner, "to create one"),
    ] {
        let project = world.project(name, json!({"mode": mode})).await;
        let mut browser = Browser::member(&world, &world.acme, role).await;
        let overview = format!("{}/overview", path_of(&world, &project));
        let response = browser.get(&overview).await.assert(200);
        assert_well_formed(&overview, &response);
        let text = response.text();
        assert!(text.contains("No checks in the last hour.") && text.contains(expected), "{name}: {text}");
        assert!(text.contains("No callbacks were sent in the last hour."), "{name}: {text}");
    }
}

#[tokio::test]
async fn invalid_overview_filters_are_rejected() {
    let world = World::sqlite().await;
    let project = world.project("Shop", json!({})).await;
    let mut browser = Browser::member(&world, &world.acme, Role::Viewer).await;
    let overview = format!("{}/overview", path_of(&world, &project));
    for query in ["span=year", "product=eligibility", "product=x", "network=%3Cscript%3E", "network=1", "page=1"] {
        let response = browser.get(&format!("{overview}?{query}")).await.assert(400);
        assert_well_formed(query, &response);
        assert!(!response.text().contains("<script>"), "{query}");
    }
}

#[tokio::test]
async fn overview_counts_one_project_only() {
    let world = World::sqlite().await;
    let backend = ReverseSmsClient::sandbox(&world).await;
    backend.create(json!({"phone_number": EVEN})).await;
    let other = world.project("Other", json!({})).await;
    let mut browser = Browser::member(&world, &world.acme, Role::Owner).await;
    let text = browser.get(&format!("{}/overview", path_of(&world, &other))).await.assert(200).text();
    assert!(text.contains("No checks in the last hour."), "{text}");
}
