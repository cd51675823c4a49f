//! Rate limits: per workspace and second, with three headers, independent of the number of nodes.

use jiff::SignedDuration;
use ringtrue_domain::tenancy::RateLimits;
use ringtrue_server::wiring::RunningNode;
use serde_json::json;

use crate::{
    client::{HttpResponse, Request, token_request},
    database::Database,
    on_both_databases, on_both_stores,
    protocol::{
        responses::all_kinds,
        routes::{self, Ids},
    },
    world::{World, send_to},
};

const WORKSPACES_PATH: &str = "/v1/management/workspaces";

/// Returns the values of the headers: limit, remaining and reset.
#[track_caller]
fn rate_limit_headers(response: &HttpResponse) -> [u32; 3] {
    ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"].map(|name| {
        let value = response.header(name).unwrap_or_else(|| panic!("{name} is missing: {response:?}"));
        value.parse().unwrap_or_else(|_| panic!("{name} is {value}"))
    })
}

#[track_caller]
fn refused(response: &HttpResponse) {
    assert_eq!((response.status, response.code().as_str()), (429, "too_many_requests"));
    let wait: u32 = response.header("retry-after").expect("Retry-After").parse().expect("whole seconds");
    assert!(wait >= 1);
}

#[tokio::test]
async fn every_management_response_has_rate_limit_headers() {
    let world = World::sqlite().await;
    for (request, response) in all_kinds(&world).await {
        if request.target.starts_with("/v1/management/") {
            let [limit, remaining, _] = rate_limit_headers(&response);
            assert!(limit >= 1 && remaining <= limit, "{request:?}");
        }
    }
    let project = world.project("Other shop", json!({})).await;
    let ids = Ids::of(&world.acme, &project);
    let product = world.token(&project.client_id, &project.client_secret, "sim_swap").await;
    for route in routes::managed() {
        for request in [
            route.request(&ids),
            route.request(&ids).bearer("nonsense"),
            route.request(&ids).bearer(&product),
            Request { method: "TRACE".to_owned(), ..route.request(&ids) },
            Request::new(route.method, &format!("{}/nowhere/at/all", routes::fill(route.template, &ids))),
        ] {
            rate_limit_headers(&world.send(request).await);
        }
    }
}

async fn limit_applies_within_its_second(world: World) {
    limit(&world, 3).await;
    let token = world.management_token().await;
    for second in 0..3 {
        for (call, expected) in [[3, 2, 1], [3, 1, 1], [3, 0, 1]].into_iter().enumerate() {
            let response = world.send(Request::get(WORKSPACES_PATH).bearer(&token)).await.assert(200);
            assert_eq!(rate_limit_headers(&response), expected, "call {call} of second {second}");
        }
        for _ in 0..5 {
            let response = world.send(Request::get(WORKSPACES_PATH).bearer(&token)).await;
            refused(&response);
            assert_eq!(rate_limit_headers(&response), [3, 0, 1]);
        }
        world.advance(SignedDuration::from_secs(1));
    }
}

/// All credentials of a workspace share the limit, and all responses count, whatever their status.
async fn calls_of_a_workspace_share_a_limit(world: World) {
    let project = world.project("Shop", json!({})).await;
    let path = format!("{}/credentials", world.acme.path());
    let credential = world.manage(Request::post(&path).json(&json!({}))).await.assert(201).json();
    let one = world.management_token().await;
    let two = world
        .token(credential["client_id"].as_str().unwrap(), credential["client_secret"].as_str().unwrap(), "management")
        .await;
    let product = world.token(&project.client_id, &project.client_secret, "sim_swap").await;
    limit(&world, 5).await;
    world.advance(SignedDuration::from_secs(1));
    world.send(Request::get(WORKSPACES_PATH).bearer(&one)).await.assert(200);
    world.send(Request::get(WORKSPACES_PATH).bearer(&two)).await.assert(200);
    world.send(Request::get(&project.path).bearer(&one)).await.assert(200);
    world.send(Request::patch(&project.path).bearer(&two).json(&json!({"mode": "x"}))).await.assert(400);
    world.send(Request::get(WORKSPACES_PATH).bearer(&product)).await.assert(403);
    for token in [&one, &two, &product] {
        refused(&world.send(Request::get(WORKSPACES_PATH).bearer(token)).await);
    }
    refused(&world.send(Request::post(&path).bearer(&one).json(&json!({}))).await);
}

