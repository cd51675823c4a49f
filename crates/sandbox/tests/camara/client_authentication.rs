use base64::prelude::{BASE64_STANDARD, Engine as _};
use jsonwebtoken::Algorithm;
use ringtrue_sandbox::camara::{Endpoint, OAuthClient, OperatorConfig};
use serde_json::{Value, json};

use crate::{CLIENT, EVEN, Fixture, SECRET, SIM_SWAP, basic, client::Signer, client::TestResponse};

const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

impl Fixture {
    async fn request_token(&self, headers: &[(&str, &str)], more: &[(&str, &str)]) -> TestResponse {
        let parameters = [&[("grant_type", "client_credentials"), ("scope", SIM_SWAP)], more].concat();
        self.post_with(Endpoint::Token, headers, &parameters).await
    }

    async fn request_token_with_assertion(&self, assertion: &str) -> TestResponse {
        self.request_token(&[], &[("client_assertion_type", ASSERTION_TYPE), ("client_assertion", assertion)]).await
    }

    fn assertion_claims(&self, more: &Value) -> Value {
        let mut claims = json!({ "sub": CLIENT });
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.claims(Endpoint::Token, &claims)
    }
}

#[tokio::test]
async fn client_secret_is_accepted() {
    let fixture = Fixture::start().await;
    let header = basic(CLIENT, SECRET);
    assert_eq!(fixture.request_token(&[("authorization", &header)], &[]).await.status, 200);
    assert_eq!(fixture.request_token(&[("authorization", &header)], &[("client_id", CLIENT)]).await.status, 200);
    assert_eq!(fixture.request_token(&[], &[("client_id", CLIENT), ("client_secret", SECRET)]).await.status, 200);
}

#[tokio::test]
async fn every_signing_algorithm_is_accepted() {
    for (name, signer) in [
        ("ES256", Signer::es256()),
        ("RS256", Signer::rsa(Algorithm::RS256)),
        ("PS256", Signer::rsa(Algorithm::PS256)),
        ("EdDSA", Signer::eddsa()),
    ] {
        let decoy = Signer::es256();
        let keys = json!({ "keys": [decoy.jwk, signer.jwk, { "kty": "RSA", "use": "enc" }] });
        let client = OAuthClient::new("signing").with_keys(&keys).unwrap();
        let fixture = Fixture::with_config(OperatorConfig { clients: vec![client], ..OperatorConfig::default() }).await;
        let claims = json!({ "iss": "signing", "sub": "signing" });
        let response = fixture.request_token_with_assertion(&signer.sign(&fixture.assertion_claims(&claims))).await;
        assert_eq!(response.status, 200, "{name}: {response:?}");
        let response =
            fixture.request_token_with_assertion(&fixture.signer.sign(&fixture.assertion_claims(&claims))).await;
        assert_eq!(response.error(), (401, "invalid_client".into()), "{name}");
    }
}

#[tokio::test]
async fn audience_may_be_endpoint_or_issuer() {
    let fixture = Fixture::start().await;
    for audience in [
        json!(fixture.operator.issuer()),
        json!(fixture.operator.url(Endpoint::Token)),
        json!(["https://elsewhere.example", fixture.operator.issuer()]),
    ] {
        let response = fixture
            .request_token_with_assertion(&fixture.signer.sign(&fixture.assertion_claims(&json!({ "aud": audience }))))
            .await;
        assert_eq!(response.status, 200, "{audience}");
    }
}

