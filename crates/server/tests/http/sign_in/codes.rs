//! Codes, tokens and userinfo.

use jiff::SignedDuration;

use super::*;
use crate::on_both_stores;

on_both_stores!(
    user_signs_in_by_text_message,
    ended_sign_ins_are_usage,
    code_is_used_once,
    codes_expire_and_belong_to_their_client,
    another_node_redeems_the_code,
    userinfo_token_opens_nothing_else,
    es256_is_signed_on_request,
    discovery_document_names_what_exists,
);

async fn user_signs_in_by_text_message(world: World) {
    let party = Party::new(&world).await;
    let mut browser = Browser::default();
    let result = party.sign_in(&mut browser, EVEN, &[]).await;
    assert_eq!(result["tenant"], "1");
    assert_eq!((&result["state"], &result["iss"]), (&json!("s t&te"), &json!(world.node.base_url)));
    let response = party.redeem(result["code"].as_str().unwrap(), &[]).await.assert(200);
    assert_eq!(response.header("cache-control"), Some("no-store"));
    let tokens = response.json();
    assert_eq!((&tokens["token_type"], &tokens["expires_in"]), (&json!("bearer"), &json!(300)));
    assert_eq!(tokens["scope"], "openid phone");

    let id_token = tokens["id_token"].as_str().unwrap();
    assert_eq!(header_of(id_token)["alg"], "RS256");
    let claims = party.claims(id_token).await;
    let now = world.clock.now().as_second();
    for (name, value) in [
        ("iss", json!(world.node.base_url)),
        ("aud", json!(party.project.client_id)),
        ("nonce", json!("n-0S6_WzA2Mj")),
        ("iat", json!(now)),
        ("exp", json!(now + 600)),
        ("auth_time", json!(now)),
        ("acr", json!("urn:ringtrue:sms")),
        ("amr", json!(["sms"])),
        ("phone_number", json!(EVEN)),
        ("phone_number_verified", json!(true)),
    ] {
        assert_eq!(claims[name], value, "{name}");
    }
    assert!(claims.contains_key("at_hash") && !claims.contains_key("sim_change"));

    let userinfo = party.userinfo(tokens["access_token"].as_str().unwrap()).await.assert(200).json();
    assert_eq!(userinfo["sub"], claims["sub"]);
    assert_eq!((&userinfo["phone_number"], &userinfo["phone_number_verified"]), (&json!(EVEN), &json!(true)));

    // The same user gets the same subject, and without the scope no number.
    let code = party.code(&mut browser, &[("scope", "openid"), ("nonce", "")]).await;
    let tokens = party.redeem(&code, &[]).await.assert(200).json();
    let again = party.claims(tokens["id_token"].as_str().unwrap()).await;
    assert_eq!(again["sub"], claims["sub"]);
    assert!(!again.contains_key("phone_number") && !again.contains_key("nonce"));
    // Another project gets another subject for the same number.
    let other = Party::configured(&world, json!({})).await;
    let code = other.code(&mut Browser::default(), &[]).await;
    let tokens = other.redeem(&code, &[]).await.assert(200).json();
    assert_ne!(other.claims(tokens["id_token"].as_str().unwrap()).await["sub"], claims["sub"]);
}

async fn ended_sign_ins_are_usage(world: World) {
    let party = Party::configured(&world, json!({"session": 600})).await;
    let mut browser = Browser::default();
    party.code(&mut browser, &[]).await;
    // A session is no new proof, and is not counted.
    browser.send(&world, party.authorization(&[("prompt", "none")])).await.assert(302);
    let page = party.begin(&mut browser, &[("prompt", "login")]).await;
    let cancel = Request::post(&format!("{page}/cancel")).header("Sec-Fetch-Site", "same-origin").form(&[]);
    browser.send(&world, cancel).await.assert(303);
    let today = world.clock.now().to_string();
    let query = format!("from={}T00:00:00Z&to={}T23:00:00Z&group_by=day", &today[..10], &today[..10]);
    let usage = world.manage(Request::get(&format!("{}/usage?{query}", world.acme.path()))).await.assert(200).json();
    let rows = usage["content"].as_array().unwrap_or_else(|| panic!("{usage}")).iter();
    let rows = rows.filter(|row| row["product"] == "sign_in");
    let counted: Vec<_> = rows.map(|row| (row["status"].as_str().unwrap(), row["count"].as_i64().unwrap())).collect();
    assert_eq!(counted, [("COMPLETED", 1), ("ERROR", 1)], "{usage}");
}

async fn code_is_used_once(world: World) {
    let party = Party::new(&world).await;
    let challenge = [("code_challenge", CHALLENGE), ("code_challenge_method", "S256")];
    let code = party.code(&mut Browser::default(), &challenge).await;
    // A wrong verifier does not use the code up.
    for verifier in ["", CHALLENGE, "short"] {
        let refused = party.redeem(&code, &[("code_verifier", verifier)]).await;
        refused.assert_problem(400, "invalid_grant");
    }
    let verified = [("code_verifier", VERIFIER)];
    let (one, other) = tokio::join!(party.redeem(&code, &verified), party.redeem(&code, &verified));
    let mut statuses = [one.status, other.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 400], "a race has one winner");
    let winner = if one.status == 200 { one } else { other };
    // The second use has revoked what the first gave.
    let token = winner.json()["access_token"].as_str().unwrap().to_owned();
    party.userinfo(&token).await.assert_problem(401, "unauthorized");
    party.redeem(&code, &verified).await.assert_problem(400, "invalid_grant");
}

