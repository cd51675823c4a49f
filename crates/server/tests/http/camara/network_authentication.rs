//! The authorization code flow, in which the operator recognises the device.

use ringtrue_server::config::BaseUrl;

use super::*;

on_both_stores!(
    device_has_its_number_and_no_other,
    device_number_is_shared,
    token_is_valid_for_one_request,
    token_expires_with_the_authentication,
    failures_return_to_the_client,
    signed_requests_are_strict,
    requests_need_a_purpose_a_product_and_pkce,
    replayed_code_revokes_the_token,
    chain_may_end_on_another_node,
    public_clients_are_refused,
    sandbox_tokens_end_with_the_sandbox,
    workspace_limits_its_authorizations,
    two_loads_of_the_return_lead_to_the_client,
    pushed_request_object_is_alone,
);

async fn device_has_its_number_and_no_other(world: World) {
    let client = ApiClient::new(&world).await;
    let hash = |number: &str| {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, number.as_bytes());
        hex::encode_upper(digest)
    };
    for (question, expected) in [
        (json!({"phoneNumber": EVEN}), true),
        (json!({"phoneNumber": ODD}), false),
        (json!({"phoneNumber": "+99999"}), false),
        (json!({"hashedPhoneNumber": hash(EVEN)}), true),
        (json!({"hashedPhoneNumber": hash(ODD)}), false),
    ] {
        let token = client.network_token(EVEN, "number-verification:verify").await;
        let answer = client.post(VERIFY, &token, &question).await.assert(200).json();
        assert_eq!(answer, json!({ "devicePhoneNumberVerified": expected }), "{question}");
    }
    assert_eq!(client.completed("secure_sna", "/v1/number-verification/secure-sna-checks").await, 5);
    assert_eq!(client.completed("discovery", "/v1/number-verification/discovery-checks").await, 0);
}

async fn device_number_is_shared(world: World) {
    let client = ApiClient::new(&world).await;
    let scope = "openid number-verification:device-phone-number:read number-verification:verify";
    let tokens = client.redeem(&client.code(EVEN, scope).await).await.assert(200).json();
    assert!(tokens["id_token"].is_string() && tokens.get("refresh_token").is_none(), "{tokens}");
    let token = tokens["access_token"].as_str().unwrap();
    assert_eq!(client.device_number(token).await.assert(200).json(), json!({ "devicePhoneNumber": EVEN }));
    // The same authentication could have answered the other question.
    let token = client.network_token(EVEN, scope).await;
    let answer = client.post(VERIFY, &token, &json!({"phoneNumber": EVEN})).await.assert(200).json();
    assert_eq!(answer["devicePhoneNumberVerified"], true);
    assert_eq!(client.completed("discovery", "/v1/number-verification/discovery-checks").await, 2);
    assert_eq!(client.completed("secure_sna", "/v1/number-verification/secure-sna-checks").await, 1);
    // The scope for one operation does not permit the other.
    let token = client.network_token(EVEN, "number-verification:verify").await;
    assert_error(&client.device_number(&token).await, 403, "PERMISSION_DENIED");
}

async fn token_is_valid_for_one_request(world: World) {
    let client = ApiClient::new(&world).await;
    let node = world.second_node().await;
    for scope in
        ["number-verification:verify", "number-verification:verify number-verification:device-phone-number:read"]
    {
        let token = client.network_token(EVEN, scope).await;
        let ask = async |address| {
            send_to(address, Request::post(VERIFY).bearer(&token).json(&json!({"phoneNumber": EVEN}))).await
        };
        let (a, b) = (world.node.address, node.address);
        let answers = futures_util::future::join_all([ask(a), ask(b), ask(a), ask(b)]).await;
        let mut statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 401, 401, 401], "{scope}");
        assert_error(&ask(a).await, 401, "UNAUTHENTICATED");
    }
}

async fn token_expires_with_the_authentication(world: World) {
    let client = ApiClient::new(&world).await;
    let code = client.code(EVEN, "number-verification:verify").await;
    world.advance(SignedDuration::from_secs(50));
    let tokens = client.redeem(&code).await.assert(200).json();
    let expires_in = tokens["expires_in"].as_i64().unwrap();
    assert!((1..=250).contains(&expires_in), "{expires_in}");
    world.advance(SignedDuration::from_secs(expires_in));
    let token = tokens["access_token"].as_str().unwrap();
    let late = client.post(VERIFY, token, &json!({"phoneNumber": EVEN})).await;
    assert_error(&late, 401, "UNAUTHENTICATED");
}

