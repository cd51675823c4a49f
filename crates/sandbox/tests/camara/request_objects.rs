use ringtrue_sandbox::camara::Endpoint;
use serde_json::{Value, json};

use crate::{CHALLENGE, CLIENT, EVEN, ODD, REDIRECT_URI, VERIFY, World, asking, but, signer::Signer};

/// What stands beside an object.
fn beside(object: &str) -> Vec<(&str, &str)> {
    vec![
        ("response_type", "code"),
        ("client_id", CLIENT),
        ("redirect_uri", REDIRECT_URI),
        ("scope", VERIFY),
        ("request", object),
    ]
}

impl World {
    fn object(&self, more: &Value) -> Value {
        let mut claims = json!({
            "response_type": "code",
            "client_id": CLIENT,
            "redirect_uri": REDIRECT_URI,
            "scope": VERIFY,
            "state": "the signed state",
            "nonce": "the signed nonce",
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            "login_hint": EVEN,
        });
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.claims(Endpoint::Authorize, &claims)
    }
}

#[tokio::test]
async fn a_signed_request_counts_and_what_stands_beside_does_not() {
    let world = World::start().await;
    for more in [json!({}), json!({ "aud": world.operator.issuer() }), json!({ "aud": ["x", world.operator.issuer()] })]
    {
        let object = world.signer.sign(&world.object(&more));
        let parameters = [beside(&object), vec![("state", "another state"), ("login_hint", "+990123456799")]].concat();
        let back = world.sent_back(&parameters).await;
        assert_eq!(back["state"], "the signed state");
        let issued = world.redeem(&back["code"]).await;
        assert_eq!(issued.status, 200, "{issued:?}");
    }
}

#[tokio::test]
async fn the_sim_is_the_one_that_was_signed() {
    let world = World::start().await;
    let scope = "openid dpv:A number-verification:device-phone-number:read";
    let object = world.signer.sign(&world.object(&json!({ "login_hint": ODD, "scope": scope })));
    let parameters = [but(beside(&object), "scope", scope), vec![("login_hint", EVEN)]].concat();
    assert_eq!(world.sent_back(&parameters).await["error"], "login_required");
}

#[tokio::test]
async fn a_flawed_object_is_refused() {
    let world = World::start().await;
    let now = world.now();
    for (flaw, more) in [
        ("of another client", json!({ "iss": "nobody" })),
        ("for another audience", json!({ "aud": "https://elsewhere.example" })),
        ("for no audience", json!({ "aud": null })),
        ("without a beginning", json!({ "iat": null })),
        ("without an end", json!({ "exp": null })),
        ("without a name", json!({ "jti": null })),
        ("that has expired", json!({ "iat": now - 300, "exp": now })),
        ("that lives too long", json!({ "exp": now + 301 })),
        ("from the future", json!({ "iat": now + 60, "exp": now + 120 })),
        ("not good yet", json!({ "nbf": now + 60 })),
        ("with a time that is no number", json!({ "exp": "tomorrow" })),
        ("that could pass for the client", json!({ "sub": CLIENT })),
        ("within an object", json!({ "request": "x" })),
        ("with another scope beside", json!({ "scope": "openid dpv:A sim-swap" })),
        ("with another client beside", json!({ "client_id": "nobody" })),
        ("with another address beside", json!({ "redirect_uri": "https://client.example/" })),
        ("without a response type", json!({ "response_type": null })),
    ] {
        let object = world.signer.sign(&world.object(&more));
        let back = world.sent_back(&[beside(&object), vec![("state", "beside")]].concat()).await;
        assert_eq!(back["error"], "invalid_request_object", "an object {flaw}");
        assert_eq!(back["state"], "beside", "an object {flaw}");
    }
}

#[tokio::test]
async fn an_object_needs_the_signature_of_the_client() {
    let world = World::start().await;
    let claims = world.object(&json!({}));
    let by_another = Signer::es256().sign(&claims);
    let unsigned = {
        let (_, rest) = by_another.split_once('.').unwrap();
        let (claims, _) = rest.split_once('.').unwrap();
        // {"alg":"none"}
        format!("eyJhbGciOiJub25lIn0.{claims}.")
    };
    for object in [&by_another, &unsigned, "not.a.token", "nothing"] {
        assert_eq!(world.sent_back(&beside(object)).await["error"], "invalid_request_object", "{object}");
    }
}

#[tokio::test]
async fn an_object_is_good_once() {
    let world = World::start().await;
    let object = world.signer.sign(&world.object(&json!({})));
    assert!(world.sent_back(&beside(&object)).await.contains_key("code"));
    assert_eq!(world.sent_back(&beside(&object)).await["error"], "invalid_request_object");
}

#[tokio::test]
async fn unsigned_requests_are_still_welcome() {
    let world = World::start().await;
    assert!(world.sent_back(&asking(EVEN, VERIFY)).await.contains_key("code"));
}