async fn workspaces_have_separate_limits(world: World) {
    let other = world.another_tenant().await;
    limit(&world, 2).await;
    let (token, others) = (world.management_token().await, world.management_token_of(&other).await);
    for _ in 0..20 {
        world.send(Request::get(WORKSPACES_PATH).bearer(&token)).await;
        world.send(Request::get(WORKSPACES_PATH).bearer(&others)).await.assert(200);
    }
    let response = world.send(Request::get(WORKSPACES_PATH).bearer(&token)).await;
    refused(&response);
    assert_eq!(rate_limit_headers(&response)[0], 2);
    assert_eq!(rate_limit_headers(&world.send(Request::get(WORKSPACES_PATH).bearer(&others)).await)[0], 1_000_000);
}

/// Requests without a valid token are counted by address and do not affect others.
#[tokio::test]
async fn unauthenticated_requests_are_limited_by_address() {
    let world = World::configured(|config| {
        config.rate_limits.management = 5;
        config.http.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    })
    .await;
    let from = async |address: &str| world.send(Request::get(WORKSPACES_PATH).header("X-Forwarded-For", address)).await;
    for left in (0..5).rev() {
        assert_eq!(rate_limit_headers(&from("203.0.113.1").await.assert(401)), [5, left, 1]);
    }
    for _ in 0..5 {
        refused(&from("203.0.113.1").await);
    }
    from("203.0.113.2").await.assert(401);
    for _ in 0..5 {
        world.manage(Request::get(WORKSPACES_PATH).header("X-Forwarded-For", "203.0.113.1")).await.assert(200);
    }
}

#[tokio::test]
async fn token_requests_have_their_own_limit() {
    let world = World::configured(|config| config.rate_limits.token = 4).await;
    let other = world.another_tenant().await;
    let request_token = async |id: &str, secret: &str| world.send(token_request(id, secret, "management")).await;
    for second in 0..3 {
        for _ in 0..4 {
            request_token(&world.acme.client_id, &world.acme.client_secret).await.assert(200);
        }
        let response = request_token(&world.acme.client_id, &world.acme.client_secret).await;
        refused(&response);
        assert_eq!(response.json()["error"], "too_many_requests");
        let revoke = token_request(&world.acme.client_id, &world.acme.client_secret, "management");
        refused(&world.send(Request { target: "/oauth2/revoke".to_owned(), ..revoke }).await);
        request_token(&other.client_id, &other.client_secret).await.assert(200);
        world.advance(SignedDuration::from_secs(1));
        assert!(second < 3);
    }
}

async fn clients_of_a_workspace_share_a_token_limit(database: Database) {
    let world = World::with(database, |config| {
        config.rate_limits.token = 4;
        config.rate_limits.token_per_workspace = 6;
    })
    .await;
    let other = world.another_tenant().await;
    let mut clients = vec![];
    for name in ["One", "Two", "Three"] {
        world.advance(SignedDuration::from_secs(1));
        clients.push(world.project(name, json!({})).await);
    }
    world.advance(SignedDuration::from_secs(1));
    let mut admitted = vec![];
    for client in &clients {
        let mut count = 0;
        for _ in 0..8 {
            let response = world.token_request(&client.client_id, &client.client_secret, "sim_swap").await;
            if response.status == 200 {
                count += 1;
            } else {
                refused(&response);
            }
        }
        admitted.push(count);
    }
    assert_eq!(admitted, [4, 2, 0]);
    world.token_request(&other.client_id, &other.client_secret, "management").await.assert(200);
    world.advance(SignedDuration::from_secs(1));
    world.token_request(&clients[2].client_id, &clients[2].client_secret, "sim_swap").await.assert(200);
}

on_both_databases!(clients_of_a_workspace_share_a_token_limit);

/// The limit is exact, and no request gets a 5xx.
async fn concurrent_requests_are_admitted_up_to_the_limit(world: World) {
    limit(&world, 10).await;
    let token = world.management_token().await;
    let calls = (0..100).map(|_| world.send(Request::get(WORKSPACES_PATH).bearer(&token)));
    let responses = futures_util::future::join_all(calls).await;
    let admitted = responses.iter().filter(|response| response.status == 200).count();
    assert_eq!(admitted, 10);
    for response in responses.iter().filter(|response| response.status != 200) {
        refused(response);
        assert_eq!(rate_limit_headers(response), [10, 0, 1]);
    }
}