async fn failures_return_to_the_client(world: World) {
    let client = ApiClient::new(&world).await;
    for (sim, error) in [("+990123456799", "temporarily_unavailable"), ("+990123456795", "temporarily_unavailable")] {
        let scope = "number-verification:device-phone-number:read";
        let result = client.authorize(sim, scope, &[]).await;
        assert_eq!((&result["error"], &result["state"]), (&json!(error), &json!("s")), "{sim}: {result:?}");
        assert_eq!(result["iss"], json!(world.node.base_url));
    }
    // No operator recognises this test's address.
    let request = client.authorization("number-verification:verify", &[]);
    let result = client.follow(world.node.address, request).await;
    assert_eq!(result["error"], "login_required");
    // Nor an embedded request, which no user sees.
    let request = client.authorization("number-verification:verify", &[("sim", EVEN)]);
    let result = client.follow(world.node.address, request.header("Sec-Fetch-Dest", "iframe")).await;
    assert_eq!(result["error"], "login_required");
    // A user who loads the last URL again returns with the same code.
    let request = client.authorization("number-verification:verify", &[("sim", EVEN)]);
    let mut path = request.target.clone();
    let mut visited = vec![];
    loop {
        let response = client::send(world.node.address, &Request::get(&path)).await;
        let location = response.header("location").unwrap().to_owned();
        if location.starts_with(CALLBACK) {
            let again = client::send(world.node.address, &Request::get(&path)).await;
            assert_eq!(again.header("location"), Some(&*location));
            break;
        }
        path = location.replace(&world.node.base_url, "");
        visited.push(path.clone());
        assert!(visited.len() < 10, "{visited:?}");
    }
}

async fn signed_requests_are_strict(world: World) {
    let client = ApiClient::new(&world).await;
    let scope = format!("number-verification:verify {FRAUD}");
    let object = |changes: Value| {
        let mut claims = json!({
            "aud": format!("{}/oauth2/authorize", world.node.base_url), "client_id": client.id(), "scope": scope,
            "response_type": "code", "redirect_uri": CALLBACK, "prompt": "none", "state": "signed",
            "code_challenge": CHALLENGE, "code_challenge_method": "S256",
        });
        claims.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        client.sign(&claims)
    };
    let signed = object(json!({}));
    let result = client.authorize(EVEN, "number-verification:verify", &[("request", &signed)]).await;
    assert_eq!(result["state"], "signed");
    assert!(result.contains_key("code"), "{result:?}");
    let now = client.now();
    for changes in [
        json!({"jti": null}),
        json!({"jti": ""}),
        json!({"sub": client.id()}),
        json!({"iat": null}),
        json!({"iat": now + 60}),
        json!({"iat": now - 100}),
        json!({"exp": now + 400}),
        json!({"aud": "https://other.example"}),
        json!({"scope": format!("sim-swap {FRAUD}")}),
        json!({"response_type": null}),
    ] {
        let signed = object(changes.clone());
        let result = client.authorize(EVEN, "number-verification:verify", &[("request", &signed)]).await;
        assert_eq!(result["error"], "invalid_request_object", "{changes}: {result:?}");
    }
    // Parameters outside the object do not count.
    let signed = object(json!({"code_challenge": null, "code_challenge_method": null}));
    let result = client.authorize(EVEN, "number-verification:verify", &[("request", &signed)]).await;
    assert_eq!(result["error"], "invalid_request");
}

async fn requests_need_a_purpose_a_product_and_pkce(world: World) {
    let client = ApiClient::configured(&world, json!({"products": ["secure_sna", "sim_swap"]})).await;
    for (changes, error) in [
        (&[("scope", "number-verification:verify")][..], "invalid_scope"),
        (&[("scope", "number-verification:verify dpv:Marketing")], "invalid_scope"),
        (&[("scope", "number-verification:device-phone-number:read dpv:IdentityVerification")], "invalid_scope"),
        // SIM Swap needs the number first, which Discovery finds.
        (&[("scope", "sim-swap:check dpv:IdentityVerification")], "invalid_scope"),
        (&[("code_challenge", ""), ("code_challenge_method", "")], "invalid_request"),
        (&[("response_type", "token")], "unsupported_response_type"),
    ] {
        let result = client.authorize(EVEN, "number-verification:verify", changes).await;
        assert_eq!(result["error"], error, "{changes:?}");
    }
    let result = client.authorize(EVEN, "number-verification:verify", &[("redirect_uri", CALLBACK)]).await;
    assert!(result.contains_key("code"), "{result:?}");
}

async fn replayed_code_revokes_the_token(world: World) {
    let client = ApiClient::new(&world).await;
    let code = client.code(EVEN, "number-verification:verify").await;
    // A stranger can neither redeem nor revoke it.
    let stranger = ApiClient::new(&world).await;
    stranger.redeem(&code).await.assert_problem(400, "invalid_grant");
    let token = client.redeem(&code).await.access_token();
    client.redeem(&code).await.assert_problem(400, "invalid_grant");
    let refused = client.post(VERIFY, &token, &json!({"phoneNumber": EVEN})).await;
    assert_error(&refused, 401, "UNAUTHENTICATED");
}

