//! Revoking tokens (RFC 7009).

use jiff::SignedDuration;
use serde_json::json;

use crate::{
    client::{Answer, Request},
    on_both_stores,
    world::{Tenant, World, basic},
};

async fn a_revoked_token_is_dead_at_once(world: World) {
    let (token, other) = (world.manager().await, world.manager().await);
    assert!(world.accepts(&token).await);

    let answer = revoke(&world, &world.acme, &token).await.assert(200);
    assert_eq!((answer.text().as_str(), answer.header("content-type")), ("{}", Some("application/json")));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert!(!world.accepts(&token).await);
    assert!(world.accepts(&other).await, "one token was revoked, not its credential");
    revoke(&world, &world.acme, &token).await.assert(200);
    assert!(!world.accepts(&token).await);
}

async fn the_token_of_another_client_stays_valid(world: World) {
    let other = world.another_tenant().await;
    let token = world.manager().await;
    revoke(&world, &other, &token).await.assert(200);
    assert!(world.accepts(&token).await);

    let project = world.project("Shop", json!({})).await;
    let sibling = world.manage(Request::post(&format!("{}/credentials", project.path)).json(&json!({}))).await;
    let sibling = sibling.assert(201).json();
    let token = world.token(&project.client_id, &project.client_secret, "sim_swap").await;
    let authorization = basic(sibling["client_id"].as_str().unwrap(), sibling["client_secret"].as_str().unwrap());
    let request = Request::post("/oauth2/revoke").header("Authorization", authorization).form(&[("token", &token)]);
    world.send(request).await.assert(200);
    assert!(world.accepts(&token).await, "not even the same project's other credential may");
}

async fn tokens_that_are_no_good_are_revoked_in_silence(world: World) {
    let token = world.manager().await;
    let (head, signature) = token.rsplit_once('.').unwrap();
    let forged = format!("{head}.{}", signature.chars().rev().collect::<String>());
    for token in ["unknown", "a.b.c", "..", "\u{1f512}", &forged, &"x".repeat(3000)] {
        revoke(&world, &world.acme, token).await.assert(200);
    }
    assert!(world.accepts(&token).await, "a forged copy does not take the real one along");

    world.advance(SignedDuration::from_secs(3600));
    revoke(&world, &world.acme, &token).await.assert(200);
}

#[tokio::test]
async fn hints_and_unknown_parameters_do_no_harm() {
    let world = World::sqlite().await;
    for hint in ["access_token", "refresh_token", "nonsense"] {
        let token = world.manager().await;
        let request = authorised(&world.acme).form(&[("token_type_hint", hint), ("token", &token), ("x", "y")]);
        world.send(request).await.assert(200);
        assert!(!world.accepts(&token).await, "{hint}");
    }
}

#[tokio::test]
async fn requests_that_are_refused() {
    let world = World::sqlite().await;
    let token = world.manager().await;
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
        (
            "a wrong secret",
            anonymous().header("Authorization", basic(&world.acme.client_id, "wrong")).form(&good),
            401,
            "invalid_client",
        ),
        (
            "a secret in the body",
            authorised(&world.acme).form(&[good[0], ("client_secret", "x")]),
            400,
            "invalid_request",
        ),
    ] {
        let answer = world.send(request).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{case}");
        assert_eq!(answer.json()["error"], code, "{case}");
        assert!(world.accepts(&token).await, "{case}");
    }
}

/// What a client may do ends with its credential; what is gone with it anyway need not be revoked.
async fn a_deleted_client_cannot_revoke(world: World) {
    let project = world.project("Shop", json!({})).await;
    world.manage(Request::delete(&format!("{}/credentials/{}", project.path, project.client_id))).await.assert(204);
    let request = Request::post("/oauth2/revoke")
        .header("Authorization", basic(&project.client_id, &project.client_secret))
        .form(&[("token", "x")]);
    world.send(request).await.assert_problem(401, "unauthorized");
}

on_both_stores!(
    a_revoked_token_is_dead_at_once,
    the_token_of_another_client_stays_valid,
    tokens_that_are_no_good_are_revoked_in_silence,
    a_deleted_client_cannot_revoke,
);

fn authorised(tenant: &Tenant) -> Request {
    Request::post("/oauth2/revoke").header("Authorization", basic(&tenant.client_id, &tenant.client_secret))
}

async fn revoke(world: &World, tenant: &Tenant, token: &str) -> Answer {
    world.send(authorised(tenant).form(&[("token", token)])).await
}
