//! Usage: counts per period, project, product, status, match and network.

use jiff::Timestamp;
use ringtrue_domain::{lifecycle::CheckStatus, product::Product};
use ringtrue_engine::ports::activity::UsageDelta;
use serde_json::{Value, json};

use crate::{
    client::{HttpResponse, Request},
    on_both_stores,
    world::{TestProject, World},
};

/// Increases a usage counter, as a check does when its status changes.
async fn count(
    world: &World,
    project: &TestProject,
    at: &str,
    status: CheckStatus,
    matched: Option<bool>,
    change: i64,
) {
    let network = matched.map(|_| "23410".parse().unwrap());
    let count = UsageDelta {
        project: project.project_id.parse().unwrap(),
        product: Product::ReverseSms,
        at: at.parse::<Timestamp>().unwrap(),
        status,
        matched,
        network,
        via: None,
        delta: change,
    };
    world.node.engine.store().add_usage(&[count]).await.unwrap();
}

async fn usage_is_grouped_by_hour_day_or_month(world: World) {
    let project = world.project("Shop", json!({})).await;
    for (at, change) in [
        ("2025-11-30T23:59:59.999Z", 1),
        ("2025-12-01T00:00:00Z", 2),
        ("2025-12-01T00:59:59Z", 3),
        ("2025-12-01T01:00:00Z", 4),
        ("2025-12-31T23:00:00Z", 5),
    ] {
        count(&world, &project, at, CheckStatus::Completed, Some(true), change).await;
    }
    let row = |period: &str, count: i64| {
        json!({
            "period_start": format!("{period}.000Z"),
            "project_id": project.project_id,
            "product": "reverse_sms",
            "status": "COMPLETED",
            "match": true,
            "network_id": "23410",
            "count": count,
        })
    };
    let whole = "from=2025-11-15T00:00:00Z&to=2026-01-01T00:00:00Z";
    for (query, expected) in [
        (
            "from=2025-11-30T23:00:00Z&to=2025-12-02T00:00:00Z&group_by=hour".to_owned(),
            json!([row("2025-11-30T23:00:00", 1), row("2025-12-01T00:00:00", 5), row("2025-12-01T01:00:00", 4)]),
        ),
        (
            format!("{whole}&group_by=day"),
            json!([row("2025-11-30T00:00:00", 1), row("2025-12-01T00:00:00", 9), row("2025-12-31T00:00:00", 5)]),
        ),
        (
            whole.to_owned(),
            json!([row("2025-11-30T00:00:00", 1), row("2025-12-01T00:00:00", 9), row("2025-12-31T00:00:00", 5)]),
        ),
        (format!("{whole}&group_by=month"), json!([row("2025-11-01T00:00:00", 1), row("2025-12-01T00:00:00", 14)])),
        ("from=2025-12-01T00:00:00Z&to=2025-12-01T01:00:00Z".to_owned(), json!([row("2025-12-01T00:00:00", 5)])),
        (
            "from=2025-12-01T02:00:00%2B02:00&to=2025-12-01T03:00:00%2B02:00".to_owned(),
            json!([row("2025-12-01T00:00:00", 5)]),
        ),
        ("from=2024-12-31T00:00:00Z&to=2025-01-01T00:00:00Z".to_owned(), json!([])),
    ] {
        assert_eq!(report(&world, &query).await.assert(200).json()["content"], expected, "{query}");
    }
}

