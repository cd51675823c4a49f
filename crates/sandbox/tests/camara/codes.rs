use std::collections::HashSet;

use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, jwk::Jwk};
use ringtrue_sandbox::camara::{Client, Endpoint, OperatorConfig};
use serde_json::{Value, json};

use crate::{
    Bearer, CLIENT, EVEN, REDIRECT_URI, SIM_SWAP, VERIFIER, VERIFY, World, asking, basic, but, redeeming, wire::Reply,
};

impl World {
    /// The claims of an ID token, as someone else's library reads them.
    async fn id_token(&self, issued: &Reply, audience: &str) -> Value {
        let keys = self.get("/jwks").await.json();
        let key: Jwk = serde_json::from_value(keys["keys"][0].clone()).unwrap();
        let mut validation = Validation::new(Algorithm::ES256);
        validation.set_audience(&[audience]);
        validation.set_issuer(&[self.operator.issuer()]);
        // The operator's clock is not the machine's.
        validation.validate_exp = false;
        let token = issued.json()["id_token"].as_str().unwrap().to_owned();
        decode(&token, &DecodingKey::from_jwk(&key).unwrap(), &validation).unwrap().claims
    }
}

#[tokio::test]
async fn a_code_gives_tokens() {
    let world = World::start().await;
    let issued = world.redeem(&world.code(EVEN, VERIFY).await).await;
    assert_eq!((issued.status, issued.header("cache-control")), (200, Some("no-store")));
    let body = issued.json();
    assert_eq!(
        (&body["token_type"], &body["expires_in"], &body["scope"]),
        (&json!("Bearer"), &json!(300), &json!(VERIFY))
    );
    assert!(body.get("refresh_token").is_none());
    let claims = world.id_token(&issued, CLIENT).await;
    let now = world.now();
    for (name, expected) in [
        ("nonce", json!("the nonce")),
        ("amr", json!(["nba"])),
        ("aud", json!(CLIENT)),
        ("iat", json!(now)),
        ("auth_time", json!(now)),
        ("exp", json!(now + 300)),
    ] {
        assert_eq!(claims[name], expected, "{name}");
    }
}

#[tokio::test]
async fn without_openid_there_is_no_id_token() {
    let world = World::start().await;
    let issued = world.redeem(&world.code(EVEN, SIM_SWAP).await).await.json();
    assert!(issued.get("id_token").is_none());
    assert_eq!(issued["expires_in"], 3600);
}

#[tokio::test]
async fn the_subject_is_a_pseudonym_for_each_client() {
    let config = OperatorConfig {
        clients: vec![Client::new("other").with_secret("other").redirecting_to(REDIRECT_URI)],
        ..OperatorConfig::default()
    };
    let world = World::with(config).await;
    let mut subjects = vec![];
    for (client, secret, sim) in [
        (CLIENT, crate::SECRET, EVEN),
        (CLIENT, crate::SECRET, EVEN),
        (CLIENT, crate::SECRET, "+990123456702"),
        ("other", "other", EVEN),
    ] {
        let code = world.sent_back(&but(asking(sim, VERIFY), "client_id", client)).await["code"].clone();
        let headers = [("authorization", &*basic(client, secret))];
        let issued = world.post_with(Endpoint::Token, &headers, &redeeming(&code)).await;
        let subject = world.id_token(&issued, client).await["sub"].as_str().unwrap().to_owned();
        assert!(!subject.contains(&sim[1..]));
        subjects.push(subject);
    }
    assert_eq!(subjects[0], subjects[1]);
    assert_eq!(subjects.iter().collect::<HashSet<_>>().len(), 3);
}