#[tokio::test]
async fn invalid_assertions_are_rejected() {
    let fixture = Fixture::start().await;
    let now = fixture.now();
    for claims in [
        json!({ "iss": "unknown" }),
        json!({ "iss": null }),
        json!({ "sub": "unknown" }),
        json!({ "sub": null }),
        json!({ "aud": "https://elsewhere.example" }),
        json!({ "aud": [] }),
        json!({ "exp": null }),
        json!({ "iat": now - 10, "exp": now }),
        json!({ "exp": now + 301 }),
        json!({ "iat": null, "exp": now + 301 }),
        json!({ "iat": now + 60 }),
        json!({ "iat": i64::MIN, "exp": i64::MAX }),
        json!({ "iat": now, "exp": u64::MAX }),
        json!({ "jti": null }),
        json!({ "jti": "" }),
    ] {
        let response =
            fixture.request_token_with_assertion(&fixture.signer.sign(&fixture.assertion_claims(&claims))).await;
        assert_eq!(response.error(), (401, "invalid_client".into()), "{claims}");
    }
}

#[tokio::test]
async fn assertion_is_single_use() {
    let fixture = Fixture::start().await;
    let assertion = fixture.signer.sign(&fixture.assertion_claims(&json!({})));
    assert_eq!(fixture.request_token_with_assertion(&assertion).await.status, 200);
    assert_eq!(fixture.request_token_with_assertion(&assertion).await.error(), (401, "invalid_client".into()));
    fixture.advance(299);
    assert_eq!(fixture.request_token_with_assertion(&assertion).await.error(), (401, "invalid_client".into()));
}

#[tokio::test]
async fn missing_or_wrong_credentials_are_rejected() {
    let fixture = Fixture::start().await;
    let wrong = basic(CLIENT, "wrong");
    let unknown_client = basic("unknown", SECRET);
    let unreadable = format!("Basic {}", BASE64_STANDARD.encode("no colon"));
    let signed_by_another = Signer::es256().sign(&fixture.assertion_claims(&json!({})));
    for (headers, more) in [
        (vec![], vec![]),
        (vec![], vec![("client_id", CLIENT)]),
        (vec![("authorization", &*wrong)], vec![]),
        (vec![("authorization", &*unknown_client)], vec![]),
        (vec![("authorization", &*unreadable)], vec![]),
        (vec![("authorization", "Basic !")], vec![]),
        (vec![], vec![("client_id", CLIENT), ("client_secret", "wrong")]),
        (vec![], vec![("client_secret", SECRET)]),
        (vec![], vec![("client_assertion", &*signed_by_another), ("client_assertion_type", ASSERTION_TYPE)]),
        (vec![], vec![("client_assertion", "invalid"), ("client_assertion_type", ASSERTION_TYPE)]),
        (vec![], vec![("client_assertion", &*signed_by_another)]),
    ] {
        let response = fixture.request_token(&headers, &more).await;
        assert_eq!(response.error(), (401, "invalid_client".into()), "{headers:?} {more:?}");
        assert!(response.header("www-authenticate").is_some());
    }
}

#[tokio::test]
async fn multiple_methods_and_other_client_ids_are_rejected() {
    let fixture = Fixture::start().await;
    let header = basic(CLIENT, SECRET);
    let twice = fixture.request_token(&[("authorization", &header)], &[("client_secret", SECRET)]).await;
    assert_eq!(twice.error(), (400, "invalid_request".into()));
    let as_another = fixture.request_token(&[("authorization", &header)], &[("client_id", "unknown")]).await;
    assert_eq!(as_another.error(), (401, "invalid_client".into()));
}

#[tokio::test]
async fn invalid_jwks_are_rejected() {
    for jwk in [
        json!({}),
        json!({ "keys": {} }),
        json!({ "kty": "EC", "crv": "P-384", "x": "AA", "y": "AA" }),
        json!({ "kty": "EC", "crv": "P-256", "x": "AA", "y": "AA" }),
        json!({ "kty": "RSA", "n": "AA" }),
        json!({ "kty": "oct", "k": "AA" }),
    ] {
        assert!(OAuthClient::new("client").with_keys(&jwk).is_err(), "{jwk}");
    }
}

