use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use futures_util::future::join_all;
use ringtrue_domain::lifecycle::ErrorCode;
use ringtrue_engine::ports::{
    clock::Clock,
    silent::{SilentOperation, SilentResult},
};
use ringtrue_operators::camara::{Algorithm, SIGNING_ALGORITHMS};
use serde_json::{Value, json};

use super::{
    fake_operator::{
        KEYS,
        ScriptedResponse::{Json, Plain},
        TOKEN, VERIFY, token_response,
    },
    fixture::{Fixture, number, query_parameters},
    keys::Key,
};

type Sign<'a> = Box<dyn FnOnce(Value) -> String + 'a>;

/// Runs a check with an ID token that `sign` creates from valid claims.
async fn verify_with_id_token(
    fixture: &Fixture,
    sign: impl FnOnce(Value) -> String,
) -> Result<SilentResult, ErrorCode> {
    let operation = SilentOperation::VerifyNumber(&number());
    let redirect = fixture.begin(operation).await?;
    let now = fixture.clock.now().as_second();
    let claims = json!({
        "iss": fixture.operator.issuer(),
        "sub": "pseudonym",
        "aud": "client id:1",
        "iat": now,
        "exp": now + 300,
        "nonce": query_parameters(&redirect)["nonce"],
    });
    let mut body = token_response();
    body["id_token"] = json!(sign(claims));
    fixture.operator.respond(TOKEN, Json(200, body));
    fixture.complete(operation, &redirect, &[("code", "c")]).await
}

fn publish(fixture: &Fixture, keys: &[&Key]) {
    let keys: Vec<_> = keys.iter().map(|key| key.jwk()).collect();
    fixture.operator.respond(KEYS, Json(200, json!({ "keys": keys })));
}

fn with(mut claims: Value, name: &str, value: Value) -> Value {
    claims[name] = value;
    claims
}

#[tokio::test]
async fn valid_id_token_is_accepted() {
    for algorithm in SIGNING_ALGORITHMS {
        let (key, other) = (Key::new(algorithm, "right"), Key::new(Algorithm::ES256, "other"));
        let fixture = Fixture::start().await;
        publish(&fixture, &[&other, &key]);
        assert_eq!(
            verify_with_id_token(&fixture, |claims| key.sign(&claims)).await,
            Ok(SilentResult::Match(true)),
            "{algorithm:?}"
        );
        assert_eq!(verify_with_id_token(&fixture, |claims| key.sign(&claims)).await, Ok(SilentResult::Match(true)));
        assert_eq!(fixture.operator.requests_to(KEYS).len(), 1);
    }
}

#[tokio::test]
async fn every_claim_is_checked() {
    let key = Key::new(Algorithm::ES256, "right");
    let before = 1_000;
    for (name, value) in [
        ("iss", json!("https://other.example")),
        ("aud", json!("someone else")),
        ("aud", json!(["client id:1", "someone else"])),
        ("azp", json!("someone else")),
        ("exp", json!(before)),
        ("iat", json!(99_999_999_999_i64)),
        ("nonce", json!("of another device")),
        ("nonce", Value::Null),
    ] {
        let fixture = Fixture::start().await;
        publish(&fixture, &[&key]);
        let result = verify_with_id_token(&fixture, |claims| key.sign(&with(claims, name, value.clone()))).await;
        assert_eq!(result, Err(ErrorCode::MnoResponseError), "{name} {value}");
        assert!(fixture.operator.requests_to(VERIFY).is_empty(), "no API call with an unverified token");
    }
}

#[tokio::test]
async fn signature_and_algorithm_are_checked() {
    let (key, other_key) = (Key::new(Algorithm::ES256, "right"), Key::new(Algorithm::ES256, "right"));
    let text = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let forged =
        |header: Value, claims: Value, signature: &str| format!("{}.{}.{signature}", text(&header), text(&claims));
    let public_secret = || jsonwebtoken::EncodingKey::from_secret(key.jwk()["x"].as_str().unwrap().as_bytes());
    let cases: Vec<(&str, Sign<'_>)> = vec![
        ("another key", Box::new(|claims| other_key.sign(&claims))),
        ("none", Box::new(|claims| forged(json!({ "alg": "none" }), claims, ""))),
        ("none with a kid", Box::new(|claims| forged(json!({ "alg": "none", "kid": "right" }), claims, "AA"))),
        ("no signature", Box::new(|claims| forged(json!({ "alg": "ES256", "kid": "right" }), claims, ""))),
        (
            "HMAC with the public key",
            Box::new(|claims| {
                let mut header = jsonwebtoken::Header::new(jsonwebtoken::Algorithm::HS256);
                header.kid = Some("right".to_owned());
                jsonwebtoken::encode(&header, &claims, &public_secret()).unwrap()
            }),
        ),
        (
            "algorithm of another key type",
            Box::new(|claims| forged(json!({ "alg": "RS256", "kid": "right" }), claims, "AA")),
        ),
        (
            "unknown critical header",
            Box::new(|claims| forged(json!({ "alg": "ES256", "kid": "right", "crit": ["x"] }), claims, "AA")),
        ),
        (
            "changed",
            Box::new(|claims| {
                let token = key.sign(&claims);
                let (message, signature) = token.rsplit_once('.').unwrap();
                let header = message.split_once('.').unwrap().0;
                format!("{header}.{}.{signature}", text(&with(claims, "sub", json!("another"))))
            }),
        ),
        ("two parts", Box::new(|claims| key.sign(&claims).rsplit_once('.').unwrap().0.to_owned())),
        ("four parts", Box::new(|claims| format!("{}.AA", key.sign(&claims)))),
    ];
    for (case, sign) in cases {
        let fixture = Fixture::start().await;
        publish(&fixture, &[&key]);
        assert_eq!(verify_with_id_token(&fixture, sign).await, Err(ErrorCode::MnoResponseError), "{case}");
    }
}

