//! Tests the audit log, which lists the newest events first and names changed members without their values.

use jiff::SignedDuration;
use ringtrue_domain::tenancy::RateLimits;
use serde_json::{Value, json};

use crate::{client::Request, on_both_stores, world::World};

/// Every change writes one event for each changed object.
async fn every_change_is_audited(world: World) {
    let acme = world.acme.path();
    let by_client = json!({"type": "credential", "id": world.acme.client_id});
    let target = |kind: &str, id: &str| json!({"type": kind, "id": id});
    let mut expected: Vec<(Value, &str, Value, Value)> = vec![];
    let operator = json!({"type": "operator"});
    expected.push((operator.clone(), "workspace.created", target("workspace", &world.acme.workspace_id), json!([])));
    expected.push((operator.clone(), "credential.created", target("credential", &world.acme.client_id), json!([])));

    let project = world.project("Shop", json!({})).await;
    expected.push((by_client.clone(), "project.created", target("project", &project.project_id), json!([])));
    expected.push((by_client.clone(), "credential.created", target("credential", &project.client_id), json!([])));

    world.advance(SignedDuration::from_secs(1));
    world.manage(Request::patch(&acme).json(&json!({"name": "New name"}))).await.assert(200);
    expected.push((
        by_client.clone(),
        "workspace.updated",
        target("workspace", &world.acme.workspace_id),
        json!(["name"]),
    ));

    world.advance(SignedDuration::from_secs(1));
    let callback = "https://shop.example/hook?token=hunter2";
    let configuration =
        json!({"reverse_sms": {"callback_url": callback, "ttl": 90}, "discovery": {"redirect_url": callback}});
    let body =
        json!({"name": "Store", "mode": "live", "disabled": true, "products": [], "configuration": configuration});
    let live = world.manage(Request::patch(&format!("{}?force=true", project.path)).json(&body)).await;
    let live = live.assert(200).json();
    let changes = json!([
        "name",
        "mode",
        "disabled",
        "products",
        "configuration.reverse_sms.callback_url",
        "configuration.reverse_sms.ttl",
        "configuration.discovery.redirect_url",
        "credentials",
    ]);
    expected.push((by_client.clone(), "project.updated", target("project", &project.project_id), changes));
    let client_id = live["credentials"][0]["client_id"].as_str().unwrap();
    expected.push((by_client.clone(), "credential.created", target("credential", client_id), json!([])));

    world.advance(SignedDuration::from_secs(1));
    let networks = json!({"networks": [{"network_id": "*", "products": ["sim_swap"]}]});
    let path = format!("{}/allowed-networks", project.path);
    world.manage(Request::put(&path).json(&networks)).await.assert(200);
    let id = &project.project_id;
    expected.push((by_client.clone(), "project.allowed_networks_replaced", target("project", id), json!(["networks"])));

    for owner in [&project.path, &acme] {
        world.advance(SignedDuration::from_secs(1));
        let path = format!("{owner}/credentials");
        let created = world.manage(Request::post(&path).json(&json!({}))).await.assert(201).json();
        let client_id = created["client_id"].as_str().unwrap();
        expected.push((by_client.clone(), "credential.created", target("credential", client_id), json!([])));
        world.advance(SignedDuration::from_secs(1));
        world.manage(Request::delete(&format!("{path}/{client_id}"))).await.assert(204);
        expected.push((by_client.clone(), "credential.deleted", target("credential", client_id), json!([])));
    }

    world.advance(SignedDuration::from_secs(1));
    let limits = RateLimits { management: Some(1_000), ..RateLimits::default() };
    world
        .node
        .engine
        .management
        .set_workspace_rate_limits(world.acme.workspace_id.parse().unwrap(), limits)
        .await
        .unwrap();
    expected.push((
        operator,
        "workspace.updated",
        target("workspace", &world.acme.workspace_id),
        json!(["rate_limits"]),
    ));

    let log = world.manage(Request::get(&format!("{acme}/audit-events?size=100"))).await.assert(200);
    assert!(
        !log.text().contains("hunter2") && !log.text().contains("New name"),
        "events contain names of members, but no values"
    );
    let mut events: Vec<_> = log.json()["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| {
            let action = event["action"].as_str().unwrap().to_owned();
            (event["actor"].clone(), action, event["target"].clone(), event["changes"].clone())
        })
        .collect();
    events.reverse();
    let concurrent = 4;
    let expected: Vec<_> = expected.into_iter().map(|(a, action, c, d)| (a, action.to_owned(), c, d)).collect();
    assert_eq!(events.len(), expected.len());
    assert!(expected[..concurrent].iter().all(|event| events[..concurrent].contains(event)));
    // Going live writes several events at the same time, in any order.
    let sorted = |events: &[(Value, String, Value, Value)]| {
        let mut lines: Vec<String> = events.iter().map(|event| format!("{event:?}")).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&events[concurrent..]), sorted(&expected[concurrent..]));
}

