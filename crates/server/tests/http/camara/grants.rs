//! Tokens without network authentication: client credentials, JWT bearer and backchannel authentication.

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};

use super::*;

on_both_stores!(
    client_names_the_number_itself,
    assertion_names_the_user,
    backchannel_request_gives_one_token,
    operator_token_is_verified_by_its_operator,
    network_authentication_is_required,
    projects_without_purposes_get_no_tokens,
    apis_are_off_by_default,
);

async fn client_names_the_number_itself(world: World) {
    let client = ApiClient::new(&world).await;
    let tokens = client.client_credentials(&format!("sim-swap {FRAUD}")).await.assert(200).json();
    assert_eq!(tokens["scope"], format!("{FRAUD} sim-swap"));
    assert!(tokens.get("id_token").is_none());
    let token = tokens["access_token"].as_str().unwrap();
    let answer = client.post(CHECK, token, &json!({"phoneNumber": EVEN})).await.assert(200).json();
    assert_eq!(answer, json!({"swapped": false}));
    assert_error(&client.post(CHECK, token, &json!({})).await, 422, "MISSING_IDENTIFIER");
    for scope in ["sim-swap", "sim-swap dpv:Marketing", &format!("number-verification:verify {FRAUD}"), FRAUD] {
        client.client_credentials(scope).await.assert_problem(400, "invalid_scope");
    }
    // The token is for these APIs alone.
    let other = Request::get("/v1/sim-swap-checks").bearer(token);
    world.send(other).await.assert_problem(401, "unauthorized");
    // A secret is no proof for a client with keys.
    let form = [("grant_type", "client_credentials"), ("scope", &*format!("sim-swap {FRAUD}"))];
    let by_secret = Request::post("/oauth2/token").basic(client.id(), &client.project.client_secret).form(&form);
    world.send(by_secret).await.assert_problem(401, "invalid_client");
}

async fn assertion_names_the_user(world: World) {
    let client = ApiClient::new(&world).await;
    let sub = format!("tel:{ODD}");
    let scope = format!("openid sim-swap:check {FRAUD}");
    let claims = json!({"sub": sub, "scope": scope});
    let tokens = client.bearer_grant(&claims).await.assert(200).json();
    assert!(tokens["id_token"].is_string() && tokens.get("refresh_token").is_none());
    let token = tokens["access_token"].as_str().unwrap();
    assert_eq!(client.post(CHECK, token, &json!({})).await.assert(200).json(), json!({"swapped": true}));
    let named = client.post(CHECK, token, &json!({"phoneNumber": ODD})).await;
    assert_error(&named, 422, "UNNECESSARY_IDENTIFIER");
    let now = client.now();
    for (changes, error) in [
        (json!({"aud": world.node.base_url}), "invalid_grant"),
        (json!({"exp": now + 400}), "invalid_grant"),
        (json!({"iat": now - 100}), "invalid_grant"),
        (json!({"iat": null}), "invalid_grant"),
        (json!({"jti": null}), "invalid_grant"),
        (json!({"scope": null}), "invalid_grant"),
        (json!({"scope": "sim-swap:check"}), "invalid_scope"),
        (json!({"sub": "tel:0123"}), "invalid_grant"),
        (json!({"sub": "operatortoken:x"}), "invalid_grant"),
        (json!({"sub": client.id()}), "invalid_grant"),
    ] {
        let mut all = claims.clone();
        all.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        client.bearer_grant(&all).await.assert_problem(400, error);
    }
    // An assertion works once, and its scope is no parameter.
    let assertion = client.sign(&claims);
    let fields = [("grant_type", JWT_BEARER), ("assertion", &*assertion)];
    let with_scope = [fields[0], fields[1], ("scope", &*scope)];
    world.send(Request::post("/oauth2/token").form(&with_scope)).await.assert_problem(400, "invalid_request");
    world.send(Request::post("/oauth2/token").form(&fields)).await.assert(200);
    world.send(Request::post("/oauth2/token").form(&fields)).await.assert_problem(400, "invalid_grant");
    // Other credentials must be right, and the same client's.
    let assertion = client.sign(&claims);
    let fields = [("grant_type", JWT_BEARER), ("assertion", &*assertion)];
    let wrong = Request::post("/oauth2/token").basic(client.id(), "wrong").form(&fields);
    world.send(wrong).await.assert_problem(401, "invalid_client");
    let other = ApiClient::new(&world).await;
    world.send(other.authenticated("/oauth2/token", &fields)).await.assert_problem(401, "invalid_client");
    // Another client's key does not sign for this one.
    let stranger = ApiClient::new(&world).await;
    let forged = stranger.key.sign(&json!({"iss": client.id(), "sub": sub, "scope": scope, "exp": now + 60}));
    let fields = [("grant_type", JWT_BEARER), ("assertion", &*forged)];
    world.send(Request::post("/oauth2/token").form(&fields)).await.assert_problem(400, "invalid_grant");
}

