use ringtrue_sandbox::camara::Endpoint;
use serde_json::json;

use crate::{CLIENT, EVEN, Fixture, SECRET, SIM_SWAP, basic};

#[tokio::test]
async fn assertion_is_exchanged_for_a_token() {
    let fixture = Fixture::start().await;
    for subject in [format!("tel:{EVEN}"), format!("operatortoken:{EVEN}")] {
        let issued = fixture.jwt_bearer(&json!({ "sub": subject, "scope": SIM_SWAP })).await;
        assert_eq!(issued.status, 200, "{subject}");
        let token = issued.json()["access_token"].as_str().unwrap().to_owned();
        let response = fixture.call_with_token(Endpoint::CheckSimSwap, Some(&token), "{}").await;
        assert_eq!(response.json(), json!({ "swapped": false }));
    }
}

#[tokio::test]
async fn invalid_assertions_are_rejected() {
    let fixture = Fixture::start().await;
    let now = fixture.now();
    let sub = format!("tel:{EVEN}");
    for (claims, expected) in [
        (json!({ "scope": SIM_SWAP }), "invalid_grant"),
        (json!({ "sub": "tel:+990123456794", "scope": SIM_SWAP }), "invalid_grant"),
        (json!({ "sub": CLIENT, "scope": SIM_SWAP }), "invalid_grant"),
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