/// Once nodes know of each other, they together admit as many requests as a single node.
async fn nodes_share_a_limit(world: World) {
    limit(&world, 7).await;
    let others = [world.second_node().await, world.second_node().await];
    let nodes: Vec<&RunningNode> = [&world.node, &others[0], &others[1]].into();
    for node in &nodes {
        node.engine.node.refresh().await.unwrap();
    }
    let token = world.management_token().await;
    for second in 0..6 {
        world.advance(SignedDuration::from_secs(1));
        // Each node learns of the others every second.
        for node in nodes.iter().chain(&nodes) {
            node.engine.node.send_heartbeat().await.unwrap();
        }
        let mut admitted = 0;
        for call in 0..42 {
            let response =
                send_to(nodes[call % nodes.len()].address, Request::get(WORKSPACES_PATH).bearer(&token)).await;
            let [limit, remaining, _] = rate_limit_headers(&response);
            assert!(limit == 7 && remaining <= 7);
            admitted += usize::from(response.status == 200);
        }
        if second > 0 {
            assert_eq!(admitted, 7, "in second {second}");
        }
    }
}

/// A node that gets all requests may use the whole limit. The other nodes still admit a few.
async fn single_busy_node_gets_the_whole_limit(world: World) {
    limit(&world, 40).await;
    let other = world.second_node().await;
    other.engine.node.refresh().await.unwrap();
    let token = world.management_token().await;
    let count_admitted = async |node: &RunningNode, calls: usize| {
        let mut admitted = 0;
        for _ in 0..calls {
            admitted +=
                usize::from(send_to(node.address, Request::get(WORKSPACES_PATH).bearer(&token)).await.status == 200);
        }
        admitted
    };
    let exchange = async || {
        for node in [&world.node, &other, &world.node] {
            node.engine.node.send_heartbeat().await.unwrap();
        }
    };
    let next_second = async || {
        exchange().await;
        world.advance(SignedDuration::from_secs(1));
        exchange().await;
    };
    next_second().await;
    for second in 0..3 {
        assert_eq!(count_admitted(&world.node, 45).await, 40, "second {second}");
        next_second().await;
    }
    // In its first second, the other node admits the whole limit, because the calls may have moved to it. Then the
    // nodes share the limit, with a tolerance of a tenth.
    assert_eq!((count_admitted(&world.node, 45).await, count_admitted(&other, 45).await), (40, 40));
    for _ in 0..2 {
        next_second().await;
        assert_eq!((count_admitted(&world.node, 45).await, count_admitted(&other, 45).await), (22, 22));
    }
    // Without calls on the other node, this one has the whole limit again.
    let mut admitted = 0;
    for _ in 0..4 {
        next_second().await;
        admitted = count_admitted(&world.node, 45).await;
    }
    assert_eq!(admitted, 40);
}

async fn stopped_node_releases_its_share(world: World) {
    limit(&world, 8).await;
    let (second, shutdown) = world.stoppable_node().await;
    let token = world.management_token().await;
    let admitted = async || {
        world.advance(SignedDuration::from_secs(1));
        let mut admitted = 0;
        for _ in 0..12 {
            admitted += usize::from(world.send(Request::get(WORKSPACES_PATH).bearer(&token)).await.status == 200);
        }
        admitted
    };
    let others = async || {
        let call = async || send_to(second.address, Request::get(WORKSPACES_PATH).bearer(&token)).await.status == 200;
        let mut admitted = 0;
        for _ in 0..12 {
            admitted += usize::from(call().await);
        }
        admitted
    };
    second.engine.node.refresh().await.unwrap();
    for node in [&world.node, &second, &world.node] {
        node.engine.node.send_heartbeat().await.unwrap();
    }
    // Both nodes get calls, and learn of each other's load from the next heartbeats.
    assert!(admitted().await > 0 && others().await > 0);
    world.advance(SignedDuration::from_secs(1));
    for node in [&world.node, &second, &world.node] {
        node.engine.node.send_heartbeat().await.unwrap();
    }
    assert_eq!(others().await, 4);
    shutdown.cancel();
    second.wait_until_stopped().await;
    world.node.engine.node.send_heartbeat().await.unwrap();
    assert_eq!(admitted().await, 8);
}

on_both_stores!(
    limit_applies_within_its_second,
    calls_of_a_workspace_share_a_limit,
    workspaces_have_separate_limits,
    concurrent_requests_are_admitted_up_to_the_limit,
    nodes_share_a_limit,
    single_busy_node_gets_the_whole_limit,
    stopped_node_releases_its_share,
);

/// Sets the limit of the first tenant, as an administrator of the deployment would.
async fn limit(world: &World, management: u32) {
    let limits = RateLimits { management: Some(management), ..RateLimits::default() };
    let workspace = world.acme.workspace_id.parse().unwrap();
    world.node.engine.management.set_workspace_rate_limits(workspace, limits).await.unwrap().expect("the workspace");
}
