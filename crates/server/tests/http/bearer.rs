//! Using a token (RFC 6750).

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use jiff::SignedDuration;
use serde_json::json;

use crate::{
    client::{Answer, Request},
    on_both_stores,
    routes::{self, Ids},
    world::{World, basic},
};

const DOOR: &str = "/v1/management/workspaces";

#[tokio::test]
async fn without_a_token_there_is_a_bare_challenge() {
    let world = World::sqlite().await;
    let token = world.manager().await;
    for request in [
        Request::get(DOOR),
        Request::get(DOOR).header("Authorization", "Bearer"),
        Request::get(DOOR).header("Authorization", ""),
        Request::get(DOOR).header("Authorization", &token),
        Request::get(DOOR).header("Authorization", basic(&world.acme.client_id, &world.acme.client_secret)),
        Request::get(DOOR).header("Authorization", format!("Token {token}")),
        Request::get(DOOR).header("Authorization", b"Bearer \xff"),
        Request::get(DOOR).header("X-Access-Token", &token).header("Cookie", format!("access_token={token}")),
        Request::get(&format!("{DOOR}?access_token={token}")),
    ] {
        let answer = world.send(request.clone()).await.assert_problem(401, "unauthorized");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"), "{request:?}");
    }
}

#[tokio::test]
async fn tokens_that_are_not_ours() {
    let world = World::sqlite().await;
    let token = world.manager().await;
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
        invalid(&world.send(Request::get(DOOR).bearer(&forged)).await, case);
    }
    world.send(Request::get(DOOR).bearer(&token)).await.assert(200);
}

#[tokio::test]
async fn an_expired_token_says_so() {
    let world = World::sqlite().await;
    let token = world.manager().await;
    world.advance(SignedDuration::from_secs(3600));
    let answer = world.send(Request::get(DOOR).bearer(&token)).await;
    invalid(&answer, "expired");
    assert!(answer.detail().contains("expired"), "{}", answer.detail());
}

#[tokio::test]
async fn the_scheme_may_be_written_in_any_case() {
    let world = World::sqlite().await;
    let token = world.manager().await;
    for scheme in ["Bearer", "bearer", "BEARER", "bEaReR", "Bearer ", "Bearer   "] {
        world.send(Request::get(DOOR).header("Authorization", format!("{scheme} {token}"))).await.assert(200);
    }
}

#[tokio::test]
async fn two_tokens_are_one_too_many() {
    let world = World::sqlite().await;
    let token = world.manager().await;
    let bearer = || Request::get(DOOR).bearer(&token);
    for request in [
        bearer().bearer(&token),
        bearer().header("Authorization", basic(&world.acme.client_id, &world.acme.client_secret)),
        bearer().header("authorization", "x"),
        Request { target: format!("{DOOR}?access_token={token}"), ..bearer() },
        Request { target: format!("{DOOR}?size=1&access_token="), ..bearer() },
    ] {
        let answer = world.send(request.clone()).await.assert_problem(400, "invalid_request");
        let challenge = answer.header("www-authenticate").unwrap();
        assert!(challenge.starts_with("Bearer") && challenge.contains(r#"error="invalid_request""#), "{challenge}");
    }
}

/// Every management call wants the scope `management`, and nothing else opens it.
async fn a_product_token_does_not_open_the_management_api(world: World) {
    let project = world.project("Shop", json!({})).await;
    let ids = Ids::of(&world.acme, &project);
    for product in ["reverse_sms", "secure_sna", "discovery", "sim_swap", "eligibility"] {
        let token = world.token(&project.client_id, &project.client_secret, product).await;
        for route in routes::managed() {
            let answer = world.send(route.request(&ids).bearer(&token)).await.assert_problem(403, "forbidden");
            let challenge = answer.header("www-authenticate").unwrap();
            assert_eq!(challenge, r#"Bearer error="insufficient_scope", scope="management""#, "{route:?}");
            assert!(answer.detail().contains("management") && answer.detail().contains(product));
        }
    }
}

async fn without_a_token_no_management_call_does_anything(world: World) {
    let project = world.project("Shop", json!({})).await;
    let ids = Ids::of(&world.acme, &project);
    let before = state(&world).await;
    for route in routes::managed() {
        let answer = world.send(route.request(&ids)).await.assert_problem(401, "unauthorized");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"), "{route:?}");
        invalid(&world.send(route.request(&ids).bearer("nonsense")).await, &format!("{route:?}"));
    }
    assert_eq!(state(&world).await, before);
}

on_both_stores!(a_product_token_does_not_open_the_management_api, without_a_token_no_management_call_does_anything,);

/// What there is, as its owner sees it.
async fn state(world: &World) -> Vec<serde_json::Value> {
    let mut state = vec![];
    for list in ["projects", "credentials", "audit-events"] {
        let answer = world.manage(Request::get(&format!("{}/{list}?size=100", world.acme.path()))).await;
        state.push(answer.assert(200).json());
    }
    state
}

#[track_caller]
fn invalid(answer: &Answer, case: &str) {
    assert_eq!((answer.status, answer.code().as_str()), (401, "unauthorized"), "{case}");
    assert_eq!(answer.header("www-authenticate"), Some(r#"Bearer error="invalid_token""#), "{case}");
}