async fn codes_expire_and_belong_to_their_client(world: World) {
    let party = Party::new(&world).await;
    let other = Party::configured(&world, json!({})).await;
    let code = party.code(&mut Browser::default(), &[]).await;
    other.redeem(&code, &[]).await.assert_problem(400, "invalid_grant");
    for (changes, code_name) in [
        (&[("redirect_uri", "https://id.example/callback")][..], "invalid_grant"),
        (&[("redirect_uri", "")], "invalid_grant"),
        (&[("code", "x")], "invalid_grant"),
        (&[("code", "")], "invalid_request"),
        // The authorization request had no challenge: somebody may have removed it.
        (&[("code_verifier", VERIFIER)], "invalid_grant"),
        (&[("grant_type", "password")], "unsupported_grant_type"),
    ] {
        party.redeem(&code, changes).await.assert_problem(400, code_name);
    }
    let wrong = Party::redemption(&code, &[]).basic(&party.project.client_id, "wrong");
    world.send(wrong).await.assert_problem(401, "invalid_client");
    world.send(Party::redemption(&code, &[])).await.assert_problem(401, "invalid_client");
    world.advance(SignedDuration::from_secs(61));
    party.redeem(&code, &[]).await.assert_problem(400, "invalid_grant");
}

async fn another_node_redeems_the_code(world: World) {
    if world.database.address().starts_with("sqlite") {
        return;
    }
    let party = Party::new(&world).await;
    let code = party.code(&mut Browser::default(), &[]).await;
    let node = world.second_node().await;
    let request = Party::redemption(&code, &[]).basic(&party.project.client_id, &party.project.client_secret);
    let tokens = send_to(node.address, request.clone()).await.assert(200).json();
    // Nodes of a test have different base URLs, which are the audience of their tokens.
    let userinfo = Request::get("/oauth2/userinfo").bearer(tokens["access_token"].as_str().unwrap());
    send_to(node.address, userinfo.clone()).await.assert(200);
    // A replay at the other node revokes the tokens everywhere.
    world.send(request).await.assert_problem(400, "invalid_grant");
    send_to(node.address, userinfo).await.assert_problem(401, "unauthorized");
}

async fn userinfo_token_opens_nothing_else(world: World) {
    let party = Party::new(&world).await;
    let code = party.code(&mut Browser::default(), &[]).await;
    let token = party.redeem(&code, &[]).await.json()["access_token"].as_str().unwrap().to_owned();
    for path in ["/v1/verifications", "/v1/management/workspaces"] {
        world.send(Request::get(path).bearer(&token)).await.assert_problem(401, "unauthorized");
    }
    // Product tokens do not open userinfo, either.
    party.userinfo(&party.sms_token).await.assert_problem(401, "unauthorized");
    party.userinfo("x").await.assert_problem(401, "unauthorized");
    let missing = world.send(Request::get("/oauth2/userinfo")).await.assert_problem(401, "unauthorized");
    assert_eq!(missing.header("www-authenticate"), Some("Bearer"));
    let posted = Request::post("/oauth2/userinfo").form(&[("access_token", &token)]);
    world.send(posted.clone()).await.assert(200);
    world.send(posted.bearer(&token)).await.assert_problem(400, "invalid_request");
    world.send(Request::post("/oauth2/userinfo").bearer(&token)).await.assert(200);
    // The client revokes its token.
    let revoke = Request::post("/oauth2/revoke").form(&[("token", &token)]);
    world.send(revoke.basic(&party.project.client_id, &party.project.client_secret)).await.assert(200);
    party.userinfo(&token).await.assert_problem(401, "unauthorized");
    let code = party.code(&mut Browser::default(), &[]).await;
    let token = party.redeem(&code, &[]).await.json()["access_token"].as_str().unwrap().to_owned();
    world.advance(SignedDuration::from_secs(301));
    party.userinfo(&token).await.assert_problem(401, "unauthorized");
}

async fn es256_is_signed_on_request(world: World) {
    let party = Party::configured(&world, json!({"id_token_signed_response_alg": "ES256"})).await;
    let code = party.code(&mut Browser::default(), &[]).await;
    let tokens = party.redeem(&code, &[]).await.assert(200).json();
    let id_token = tokens["id_token"].as_str().unwrap();
    assert_eq!(header_of(id_token)["alg"], "ES256");
    assert_eq!(party.claims(id_token).await["phone_number"], EVEN);
}

async fn discovery_document_names_what_exists(world: World) {
    let document = world.send(Request::get("/.well-known/openid-configuration")).await.assert(200).json();
    let oauth = world.send(Request::get("/.well-known/oauth-authorization-server")).await.assert(200).json();
    assert_eq!(document, oauth);
    assert_eq!(document["issuer"], world.node.base_url);
    for (member, method) in [
        ("authorization_endpoint", "GET"),
        ("token_endpoint", "POST"),
        ("userinfo_endpoint", "GET"),
        ("pushed_authorization_request_endpoint", "POST"),
        ("revocation_endpoint", "POST"),
        ("jwks_uri", "GET"),
    ] {
        let path = document[member].as_str().unwrap().strip_prefix(&world.node.base_url).unwrap().to_owned();
        let response = client::send(world.node.address, &Request::new(method, &path)).await;
        assert_ne!(response.status, 404, "{member}");
    }
    // The key of ID tokens is not one that verifiers of callbacks accept.
    let keys = world.send(Request::get("/.well-known/jwks.json")).await.json();
    let modes = keys["keys"].as_array().unwrap().iter().filter(|key| key["use_mode"] == "id_token").count();
    assert_eq!(modes, 2);
}
