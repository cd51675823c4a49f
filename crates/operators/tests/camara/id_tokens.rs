use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use futures_util::future::join_all;
use ringtrue_domain::lifecycle::ErrorCode;
use ringtrue_engine::ports::{Clock, Question, Reply};
use ringtrue_operators::camara::Algorithm;
use serde_json::{Value, json};

use super::{
    keys::Key,
    operator::{KEYS, Saying, TOKEN, VERIFY, granted},
    world::{World, carried, number},
};

type Sign<'a> = Box<dyn FnOnce(Value) -> String + 'a>;

/// What the operator says to the code of a device when it signs this of what it should.
async fn answer(world: &World, sign: impl FnOnce(Value) -> String) -> Result<Reply, ErrorCode> {
    let question = Question::IsNumber(&number());
    let journey = world.depart(question).await?;
    let now = world.clock.now().as_second();
    let claims = json!({
        "iss": world.operator.issuer(),
        "sub": "pseudonym",
        "aud": "client id:1",
        "iat": now,
        "exp": now + 300,
        "nonce": carried(&journey)["nonce"],
    });
    let mut body = granted();
    body["id_token"] = json!(sign(claims));
    world.operator.says(TOKEN, Saying::Json(200, body));
    world.arrive(question, &journey, &[("code", "c")]).await
}

fn publish(world: &World, keys: &[&Key]) {
    let keys: Vec<_> = keys.iter().map(|key| key.jwk()).collect();
    world.operator.says(KEYS, Saying::Json(200, json!({ "keys": keys })));
}

fn with(mut claims: Value, name: &str, value: Value) -> Value {
    claims[name] = value;
    claims
}

#[tokio::test]
async fn a_true_token_lets_the_question_be_asked() {
    for algorithm in Algorithm::ALL {
        let (key, other) = (Key::new(algorithm, "right"), Key::new(Algorithm::Es256, "other"));
        let world = World::start().await;
        publish(&world, &[&other, &key]);
        assert_eq!(answer(&world, |claims| key.signs(&claims)).await, Ok(Reply::Match(true)), "{algorithm:?}");
        assert_eq!(answer(&world, |claims| key.signs(&claims)).await, Ok(Reply::Match(true)));
        assert_eq!(world.operator.asked(KEYS).len(), 1);
    }
}

#[tokio::test]
async fn every_claim_is_looked_at() {
    let key = Key::new(Algorithm::Es256, "right");
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
        let world = World::start().await;
        publish(&world, &[&key]);
        let reply = answer(&world, |claims| key.signs(&with(claims, name, value.clone()))).await;
        assert_eq!(reply, Err(ErrorCode::MnoResponseError), "{name} {value}");
        assert!(world.operator.asked(VERIFY).is_empty(), "nothing is asked with a token that may be another's");
    }
}

#[tokio::test]
async fn a_token_is_signed_by_a_key_of_the_operator_in_the_keys_own_way() {
    let (key, stranger) = (Key::new(Algorithm::Es256, "right"), Key::new(Algorithm::Es256, "right"));
    let text = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let forged =
        |header: Value, claims: Value, signature: &str| format!("{}.{}.{signature}", text(&header), text(&claims));
    let secret_of_all = || jsonwebtoken::EncodingKey::from_secret(key.jwk()["x"].as_str().unwrap().as_bytes());
    let cases: Vec<(&str, Sign<'_>)> = vec![
        ("a stranger's", Box::new(|claims| stranger.signs(&claims))),
        ("none", Box::new(|claims| forged(json!({ "alg": "none" }), claims, ""))),
        ("none with a kid", Box::new(|claims| forged(json!({ "alg": "none", "kid": "right" }), claims, "AA"))),
        ("no signature", Box::new(|claims| forged(json!({ "alg": "ES256", "kid": "right" }), claims, ""))),
        (
            "by a secret",
            Box::new(|claims| {
                let mut header = jsonwebtoken::Header::new(jsonwebtoken::Algorithm::HS256);
                header.kid = Some("right".to_owned());
                jsonwebtoken::encode(&header, &claims, &secret_of_all()).unwrap()
            }),
        ),
        ("of another kind", Box::new(|claims| forged(json!({ "alg": "RS256", "kid": "right" }), claims, "AA"))),
        (
            "more than we know",
            Box::new(|claims| forged(json!({ "alg": "ES256", "kid": "right", "crit": ["x"] }), claims, "AA")),
        ),
        (
            "changed",
            Box::new(|claims| {
                let token = key.signs(&claims);
                let (message, signature) = token.rsplit_once('.').unwrap();
                let header = message.split_once('.').unwrap().0;
                format!("{header}.{}.{signature}", text(&with(claims, "sub", json!("another"))))
            }),
        ),
        ("in two parts", Box::new(|claims| key.signs(&claims).rsplit_once('.').unwrap().0.to_owned())),
        ("in four parts", Box::new(|claims| format!("{}.AA", key.signs(&claims)))),
    ];
    for (case, sign) in cases {
        let world = World::start().await;
        publish(&world, &[&key]);
        assert_eq!(answer(&world, sign).await, Err(ErrorCode::MnoResponseError), "{case}");
    }
}