async fn audit_event_has_the_time_and_id_of_its_request(world: World) {
    let list = format!("{}/audit-events?size=1", world.acme.path());
    world.advance(SignedDuration::from_millis(4_321));
    let rename =
        Request::patch(&world.acme.path()).json(&json!({"name": "New"})).header("X-Request-Id", "order-4711.a_b");
    world.manage(rename).await.assert(200);
    let event = world.manage(Request::get(&list)).await.assert(200).json()["content"][0].clone();
    assert_eq!((&event["request_id"], &event["at"]), (&json!("order-4711.a_b"), &json!("2026-01-01T00:00:04.321Z")));

    let response = world.manage(Request::patch(&world.acme.path()).json(&json!({"name": "Newer"}))).await.assert(200);
    let id = response.header("x-request-id").unwrap();
    world.advance(SignedDuration::from_secs(1));
    let events = world.manage(Request::get(&list.replace("size=1", "size=2"))).await.assert(200).json();
    assert!(events["content"].as_array().unwrap().iter().any(|event| event["request_id"] == id), "{events}");
}

async fn rejected_requests_are_not_audited(world: World) {
    let project = world.project("Shop", json!({})).await;
    world.project("Taken", json!({})).await;
    let list = format!("{}/audit-events?size=100", world.acme.path());
    let before = world.manage(Request::get(&list)).await.assert(200).json();
    let projects = format!("{}/projects", world.acme.path());
    for (request, status) in [
        (Request::post(&projects).json(&json!({"name": "Taken"})), 409),
        (Request::post(&projects).json(&json!({"name": ""})), 400),
        (Request::patch(&project.path).json(&json!({"name": "Taken"})), 409),
        (Request::patch(&project.path).json(&json!({"mode": "x"})), 400),
        (Request::patch(&project.path).json(&json!({})), 200),
        (Request::delete(&format!("{}/credentials/nobody", project.path)), 404),
        (Request::delete(&project.path), 405),
        (Request::put(&format!("{}/allowed-networks", project.path)).json(&json!({"networks": []})), 200),
    ] {
        world.manage(request).await.assert(status);
    }
    assert_eq!(world.manage(Request::get(&list)).await.assert(200).json(), before);
}

async fn tenant_sees_only_its_own_events(world: World) {
    let other = world.another_tenant().await;
    let project = world.project_of(&other, "Secret plan", json!({})).await;
    let log = world.manage(Request::get(&format!("{}/audit-events?size=100", world.acme.path()))).await.assert(200);
    for id in [&other.workspace_id, &other.client_id, &project.project_id, &project.client_id] {
        assert!(!log.text().contains(id.as_str()));
    }
    assert!(!log.text().contains("key."), "events of the deployment are not shown to tenants");
}

on_both_stores!(
    every_change_is_audited,
    audit_event_has_the_time_and_id_of_its_request,
    rejected_requests_are_not_audited,
    tenant_sees_only_its_own_events,
);