async fn backchannel_request_gives_one_token(world: World) {
    let client = ApiClient::new(&world).await;
    let (scope, hint) = (format!("openid sim-swap {FRAUD}"), format!("tel:{EVEN}"));
    let begin =
        async |fields: &[(&str, &str)]| client.world.send(client.authenticated("/oauth2/bc-authorize", fields)).await;
    let poll = async |client: &ApiClient<'_>, id: &str| {
        world.send(client.authenticated("/oauth2/token", &[("grant_type", CIBA), ("auth_req_id", id)])).await
    };
    let begun = begin(&[("scope", &scope), ("login_hint", &hint)]).await.assert(200).json();
    let id = begun["auth_req_id"].as_str().unwrap();
    assert!(!id.contains("990"));
    // Only the client that began it gets the token, once.
    poll(&ApiClient::new(&world).await, id).await.assert_problem(400, "invalid_grant");
    let tokens = poll(&client, id).await.assert(200).json();
    assert!(tokens["id_token"].is_string());
    poll(&client, id).await.assert_problem(400, "invalid_grant");
    let token = tokens["access_token"].as_str().unwrap();
    client.post(RETRIEVE, token, &json!({})).await.assert(200);
    for (fields, error) in [
        (&[("scope", &*scope), ("login_hint", "ipport:80.90.34.2:16790")][..], "unknown_user_id"),
        (&[("scope", &scope), ("login_hint", "operatortoken:x")], "unknown_user_id"),
        (&[("scope", &scope), ("login_hint", EVEN)], "unknown_user_id"),
        (&[("scope", &scope), ("login_hint", "tel:12")], "unknown_user_id"),
        (&[("scope", &scope)], "invalid_request"),
        (&[("scope", &scope), ("login_hint", &hint), ("id_token_hint", "x")], "invalid_request"),
        (&[("login_hint", &hint)], "invalid_request"),
        (&[("scope", "sim-swap"), ("login_hint", &hint)], "invalid_scope"),
        (&[("request", "x")], "invalid_request_object"),
    ] {
        begin(fields).await.assert_problem(400, error);
    }
    // A signed request has the parameters.
    let audience = format!("{}/oauth2/bc-authorize", world.node.base_url);
    let signed = client.sign(&json!({"aud": audience, "scope": scope, "login_hint": hint}));
    begin(&[("request", &signed)]).await.assert(200);
    let begun = begin(&[("scope", &scope), ("login_hint", &hint)]).await.assert(200).json();
    world.advance(SignedDuration::from_secs(120));
    let late = begun["auth_req_id"].as_str().unwrap();
    poll(&client, late).await.assert_problem(400, "expired_token");
    let unauthenticated = [("scope", &*scope), ("login_hint", &hint), ("client_id", client.id())];
    let request = Request::post("/oauth2/bc-authorize").form(&unauthenticated);
    world.send(request).await.assert_problem(401, "invalid_client");
}