#[tokio::test]
async fn unknown_key_refreshes_the_jwks_once() {
    let (old, new) = (Key::new(Algorithm::ES256, "old"), Key::new(Algorithm::EdDSA, "new"));
    let fixture = Fixture::start().await;
    publish(&fixture, &[&old]);
    assert!(verify_with_id_token(&fixture, |claims| old.sign(&claims)).await.is_ok());
    assert_eq!(verify_with_id_token(&fixture, |claims| new.sign(&claims)).await, Err(ErrorCode::MnoResponseError));
    assert_eq!(fixture.operator.requests_to(KEYS).len(), 2);
    publish(&fixture, &[&old, &new]);
    assert!(verify_with_id_token(&fixture, |claims| new.sign(&claims)).await.is_ok());
    assert_eq!(fixture.operator.requests_to(KEYS).len(), 3);
    assert!(verify_with_id_token(&fixture, |claims| old.sign(&claims)).await.is_ok());
    assert_eq!(fixture.operator.requests_to(KEYS).len(), 3);
}

/// Checks with an unknown key share one JWKS request.
#[tokio::test]
async fn failed_jwks_refresh_is_shared() {
    let (old, new) = (Key::new(Algorithm::ES256, "old"), Key::new(Algorithm::ES256, "new"));
    let fixture = Fixture::start().await;
    publish(&fixture, &[&old]);
    assert!(verify_with_id_token(&fixture, |claims| old.sign(&claims)).await.is_ok());
    fixture.operator.respond(KEYS, Json(500, json!({})));
    let results = join_all((0..5).map(|_| verify_with_id_token(&fixture, |claims| new.sign(&claims)))).await;
    assert!(results.iter().all(Result::is_err));
    assert_eq!(fixture.operator.requests_to(KEYS).len(), 2, "all checks share one refresh");
    assert!(verify_with_id_token(&fixture, |claims| old.sign(&claims)).await.is_ok(), "the cached keys stay in use");

    fixture.advance(60);
    publish(&fixture, &[&old, &new]);
    assert!(verify_with_id_token(&fixture, |claims| new.sign(&claims)).await.is_ok());
    assert_eq!(fixture.operator.requests_to(KEYS).len(), 3);
}

#[tokio::test]
async fn unsupported_keys_are_ignored() {
    let key = Key::new(Algorithm::ES256, "right");
    let changed = |name: &str, value: Value| with(key.jwk(), name, value);
    let without_name = {
        let mut jwk = key.jwk();
        jwk.as_object_mut().unwrap().retain(|name, _| !["kid", "alg", "use"].contains(&name.as_str()));
        jwk
    };
    let unsupported = [json!(1), json!({}), json!({ "kty": "oct", "k": "AA" }), json!({ "kty": "EC", "crv": "P-521" })];
    for (jwk, is_enough) in [
        (key.jwk(), true),
        // The token has a `kid`; a key without one does not match.
        (without_name, false),
        (changed("use", json!("enc")), false),
        (changed("alg", json!("ES384")), false),
        (changed("kid", json!("other")), false),
        (changed("x", json!("AA")), false),
        (changed("x", json!("not base64!")), false),
    ] {
        let fixture = Fixture::start().await;
        let keys: Vec<_> = unsupported.iter().cloned().chain([jwk.clone()]).collect();
        fixture.operator.respond(KEYS, Json(200, json!({ "keys": keys })));
        let result = verify_with_id_token(&fixture, |claims| key.sign(&claims)).await;
        assert_eq!(result.is_ok(), is_enough, "{jwk}");
    }
}

#[tokio::test]
async fn missing_jwks_is_an_error() {
    let key = Key::new(Algorithm::ES256, "right");
    for (response, code) in [
        (Json(500, json!({})), ErrorCode::MnoServerError),
        (Json(503, json!({})), ErrorCode::MnoTimeout),
        (Plain(200, "", b"{}".to_vec()), ErrorCode::MnoResponseError),
    ] {
        let fixture = Fixture::start().await;
        fixture.operator.respond(KEYS, response);
        assert_eq!(verify_with_id_token(&fixture, |claims| key.sign(&claims)).await, Err(code));
    }
}

#[tokio::test]
async fn id_token_is_required_without_pkce() {
    // The fourth combination, neither `openid` nor PKCE, is already rejected by the configuration.
    for (openid, pkce, is_enough) in [(true, true, true), (true, false, false), (false, true, true)] {
        let fixture = Fixture::with(|config, _| (config.scopes.openid, config.pkce) = (openid, pkce)).await;
        assert_eq!(fixture.verify().await.is_ok(), is_enough, "openid: {openid}, PKCE: {pkce}");
    }
}