#[tokio::test]
async fn a_code_is_bound_to_everything_that_it_was_given_for() {
    let config = OperatorConfig {
        clients: vec![Client::new("other").with_secret("other").redirecting_to(REDIRECT_URI)],
        ..OperatorConfig::default()
    };
    let world = World::with(config).await;
    let code = world.code(EVEN, VERIFY).await;
    let wrong = format!("{VERIFIER}-not");
    for parameters in [
        but(redeeming(&code), "code", "unheard-of"),
        but(redeeming(&code), "redirect_uri", "https://client.example/"),
        but(redeeming(&code), "redirect_uri", ""),
        but(redeeming(&code), "code_verifier", &wrong),
        but(redeeming(&code), "code_verifier", "short"),
        but(redeeming(&code), "code_verifier", ""),
    ] {
        assert_eq!(world.token(&parameters).await.error(), (400, "invalid_grant".into()), "{parameters:?}");
    }
    let headers = [("authorization", &*basic("other", "other"))];
    let stolen = world.post_with(Endpoint::Token, &headers, &redeeming(&code)).await;
    assert_eq!(stolen.error(), (400, "invalid_grant".into()));
    assert_eq!(world.token(&but(redeeming(&code), "code", "")).await.error(), (400, "invalid_request".into()));
    assert_eq!(world.redeem(&code).await.status, 200);
}

#[tokio::test]
async fn a_verifier_without_a_challenge_is_refused() {
    let world = World::start().await;
    let parameters = but(but(asking(EVEN, VERIFY), "code_challenge", ""), "code_challenge_method", "");
    let code = world.sent_back(&parameters).await["code"].clone();
    assert_eq!(world.redeem(&code).await.error(), (400, "invalid_grant".into()));
    assert_eq!(world.token(&but(redeeming(&code), "code_verifier", "")).await.status, 200);
}

#[tokio::test]
async fn a_code_is_good_for_a_minute() {
    let world = World::start().await;
    let (in_time, late) = (world.code(EVEN, VERIFY).await, world.code(EVEN, VERIFY).await);
    world.advance(59);
    assert_eq!(world.redeem(&in_time).await.status, 200);
    world.advance(1);
    assert_eq!(world.redeem(&late).await.error(), (400, "invalid_grant".into()));
}

#[tokio::test]
async fn a_code_that_comes_again_takes_its_tokens_back() {
    let world = World::start().await;
    let code = world.code(EVEN, SIM_SWAP).await;
    let token = world.redeem(&code).await.json()["access_token"].as_str().unwrap().to_owned();
    let ask = || world.call_by(Endpoint::CheckSimSwap, Some(&token), "{}");
    assert_eq!(ask().await.status, 200);
    assert_eq!(ask().await.status, 200);
    // Long after the code itself has expired.
    world.advance(600);
    assert_eq!(world.redeem(&code).await.error(), (400, "invalid_grant".into()));
    assert_eq!(ask().await.error(), (401, "UNAUTHENTICATED".into()));
}

#[tokio::test]
async fn clients_get_tokens_for_themselves() {
    let world = World::start().await;
    let ask = async |scope| world.token(&[("grant_type", "client_credentials"), ("scope", scope)]).await;
    let issued = ask(SIM_SWAP).await.json();
    assert_eq!((&issued["expires_in"], issued.get("id_token")), (&json!(3600), None));
    for scope in ["", "sim-swap", "openid dpv:A sim-swap", "dpv:A dpv:B sim-swap", "dpv:A unheard-of"] {
        assert_eq!(ask(scope).await.error(), (400, "invalid_scope".into()), "{scope}");
    }
    let reply = world.call(Endpoint::CheckSimSwap, Bearer::Client(SIM_SWAP), "{}").await;
    assert_eq!(reply.error(), (422, "MISSING_IDENTIFIER".into()));
}

#[tokio::test]
async fn other_requests_for_tokens_are_refused() {
    let world = World::start().await;
    for (parameters, expected) in [
        (vec![], "invalid_request"),
        (vec![("grant_type", "password")], "unsupported_grant_type"),
        (vec![("grant_type", "refresh_token")], "unsupported_grant_type"),
        (vec![("grant_type", "client_credentials"), ("scope", SIM_SWAP), ("scope", SIM_SWAP)], "invalid_request"),
    ] {
        assert_eq!(world.token(&parameters).await.error(), (400, expected.into()), "{parameters:?}");
    }
}
