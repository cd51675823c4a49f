//! Clients that prove themselves by keys, public clients, and pushed requests.

use jiff::SignedDuration;

use super::*;
use crate::{
    client_key::{ASSERTION_TYPE, ClientKey},
    on_both_stores,
};

on_both_stores!(
    clients_authenticate_by_assertion,
    request_objects_override_the_query,
    requests_are_pushed_once,
    public_clients_need_pkce,
    registered_keys_must_be_public,
);

async fn clients_authenticate_by_assertion(world: World) {
    let key = ClientKey::generate();
    let settings = json!({"token_endpoint_auth_method": "private_key_jwt", "jwks": key.jwks()});
    let party = Party::configured(&world, settings).await;
    let id = party.project.client_id.clone();
    let now = world.clock.now().as_second();
    let claims = |changes: Value| {
        let mut claims = json!({"iss": id, "sub": id, "aud": world.node.base_url, "exp": now + 300, "jti": "j"});
        claims.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        claims
    };
    let code = party.code(&mut Browser::default(), &[]).await;
    let redeem = async |assertion: &str| {
        let fields = [ASSERTION_TYPE, ("client_assertion", assertion)];
        world.send(Party::redemption(&code, &fields)).await
    };
    // Neither a secret nor an assertion of somebody else is enough.
    party.redeem(&code, &[]).await.assert_problem(401, "invalid_client");
    redeem(&ClientKey::generate().sign(&claims(json!({})))).await.assert_problem(401, "invalid_client");
    for changes in [
        json!({"aud": "https://other.example"}),
        json!({"sub": "other"}),
        json!({"iss": "other"}),
        json!({"exp": now - 60}),
        json!({"exp": now + 400}),
        json!({"exp": null}),
        json!({"jti": ""}),
        json!({"iat": now + 60}),
    ] {
        redeem(&key.sign(&claims(changes.clone()))).await.assert_problem(401, "invalid_client");
    }
    let assertion = key.sign(&claims(json!({"aud": [format!("{}/oauth2/token", world.node.base_url)]})));
    redeem(&assertion).await.assert(200);
    // The same assertion is not accepted again, whatever the endpoint.
    let code = party.code(&mut Browser::default(), &[]).await;
    let replayed = world.send(Party::redemption(&code, &[ASSERTION_TYPE, ("client_assertion", &assertion)])).await;
    replayed.assert_problem(401, "invalid_client");
    let other = key.sign(&claims(json!({"jti": "j2"})));
    world.send(Party::redemption(&code, &[ASSERTION_TYPE, ("client_assertion", &other)])).await.assert(200);
}

async fn request_objects_override_the_query(world: World) {
    let key = ClientKey::generate();
    let party = Party::configured(&world, json!({"jwks": key.jwks()})).await;
    let id = party.project.client_id.clone();
    let now = world.clock.now().as_second();
    let object = |changes: Value| {
        let mut claims = json!({
            "iss": id, "aud": world.node.base_url, "exp": now + 60, "client_id": id, "response_type": "code",
            "redirect_uri": CALLBACK, "scope": "openid phone", "state": "signed", "max_age": 60,
        });
        claims.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        key.sign(&claims)
    };
    let mut browser = Browser::default();
    // The redirect URI of the query is not registered, that of the object is.
    let signed = object(json!({}));
    let changes = [("request", &*signed), ("redirect_uri", "https://evil.example/"), ("state", "query")];
    let result = party.sign_in(&mut browser, EVEN, &changes).await;
    assert_eq!(result["state"], "signed");
    for changes in [json!({"aud": "x"}), json!({"exp": now - 60}), json!({"iss": "x"}), json!({"client_id": "x"})] {
        let object = object(changes.clone());
        let response = client::send(world.node.address, &party.authorization(&[("request", &object)])).await;
        assert_eq!(returned(&response.assert(302))["error"], "invalid_request_object", "{changes}");
    }
}