#[tokio::test]
async fn assertion_is_exchanged_for_a_token() {
    let fixture = Fixture::start().await;
    for subject in [format!("tel:{EVEN}"), fixture.operator_token_hint(EVEN)] {
        let issued = fixture.jwt_bearer(&json!({ "sub": subject, "scope": SIM_SWAP })).await;
        assert_eq!(issued.status, 200, "{subject}");
        let token = issued.json()["access_token"].as_str().unwrap().to_owned();
        let response = fixture.call_with_token(Endpoint::CheckSimSwap, Some(&token), "{}").await;
        assert_eq!(response.json(), json!({ "swapped": false }));
    }
}

#[tokio::test]
async fn operator_token_is_single_use_and_expires() {
    let fixture = Fixture::start().await;
    let [used, expired] = [EVEN, EVEN].map(|number| fixture.operator_token_hint(number));
    let request_token = async |hint: &str| fixture.jwt_bearer(&json!({ "sub": hint, "scope": SIM_SWAP })).await;
    assert_eq!(request_token(&used).await.status, 200);
    assert_eq!(request_token(&used).await.error(), (400, "invalid_grant".into()));
    fixture.advance(300);
    assert_eq!(request_token(&expired).await.error(), (400, "invalid_grant".into()));
}

#[tokio::test]
async fn invalid_bearer_assertions_are_rejected() {
    let fixture = Fixture::start().await;
    let now = fixture.now();
    let sub = format!("tel:{EVEN}");
    for (claims, expected) in [
        (json!({ "scope": SIM_SWAP }), "invalid_grant"),
        (json!({ "sub": "tel:+990123456794", "scope": SIM_SWAP }), "invalid_grant"),
        (json!({ "sub": CLIENT, "scope": SIM_SWAP }), "invalid_grant"),
        (json!({ "sub": format!("operatortoken:{EVEN}"), "scope": SIM_SWAP }), "invalid_grant"),
        (json!({ "sub": sub, "scope": SIM_SWAP, "iss": "unknown" }), "invalid_grant"),
        (json!({ "sub": sub, "scope": SIM_SWAP, "aud": "https://elsewhere.example" }), "invalid_grant"),
        (json!({ "sub": sub, "scope": SIM_SWAP, "exp": now + 301 }), "invalid_grant"),
        (json!({ "sub": sub, "scope": SIM_SWAP, "iat": null }), "invalid_grant"),
        (json!({ "sub": sub, "scope": SIM_SWAP, "jti": null }), "invalid_grant"),
        (json!({ "sub": sub }), "invalid_scope"),
        (json!({ "sub": sub, "scope": "sim-swap" }), "invalid_scope"),
    ] {
        assert_eq!(fixture.jwt_bearer(&claims).await.error(), (400, expected.into()), "{claims}");
    }
}

#[tokio::test]
async fn assertion_is_single_use_and_contains_the_scope() {
    let fixture = Fixture::start().await;
    let claims = json!({ "sub": format!("tel:{EVEN}"), "scope": SIM_SWAP });
    let assertion = fixture.signer.sign(&fixture.claims(Endpoint::Token, &claims));
    let parameters =
        [("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"), ("assertion", &assertion), ("scope", SIM_SWAP)];
    let with_scope = fixture.post_with(Endpoint::Token, &[], &parameters).await;
    assert_eq!(with_scope.error(), (400, "invalid_request".into()));
    let without_assertion = fixture.post_with(Endpoint::Token, &[], &parameters[..1]).await;
    assert_eq!(without_assertion.error(), (400, "invalid_request".into()));
    let wrong = [("authorization", &*basic(CLIENT, "wrong"))];
    let wrong_secret = fixture.post_with(Endpoint::Token, &wrong, &parameters[..2]).await;
    assert_eq!(wrong_secret.error(), (401, "invalid_client".into()));
    let right = [("authorization", &*basic(CLIENT, SECRET))];
    assert_eq!(fixture.post_with(Endpoint::Token, &right, &parameters[..2]).await.status, 200);
    let again = fixture.post_with(Endpoint::Token, &[], &parameters[..2]).await;
    assert_eq!(again.error(), (400, "invalid_grant".into()));
}
