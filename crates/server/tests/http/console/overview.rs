use jiff::SignedDuration;
use ringtrue_domain::account::Role;
use serde_json::json;

use super::{
    browser::{Browser, location},
    pages::assert_sound,
};
use crate::{
    client::{self, Request},
    on_both_stores,
    receiver::Receiver,
    reverse_sms::{Asker, EVEN, ODD},
    world::{ProjectOf, World, eventually},
};

on_both_stores!(a_completed_check_is_in_the_overview, fast_checks_are_shown_in_milliseconds);

fn path_of(world: &World, project: &ProjectOf) -> String {
    format!("/console/workspaces/{}/projects/{}", world.acme.workspace_id, project.project_id)
}

/// The figures of a page by their names.
fn figure(text: &str, name: &str) -> String {
    let (_, rest) = text.split_once(&format!("<dt>{name}</dt><dd>")).unwrap_or_else(|| panic!("no {name}: {text}"));
    rest.split('<').next().unwrap().trim().to_owned()
}

async fn a_completed_check_is_in_the_overview(world: World) {
    let asker = Asker::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    let right = asker.create(json!({"phone_number": EVEN, "callback_url": receiver.url("/cb")})).await;
    asker.create(json!({"phone_number": ODD})).await;
    world.advance(SignedDuration::from_secs(3));
    asker.text(EVEN, &right.receiver, &right.body).await;
    receiver.next().await;

    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let project = path_of(&world, &asker.project);
    let overview = format!("{project}/overview");
    assert_eq!(location(&viewer.get(&project).await), overview);
    let mut text = String::new();
    eventually("a delivered callback", async || {
        text = viewer.get(&overview).await.assert(200).text();
        figure(&text, "Delivered") == "1"
    })
    .await;
    for (name, value) in [
        ("Checks", "2"),
        ("Completed", "1"),
        ("Half completed within", "4 s"),
        ("Still open", "1 (50 %)"),
        ("Failed attempts", "0"),
        ("Given up", "0"),
        ("Waiting now", "0"),
    ] {
        assert_eq!(figure(&text, name), value, "{name}: {text}");
    }
    assert!(text.contains("Checks per minute: 2 in all."), "{text}");
    assert!(text.contains("aria-current=\"page\">Overview</a>"), "{text}");
    assert!(!text.contains(EVEN) && !text.contains(&right.body), "{text}");

    // A minute later they are where they were, and one more has joined them.
    world.advance(SignedDuration::from_mins(10));
    asker.create(json!({"phone_number": EVEN})).await;
    for (query, checks) in [
        ("?span=day", "3"),
        ("?span=month", "3"),
        ("?span=&product=&network=", "3"),
        ("?product=reverse_sms", "3"),
        ("?network=00101", "3"),
        ("?span=day&product=reverse_sms&network=00101", "3"),
    ] {
        let answer = viewer.get(&format!("{overview}{query}")).await.assert(200);
        assert_sound(query, &answer);
        assert_eq!(figure(&answer.text(), "Checks"), checks, "{query}");
    }
    for query in ["?product=discovery", "?network=23410"] {
        let text = viewer.get(&format!("{overview}{query}")).await.assert(200).text();
        assert!(text.contains("No checks in the last hour.") && text.contains(" selected>"), "{query}: {text}");
        let is_of_another_product = query.contains("product");
        let delivered = if is_of_another_product { "0" } else { "1" };
        assert_eq!(figure(&text, "Delivered"), delivered, "callbacks are of all networks: {query}");
    }
}

async fn fast_checks_are_shown_in_milliseconds(world: World) {
    let asker = Asker::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    let check = asker.create(json!({"phone_number": EVEN, "callback_url": receiver.url("/cb")})).await;
    world.advance(SignedDuration::from_millis(8));
    asker.text(EVEN, &check.receiver, &check.body).await;
    receiver.next().await;
    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let text = viewer.get(&format!("{}/overview", path_of(&world, &asker.project))).await.assert(200).text();
    assert_eq!(figure(&text, "Half completed within"), "8 ms", "{text}");

    eventually("the attempt is in the metrics", async || {
        let metrics = client::send(world.node.metrics_address.unwrap(), &Request::get("/metrics")).await.text();
        let is_counted = |line: &str| line == "ringtrue_callback_attempt_duration_seconds_count{} 1";
        let resolves = |line: &str| line.starts_with("ringtrue_callback_attempt_duration_seconds_bucket{le=\"0.001\"}");
        let took = r#"ringtrue_check_duration_seconds_bucket{le="0.008",product="reverse_sms"} 1"#;
        assert!(metrics.lines().any(|line| line == took), "{metrics}");
        metrics.lines().any(is_counted) && metrics.lines().any(resolves)
    })
    .await;
}

#[tokio::test]
async fn an_overview_of_nothing_says_what_to_do() {
    let world = World::sqlite().await;
    for (name, mode, role, expected) in [
        ("Sandbox", "sandbox", Role::Developer, "/handset\">Make one with the simulated handset"),
        ("Looked at", "sandbox", Role::Viewer, "says how one is made"),
        ("Live", "live", Role::Owner, "says how one is made"),
    ] {
        let project = world.project(name, json!({"mode": mode})).await;
        let mut browser = Browser::member(&world, &world.acme, role).await;
        let overview = format!("{}/overview", path_of(&world, &project));
        let answer = browser.get(&overview).await.assert(200);
        assert_sound(&overview, &answer);
        let text = answer.text();
        assert!(text.contains("No checks in the last hour.") && text.contains(expected), "{name}: {text}");
        assert!(text.contains("None was sent in the last hour."), "{name}: {text}");
    }
}

#[tokio::test]
async fn what_an_overview_cannot_show_is_refused() {
    let world = World::sqlite().await;
    let project = world.project("Shop", json!({})).await;
    let mut browser = Browser::member(&world, &world.acme, Role::Viewer).await;
    let overview = format!("{}/overview", path_of(&world, &project));
    for query in ["span=year", "product=eligibility", "product=x", "network=%3Cscript%3E", "network=1", "page=1"] {
        let answer = browser.get(&format!("{overview}?{query}")).await.assert(400);
        assert_sound(query, &answer);
        assert!(!answer.text().contains("<script>"), "{query}");
    }
}

/// Counts of one project never show up in another's overview.
#[tokio::test]
async fn an_overview_is_of_one_project() {
    let world = World::sqlite().await;
    let asker = Asker::sandbox(&world).await;
    asker.create(json!({"phone_number": EVEN})).await;
    let other = world.project("Other", json!({})).await;
    let mut browser = Browser::member(&world, &world.acme, Role::Owner).await;
    let text = browser.get(&format!("{}/overview", path_of(&world, &other))).await.assert(200).text();
    assert!(text.contains("No checks in the last hour."), "{text}");
}
