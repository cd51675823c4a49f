//! Expensive searches are limited per workspace and do not delay other requests.

use futures_util::future::join_all;
use ringtrue_domain::{account::Role, tenancy::WorkspaceId};
use serde_json::json;

use crate::{
    client::{self, Request},
    console::browser::Browser,
    on_both_stores,
    products::reverse_sms::{EVEN, ReverseSmsClient},
    world::World,
};

on_both_stores!(workspace_runs_two_searches_without_delaying_others, burst_of_lists_within_the_rate_limit_is_served);

const CHECKS: usize = 12;

/// Returns a search that requires more comparisons than a list of a dozen checks may make.
fn expensive() -> String {
    let references = vec!["x"; 100].join(",");
    format!("?search={}", vec![format!("reference_id=out=({references})"); 9].join(";"))
}

async fn create_checks(backend: &ReverseSmsClient<'_>) {
    join_all((0..CHECKS).map(|number| {
        let body =
            json!({"phone_number": format!("+9901234567{number:02}"), "reference_id": format!("order-{number}")});
        backend.create(body)
    }))
    .await;
}

/// Only one list of a workspace runs at a time. The others wait instead of failing.
async fn burst_of_lists_within_the_rate_limit_is_served(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    create_checks(&backend).await;
    for response in join_all((0..100).map(|_| backend.list(""))).await {
        assert_eq!(response.assert(200).json()["page"]["total_elements"], CHECKS);
    }
}

async fn workspace_runs_two_searches_without_delaying_others(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    create_checks(&backend).await;
    let check = backend.create(json!({"phone_number": EVEN, "reference_id": "mine"})).await;
    let other = world.another_tenant().await;
    let project = world.project_of(&other, "Bank", json!({})).await;
    let token = world.token(&project.client_id, &project.client_secret, "reverse_sms").await;
    let other_tenant = ReverseSmsClient { world: &world, project, token };
    create_checks(&other_tenant).await;
    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let list = format!(
        "/console/workspaces/{}/projects/{}/checks/reverse_sms",
        world.acme.workspace_id, backend.project.project_id
    );

    // Takes both search permits of the first workspace, as two searches that do not finish would.
    let workspace = WorkspaceId(world.acme.workspace_id.parse().unwrap());
    let running = [(); 2].map(|()| world.node.engine.checks.search_limiter().try_acquire(workspace).unwrap());
    let rejected = backend.list(&expensive()).await.assert_problem(429, "too_many_requests");
    assert_eq!(rejected.header("retry-after"), Some("1"));
    assert!(rejected.header("x-ratelimit-limit").is_some());
    viewer.get(&format!("{list}{}", expensive())).await.assert(429);

    let found = other_tenant.list(&expensive()).await.assert(200).json();
    assert_eq!(found["page"]["total_elements"], CHECKS);
    backend.get(&check.id).await.assert(200);
    backend.list("").await.assert(200);
    backend.list("?search=status==ACCEPTED").await.assert(200);
    let found = backend.list("?search=reference_id==mine").await.assert(200).json();
    assert_eq!(found["page"]["total_elements"], 1);
    viewer.get(&list).await.assert(200);

    drop(running);
    let found = backend.list(&expensive()).await.assert(200).json();
    assert_eq!(found["page"]["total_elements"], CHECKS + 1);
    viewer.get(&format!("{list}{}", expensive())).await.assert(200);

    let metrics = client::send(world.node.metrics_address.unwrap(), &Request::get("/metrics")).await.text();
    for line in ["ringtrue_searches_running{} 0", "ringtrue_searches_rejected_total{} 2"] {
        assert!(metrics.lines().any(|given| given == line), "{line} is not in\n{metrics}");
    }
}
