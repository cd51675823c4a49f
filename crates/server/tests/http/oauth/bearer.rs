//! Bearer tokens (RFC 6750).

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use jiff::SignedDuration;
use serde_json::json;

use crate::{
    client::{HttpResponse, Request},
    on_both_stores,
    protocol::routes::{self, Ids},
    world::World,
};

const WORKSPACES_PATH: &str = "/v1/management/workspaces";

#[tokio::test]
async fn missing_token_gets_a_bare_bearer_challenge() {
    let world = World::sqlite().await;
    let token = world.management_token().await;
    for request in [
        Request::get(WORKSPACES_PATH),
        Request::get(WORKSPACES_PATH).header("Authorization", "Bearer"),
        Request::get(WORKSPACES_PATH).header("Authorization", ""),
        Request::get(WORKSPACES_PATH).header("Authorization", &token),
        Request::get(WORKSPACES_PATH).basic(&world.acme.client_id, &world.acme.client_secret),
        Request::get(WORKSPACES_PATH).header("Authorization", format!("Token {token}")),
        Request::get(WORKSPACES_PATH).header("Authorization", b"Bearer \xff"),
        Request::get(WORKSPACES_PATH)
            .header("X-Access-Token", &token)
            .header("Cookie", format!("access_token={token}")),
        Request::get(&format!("{WORKSPACES_PATH}?access_token={token}")),
    ] {
        let response = world.send(request.clone()).await.assert_problem(401, "unauthorized");
        assert_eq!(response.header("www-authenticate"), Some("Bearer"), "{request:?}");
    }
}

#[tokio::test]
async fn foreign_tokens_are_rejected() {
    let world = World::sqlite().await;
    let token = world.management_token().await;
    let parts: Vec<&str> = token.split('.').collect();
    let [header, payload, signature] = parts[..] else { panic!("three parts") };
    let encode = |json: &serde_json::Value| BASE64_URL_SAFE_NO_PAD.encode(json.to_string());
    let unsigned = encode(&json!({"alg": "none", "typ": "at+jwt"}));
    let claims: serde_json::Value = serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap();
    let mut wider = claims.clone();
    wider["exp"] = json!(4_000_000_000_u64);
    for (case, forged) in [
        ("garbage", "garbage".to_owned()),
        ("dots", "..".to_owned()),
        ("two parts", format!("{header}.{payload}")),
        ("four parts", format!("{token}.x")),
        ("no signature", format!("{header}.{payload}.")),
        ("another signature", format!("{header}.{payload}.{}", signature.chars().rev().collect::<String>())),
        ("no algorithm", format!("{unsigned}.{payload}.")),
        ("no algorithm, signed", format!("{unsigned}.{payload}.{signature}")),
        ("a later end", format!("{header}.{}.{signature}", encode(&wider))),
        ("white space inside", format!("{header} .{payload}.{signature}")),
        ("padding", format!("{token}=")),
        ("too much", format!("{token} {token}")),
        ("very long", "x".repeat(7000)),
        ("a secret", world.acme.client_secret.clone()),
    ] {
        invalid(&world.send(Request::get(WORKSPACES_PATH).bearer(&forged)).await, case);
    }
    world.send(Request::get(WORKSPACES_PATH).bearer(&token)).await.assert(200);
}

#[tokio::test]
async fn expired_token_is_reported_as_expired() {
    let world = World::sqlite().await;
    let token = world.management_token().await;
    world.advance(SignedDuration::from_secs(3600));
    let response = world.send(Request::get(WORKSPACES_PATH).bearer(&token)).await;
    invalid(&response, "expired");
    assert!(response.detail().contains("expired"), "{}", response.detail());
}

#[tokio::test]
async fn bearer_scheme_is_case_insensitive() {
    let world = World::sqlite().await;
    let token = world.management_token().await;
    for scheme in ["Bearer", "bearer", "BEARER", "bEaReR", "Bearer ", "Bearer   "] {
        world
            .send(Request::get(WORKSPACES_PATH).header("Authorization", format!("{scheme} {token}")))
            .await
            .assert(200);
    }
}

#[tokio::test]
async fn two_tokens_are_rejected() {
    let world = World::sqlite().await;
    let token = world.management_token().await;
    let bearer = || Request::get(WORKSPACES_PATH).bearer(&token);
    for request in [
        bearer().bearer(&token),
        bearer().basic(&world.acme.client_id, &world.acme.client_secret),
        bearer().header("authorization", "x"),
        Request { target: format!("{WORKSPACES_PATH}?access_token={token}"), ..bearer() },
        Request { target: format!("{WORKSPACES_PATH}?size=1&access_token="), ..bearer() },
    ] {
        let response = world.send(request.clone()).await.assert_problem(400, "invalid_request");
        let challenge = response.header("www-authenticate").unwrap();
        assert!(challenge.starts_with("Bearer") && challenge.contains(r#"error="invalid_request""#), "{challenge}");
    }
}

/// Every management call requires the scope `management`.
async fn product_token_is_rejected_by_the_management_api(world: World) {
    let project = world.project("Shop", json!({})).await;
    let ids = Ids::of(&world.acme, &project);
    for product in ["reverse_sms", "secure_sna", "discovery", "sim_swap", "eligibility", "verification"] {
        let token = world.token(&project.client_id, &project.client_secret, product).await;
        for route in routes::managed() {
            let response = world.send(route.request(&ids).bearer(&token)).await.assert_problem(403, "forbidden");
            let challenge = response.header("www-authenticate").unwrap();
            assert_eq!(challenge, r#"Bearer error="insufficient_scope", scope="management""#, "{route:?}");
            assert!(response.detail().contains("management") && response.detail().contains(product));
        }
    }
}

async fn unauthenticated_management_calls_have_no_effect(world: World) {
    let project = world.project("Shop", json!({})).await;
    let ids = Ids::of(&world.acme, &project);
    let before = state(&world).await;
    for route in routes::managed() {
        let response = world.send(route.request(&ids)).await.assert_problem(401, "unauthorized");
        assert_eq!(response.header("www-authenticate"), Some("Bearer"), "{route:?}");
        invalid(&world.send(route.request(&ids).bearer("nonsense")).await, &format!("{route:?}"));
    }
    assert_eq!(state(&world).await, before);
}

on_both_stores!(product_token_is_rejected_by_the_management_api, unauthenticated_management_calls_have_no_effect,);

/// Returns the resources of the workspace as its owner sees them.
async fn state(world: &World) -> Vec<serde_json::Value> {
    let mut state = vec![];
    for list in ["projects", "credentials", "audit-events"] {
        let response = world.manage(Request::get(&format!("{}/{list}?size=100", world.acme.path()))).await;
        state.push(response.assert(200).json());
    }
    state
}

#[track_caller]
fn invalid(response: &HttpResponse, case: &str) {
    assert_eq!((response.status, response.code().as_str()), (401, "unauthorized"), "{case}");
    assert_eq!(response.header("www-authenticate"), Some(r#"Bearer error="invalid_token""#), "{case}");
}