async fn operator_token_is_verified_by_its_operator(world: World) {
    let client = ApiClient::new(&world).await;
    let scope = format!("openid number-verification:verify {FRAUD}");
    let grant = async |sub: &str| client.bearer_grant(&json!({"sub": sub, "scope": scope})).await;
    for sub in
        ["operatortoken:", "operatortoken:a b", "operatortoken:é", &format!("operatortoken:{}", "x".repeat(2_049))]
    {
        grant(sub).await.assert_problem(400, "invalid_grant");
    }
    let claims = json!({"sub": "operatortoken:x", "scope": format!("sim-swap number-verification:verify {FRAUD}")});
    client.bearer_grant(&claims).await.assert_problem(400, "invalid_grant");
    // The token itself is the operator's to judge, which refuses it when the client asks about a number.
    let longest = format!("operatortoken:{}", "x".repeat(2_048));
    let tokens = grant(&longest).await.assert(200).json();
    let subject = |tokens: &Value| {
        let payload = tokens["id_token"].as_str().unwrap().split('.').nth(1).unwrap();
        let claims: Value = serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap();
        claims["sub"].as_str().unwrap().to_owned()
    };
    assert_ne!(subject(&tokens), subject(&grant(&longest).await.assert(200).json()), "each is a new authentication");
    let code = "NUMBER_VERIFICATION.USER_NOT_AUTHENTICATED_BY_MOBILE_NETWORK";
    let (token, body) = (tokens["access_token"].as_str().unwrap(), json!({"phoneNumber": EVEN}));
    assert_error(&client.post(VERIFY, token, &body).await, 403, code);
    assert_error(&client.post(VERIFY, token, &body).await, 401, "UNAUTHENTICATED");
    // By a backchannel request. A hash does not lead to the operator.
    let fields = [("scope", &*scope), ("login_hint", "operatortoken:x")];
    let begun = world.send(client.authenticated("/oauth2/bc-authorize", &fields)).await.assert(200).json();
    let fields = [("grant_type", CIBA), ("auth_req_id", begun["auth_req_id"].as_str().unwrap())];
    let tokens = world.send(client.authenticated("/oauth2/token", &fields)).await.assert(200).json();
    let token = tokens["access_token"].as_str().unwrap();
    let hashed = json!({"hashedPhoneNumber": "0".repeat(64)});
    assert_error(&client.post(VERIFY, token, &hashed).await, 422, "SERVICE_NOT_APPLICABLE");
    assert_error(&client.post(VERIFY, token, &body).await, 403, code);
}

async fn network_authentication_is_required(world: World) {
    let client = ApiClient::new(&world).await;
    let scopes = "number-verification:verify number-verification:device-phone-number:read";
    let token = client.user_token(EVEN, scopes).await;
    let code = "NUMBER_VERIFICATION.USER_NOT_AUTHENTICATED_BY_MOBILE_NETWORK";
    assert_error(&client.post(VERIFY, &token, &json!({"phoneNumber": EVEN})).await, 403, code);
    assert_error(&client.device_number(&token).await, 403, code);
}

async fn projects_without_purposes_get_no_tokens(world: World) {
    let client = ApiClient::new(&world).await;
    let patch = json!({"configuration": {"camara": null}});
    world.manage(Request::patch(&client.project.path).json(&patch)).await.assert(200);
    client.client_credentials(&format!("sim-swap {FRAUD}")).await.assert_problem(400, "unauthorized_client");
    let claims = json!({"sub": format!("tel:{EVEN}"), "scope": format!("sim-swap {FRAUD}")});
    client.bearer_grant(&claims).await.assert_problem(400, "unauthorized_client");
    let patch = json!({"configuration": {"camara": {"purposes": ["fraud"]}}});
    let refused = world.manage(Request::patch(&client.project.path).json(&patch)).await;
    let detail = refused.assert_problem(400, "bad_request").detail();
    assert!(detail.contains("/configuration/camara/purposes/0"), "{detail}");
}

async fn apis_are_off_by_default(world: World) {
    let client = ApiClient::new(&world).await;
    let node = world.node_with(|config| config.camara_enabled = false).await;
    for path in [VERIFY, CHECK, RETRIEVE] {
        assert_error(&send_to(node.address, Request::post(path).json(&json!({}))).await, 404, "NOT_FOUND");
    }
    assert_error(&send_to(node.address, Request::get(DEVICE_NUMBER)).await, 404, "NOT_FOUND");
    let request = client.authenticated("/oauth2/bc-authorize", &[]);
    send_to(node.address, request).await.assert_problem(404, "not_found");
    let metadata = send_to(node.address, Request::get("/.well-known/openid-configuration")).await.assert(200).json();
    assert!(metadata.get("backchannel_authentication_endpoint").is_none());
    let fields = [("grant_type", JWT_BEARER), ("assertion", "x")];
    let request = Request::post("/oauth2/token").basic(client.id(), &client.project.client_secret).form(&fields);
    send_to(node.address, request).await.assert_problem(400, "unsupported_grant_type");
    let metadata = world.send(Request::get("/.well-known/openid-configuration")).await.assert(200).json();
    assert_eq!(metadata["backchannel_token_delivery_modes_supported"], json!(["poll"]));
    assert!(metadata["grant_types_supported"].as_array().unwrap().contains(&json!(CIBA)));
}
