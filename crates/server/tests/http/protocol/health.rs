//! Health checks and metrics.

use serde_json::json;

use crate::{
    client::{self, Request, token_request},
    on_both_stores,
    products::sim_swap::SimSwapClient,
    world::World,
};

async fn serving_node_is_alive_and_ready(world: World) {
    let operators = world.node.metrics_address.unwrap();
    for address in [world.node.address, operators] {
        let alive = client::send(address, &Request::get("/livez")).await.assert(200);
        assert_eq!(alive.json(), json!({"status": "alive"}));
        let ready = client::send(address, &Request::get("/readyz")).await.assert(200);
        assert_eq!(ready.json(), json!({"status": "ready"}));
    }
}

#[tokio::test]
async fn metrics_are_not_served_on_the_public_listener() {
    let world = World::sqlite().await;
    let operators = world.node.metrics_address.unwrap();
    world.send(Request::get("/metrics")).await.assert(404);
    let metrics = client::send(operators, &Request::get("/metrics")).await.assert(200);
    assert!(metrics.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    assert!(metrics.text().ends_with("# EOF\n"));
    for path in ["/oauth2/token", "/v1/management/workspaces", "/docs", "/openapi.json"] {
        client::send(operators, &Request::get(path)).await.assert(404);
    }
}

/// Routes and methods come from closed sets; client input never becomes a label.
#[tokio::test]
async fn metrics_use_routes_as_labels() {
    let world = World::sqlite().await;
    let token = world.management_token().await;
    world.send(Request::get(&world.acme.path()).bearer(&token)).await.assert(200);
    world.send(Request::get(&world.acme.path()).bearer(&token)).await.assert(200);
    world.send(token_request("nobody", "nothing", "management")).await.assert(401);
    for number in 0..20 {
        world.send(Request::get(&format!("/nowhere/{number}?x={number}"))).await.assert(404);
        world.send(Request::new(&format!("METHOD{number}"), "/livez")).await.assert(405);
    }
    let metrics = client::send(world.node.metrics_address.unwrap(), &Request::get("/metrics")).await.text();
    let workspace =
        r#"ringtrue_http_requests_total{method="GET",route="/v1/management/workspaces/{workspace_id}",status="200"} 2"#;
    let refused = r#"ringtrue_http_requests_total{method="POST",route="/oauth2/token",status="401"} 1"#;
    let unmatched = r#"ringtrue_http_requests_total{method="GET",route="unmatched",status="404"} 20"#;
    let odd = r#"ringtrue_http_requests_total{method="other",route="unmatched",status="405"} 20"#;
    for line in [workspace, refused, unmatched, odd] {
        assert!(metrics.lines().any(|given| given == line), "{line} is not in\n{metrics}");
    }
    for sent in [world.acme.workspace_id.as_str(), "nowhere", "METHOD1", "nobody"] {
        assert!(!metrics.contains(sent), "{sent}");
    }
}

/// Covers the metrics of created and concluded checks, and of calls to operators.
#[tokio::test]
async fn metrics_count_checks_by_product() {
    let world = World::sqlite().await;
    let bank = SimSwapClient::sandbox(&world).await;
    for number in ["+990123456700", "+990123456702", "+990123456701", "+990123456799"] {
        bank.create(number).await.assert(201);
    }
    let metrics = client::send(world.node.metrics_address.unwrap(), &Request::get("/metrics")).await.text();
    for line in [
        r#"ringtrue_checks_created_total{product="sim_swap"} 4"#,
        r#"ringtrue_checks_ended_total{product="sim_swap",outcome="match"} 2"#,
        r#"ringtrue_checks_ended_total{product="sim_swap",outcome="no_match"} 1"#,
        r#"ringtrue_checks_ended_total{product="sim_swap",outcome="error"} 1"#,
        r#"ringtrue_checks_created_total{product="reverse_sms"} 0"#,
        r#"ringtrue_breaker_open{connector="sandbox",of="SIM cards"} 0"#,
        r#"ringtrue_operator_calls_total{connector="sandbox",of="SIM cards",outcome="timeout"} 0"#,
        r#"ringtrue_check_duration_seconds_count{product="sim_swap"} 3"#,
        r#"ringtrue_check_duration_seconds_bucket{le="0.001",product="sim_swap"} 3"#,
    ] {
        assert!(metrics.lines().any(|given| given == line), "{line} is not in\n{metrics}");
    }
    assert!(!metrics.contains("990123456"));
}

on_both_stores!(serving_node_is_alive_and_ready);
