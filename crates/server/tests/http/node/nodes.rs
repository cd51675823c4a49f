//! Several nodes on one database: changes propagate to all.

use ringtrue_domain::tenancy::RateLimits;
use ringtrue_test_support::poll_until;
use serde_json::json;

use crate::{
    client::{Request, token_request},
    on_both_stores,
    world::{World, is_token_accepted, send_to},
};

async fn reads_are_consistent_across_nodes(world: World) {
    let second = world.second_node().await;
    let token = world.management_token().await;
    let project = world.project("Shop", json!({})).await;
    let read = Request::get(&project.path).bearer(&token);
    assert_eq!(send_to(second.address, read.clone()).await.assert(200).json()["name"], "Shop");
    let rename = Request::patch(&project.path).bearer(&token).json(&json!({"name": "Store"}));
    send_to(second.address, rename).await.assert(200);
    assert_eq!(world.send(read).await.assert(200).json()["name"], "Store");
}

async fn new_client_works_on_all_nodes(world: World) {
    let second = world.second_node().await;
    let project = world.project("Shop", json!({})).await;
    let token = world.token(&project.client_id, &project.client_secret, "sim_swap").await;
    poll_until("the token is accepted", async || is_token_accepted(second.address, &token).await).await;
    let there = send_to(second.address, token_request(&project.client_id, &project.client_secret, "sim_swap")).await;
    let token = there.assert(200).json()["access_token"].as_str().unwrap().to_owned();
    assert!(world.accepts_token(&token).await, "tokens of the second node are valid");
}

async fn removed_product_is_rejected_on_all_nodes(world: World) {
    let second = world.second_node().await;
    let project = world.project("Shop", json!({})).await;
    let token = world.token(&project.client_id, &project.client_secret, "sim_swap").await;
    poll_until("the second node accepts the token", async || is_token_accepted(second.address, &token).await).await;
    world.manage(Request::patch(&project.path).json(&json!({"products": ["reverse_sms"]}))).await.assert(200);
    let refused = async || {
        let request = token_request(&project.client_id, &project.client_secret, "sim_swap");
        send_to(second.address, request).await.status == 400
    };
    poll_until("token requests are rejected", refused).await;
}

async fn workspace_limit_reaches_all_nodes(world: World) {
    let second = world.second_node().await;
    let token = world.management_token().await;
    let limits = RateLimits { management: Some(12_345), ..RateLimits::default() };
    world
        .node
        .engine
        .management
        .set_workspace_rate_limits(world.acme.workspace_id.parse().unwrap(), limits)
        .await
        .unwrap();
    let has_limit = async || {
        let response = send_to(second.address, Request::get("/v1/management/workspaces").bearer(&token)).await;
        response.header("x-ratelimit-limit") == Some("12345")
    };
    poll_until("the other node has the limit", has_limit).await;
}

async fn new_node_loads_the_whole_control_plane(world: World) {
    let project = world.project("Shop", json!({})).await;
    let (alive, dead) = (world.management_token().await, world.management_token().await);
    let revoke = Request::post("/oauth2/revoke")
        .basic(&world.acme.client_id, &world.acme.client_secret)
        .form(&[("token", &dead)]);
    world.send(revoke).await.assert(200);
    let late = world.second_node().await;
    assert!(is_token_accepted(late.address, &alive).await && !is_token_accepted(late.address, &dead).await);
    send_to(late.address, token_request(&project.client_id, &project.client_secret, "sim_swap")).await.assert(200);
}

async fn concurrent_changes_from_several_nodes_are_kept(world: World) {
    let second = world.second_node().await;
    let token = world.management_token().await;
    let project = world.project("Shop", json!({})).await;
    let change = |node: std::net::SocketAddr, body: serde_json::Value| {
        send_to(node, Request::patch(&format!("{}?force=true", project.path)).bearer(&token).json(&body))
    };
    let (here, there) = (world.node.address, second.address);
    let responses = tokio::join!(
        change(here, json!({"name": "Store"})),
        change(there, json!({"mode": "live"})),
        change(here, json!({"configuration": {"reverse_sms": {"ttl": 99}}})),
        change(there, json!({"configuration": {"reverse_sms": {"prefix": "ACME"}}})),
    );
    for response in [responses.0, responses.1, responses.2, responses.3] {
        response.assert(200);
    }
    let after = world.manage(Request::get(&project.path)).await.json();
    assert_eq!((&after["name"], &after["mode"]), (&json!("Store"), &json!("live")));
    assert_eq!(after["configuration"]["reverse_sms"], json!({"ttl": 99, "prefix": "ACME"}));
}

on_both_stores!(
    reads_are_consistent_across_nodes,
    new_client_works_on_all_nodes,
    removed_product_is_rejected_on_all_nodes,
    workspace_limit_reaches_all_nodes,
    new_node_loads_the_whole_control_plane,
    concurrent_changes_from_several_nodes_are_kept,
);
