use std::collections::HashSet;

use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, jwk::Jwk};
use ringtrue_sandbox::camara::{Endpoint, OAuthClient, OperatorConfig};
use serde_json::{Value, json};

use crate::{
    Bearer, CLIENT, EVEN, Fixture, REDIRECT_URI, SIM_SWAP, VERIFIER, VERIFY, authorization_parameters, basic,
    client::TestResponse, token_parameters, with_parameter, without,
};

impl Fixture {
    /// Returns the claims of an ID token after `jsonwebtoken` has verified it.
    async fn id_token(&self, issued: &TestResponse, audience: &str) -> Value {
        let keys = self.get("/jwks").await.json();
        let key: Jwk = serde_json::from_value(keys["keys"][0].clone()).unwrap();
        let mut validation = Validation::new(Algorithm::ES256);
        validation.set_audience(&[audience]);
        validation.set_issuer(&[self.operator.issuer()]);
        // The token's times are those of the test clock, so its expiry is not checked.
        validation.validate_exp = false;
        let token = issued.json()["id_token"].as_str().unwrap().to_owned();
        decode(&token, &DecodingKey::from_jwk(&key).unwrap(), &validation).unwrap().claims
    }
}

#[tokio::test]
async fn code_is_exchanged_for_tokens() {
    let fixture = Fixture::start().await;
    let issued = fixture.redeem(&fixture.code(EVEN, VERIFY).await).await;
    assert_eq!((issued.status, issued.header("cache-control")), (200, Some("no-store")));
    let body = issued.json();
    assert_eq!(
        (&body["token_type"], &body["expires_in"], &body["scope"]),
        (&json!("Bearer"), &json!(300), &json!(VERIFY))
    );
    assert!(body.get("refresh_token").is_none());
    let claims = fixture.id_token(&issued, CLIENT).await;
    let now = fixture.now();
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
async fn no_id_token_without_openid_scope() {
    let fixture = Fixture::start().await;
    let issued = fixture.redeem(&fixture.code(EVEN, SIM_SWAP).await).await.json();
    assert!(issued.get("id_token").is_none());
    assert_eq!(issued["expires_in"], 3600);
}

#[tokio::test]
async fn subject_is_pairwise() {
    let config = OperatorConfig {
        clients: vec![OAuthClient::new("other").with_secret("other").with_redirect_uri(REDIRECT_URI)],
        ..OperatorConfig::default()
    };
    let fixture = Fixture::with_config(config).await;
    let mut subjects = vec![];
    for (client, secret, sim) in [
        (CLIENT, crate::SECRET, EVEN),
        (CLIENT, crate::SECRET, EVEN),
        (CLIENT, crate::SECRET, "+990123456702"),
        ("other", "other", EVEN),
    ] {
        let code = fixture
            .redirect_parameters(&with_parameter(authorization_parameters(sim, VERIFY), "client_id", client))
            .await["code"]
            .clone();
        let headers = [("authorization", &*basic(client, secret))];
        let issued = fixture.post_with(Endpoint::Token, &headers, &token_parameters(&code)).await;
        let subject = fixture.id_token(&issued, client).await["sub"].as_str().unwrap().to_owned();
        assert!(!subject.contains(&sim[1..]));
        subjects.push(subject);
    }
    assert_eq!(subjects[0], subjects[1]);
    assert_eq!(subjects.iter().collect::<HashSet<_>>().len(), 3);
}

#[tokio::test]
async fn code_is_bound_to_client_redirect_uri_and_verifier() {
    let config = OperatorConfig {
        clients: vec![OAuthClient::new("other").with_secret("other").with_redirect_uri(REDIRECT_URI)],
        ..OperatorConfig::default()
    };
    let fixture = Fixture::with_config(config).await;
    let code = fixture.code(EVEN, VERIFY).await;
    let wrong = format!("{VERIFIER}-not");
    for parameters in [
        with_parameter(token_parameters(&code), "code", "unknown"),
        with_parameter(token_parameters(&code), "redirect_uri", "https://client.example/"),
        with_parameter(token_parameters(&code), "redirect_uri", ""),
        with_parameter(token_parameters(&code), "code_verifier", &wrong),
        with_parameter(token_parameters(&code), "code_verifier", "short"),
        with_parameter(token_parameters(&code), "code_verifier", ""),
    ] {
        assert_eq!(fixture.token(&parameters).await.error(), (400, "invalid_grant".into()), "{parameters:?}");
    }
    let headers = [("authorization", &*basic("other", "other"))];
    let stolen = fixture.post_with(Endpoint::Token, &headers, &token_parameters(&code)).await;
    assert_eq!(stolen.error(), (400, "invalid_grant".into()));
    assert_eq!(
        fixture.token(&with_parameter(token_parameters(&code), "code", "")).await.error(),
        (400, "invalid_request".into())
    );
    assert_eq!(fixture.redeem(&code).await.status, 200);
}

#[tokio::test]
async fn verifier_without_challenge_is_rejected() {
    let fixture = Fixture::start().await;
    let parameters = without(authorization_parameters(EVEN, VERIFY), &["code_challenge", "code_challenge_method"]);
    let code = fixture.redirect_parameters(&parameters).await["code"].clone();
    assert_eq!(fixture.redeem(&code).await.error(), (400, "invalid_grant".into()));
    assert_eq!(fixture.token(&with_parameter(token_parameters(&code), "code_verifier", "")).await.status, 200);
}

#[tokio::test]
async fn code_expires_after_a_minute() {
    let fixture = Fixture::start().await;
    let (in_time, late) = (fixture.code(EVEN, VERIFY).await, fixture.code(EVEN, VERIFY).await);
    fixture.advance(59);
    assert_eq!(fixture.redeem(&in_time).await.status, 200);
    fixture.advance(1);
    assert_eq!(fixture.redeem(&late).await.error(), (400, "invalid_grant".into()));
}

#[tokio::test]
async fn reused_code_revokes_its_token() {
    let fixture = Fixture::start().await;
    let code = fixture.code(EVEN, SIM_SWAP).await;
    let token = fixture.redeem(&code).await.json()["access_token"].as_str().unwrap().to_owned();
    let check = || fixture.call_with_token(Endpoint::CheckSimSwap, Some(&token), "{}");
    assert_eq!(check().await.status, 200);
    assert_eq!(check().await.status, 200);
    // A second use of the code revokes the token, even after the code has expired.
    fixture.advance(600);
    assert_eq!(fixture.redeem(&code).await.error(), (400, "invalid_grant".into()));
    assert_eq!(check().await.error(), (401, "UNAUTHENTICATED".into()));
}

#[tokio::test]
async fn client_credentials_are_granted() {
    let fixture = Fixture::start().await;
    let request = async |scope| fixture.token(&[("grant_type", "client_credentials"), ("scope", scope)]).await;
    let issued = request(SIM_SWAP).await.json();
    assert_eq!((&issued["expires_in"], issued.get("id_token")), (&json!(3600), None));
    for scope in ["", "sim-swap", "openid dpv:A sim-swap", "dpv:A dpv:B sim-swap", "dpv:A unknown"] {
        assert_eq!(request(scope).await.error(), (400, "invalid_scope".into()), "{scope}");
    }
    let response = fixture.call(Endpoint::CheckSimSwap, Bearer::Client(SIM_SWAP), "{}").await;
    assert_eq!(response.error(), (422, "MISSING_IDENTIFIER".into()));
}

#[tokio::test]
async fn unsupported_token_requests_are_rejected() {
    let fixture = Fixture::start().await;
    for (parameters, expected) in [
        (vec![], "invalid_request"),
        (vec![("grant_type", "password")], "unsupported_grant_type"),
        (vec![("grant_type", "refresh_token")], "unsupported_grant_type"),
        (vec![("grant_type", "client_credentials"), ("scope", SIM_SWAP), ("scope", SIM_SWAP)], "invalid_request"),
    ] {
        assert_eq!(fixture.token(&parameters).await.error(), (400, expected.into()), "{parameters:?}");
    }
}
