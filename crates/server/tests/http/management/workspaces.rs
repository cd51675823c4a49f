//! Workspaces.

use jiff::SignedDuration;
use serde_json::json;

use crate::{client::Request, on_both_stores, world::World};

async fn client_sees_only_its_workspace(world: World) {
    world.another_tenant().await;
    let page = world.manage(Request::get("/v1/management/workspaces")).await.assert(200).json();
    assert_eq!(page["page"], json!({"size": 10, "number": 1, "total_pages": 1, "total_elements": 1}));
    let expected = json!({
        "workspace_id": world.acme.workspace_id,
        "name": "Acme",
        "data_residency": "eu",
        "created_at": "2026-01-01T00:00:00.000Z",
        "updated_at": "2026-01-01T00:00:00.000Z",
    });
    assert_eq!(page["content"], json!([expected]));
    assert_eq!(world.manage(Request::get(&world.acme.path())).await.assert(200).json(), expected);
    let past_the_end = world.manage(Request::get("/v1/management/workspaces?page=2&size=5")).await.assert(200).json();
    assert_eq!(past_the_end["content"], json!([]));
    assert_eq!(past_the_end["page"], json!({"size": 5, "number": 2, "total_pages": 1, "total_elements": 1}));
}

async fn client_can_rename_its_workspace(world: World) {
    world.advance(SignedDuration::from_millis(1234));
    let rename = Request::patch(&world.acme.path()).json(&json!({"name": "Acme & Söhne 📱"}));
    let renamed = world.manage(rename).await.assert(200).json();
    assert_eq!(renamed["name"], "Acme & Söhne 📱");
    assert_eq!(renamed["created_at"], "2026-01-01T00:00:00.000Z");
    assert_eq!(renamed["updated_at"], "2026-01-01T00:00:01.234Z");
    assert_eq!(world.manage(Request::get(&world.acme.path())).await.json(), renamed);
}

async fn same_name_is_no_change(world: World) {
    let events = async || {
        let page = world.manage(Request::get(&format!("{}/audit-events", world.acme.path()))).await.assert(200).json();
        page["page"]["total_elements"].clone()
    };
    let before = events().await;
    world.advance(SignedDuration::from_secs(1));
    for body in [json!({}), json!({"name": "Acme"})] {
        let response = world.manage(Request::patch(&world.acme.path()).json(&body)).await.assert(200).json();
        assert_eq!(response["updated_at"], "2026-01-01T00:00:00.000Z");
    }
    assert_eq!(events().await, before);
}

async fn names(world: World) {
    let path = world.acme.path();
    for good in ["x", &"é".repeat(100), &"📱".repeat(100), " padded ", "<script>alert(1)</script>", "=HYPERLINK(\"x\")"]
    {
        let response = world.manage(Request::patch(&path).json(&json!({"name": good}))).await.assert(200);
        assert_eq!(response.json()["name"], good.trim());
    }
    for bad in [
        json!(""),
        json!("  "),
        json!("é".repeat(101)),
        json!("a\u{0}b"),
        json!("a\nb"),
        json!("\u{202e}rtl"),
        json!("a\r\nb"),
        json!(null),
        json!(1),
        json!(["x"]),
        json!({}),
    ] {
        let response = world.manage(Request::patch(&path).json(&json!({"name": bad}))).await;
        let response = response.assert_problem(400, "bad_request");
        assert!(response.detail().starts_with("`/name`: "), "{bad}: {}", response.detail());
    }
}

/// Administrators of the deployment create workspaces. The API can neither move nor delete them.
async fn only_the_name_of_a_workspace_can_be_changed(world: World) {
    for (member, value) in [
        ("workspace_id", json!(world.acme.workspace_id)),
        ("data_residency", json!("us")),
        ("created_at", json!("2020-01-01T00:00:00Z")),
        ("rate_limits", json!({"management": 1_000_000})),
    ] {
        let response = world.manage(Request::patch(&world.acme.path()).json(&json!({member: value}))).await;
        let response = response.assert_problem(400, "bad_request");
        assert!(response.detail().contains(&format!("`/{member}`")), "{}", response.detail());
    }
    let list = "/v1/management/workspaces";
    for request in [
        Request::post(list).json(&json!({"name": "Mine"})),
        Request::delete(&world.acme.path()),
        Request::put(&world.acme.path()).json(&json!({"name": "Mine"})),
    ] {
        world.manage(request).await.assert_problem(405, "method_not_allowed");
    }
}

async fn ids_are_case_insensitive_uuids(world: World) {
    let list = "/v1/management/workspaces";
    let upper = format!("{list}/{}", world.acme.workspace_id.to_uppercase());
    assert_eq!(world.manage(Request::get(&upper)).await.assert(200).json()["workspace_id"], world.acme.workspace_id);
    for not_an_id in [
        "not-a-uuid",
        "1",
        &world.acme.workspace_id.replace('-', ""),
        &format!("%7B{}%7D", world.acme.workspace_id),
        "%20",
    ] {
        world.manage(Request::get(&format!("{list}/{not_an_id}"))).await.assert_problem(400, "bad_request");
    }
    let unknown = format!("{list}/01a1d964-6e3b-7c1d-8a52-4f9e0b6d2c71");
    world.manage(Request::get(&unknown)).await.assert_problem(404, "workspace_not_found");
    world.manage(Request::get(&format!("{list}/%ff"))).await.assert_problem(400, "bad_request");
}

on_both_stores!(
    client_sees_only_its_workspace,
    client_can_rename_its_workspace,
    same_name_is_no_change,
    names,
    only_the_name_of_a_workspace_can_be_changed,
    ids_are_case_insensitive_uuids,
);
