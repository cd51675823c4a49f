use base64::prelude::{BASE64_STANDARD, Engine as _};
use jsonwebtoken::Algorithm;
use ringtrue_sandbox::camara::{Client, Endpoint, OperatorConfig};
use serde_json::{Value, json};

use crate::{CLIENT, SECRET, SIM_SWAP, World, basic, signer::Signer, wire::Reply};

const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

impl World {
    async fn ask(&self, headers: &[(&str, &str)], more: &[(&str, &str)]) -> Reply {
        let parameters = [&[("grant_type", "client_credentials"), ("scope", SIM_SWAP)], more].concat();
        self.post_with(Endpoint::Token, headers, &parameters).await
    }

    async fn ask_signed(&self, assertion: &str) -> Reply {
        self.ask(&[], &[("client_assertion_type", ASSERTION_TYPE), ("client_assertion", assertion)]).await
    }

    fn proof(&self, more: &Value) -> Value {
        let mut claims = json!({ "sub": CLIENT });
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.claims(Endpoint::Token, &claims)
    }
}

#[tokio::test]
async fn by_secret() {
    let world = World::start().await;
    let header = basic(CLIENT, SECRET);
    assert_eq!(world.ask(&[("authorization", &header)], &[]).await.status, 200);
    assert_eq!(world.ask(&[("authorization", &header)], &[("client_id", CLIENT)]).await.status, 200);
    assert_eq!(world.ask(&[], &[("client_id", CLIENT), ("client_secret", SECRET)]).await.status, 200);
}

#[tokio::test]
async fn by_signature_of_every_kind() {
    for (name, signer) in [
        ("ES256", Signer::es256()),
        ("RS256", Signer::rsa(Algorithm::RS256)),
        ("PS256", Signer::rsa(Algorithm::PS256)),
        ("EdDSA", Signer::eddsa()),
    ] {
        let decoy = Signer::es256();
        let keys = json!({ "keys": [decoy.jwk, signer.jwk, { "kty": "RSA", "use": "enc" }] });
        let client = Client::new("signing").with_keys(&keys).unwrap();
        let world = World::with(OperatorConfig { clients: vec![client], ..OperatorConfig::default() }).await;
        let claims = json!({ "iss": "signing", "sub": "signing" });
        let reply = world.ask_signed(&signer.sign(&world.proof(&claims))).await;
        assert_eq!(reply.status, 200, "{name}: {reply:?}");
        let reply = world.ask_signed(&world.signer.sign(&world.proof(&claims))).await;
        assert_eq!(reply.error(), (401, "invalid_client".into()), "{name}");
    }
}

#[tokio::test]
async fn a_proof_is_for_the_endpoint_or_the_issuer() {
    let world = World::start().await;
    for audience in [
        json!(world.operator.issuer()),
        json!(world.operator.url(Endpoint::Token)),
        json!(["https://elsewhere.example", world.operator.issuer()]),
    ] {
        let reply = world.ask_signed(&world.signer.sign(&world.proof(&json!({ "aud": audience })))).await;
        assert_eq!(reply.status, 200, "{audience}");
    }
}

#[tokio::test]
async fn a_flawed_proof_is_none() {
    let world = World::start().await;
    let now = world.now();
    for flaw in [
        json!({ "iss": "nobody" }),
        json!({ "iss": null }),
        json!({ "sub": "nobody" }),
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
        let reply = world.ask_signed(&world.signer.sign(&world.proof(&flaw))).await;
        assert_eq!(reply.error(), (401, "invalid_client".into()), "{flaw}");
    }
}

#[tokio::test]
async fn a_proof_is_good_once() {
    let world = World::start().await;
    let proof = world.signer.sign(&world.proof(&json!({})));
    assert_eq!(world.ask_signed(&proof).await.status, 200);
    assert_eq!(world.ask_signed(&proof).await.error(), (401, "invalid_client".into()));
    world.advance(299);
    assert_eq!(world.ask_signed(&proof).await.error(), (401, "invalid_client".into()));
}

#[tokio::test]
async fn who_does_not_authenticate_gets_nothing() {
    let world = World::start().await;
    let wrong = basic(CLIENT, "wrong");
    let nobody = basic("nobody", SECRET);
    let unreadable = format!("Basic {}", BASE64_STANDARD.encode("no colon"));
    let signed_by_another = Signer::es256().sign(&world.proof(&json!({})));
    for (headers, more) in [
        (vec![], vec![]),
        (vec![], vec![("client_id", CLIENT)]),
        (vec![("authorization", &*wrong)], vec![]),
        (vec![("authorization", &*nobody)], vec![]),
        (vec![("authorization", &*unreadable)], vec![]),
        (vec![("authorization", "Basic !")], vec![]),
        (vec![], vec![("client_id", CLIENT), ("client_secret", "wrong")]),
        (vec![], vec![("client_secret", SECRET)]),
        (vec![], vec![("client_assertion", &*signed_by_another), ("client_assertion_type", ASSERTION_TYPE)]),
        (vec![], vec![("client_assertion", "nonsense"), ("client_assertion_type", ASSERTION_TYPE)]),
        (vec![], vec![("client_assertion", &*signed_by_another)]),
    ] {
        let reply = world.ask(&headers, &more).await;
        assert_eq!(reply.error(), (401, "invalid_client".into()), "{headers:?} {more:?}");
        assert!(reply.header("www-authenticate").is_some());
    }
}

#[tokio::test]
async fn a_client_authenticates_in_one_way_and_as_itself() {
    let world = World::start().await;
    let header = basic(CLIENT, SECRET);
    let twice = world.ask(&[("authorization", &header)], &[("client_secret", SECRET)]).await;
    assert_eq!(twice.error(), (400, "invalid_request".into()));
    let as_another = world.ask(&[("authorization", &header)], &[("client_id", "nobody")]).await;
    assert_eq!(as_another.error(), (401, "invalid_client".into()));
}

#[tokio::test]
async fn keys_that_are_none_are_refused_beforehand() {
    for jwk in [
        json!({}),
        json!({ "keys": {} }),
        json!({ "kty": "EC", "crv": "P-384", "x": "AA", "y": "AA" }),
        json!({ "kty": "EC", "crv": "P-256", "x": "AA", "y": "AA" }),
        json!({ "kty": "RSA", "n": "AA" }),
        json!({ "kty": "oct", "k": "AA" }),
    ] {
        assert!(Client::new("client").with_keys(&jwk).is_err(), "{jwk}");
    }
}