async fn usage_is_counted_by_project_product_and_status(world: World) {
    let (shop, bank) = (world.project("Shop", json!({})).await, world.project("Bank", json!({})).await);
    let at = "2025-12-31T12:00:00Z";
    count(&world, &shop, at, CheckStatus::Accepted, None, 3).await;
    count(&world, &shop, at, CheckStatus::Accepted, None, -1).await;
    count(&world, &shop, at, CheckStatus::Completed, Some(true), 1).await;
    count(&world, &shop, at, CheckStatus::Completed, Some(false), 2).await;
    count(&world, &shop, at, CheckStatus::Pending, None, 1).await;
    count(&world, &shop, at, CheckStatus::Pending, None, -1).await;
    count(&world, &bank, at, CheckStatus::Expired, None, 7).await;

    let rows = |response: HttpResponse| {
        let content = response.assert(200).json()["content"].as_array().unwrap().clone();
        let of = |row: &Value| {
            (
                row["project_id"] == shop.project_id,
                row["status"].clone(),
                row.get("match").cloned(),
                row["count"].clone(),
            )
        };
        content.iter().map(of).collect::<Vec<_>>()
    };
    let of_the_shop = vec![
        (true, json!("ACCEPTED"), None, json!(2)),
        (true, json!("COMPLETED"), Some(json!(false)), json!(2)),
        (true, json!("COMPLETED"), Some(json!(true)), json!(1)),
    ];
    let of_the_bank = vec![(false, json!("EXPIRED"), None, json!(7))];
    let all = rows(report(&world, "").await);
    assert_eq!(all.len(), 4, "counters at zero are omitted: {all:?}");
    assert!(of_the_shop.iter().chain(&of_the_bank).all(|row| all.contains(row)), "{all:?}");
    assert_eq!(rows(report(&world, &format!("project_id={}", shop.project_id)).await), of_the_shop);
    assert_eq!(rows(report(&world, &format!("project_id={}", bank.project_id)).await), of_the_bank);

    let other = world.another_tenant().await;
    let token = world.management_token_of(&other).await;
    let theirs =
        async |query: &str| world.send(Request::get(&format!("{}/usage?{query}", other.path())).bearer(&token)).await;
    assert_eq!(theirs("").await.assert(200).json()["content"], json!([]), "counts of other tenants are hidden");
    theirs(&format!("project_id={}", shop.project_id)).await.assert_problem(403, "forbidden");
    let unknown_project = theirs("project_id=01a1d964-6e3b-7c1d-8a52-4f9e0b6d2c71").await;
    unknown_project.assert_problem(404, "project_not_found");
}

async fn query_parameters_have_defaults(world: World) {
    for (query, from, to, group_by) in [
        ("", "2025-12-02T00:00:00.000Z", "2026-01-01T00:00:00.000Z", "day"),
        ("group_by=hour", "2025-12-31T00:00:00.000Z", "2026-01-01T00:00:00.000Z", "hour"),
        ("group_by=month", "2025-01-01T00:00:00.000Z", "2026-01-01T00:00:00.000Z", "month"),
        ("to=2025-06-30T00:00:00Z", "2025-05-31T00:00:00.000Z", "2025-06-30T00:00:00.000Z", "day"),
        ("from=2025-12-24T12:30:00.5Z", "2025-12-24T12:30:00.500Z", "2026-01-01T00:00:00.000Z", "day"),
    ] {
        let body = report(&world, query).await.assert(200).json();
        assert_eq!(body, json!({"from": from, "to": to, "group_by": group_by, "content": []}), "{query}");
    }
}

#[tokio::test]
async fn invalid_queries_are_rejected() {
    let world = World::sqlite().await;
    for (query, expected_detail) in [
        ("group_by=week", "`group_by`"),
        ("group_by=", "`group_by`"),
        ("group_by=day&group_by=day", "`group_by`"),
        ("from=yesterday", "`from`"),
        ("from=", "`from`"),
        ("from=2025-12-01", "`from`"),
        ("from=2025-12-01T00:00:00+01:00", "%2B"),
        ("to=2025-12-32T00:00:00Z", "`to`"),
        ("from=2026-01-01T00:00:00Z&to=2026-01-01T00:00:00Z", "before"),
        ("from=2026-01-02T00:00:00Z", "before"),
        ("from=2025-11-30T23:59:59Z&to=2026-01-01T00:00:00Z&group_by=hour", "31 days"),
        ("from=2024-12-30T00:00:00Z&to=2026-01-01T00:00:00Z&group_by=day", "366 days"),
        ("from=2015-01-01T00:00:00Z&group_by=month", "3660 days"),
        ("project_id=shop", "`project_id`"),
        ("product=sim_swap", "`group_by`"),
        ("size=10", "`from`"),
    ] {
        let response = report(&world, query).await.assert_problem(400, "bad_request");
        assert!(response.detail().contains(expected_detail), "{query}: {}", response.detail());
    }
    for query in [
        "from=2025-12-01T00:00:00Z&to=2026-01-01T00:00:00Z&group_by=hour",
        "from=2024-12-31T00:00:00Z&to=2026-01-01T00:00:00Z&group_by=day",
        "from=2016-01-01T00:00:00Z&group_by=month",
        "from=1970-01-01T00:00:00Z&to=1970-01-02T00:00:00Z",
        "from=9998-12-30T00:00:00Z&to=9998-12-31T23:59:59.999Z",
    ] {
        report(&world, query).await.assert(200);
    }
}

on_both_stores!(
    usage_is_grouped_by_hour_day_or_month,
    usage_is_counted_by_project_product_and_status,
    query_parameters_have_defaults
);

async fn report(world: &World, query: &str) -> HttpResponse {
    world.manage(Request::get(&format!("{}/usage?{query}", world.acme.path()))).await
}
