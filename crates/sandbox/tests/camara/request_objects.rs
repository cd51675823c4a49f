use ringtrue_sandbox::camara::Endpoint;
use serde_json::{Value, json};

use crate::{CHALLENGE, CLIENT, EVEN, Fixture, ODD, REDIRECT_URI, VERIFY, client::Signer, with_parameter};

/// Returns the query parameters of a request with a request object.
fn query_with(object: &str) -> Vec<(&str, &str)> {
    vec![
        ("response_type", "code"),
        ("client_id", CLIENT),
        ("redirect_uri", REDIRECT_URI),
        ("scope", VERIFY),
        ("request", object),
    ]
}

impl Fixture {
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
async fn request_object_overrides_query_parameters() {
    let fixture = Fixture::start().await;
    for more in
        [json!({}), json!({ "aud": fixture.operator.issuer() }), json!({ "aud": ["x", fixture.operator.issuer()] })]
    {
        let object = fixture.signer.sign(&fixture.object(&more));
        let parameters =
            [query_with(&object), vec![("state", "another state"), ("login_hint", "+990123456799")]].concat();
        let redirect = fixture.redirect_parameters(&parameters).await;
        assert_eq!(redirect["state"], "the signed state");
        let issued = fixture.redeem(&redirect["code"]).await;
        assert_eq!(issued.status, 200, "{issued:?}");
    }
}

#[tokio::test]
async fn login_hint_is_read_from_the_object() {
    let fixture = Fixture::start().await;
    let scope = "openid dpv:A number-verification:device-phone-number:read";
    let object = fixture.signer.sign(&fixture.object(&json!({ "login_hint": ODD, "scope": scope })));
    let parameters = [with_parameter(query_with(&object), "scope", scope), vec![("login_hint", EVEN)]].concat();
    assert_eq!(fixture.redirect_parameters(&parameters).await["error"], "login_required");
}

#[tokio::test]
async fn invalid_objects_are_rejected() {
    let fixture = Fixture::start().await;
    let now = fixture.now();
    for (case, more) in [
        ("other iss", json!({ "iss": "unknown" })),
        ("other aud", json!({ "aud": "https://elsewhere.example" })),
        ("no aud", json!({ "aud": null })),
        ("no iat", json!({ "iat": null })),
        ("no exp", json!({ "exp": null })),
        ("no jti", json!({ "jti": null })),
        ("expired", json!({ "iat": now - 300, "exp": now })),
        ("lifetime too long", json!({ "exp": now + 301 })),
        ("iat in the future", json!({ "iat": now + 60, "exp": now + 120 })),
        ("nbf in the future", json!({ "nbf": now + 60 })),
        ("exp is not a number", json!({ "exp": "tomorrow" })),
        ("has sub", json!({ "sub": CLIENT })),
        ("has request", json!({ "request": "x" })),
        ("other scope in the query", json!({ "scope": "openid dpv:A sim-swap" })),
        ("other client_id in the query", json!({ "client_id": "unknown" })),
        ("other redirect_uri in the query", json!({ "redirect_uri": "https://client.example/" })),
        ("no response_type", json!({ "response_type": null })),
    ] {
        let object = fixture.signer.sign(&fixture.object(&more));
        let redirect =
            fixture.redirect_parameters(&[query_with(&object), vec![("state", "query state")]].concat()).await;
        assert_eq!(redirect["error"], "invalid_request_object", "{case}");
        assert_eq!(redirect["state"], "query state", "{case}");
    }
}

#[tokio::test]
async fn object_must_be_signed_by_the_client() {
    let fixture = Fixture::start().await;
    let claims = fixture.object(&json!({}));
    let by_another = Signer::es256().sign(&claims);
    let unsigned = {
        let (_, rest) = by_another.split_once('.').unwrap();
        let (claims, _) = rest.split_once('.').unwrap();
        // The header is `{"alg":"none"}`.
        format!("eyJhbGciOiJub25lIn0.{claims}.")
    };
    for object in [&by_another, &unsigned, "not.a.token", "nothing"] {
        assert_eq!(
            fixture.redirect_parameters(&query_with(object)).await["error"],
            "invalid_request_object",
            "{object}"
        );
    }
}

#[tokio::test]
async fn object_is_single_use() {
    let fixture = Fixture::start().await;
    let object = fixture.signer.sign(&fixture.object(&json!({})));
    assert!(fixture.redirect_parameters(&query_with(&object)).await.contains_key("code"));
    assert_eq!(fixture.redirect_parameters(&query_with(&object)).await["error"], "invalid_request_object");
}
