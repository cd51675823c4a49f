use ringtrue_sandbox::camara::Endpoint;
use serde_json::json;

use crate::{CLIENT, EVEN, SECRET, SIM_SWAP, World, basic};

#[tokio::test]
async fn a_signed_assertion_is_enough_for_a_token() {
    let world = World::start().await;
    for subject in [format!("tel:{EVEN}"), format!("operatortoken:{EVEN}")] {
        let issued = world.bear(&json!({ "sub": subject, "scope": SIM_SWAP })).await;
        assert_eq!(issued.status, 200, "{subject}");
        let token = issued.json()["access_token"].as_str().unwrap().to_owned();
        let reply = world.call_by(Endpoint::CheckSimSwap, Some(&token), "{}").await;
        assert_eq!(reply.json(), json!({ "swapped": false }));
    }
}

#[tokio::test]
async fn a_flawed_assertion_is_refused() {
    let world = World::start().await;
    let now = world.now();
    let sub = format!("tel:{EVEN}");
    for (claims, expected) in [
        (json!({ "scope": SIM_SWAP }), "invalid_grant"),
        (json!({ "sub": "tel:+990123456794", "scope": SIM_SWAP }), "invalid_grant"),
        (json!({ "sub": CLIENT, "scope": SIM_SWAP }), "invalid_grant"),
        (json!({ "sub": sub, "scope": SIM_SWAP, "iss": "nobody" }), "invalid_grant"),
        (json!({ "sub": sub, "scope": SIM_SWAP, "aud": "https://elsewhere.example" }), "invalid_grant"),
        (json!({ "sub": sub, "scope": SIM_SWAP, "exp": now + 301 }), "invalid_grant"),
        (json!({ "sub": sub, "scope": SIM_SWAP, "iat": null }), "invalid_grant"),
        (json!({ "sub": sub, "scope": SIM_SWAP, "jti": null }), "invalid_grant"),
        (json!({ "sub": sub }), "invalid_scope"),
        (json!({ "sub": sub, "scope": "sim-swap" }), "invalid_scope"),
    ] {
        assert_eq!(world.bear(&claims).await.error(), (400, expected.into()), "{claims}");
    }
}

#[tokio::test]
async fn an_assertion_is_good_once_and_names_its_scope_itself() {
    let world = World::start().await;
    let claims = json!({ "sub": format!("tel:{EVEN}"), "scope": SIM_SWAP });
    let assertion = world.signer.sign(&world.claims(Endpoint::Token, &claims));
    let parameters =
        [("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"), ("assertion", &assertion), ("scope", SIM_SWAP)];
    let with_scope = world.post_with(Endpoint::Token, &[], &parameters).await;
    assert_eq!(with_scope.error(), (400, "invalid_request".into()));
    let without_assertion = world.post_with(Endpoint::Token, &[], &parameters[..1]).await;
    assert_eq!(without_assertion.error(), (400, "invalid_request".into()));
    let wrong = [("authorization", &*basic(CLIENT, "wrong"))];
    let badly_proven = world.post_with(Endpoint::Token, &wrong, &parameters[..2]).await;
    assert_eq!(badly_proven.error(), (401, "invalid_client".into()));
    let right = [("authorization", &*basic(CLIENT, SECRET))];
    assert_eq!(world.post_with(Endpoint::Token, &right, &parameters[..2]).await.status, 200);
    let again = world.post_with(Endpoint::Token, &[], &parameters[..2]).await;
    assert_eq!(again.error(), (400, "invalid_grant".into()));
}
