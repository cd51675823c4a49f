//! Token revocation (RFC 7009).

use jiff::SignedDuration;
use serde_json::json;

use crate::{
    client::{HttpResponse, Request, basic_auth},
    on_both_stores,
    world::{Tenant, World},
};

async fn revoked_token_is_rejected_immediately(world: World) {
    let (token, other) = (world.management_token().await, world.management_token().await);
    assert!(world.accepts_token(&token).await);

    let response = revoke(&world, &world.acme, &token).await.assert(200);
    assert_eq!((response.text().as_str(), response.header("content-type")), ("{}", Some("application/json")));
    assert_eq!(response.header("cache-control"), Some("no-store"));
    assert!(!world.accepts_token(&token).await);
    assert!(world.accepts_token(&other).await, "other tokens of the credential stay valid");
    revoke(&world, &world.acme, &token).await.assert(200);
    assert!(!world.accepts_token(&token).await);
}

async fn token_of_another_client_stays_valid(world: World) {
    let other = world.another_tenant().await;
    let token = world.management_token().await;
    revoke(&world, &other, &token).await.assert(200);
    assert!(world.accepts_token(&token).await);

    let project = world.project("Shop", json!({})).await;
    let sibling = world.manage(Request::post(&format!("{}/credentials", project.path)).json(&json!({}))).await;
    let sibling = sibling.assert(201).json();
    let token = world.token(&project.client_id, &project.client_secret, "sim_swap").await;
    let authorization = basic_auth(sibling["client_id"].as_str().unwrap(), sibling["client_secret"].as_str().unwrap());
    let request = Request::post("/oauth2/revoke").header("Authorization", authorization).form(&[("token", &token)]);
    world.send(request).await.assert(200);
    assert!(world.accepts_token(&token).await, "another credential of the same project cannot revoke the token");
}

async fn revoking_an_invalid_token_returns_200(world: World) {
    let token = world.management_token().await;
    let (head, signature) = token.rsplit_once('.').unwrap();
    let forged = format!("{head}.{}", signature.chars().rev().collect::<String>());
    for token in ["unknown", "a.b.c", "..", "\u{1f512}", &forged, &"x".repeat(3000)] {
        revoke(&world, &world.acme, token).await.assert(200);
    }
    assert!(world.accepts_token(&token).await, "revoking a forged copy does not revoke the token");

    world.advance(SignedDuration::from_secs(3600));
    revoke(&world, &world.acme, &token).await.assert(200);
}

#[tokio::test]
async fn token_type_hints_and_unknown_parameters_are_ignored() {
    let world = World::sqlite().await;
    for hint in ["access_token", "refresh_token", "nonsense"] {
        let token = world.management_token().await;
        let request = authorised(&world.acme).form(&[("token_type_hint", hint), ("token", &token), ("x", "y")]);
        world.send(request).await.assert(200);
        assert!(!world.accepts_token(&token).await, "{hint}");
    }
}

#[tokio::test]
async fn invalid_requests_are_rejected() {
    let world = World::sqlite().await;
    let token = world.management_token().await;
    let good = [("token", token.as_str())];
    let anonymous = || Request::post("/oauth2/revoke");
    let in_query = format!("/oauth2/revoke?token={token}");
    for (case, request, status, code) in [
        ("no token", authorised(&world.acme).form(&[]), 400, "invalid_request"),
        ("an empty token", authorised(&world.acme).form(&[("token", "")]), 400, "invalid_request"),
        ("two tokens", authorised(&world.acme).form(&[good[0], good[0]]), 400, "invalid_request"),
        ("JSON", authorised(&world.acme).json(&json!({"token": token})), 400, "invalid_request"),
        ("no form", authorised(&world.acme), 400, "invalid_request"),
        ("in the query", Request { target: in_query, ..authorised(&world.acme).form(&[]) }, 400, "invalid_request"),
        ("no client", anonymous().form(&good), 401, "invalid_client"),
        ("the token as the client", anonymous().bearer(&token).form(&good), 401, "invalid_client"),
        ("a wrong secret", anonymous().basic(&world.acme.client_id, "wrong").form(&good), 401, "invalid_client"),
        (
            "a secret in the body",
            authorised(&world.acme).form(&[good[0], ("client_secret", "x")]),
            400,
            "invalid_request",
        ),
    ] {
        let response = world.send(request).await;
        assert_eq!((response.status, response.code().as_str()), (status, code), "{case}");
        assert_eq!(response.json()["error"], code, "{case}");
        assert!(world.accepts_token(&token).await, "{case}");
    }
}

/// Deleting the credential also invalidates its tokens, so revocation is unnecessary.
async fn deleted_client_cannot_revoke(world: World) {
    let project = world.project("Shop", json!({})).await;
    world.manage(Request::delete(&format!("{}/credentials/{}", project.path, project.client_id))).await.assert(204);
    let request =
        Request::post("/oauth2/revoke").basic(&project.client_id, &project.client_secret).form(&[("token", "x")]);
    world.send(request).await.assert_problem(401, "unauthorized");
}

on_both_stores!(
    revoked_token_is_rejected_immediately,
    token_of_another_client_stays_valid,
    revoking_an_invalid_token_returns_200,
    deleted_client_cannot_revoke,
);

fn authorised(tenant: &Tenant) -> Request {
    Request::post("/oauth2/revoke").basic(&tenant.client_id, &tenant.client_secret)
}

async fn revoke(world: &World, tenant: &Tenant, token: &str) -> HttpResponse {
    world.send(authorised(tenant).form(&[("token", token)])).await
}