async fn requests_are_pushed_once(world: World) {
    let party = Party::new(&world).await;
    let query = party.authorization(&[("state", "pushed")]).target;
    let fields: Vec<_> = form_urlencoded::parse(query.split_once('?').unwrap().1.as_bytes()).into_owned().collect();
    let push = |changes: &[(&str, &str)]| {
        let kept = fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let kept = kept.filter(|(name, _)| !changes.iter().any(|(changed, _)| changed == name));
        let all: Vec<_> = kept.chain(changes.iter().copied()).filter(|(_, value)| !value.is_empty()).collect();
        Request::post("/oauth2/par").form(&all)
    };
    let own = |request: Request| request.basic(&party.project.client_id, &party.project.client_secret);
    world.send(push(&[])).await.assert_problem(401, "invalid_client");
    for (changes, code) in [
        (&[("redirect_uri", "https://evil.example/")][..], "invalid_request"),
        (&[("response_type", "token")], "unsupported_response_type"),
        (&[("scope", "phone")], "invalid_scope"),
        (&[("request_uri", "urn:ietf:params:oauth:request_uri:x")], "invalid_request"),
        (&[("client_id", "other")], "invalid_request"),
        (&[("request", "x")], "invalid_request_object"),
    ] {
        world.send(own(push(changes))).await.assert_problem(400, code);
    }
    let pushed = world.send(own(push(&[]))).await.assert(201).json();
    assert_eq!(pushed["expires_in"], 90);
    let uri = pushed["request_uri"].as_str().unwrap();
    let authorize = |client: &str| {
        let query = form_urlencoded::Serializer::new(String::new())
            .extend_pairs([("client_id", client), ("request_uri", uri), ("state", "query")])
            .finish();
        Request::get(&format!("/oauth2/authorize?{query}"))
    };
    // Another client cannot use it, and it works once.
    let other = Party::configured(&world, json!({})).await;
    client::send(world.node.address, &authorize(&other.project.client_id)).await.assert(400);
    let mut browser = Browser::default();
    let page = party.path_of(&browser.send(&world, authorize(&party.project.client_id)).await.assert(303));
    let cancel = Request::post(&format!("{page}/cancel")).header("Sec-Fetch-Site", "same-origin").form(&[]);
    assert_eq!(returned(&browser.send(&world, cancel).await.assert(303))["state"], "pushed");
    browser.send(&world, authorize(&party.project.client_id)).await.assert(400);
    let pushed = world.send(own(push(&[]))).await.assert(201).json();
    world.advance(SignedDuration::from_secs(91));
    let late = format!(
        "/oauth2/authorize?client_id={}&request_uri={}",
        party.project.client_id,
        pushed["request_uri"].as_str().unwrap()
    );
    browser.send(&world, Request::get(&late)).await.assert(400);
}

async fn public_clients_need_pkce(world: World) {
    let party = Party::configured(&world, json!({"token_endpoint_auth_method": "none"})).await;
    let response = client::send(world.node.address, &party.authorization(&[])).await.assert(302);
    assert_eq!(returned(&response)["error"], "invalid_request");
    let pkce = [("code_challenge", CHALLENGE), ("code_challenge_method", "S256")];
    let code = party.code(&mut Browser::default(), &pkce).await;
    let id = party.project.client_id.as_str();
    let fields = [("client_id", id), ("code_verifier", VERIFIER)];
    world.send(Party::redemption(&code, &[("client_id", id)])).await.assert_problem(400, "invalid_grant");
    world.send(Party::redemption(&code, &fields)).await.assert(200);
    // A public client gets no tokens for the API without its secret.
    let form = [("grant_type", "client_credentials"), ("scope", "verification"), ("client_id", id)];
    world.send(Request::post("/oauth2/token").form(&form)).await.assert_problem(401, "invalid_client");
}

async fn registered_keys_must_be_public(world: World) {
    let party = Party::new(&world).await;
    let mut private = ClientKey::generate().jwks();
    private["keys"][0]["d"] = "x".into();
    for jwks in [private, json!({"keys": []}), json!({}), json!({"keys": [{"kty": "oct", "k": "x"}]}), json!([])] {
        let patch = json!({"configuration": {"sign_in": {"jwks": jwks}}});
        let refused = world.manage(Request::patch(&party.project.path).json(&patch)).await;
        let detail = refused.assert_problem(400, "bad_request").detail();
        assert!(detail.contains("/configuration/sign_in/jwks"), "{detail}");
    }
    let keys = ClientKey::generate().jwks();
    let patch = json!({"configuration": {"sign_in": {"jwks": keys}}});
    let patched = world.manage(Request::patch(&party.project.path).json(&patch)).await.assert(200).json();
    assert_eq!(patched["configuration"]["sign_in"]["jwks"], keys);
    for uri in ["http://id.example/cb", "javascript:alert(1)", "https://id.example/#x", "/cb"] {
        let patch = json!({"mode": "live", "configuration": {"sign_in": {"redirect_uris": [uri]}}});
        let refused = world.manage(Request::patch(&party.project.path).json(&patch)).await;
        refused.assert(400);
    }
}
