use jiff::SignedDuration;
use ringtrue_domain::account::Role;
use serde_json::json;

use super::{
    browser::{Browser, location},
    pages::{assert_well_formed, current_entry},
};
use crate::{
    client::{self, Request},
    on_both_stores,
    products::reverse_sms::{EVEN, ODD, ReverseSmsClient},
    receiver::Receiver,
    world::{TestProject, World},
};

on_both_stores!(
    overview_counts_completed_checks,
    fast_checks_are_shown_in_milliseconds,
    outcomes_are_apart,
    overview_shows_a_custom_period
);

fn path_of(world: &World, project: &TestProject) -> String {
    format!("/console/workspaces/{}/projects/{}", world.acme.workspace_id, project.project_id)
}

/// Returns the value of a metric on a page.
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
        ("Match", "1"),
        ("No match", "0"),
        ("Expired", "0"),
        ("Failed", "0"),
        ("Open", "1"),
        ("p50", "3 s"),
        ("p95", "3 s"),
        ("p99", "3 s"),
        ("Failed attempts", "0"),
        ("Undeliverable", "0"),
        ("Pending now", "0"),
    ] {
        assert_eq!(metric(&text, name), value, "{name}: {text}");
    }
    assert!(text.contains("Checks per minute: 2 in total."), "{text}");
    assert_eq!(current_entry(&text), "Overview");
    assert!(text.contains("data-refresh-seconds=\"5\"") && text.contains("/console/assets/refresh.js"), "{text}");
    assert!(!text.contains(EVEN) && !text.contains(&right.body), "{text}");

    // Ten minutes later there is one more check.
    world.advance(SignedDuration::from_mins(10));
    backend.create(json!({"phone_number": EVEN})).await;
    for (query, checks) in [
        ("?span=day", "3"),
        ("?span=week", "3"),
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
    assert_eq!(metric(&text, "p50"), "8 ms", "{text}");

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

async fn outcomes_are_apart(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    // Another phone sends the SMS of the third check, which is then a mismatch.
    for (seconds, sender) in [(1, EVEN), (2, EVEN), (4, "+990777777702")] {
        let check = backend.create(json!({"phone_number": EVEN})).await;
        world.advance(SignedDuration::from_secs(seconds));
        backend.text(sender, &check.receiver, &check.body).await;
        backend.expect_status(&check.id, "COMPLETED").await;
    }
    let late = backend.create(json!({"phone_number": ODD})).await;
    world.advance(SignedDuration::from_secs(301));
    backend.expect_status(&late.id, "EXPIRED").await;

    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let overview = format!("{}/overview", path_of(&world, &backend.project));
    let text = viewer.get(&overview).await.assert(200).text();
    for (name, value) in
        [("Checks", "4"), ("Match", "2"), ("No match", "1"), ("Expired", "1"), ("Failed", "0"), ("Open", "0")]
    {
        assert_eq!(metric(&text, name), value, "{name}: {text}");
    }
    for (name, value) in [("p50", "2 s"), ("p95", "4 s"), ("p99", "4 s")] {
        assert_eq!(metric(&text, name), value, "{name}: {text}");
    }
    for table in ["by-network", "by-connector"] {
        let (_, rows) =
            text.split_once(&format!("<section aria-labelledby=\"{table}\">")).unwrap_or_else(|| panic!("{text}"));
        let row = rows.split("<tbody>").nth(1).unwrap().split("</tr>").next().unwrap();
        for cell in ["\"Checks\">4<", "\"Match\">2<", "\"No match\">1<", "\"Expired\">1<", "\"Success\">50 %<"] {
            assert!(row.contains(cell), "{table} {cell}: {row}");
        }
        assert!(row.contains("number alarm\" data-label=\"No match\""), "{row}");
    }
}

async fn overview_shows_a_custom_period(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let now = world.node.engine.clock().now();
    backend.create(json!({"phone_number": EVEN})).await;
    world.advance(SignedDuration::from_hours(3));
    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let overview = format!("{}/overview", path_of(&world, &backend.project));
    let query = |from: i64, to: i64| {
        let time = |hours: i64| (now + SignedDuration::from_hours(hours)).strftime("%Y-%m-%dT%H:%M").to_string();
        format!("{overview}?span=custom&from={}&to={}&product=&network=", time(from), time(to))
    };
    let text = viewer.get(&overview).await.assert(200).text();
    assert!(text.contains("No checks in the last hour."), "{text}");
    let response = viewer.get(&query(-1, 1)).await.assert(200);
    assert_well_formed("custom", &response);
    let text = response.text();
    assert_eq!(metric(&text, "Checks"), "1");
    assert!(!text.contains("data-refresh-seconds"), "the period is over: {text}");
    assert!(text.contains("<details class=\"custom-span\" open>"), "{text}");
    let text = viewer.get(&query(-2, -1)).await.assert(200).text();
    assert!(text.contains("No checks from ") && text.contains(" UTC."), "{text}");
    let text = viewer.get(&query(1, 9)).await.assert(200).text();
    assert!(text.contains("data-refresh-seconds"), "the period is not over: {text}");
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
    for query in [
        "span=year",
        "span=custom",
        "span=custom&from=2026-11-15T12:00&to=yesterday",
        "span=custom&from=2026-11-15T12:00&to=2026-11-15T12:00",
        "product=eligibility",
        "product=x",
        "product=verification",
        "view=x",
        "view=verifications&product=reverse_sms",
        "network=%3Cscript%3E",
        "network=1",
        "page=1",
    ] {
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