async fn chain_may_end_on_another_node(world: World) {
    let client = ApiClient::new(&world).await;
    // Nodes of one deployment have the same address for their clients.
    let base_url = BaseUrl::parse(&world.node.base_url);
    let node = world.node_with(|config| config.base_url = base_url).await;
    let mut request = client.authorization("number-verification:verify", &[("sim", EVEN)]);
    let mut addresses = [world.node.address, node.address].into_iter().cycle();
    let code = loop {
        let response = client::send(addresses.next().unwrap(), &request).await;
        let location = response.header("location").unwrap();
        if location.starts_with(CALLBACK) {
            let url = Url::parse(location).unwrap();
            break url.query_pairs().find(|(name, _)| name == "code").unwrap().1.into_owned();
        }
        request = Request::get(&location.replace(&world.node.base_url, ""));
    };
    let token = client.redeem(&code).await.access_token();
    let ask = Request::post(VERIFY).bearer(&token).json(&json!({"phoneNumber": EVEN}));
    assert_eq!(send_to(node.address, ask).await.assert(200).json()["devicePhoneNumberVerified"], true);
}

async fn public_clients_are_refused(world: World) {
    let configuration = json!({
        "sign_in": {"redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}, "camara": {"purposes": [FRAUD]},
    });
    let client = ApiClient::configured(&world, json!({ "configuration": configuration })).await;
    let result = client.authorize(EVEN, "number-verification:verify", &[]).await;
    assert_eq!(result["error"], "unauthorized_client");
}

async fn sandbox_tokens_end_with_the_sandbox(world: World) {
    let client = ApiClient::new(&world).await;
    let scope = "number-verification:device-phone-number:read";
    let (code, token) = (client.code(EVEN, scope).await, client.network_token(EVEN, scope).await);
    let live = Request::patch(&format!("{}?force=true", client.project.path)).json(&json!({"mode": "live"}));
    let created = world.manage(live).await.assert(200).json();
    assert_error(&client.device_number(&token).await, 401, "UNAUTHENTICATED");
    // The credential of the sandbox is gone, too.
    client.redeem(&code).await.assert_problem(401, "invalid_client");
    assert_eq!(created["mode"], "live");
}

async fn workspace_limits_its_authorizations(world: World) {
    let client = ApiClient::new(&world).await;
    let node = world.node_with(|config| config.rate_limits.create = 1).await;
    let mut errors = vec![];
    for _ in 0..3 {
        let request = client.authorization("number-verification:verify", &[("sim", EVEN)]);
        let response = client::send(node.address, &request).await;
        let url = Url::parse(response.header("location").unwrap()).unwrap();
        errors.extend(url.query_pairs().filter(|(name, _)| name == "error").map(|(_, value)| value.into_owned()));
    }
    assert!(errors.contains(&"temporarily_unavailable".to_owned()), "{errors:?}");
    // Browsers, which anybody can send, do not use up the limit of the API.
    let tokens = client.client_credentials(&format!("sim-swap {FRAUD}")).await.assert(200).json();
    let check = Request::post(CHECK).bearer(tokens["access_token"].as_str().unwrap());
    client::send(node.address, &check.json(&json!({"phoneNumber": EVEN}))).await.assert(200);
}

async fn two_loads_of_the_return_lead_to_the_client(world: World) {
    let client = ApiClient::new(&world).await;
    for scope in ["number-verification:verify", "number-verification:device-phone-number:read"] {
        let mut path = client.authorization(scope, &[("sim", EVEN)]).target;
        while !path.starts_with("/signin/") {
            let response = client::send(world.node.address, &Request::get(&path)).await;
            path = response.header("location").unwrap().replace(&world.node.base_url, "");
        }
        let request = Request::get(&path);
        let load = || client::send(world.node.address, &request);
        let loads = futures_util::future::join_all([load(), load(), load()]).await;
        let locations: Vec<_> = loads.iter().map(|load| load.header("location").unwrap()).collect();
        assert!(locations[0].contains("code="), "{scope}: {locations:?}");
        assert!(locations.iter().all(|location| location == &locations[0]), "{scope}: {locations:?}");
    }
}

async fn pushed_request_object_is_alone(world: World) {
    let client = ApiClient::new(&world).await;
    let object = client.sign(&json!({
        "aud": format!("{}/oauth2/par", world.node.base_url), "client_id": client.id(), "response_type": "code",
        "scope": format!("number-verification:verify {FRAUD}"), "redirect_uri": CALLBACK, "state": "pushed",
        "code_challenge": CHALLENGE, "code_challenge_method": "S256",
    }));
    let pushed = world.send(client.authenticated("/oauth2/par", &[("request", &object)])).await.assert(201).json();
    let query = form_urlencoded::Serializer::new(String::new())
        .extend_pairs([("client_id", client.id()), ("request_uri", pushed["request_uri"].as_str().unwrap())])
        .extend_pairs([("sim", EVEN)])
        .finish();
    let result = client.follow(world.node.address, Request::get(&format!("/oauth2/authorize?{query}"))).await;
    assert_eq!(result["state"], "pushed");
    assert!(result.contains_key("code"), "{result:?}");
}