#[tokio::test]
async fn a_key_that_is_not_known_is_asked_for_once() {
    let (old, new) = (Key::new(Algorithm::Es256, "old"), Key::new(Algorithm::EdDsa, "new"));
    let world = World::start().await;
    publish(&world, &[&old]);
    assert!(answer(&world, |claims| old.signs(&claims)).await.is_ok());
    assert_eq!(answer(&world, |claims| new.signs(&claims)).await, Err(ErrorCode::MnoResponseError));
    assert_eq!(world.operator.asked(KEYS).len(), 2);
    publish(&world, &[&old, &new]);
    assert!(answer(&world, |claims| new.signs(&claims)).await.is_ok());
    assert_eq!(world.operator.asked(KEYS).len(), 3);
    assert!(answer(&world, |claims| old.signs(&claims)).await.is_ok());
    assert_eq!(world.operator.asked(KEYS).len(), 3);
}

/// Everybody who has a token by an unknown key waits for the same answer.
#[tokio::test]
async fn keys_that_cannot_be_had_anew_are_not_asked_for_by_each_who_waits() {
    let (old, new) = (Key::new(Algorithm::Es256, "old"), Key::new(Algorithm::Es256, "new"));
    let world = World::start().await;
    publish(&world, &[&old]);
    assert!(answer(&world, |claims| old.signs(&claims)).await.is_ok());
    world.operator.says(KEYS, Saying::Json(500, json!({})));
    let replies = join_all((0..5).map(|_| answer(&world, |claims| new.signs(&claims)))).await;
    assert!(replies.iter().all(Result::is_err));
    assert_eq!(world.operator.asked(KEYS).len(), 2, "one asked for all");
    assert!(answer(&world, |claims| old.signs(&claims)).await.is_ok(), "the old ones are still good");

    world.pass(60);
    publish(&world, &[&old, &new]);
    assert!(answer(&world, |claims| new.signs(&claims)).await.is_ok());
    assert_eq!(world.operator.asked(KEYS).len(), 3);
}

#[tokio::test]
async fn keys_of_no_use_to_us_are_passed_over() {
    let key = Key::new(Algorithm::Es256, "right");
    let changed = |name: &str, value: Value| with(key.jwk(), name, value);
    let without_name = {
        let mut jwk = key.jwk();
        jwk.as_object_mut().unwrap().retain(|name, _| !["kid", "alg", "use"].contains(&name.as_str()));
        jwk
    };
    let strange = [json!(1), json!({}), json!({ "kty": "oct", "k": "AA" }), json!({ "kty": "EC", "crv": "P-521" })];
    for (jwk, is_enough) in [
        (key.jwk(), true),
        // The token names its key, and a key without a name is not that one.
        (without_name, false),
        (changed("use", json!("enc")), false),
        (changed("alg", json!("ES384")), false),
        (changed("kid", json!("other")), false),
        (changed("x", json!("AA")), false),
        (changed("x", json!("not base64!")), false),
    ] {
        let world = World::start().await;
        let keys: Vec<_> = strange.iter().cloned().chain([jwk.clone()]).collect();
        world.operator.says(KEYS, Saying::Json(200, json!({ "keys": keys })));
        let reply = answer(&world, |claims| key.signs(&claims)).await;
        assert_eq!(reply.is_ok(), is_enough, "{jwk}");
    }
}

#[tokio::test]
async fn no_keys_no_answer() {
    let key = Key::new(Algorithm::Es256, "right");
    for (saying, code) in [
        (Saying::Json(500, json!({})), ErrorCode::MnoServerError),
        (Saying::Json(503, json!({})), ErrorCode::MnoTimeout),
        (Saying::Plain(200, "", b"{}".to_vec()), ErrorCode::MnoResponseError),
    ] {
        let world = World::start().await;
        world.operator.says(KEYS, saying);
        assert_eq!(answer(&world, |claims| key.signs(&claims)).await, Err(code));
    }
}

#[tokio::test]
async fn something_must_tell_that_the_code_is_the_devices() {
    // Neither is refused before anybody is sent.
    for (openid, pkce, is_enough) in [(true, true, true), (true, false, false), (false, true, true)] {
        let world = World::with(|config, _| (config.scopes.openid, config.pkce) = (openid, pkce)).await;
        assert_eq!(world.verify().await.is_ok(), is_enough, "openid: {openid}, PKCE: {pkce}");
    }
}
