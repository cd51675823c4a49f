//! Several nodes on one database: a change on one is soon known on all.

use ringtrue_domain::tenancy::RateLimits;
use serde_json::json;

use crate::{
    client::Request,
    on_both_stores,
    world::{World, accepted_at, eventually, send_to, token_request},
};

async fn what_is_read_is_the_same_everywhere_at_once(world: World) {
    let second = world.second_node().await;
    let token = world.manager().await;
    let project = world.project("Shop", json!({})).await;
    let read = Request::get(&project.path).bearer(&token);
    assert_eq!(send_to(second.address, read.clone()).await.assert(200).json()["name"], "Shop");
    let rename = Request::patch(&project.path).bearer(&token).json(&json!({"name": "Store"}));
    send_to(second.address, rename).await.assert(200);
    assert_eq!(world.send(read).await.assert(200).json()["name"], "Store");
}

async fn a_new_client_is_soon_known_everywhere(world: World) {
    let second = world.second_node().await;
    let project = world.project("Shop", json!({})).await;
    let token = world.token(&project.client_id, &project.client_secret, "sim_swap").await;
    eventually("the token is taken", async || accepted_at(second.address, &token).await).await;
    let there = send_to(second.address, token_request(&project.client_id, &project.client_secret, "sim_swap")).await;
    let token = there.assert(200).json()["access_token"].as_str().unwrap().to_owned();
    assert!(world.accepts(&token).await, "and its tokens are good here");
}

async fn a_product_taken_away_is_gone_everywhere(world: World) {
    let second = world.second_node().await;
    let project = world.project("Shop", json!({})).await;
    let token = world.token(&project.client_id, &project.client_secret, "sim_swap").await;
    eventually("known there", async || accepted_at(second.address, &token).await).await;
    world.manage(Request::patch(&project.path).json(&json!({"products": ["reverse_sms"]}))).await.assert(200);
    let refused = async || {
        let request = token_request(&project.client_id, &project.client_secret, "sim_swap");
        send_to(second.address, request).await.status == 400
    };
    eventually("no more tokens for it", refused).await;
}

async fn a_limit_set_by_the_operator_reaches_every_node(world: World) {
    let second = world.second_node().await;
    let token = world.manager().await;
    let limits = RateLimits { management: Some(12_345), ..RateLimits::default() };
    world.node.engine.limit_workspace(world.acme.workspace_id.parse().unwrap(), limits).await.unwrap();
    let told = async || {
        let answer = send_to(second.address, Request::get("/v1/management/workspaces").bearer(&token)).await;
        answer.header("x-ratelimit-limit") == Some("12345")
    };
    eventually("the other node has the limit", told).await;
}

/// A node that comes later knows what was before.
async fn a_late_node_knows_it_all(world: World) {
    let project = world.project("Shop", json!({})).await;
    let (alive, dead) = (world.manager().await, world.manager().await);
    let revoke = Request::post("/oauth2/revoke")
        .header("Authorization", crate::world::basic(&world.acme.client_id, &world.acme.client_secret))
        .form(&[("token", &dead)]);
    world.send(revoke).await.assert(200);
    let late = world.second_node().await;
    assert!(accepted_at(late.address, &alive).await && !accepted_at(late.address, &dead).await);
    send_to(late.address, token_request(&project.client_id, &project.client_secret, "sim_swap")).await.assert(200);
}

/// Changes of the same project from all sides are all kept.
async fn changes_from_all_sides_are_all_kept(world: World) {
    let second = world.second_node().await;
    let token = world.manager().await;
    let project = world.project("Shop", json!({})).await;
    let change = |node: std::net::SocketAddr, body: serde_json::Value| {
        send_to(node, Request::patch(&project.path).bearer(&token).json(&body))
    };
    let (here, there) = (world.node.address, second.address);
    let answers = tokio::join!(
        change(here, json!({"name": "Store"})),
        change(there, json!({"mode": "live"})),
        change(here, json!({"configuration": {"reverse_sms": {"ttl": 99}}})),
        change(there, json!({"configuration": {"reverse_sms": {"prefix": "ACME"}}})),
    );
    for answer in [answers.0, answers.1, answers.2, answers.3] {
        answer.assert(200);
    }
    let after = world.manage(Request::get(&project.path)).await.json();
    assert_eq!((&after["name"], &after["mode"]), (&json!("Store"), &json!("live")));
    assert_eq!(after["configuration"]["reverse_sms"], json!({"ttl": 99, "prefix": "ACME"}));
}

on_both_stores!(
    what_is_read_is_the_same_everywhere_at_once,
    a_new_client_is_soon_known_everywhere,
    a_product_taken_away_is_gone_everywhere,
    a_limit_set_by_the_operator_reaches_every_node,
    a_late_node_knows_it_all,
    changes_from_all_sides_are_all_kept,
);
