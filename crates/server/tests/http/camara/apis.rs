//! The operations: their answers, errors and headers.

use super::*;

on_both_stores!(sim_swap_answers_by_the_number, invalid_requests_get_the_right_error, tokens_are_verified);

async fn sim_swap_answers_by_the_number(world: World) {
    let client = ApiClient::new(&world).await;
    let token = client.client_credentials(&format!("sim-swap {FRAUD}")).await.access_token();
    // The SIM of an odd number was changed within the last day.
    for (body, swapped) in [
        (json!({"phoneNumber": EVEN}), false),
        (json!({"phoneNumber": ODD}), true),
        (json!({"phoneNumber": ODD, "maxAge": 24}), true),
        (json!({"phoneNumber": ODD, "maxAge": 1}), false),
        (json!({"phoneNumber": EVEN, "maxAge": 2400, "other": 1}), false),
    ] {
        let answer = client.post(CHECK, &token, &body).await.assert(200).json();
        assert_eq!(answer, json!({ "swapped": swapped }), "{body}");
    }
    let date = client.post(RETRIEVE, &token, &json!({"phoneNumber": ODD})).await.assert(200).json();
    assert!(date["latestSimChange"].as_str().unwrap().ends_with('Z'), "{date}");
    let date = client.post(RETRIEVE, &token, &json!({"phoneNumber": "+990123456798"})).await.assert(200).json();
    assert_eq!(date["latestSimChange"], Value::Null);
    assert!(date["monitoredPeriod"].as_i64().unwrap() >= 100, "{date}");
    for (number, status, code) in [
        ("+990123456799", 503, "UNAVAILABLE"),
        ("+990123456795", 504, "TIMEOUT"),
        ("+990123456797", 422, "SERVICE_NOT_APPLICABLE"),
        ("+990123456794", 404, "IDENTIFIER_NOT_FOUND"),
        ("+990123456793", 503, "UNAVAILABLE"),
        ("+99999", 404, "IDENTIFIER_NOT_FOUND"),
    ] {
        for path in [CHECK, RETRIEVE] {
            assert_error(&client.post(path, &token, &json!({ "phoneNumber": number })).await, status, code);
        }
    }
    // Seven answers are completed checks of the project.
    assert_eq!(client.completed("sim_swap", "/v1/sim-swap-checks").await, 7);
    // A token for one operation does not permit the other.
    let token = client.client_credentials(&format!("sim-swap:check {FRAUD}")).await.access_token();
    let refused = client.post(RETRIEVE, &token, &json!({"phoneNumber": EVEN})).await;
    assert_error(&refused, 403, "PERMISSION_DENIED");
    // Without the product, there is no more access.
    let patch = json!({"products": ["secure_sna"]});
    world.manage(Request::patch(&client.project.path).json(&patch)).await.assert(200);
    let refused = client.post(CHECK, &token, &json!({"phoneNumber": EVEN})).await;
    assert_error(&refused, 403, "PERMISSION_DENIED");
}

