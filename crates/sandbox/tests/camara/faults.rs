use std::time::Duration;

use http::StatusCode;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, jwk::Jwk};
use ringtrue_sandbox::camara::{Endpoint, Fault};
use serde_json::Value;

use crate::{Bearer, CORRELATOR, EVEN, SIM_SWAP, VERIFY, World, asking, wire};

const DISCOVERY: &str = "/.well-known/openid-configuration";

impl World {
    /// The claims of an ID token, if its signature is good.
    async fn claims_of(&self, token: &str) -> Option<Value> {
        let keys = self.get("/jwks").await.json();
        let key: Jwk = serde_json::from_value(keys["keys"][0].clone()).unwrap();
        let mut validation = Validation::new(Algorithm::ES256);
        validation.validate_exp = false;
        validation.validate_aud = false;
        decode(token, &DecodingKey::from_jwk(&key).unwrap(), &validation).ok().map(|token| token.claims)
    }
}

#[tokio::test]
async fn a_fault_comes_as_often_as_it_is_to() {
    let world = World::start().await;
    world.operator.befall_next(2, Endpoint::Discovery, Fault::new().status(StatusCode::SERVICE_UNAVAILABLE));
    for expected in [503, 503, 200, 200] {
        assert_eq!(world.get(DISCOVERY).await.status, expected);
    }
    world.operator.befall(Endpoint::Discovery, Fault::new().status(StatusCode::INTERNAL_SERVER_ERROR));
    for _ in 0..5 {
        assert_eq!(world.get(DISCOVERY).await.status, 500);
        assert_eq!(world.get("/jwks").await.status, 200);
    }
    world.operator.recover();
    assert_eq!(world.get(DISCOVERY).await.status, 200);
}

#[tokio::test]
async fn a_status_comes_with_the_error_that_goes_with_it() {
    let world = World::start().await;
    for (endpoint, status, code) in [
        (Endpoint::Token, 400, "invalid_request"),
        (Endpoint::Token, 401, "invalid_client"),
        (Endpoint::Token, 500, "server_error"),
        (Endpoint::Token, 503, "temporarily_unavailable"),
        (Endpoint::CheckSimSwap, 400, "INVALID_ARGUMENT"),
        (Endpoint::CheckSimSwap, 429, "TOO_MANY_REQUESTS"),
        (Endpoint::CheckSimSwap, 500, "INTERNAL"),
        (Endpoint::CheckSimSwap, 502, "BAD_GATEWAY"),
        (Endpoint::CheckSimSwap, 503, "UNAVAILABLE"),
        (Endpoint::CheckSimSwap, 504, "TIMEOUT"),
    ] {
        let fault = Fault::new().status(StatusCode::from_u16(status).unwrap()).retry_after(7);
        world.operator.befall(endpoint, fault);
        let reply = world.call_by(endpoint, None, "{}").await;
        assert_eq!(reply.error(), (status, code.to_owned()));
        assert_eq!(reply.header("retry-after"), Some("7"));
    }
}