async fn invalid_requests_get_the_right_error(world: World) {
    let client = ApiClient::new(&world).await;
    let sim_swap = client.client_credentials(&format!("sim-swap {FRAUD}")).await.access_token();
    for (body, code) in [
        (json!({"phoneNumber": "123"}), "INVALID_ARGUMENT"),
        (json!({"phoneNumber": 1}), "INVALID_ARGUMENT"),
        (json!({"phoneNumber": EVEN, "maxAge": "x"}), "INVALID_ARGUMENT"),
        (json!({"phoneNumber": EVEN, "maxAge": 1.5}), "INVALID_ARGUMENT"),
        (json!({"phoneNumber": EVEN, "maxAge": 0}), "OUT_OF_RANGE"),
        (json!({"phoneNumber": EVEN, "maxAge": -1}), "OUT_OF_RANGE"),
        (json!({"phoneNumber": EVEN, "maxAge": 2401}), "OUT_OF_RANGE"),
        (json!({"phoneNumber": EVEN, "maxAge": 4_294_967_296_i64}), "OUT_OF_RANGE"),
        (json!({"phoneNumber": EVEN, "maxAge": 18_446_744_073_709_551_615_u64}), "INVALID_ARGUMENT"),
        (json!([]), "INVALID_ARGUMENT"),
        (json!(null), "INVALID_ARGUMENT"),
    ] {
        assert_error(&client.post(CHECK, &sim_swap, &body).await, 400, code);
    }
    let token = client.network_token(EVEN, "number-verification:verify").await;
    for body in [
        json!({}),
        json!({"phoneNumber": EVEN, "hashedPhoneNumber": "a".repeat(64)}),
        json!({"phoneNumber": EVEN, "additional": 1}),
        json!({"additional": 1}),
        json!({"hashedPhoneNumber": "a".repeat(63)}),
        json!({"hashedPhoneNumber": "g".repeat(64)}),
        json!({"hashedPhoneNumber": 1}),
        json!({"phoneNumber": "+0123456"}),
    ] {
        assert_error(&client.post(VERIFY, &token, &body).await, 400, "INVALID_ARGUMENT");
    }
    assert_error(&world.send(Request::post(VERIFY).bearer(&token)).await, 400, "INVALID_ARGUMENT");
    let text = Request::post(VERIFY).bearer(&token).body("text/plain", "{}");
    assert_error(&world.send(text).await, 415, "UNSUPPORTED_MEDIA_TYPE");
    assert_error(&world.send(Request::get(VERIFY).bearer(&token)).await, 405, "METHOD_NOT_ALLOWED");
    let repeated = format!(r#"{{"phoneNumber": "{EVEN}", "phoneNumber": "{EVEN}"}}"#);
    let repeated = Request::post(VERIFY).bearer(&token).body("application/json", &repeated);
    assert_error(&world.send(repeated).await, 400, "INVALID_ARGUMENT");
    assert_error(&world.send(Request::post(CHECK).bearer(&sim_swap)).await, 400, "INVALID_ARGUMENT");
    for path in ["/number-verification/v2/other", "/sim-swap/v2/check/x", "/sim-swap/v1/check"] {
        assert_error(&client::send(world.node.address, &Request::get(path)).await, 404, "NOT_FOUND");
    }
    // None of these has used the token.
    client.post(VERIFY, &token, &json!({"phoneNumber": EVEN})).await.assert(200);
}

async fn tokens_are_verified(world: World) {
    let client = ApiClient::new(&world).await;
    let token = client.user_token(EVEN, "sim-swap").await;
    let api_token = world.token(client.id(), &client.project.client_secret, "sim_swap").await;
    let ask = async |token: Option<&str>, correlator: &str| {
        let request = Request::post(CHECK).json(&json!({})).header("x-correlator", correlator);
        let request = if let Some(token) = token { request.bearer(token) } else { request };
        world.send(request).await
    };
    let answer = ask(Some(&token), "a<b>{c};d:e.f/0").await.assert(200);
    assert_eq!(answer.header("x-correlator"), Some("a<b>{c};d:e.f/0"));
    assert_eq!(answer.header("x-project-mode"), Some("sandbox"));
    for token in [None, Some("x"), Some("a.b.c"), Some(&*api_token)] {
        let refused = ask(token, "id").await;
        assert_error(&refused, 401, "UNAUTHENTICATED");
        assert_eq!(refused.header("x-correlator"), Some("id"));
        assert!(refused.header("www-authenticate").unwrap().starts_with("Bearer"));
    }
    let invalid = ask(Some(&token), "a b").await;
    assert_error(&invalid, 400, "INVALID_ARGUMENT");
    assert_eq!(invalid.header("x-correlator"), None);
    // The token says nothing about the number.
    let payload = token.split('.').nth(1).unwrap();
    let payload = base64::Engine::decode(&base64::prelude::BASE64_URL_SAFE_NO_PAD, payload).unwrap();
    assert!(!String::from_utf8(payload).unwrap().contains("990123"));
    // It opens no other door.
    world.send(Request::get("/oauth2/userinfo").bearer(&token)).await.assert_problem(401, "unauthorized");
    let list = Request::get("/v1/sim-swap-checks").bearer(&token);
    world.send(list).await.assert_problem(401, "unauthorized");
    // Revoked, it opens none.
    let revoke = client.authenticated("/oauth2/revoke", &[("token", &token)]);
    world.send(revoke).await.assert(200);
    assert_error(&ask(Some(&token), "id").await, 401, "UNAUTHENTICATED");
    let token = client.user_token(EVEN, "sim-swap").await;
    world.advance(SignedDuration::from_secs(300));
    assert_error(&ask(Some(&token), "id").await, 401, "UNAUTHENTICATED");
}