#[tokio::test]
async fn a_failed_call_does_not_use_a_token_up_and_a_lost_answer_does() {
    let world = World::start().await;
    let body = format!(r#"{{"phoneNumber":"{EVEN}"}}"#);
    let token = world.bearer(Bearer::Network(EVEN, VERIFY)).await.unwrap();
    let authorization = format!("Bearer {token}");
    let headers = [("authorization", &*authorization), ("content-type", "application/json")];
    let path = Endpoint::VerifyNumber.path();
    let ask = || wire::exchange(world.operator.address(), "POST", path, &headers, &body);

    world.operator.befall_next(1, Endpoint::VerifyNumber, Fault::new().status(StatusCode::BAD_GATEWAY));
    assert_eq!(ask().await.unwrap().status, 502);
    world.operator.befall_next(1, Endpoint::VerifyNumber, Fault::new().dropped());
    assert!(ask().await.is_err());
    world.operator.befall_next(1, Endpoint::VerifyNumber, Fault::new().lost());
    assert!(ask().await.is_err());
    assert_eq!(ask().await.unwrap().error(), (401, "UNAUTHENTICATED".into()));
}

#[tokio::test]
async fn a_garbled_body_is_no_json_and_a_padded_one_is_long() {
    let world = World::start().await;
    let right = world.get(DISCOVERY).await;
    world.operator.befall_next(1, Endpoint::Discovery, Fault::new().garbled());
    let garbled = world.get(DISCOVERY).await;
    assert_eq!((garbled.status, garbled.header("content-type")), (200, Some("application/json")));
    assert_eq!(garbled.body.len(), right.body.len());
    assert!(serde_json::from_slice::<Value>(&garbled.body).is_err());

    world.operator.befall_next(1, Endpoint::Discovery, Fault::new().padded_to(5_000_000));
    let padded = world.get(DISCOVERY).await;
    assert_eq!(padded.body.len(), 5_000_000);
    assert_eq!(padded.json(), right.json());
}

#[tokio::test]
async fn a_late_answer_is_late() {
    let world = World::start().await;
    world.operator.befall_next(1, Endpoint::Jwks, Fault::new().late(Duration::from_hours(1)));
    let late = tokio::select! {
        _ = world.get("/jwks") => false,
        () = world.operator.wait_for_requests(Endpoint::Jwks, 1) => true,
    };
    assert!(late);
    assert_eq!(world.get("/jwks").await.status, 200);
    assert_eq!(world.operator.requests(Endpoint::Jwks), 2);
}

#[tokio::test]
async fn a_wrong_issuer_is_named_wherever_one_is() {
    let world = World::start().await;
    let wrong = || Fault::new().wrong_issuer();
    for endpoint in [Endpoint::Discovery, Endpoint::Authorize, Endpoint::Token] {
        world.operator.befall(endpoint, wrong());
    }
    let someone_else = "https://someone-else.invalid";
    assert_eq!(world.get(DISCOVERY).await.json()["issuer"], someone_else);
    let back = world.sent_back(&asking(EVEN, VERIFY)).await;
    assert_eq!(back["iss"], someone_else);
    let issued = world.redeem(&back["code"]).await.json();
    assert_eq!(world.claims_of(issued["id_token"].as_str().unwrap()).await.unwrap()["iss"], someone_else);
}

#[tokio::test]
async fn id_tokens_can_be_wrong() {
    let world = World::start().await;
    world.operator.befall_next(1, Endpoint::Token, Fault::new().wrong_nonce());
    let issued = world.redeem(&world.code(EVEN, VERIFY).await).await.json();
    let claims = world.claims_of(issued["id_token"].as_str().unwrap()).await.unwrap();
    assert_ne!(claims["nonce"], "the nonce");
    world.operator.befall_next(1, Endpoint::Token, Fault::new().badly_signed());
    let issued = world.redeem(&world.code(EVEN, VERIFY).await).await.json();
    assert!(world.claims_of(issued["id_token"].as_str().unwrap()).await.is_none());
}

#[tokio::test]
async fn what_was_asked_can_be_looked_up() {
    let world = World::start().await;
    world.call(Endpoint::CheckSimSwap, Bearer::Network(EVEN, SIM_SWAP), "{}").await;
    world.operator.befall_next(1, Endpoint::Jwks, Fault::new().dropped());
    assert!(wire::exchange(world.operator.address(), "GET", "/jwks", &[], "").await.is_err());
    let seen: Vec<_> = world.operator.exchanges().into_iter().map(|one| (one.endpoint, one.status)).collect();
    assert_eq!(
        seen,
        [
            (Endpoint::Authorize, Some(StatusCode::FOUND)),
            (Endpoint::Token, Some(StatusCode::OK)),
            (Endpoint::CheckSimSwap, Some(StatusCode::OK)),
            (Endpoint::Jwks, None),
        ]
    );
    assert_eq!(world.operator.exchanges()[2].correlator.as_deref(), Some(CORRELATOR));
    assert_eq!(world.operator.requests(Endpoint::CheckSimSwap), 1);
}
