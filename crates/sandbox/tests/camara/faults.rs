use std::time::Duration;

use http::StatusCode;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, jwk::Jwk};
use ringtrue_sandbox::camara::{Endpoint, EndpointFault, OperatorConfig};
use serde_json::{Value, json};
use tokio::{io::AsyncReadExt, net::TcpStream};

use crate::{Bearer, CORRELATOR, EVEN, Fixture, SIM_SWAP, VERIFY, authorization_parameters, client};

const DISCOVERY: &str = "/.well-known/openid-configuration";

impl Fixture {
    /// Returns the claims of an ID token, if its signature is valid.
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
async fn fault_applies_to_the_given_number_of_responses() {
    let fixture = Fixture::start().await;
    fixture.operator.set_fault_for_next(
        2,
        Endpoint::Discovery,
        EndpointFault::new().status(StatusCode::SERVICE_UNAVAILABLE),
    );
    for expected in [503, 503, 200, 200] {
        assert_eq!(fixture.get(DISCOVERY).await.status, expected);
    }
    fixture.operator.set_fault(Endpoint::Discovery, EndpointFault::new().status(StatusCode::INTERNAL_SERVER_ERROR));
    for _ in 0..5 {
        assert_eq!(fixture.get(DISCOVERY).await.status, 500);
        assert_eq!(fixture.get("/jwks").await.status, 200);
    }
    fixture.operator.clear_faults();
    assert_eq!(fixture.get(DISCOVERY).await.status, 200);
}

#[tokio::test]
async fn status_fault_has_a_matching_error() {
    let fixture = Fixture::start().await;
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
        let fault = EndpointFault::new().status(StatusCode::from_u16(status).unwrap()).retry_after(7);
        fixture.operator.set_fault(endpoint, fault);
        let response = fixture.call_with_token(endpoint, None, "{}").await;
        assert_eq!(response.error(), (status, code.to_owned()));
        assert_eq!(response.header("retry-after"), Some("7"));
    }
}

#[tokio::test]
async fn only_processed_requests_consume_the_token() {
    let fixture = Fixture::start().await;
    let body = format!(r#"{{"phoneNumber":"{EVEN}"}}"#);
    let token = fixture.access_token(Bearer::Network(EVEN, VERIFY)).await.unwrap();
    let authorization = format!("Bearer {token}");
    let headers = [("authorization", &*authorization), ("content-type", "application/json")];
    let path = Endpoint::VerifyNumber.path();
    let verify = || client::send_request(fixture.operator.address(), "POST", path, &headers, &body);

    fixture.operator.set_fault_for_next(
        1,
        Endpoint::VerifyNumber,
        EndpointFault::new().status(StatusCode::BAD_GATEWAY),
    );
    assert_eq!(verify().await.unwrap().status, 502);
    fixture.operator.set_fault_for_next(1, Endpoint::VerifyNumber, EndpointFault::new().connection_dropped());
    assert!(verify().await.is_err());
    fixture.operator.set_fault_for_next(1, Endpoint::VerifyNumber, EndpointFault::new().response_lost());
    assert!(verify().await.is_err());
    assert_eq!(verify().await.unwrap().error(), (401, "UNAUTHENTICATED".into()));
}

#[tokio::test]
async fn body_faults_change_the_body() {
    let fixture = Fixture::start().await;
    let regular = fixture.get(DISCOVERY).await;
    fixture.operator.set_fault_for_next(1, Endpoint::Discovery, EndpointFault::new().garbled());
    let garbled = fixture.get(DISCOVERY).await;
    assert_eq!((garbled.status, garbled.header("content-type")), (200, Some("application/json")));
    assert_eq!(garbled.body.len(), regular.body.len());
    assert!(serde_json::from_slice::<Value>(&garbled.body).is_err());

    fixture.operator.set_fault_for_next(1, Endpoint::Discovery, EndpointFault::new().padded_to(5_000_000));
    let padded = fixture.get(DISCOVERY).await;
    assert_eq!(padded.body.len(), 5_000_000);
    assert_eq!(padded.json(), regular.json());
}

#[tokio::test]
async fn delayed_response_waits() {
    let fixture = Fixture::start().await;
    fixture.operator.set_fault_for_next(1, Endpoint::Jwks, EndpointFault::new().delayed_by(Duration::from_hours(1)));
    let is_waiting = tokio::select! {
        _ = fixture.get("/jwks") => false,
        () = fixture.operator.wait_for_requests(Endpoint::Jwks, 1) => true,
    };
    assert!(is_waiting);
    assert_eq!(fixture.get("/jwks").await.status, 200);
    assert_eq!(fixture.operator.request_count(Endpoint::Jwks), 2);
}

#[tokio::test]
async fn wrong_issuer_appears_in_all_responses() {
    let fixture = Fixture::start().await;
    let fault = || EndpointFault::new().wrong_issuer();
    for endpoint in [Endpoint::Discovery, Endpoint::Authorize, Endpoint::Token] {
        fixture.operator.set_fault(endpoint, fault());
    }
    let wrong_issuer = "https://someone-else.invalid";
    assert_eq!(fixture.get(DISCOVERY).await.json()["issuer"], wrong_issuer);
    let redirect = fixture.redirect_parameters(&authorization_parameters(EVEN, VERIFY)).await;
    assert_eq!(redirect["iss"], wrong_issuer);
    let issued = fixture.redeem(&redirect["code"]).await.json();
    assert_eq!(fixture.claims_of(issued["id_token"].as_str().unwrap()).await.unwrap()["iss"], wrong_issuer);
}

#[tokio::test]
async fn id_token_faults_apply() {
    let fixture = Fixture::start().await;
    fixture.operator.set_fault_for_next(1, Endpoint::Token, EndpointFault::new().wrong_nonce());
    let issued = fixture.redeem(&fixture.code(EVEN, VERIFY).await).await.json();
    let claims = fixture.claims_of(issued["id_token"].as_str().unwrap()).await.unwrap();
    assert_ne!(claims["nonce"], "the nonce");
    fixture.operator.set_fault_for_next(1, Endpoint::Token, EndpointFault::new().invalid_signature());
    let issued = fixture.redeem(&fixture.code(EVEN, VERIFY).await).await.json();
    assert!(fixture.claims_of(issued["id_token"].as_str().unwrap()).await.is_none());
}

#[tokio::test]
async fn requests_are_recorded() {
    let fixture = Fixture::start().await;
    fixture.call(Endpoint::CheckSimSwap, Bearer::Network(EVEN, SIM_SWAP), "{}").await;
    fixture.operator.set_fault_for_next(1, Endpoint::Jwks, EndpointFault::new().connection_dropped());
    assert!(client::send_request(fixture.operator.address(), "GET", "/jwks", &[], "").await.is_err());
    let recorded: Vec<_> =
        fixture.operator.recorded_requests().into_iter().map(|one| (one.endpoint, one.status)).collect();
    assert_eq!(
        recorded,
        [
            (Endpoint::Authorize, Some(StatusCode::FOUND)),
            (Endpoint::Token, Some(StatusCode::OK)),
            (Endpoint::CheckSimSwap, Some(StatusCode::OK)),
            (Endpoint::Jwks, None),
        ]
    );
    assert_eq!(fixture.operator.recorded_requests()[2].correlator.as_deref(), Some(CORRELATOR));
    assert_eq!(fixture.operator.request_count(Endpoint::CheckSimSwap), 1);
}

/// A full store does not evict unused codes and tokens, because it does not contain them.
#[tokio::test]
async fn codes_and_tokens_are_not_evicted() {
    let fixture = Fixture::with_config(OperatorConfig { max_records: 2, ..OperatorConfig::default() }).await;
    let mut codes = vec![];
    for _ in 0..5 {
        codes.push(fixture.code(EVEN, VERIFY).await);
        fixture.advance(1);
    }
    assert_eq!(fixture.redeem(&codes[0]).await.status, 200);
    let mut tokens = vec![];
    for _ in 0..5 {
        tokens.push(fixture.access_token(Bearer::Network(EVEN, SIM_SWAP)).await.unwrap());
    }
    for token in tokens {
        assert_eq!(fixture.call_with_token(Endpoint::CheckSimSwap, Some(&token), "{}").await.status, 200);
    }
    assert_eq!(fixture.operator.recorded_requests().len(), 2);
}

#[tokio::test]
async fn operators_with_the_same_key_share_codes_and_tokens() {
    let config = || OperatorConfig { seal_key: Some([7; 32]), ..OperatorConfig::default() };
    let [one, two] = [Fixture::with_config(config()).await, Fixture::with_config(config()).await];
    let other_key = Fixture::start().await;
    let code = one.code(EVEN, VERIFY).await;
    assert_eq!(other_key.redeem(&code).await.error(), (400, "invalid_grant".into()));
    assert_eq!(two.redeem(&code).await.status, 200);
    assert_eq!(two.redeem(&code).await.error(), (400, "invalid_grant".into()), "single use");
    let token = one.access_token(Bearer::Network(EVEN, SIM_SWAP)).await.unwrap();
    assert_eq!(other_key.call_with_token(Endpoint::CheckSimSwap, Some(&token), "{}").await.status, 401);
    assert_eq!(two.call_with_token(Endpoint::CheckSimSwap, Some(&token), "{}").await.status, 200);
    let claims = json!({ "sub": one.operator_token_hint(EVEN), "scope": SIM_SWAP });
    assert_eq!(other_key.jwt_bearer(&claims).await.error(), (400, "invalid_grant".into()));
    assert_eq!(two.jwt_bearer(&claims).await.status, 200);
}

#[tokio::test]
async fn oversized_body_is_rejected() {
    let fixture = Fixture::start().await;
    let headers = [("content-type", "application/x-www-form-urlencoded")];
    let body = "x".repeat(64 * 1024 + 1);
    let response = client::send_request(fixture.operator.address(), "POST", "/token", &headers, &body).await.unwrap();
    assert_eq!(response.status, 413);
}

#[tokio::test]
async fn connections_above_the_limit_are_closed() {
    let fixture = Fixture::with_config(OperatorConfig { max_connections: 1, ..OperatorConfig::default() }).await;
    let mut first = TcpStream::connect(fixture.operator.address()).await.unwrap();
    let mut second = TcpStream::connect(fixture.operator.address()).await.unwrap();
    assert_eq!(second.read(&mut [0; 16]).await.unwrap_or(0), 0);
    fixture.operator.shutdown().await;
    assert_eq!(first.read(&mut [0; 16]).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn shutdown_closes_connections_and_the_listener() {
    let fixture = Fixture::start().await;
    fixture.operator.set_fault(Endpoint::Jwks, EndpointFault::new().delayed_by(Duration::from_hours(1)));
    let waiting = client::send_request(fixture.operator.address(), "GET", "/jwks", &[], "");
    let stopping = async {
        fixture.operator.wait_for_requests(Endpoint::Jwks, 1).await;
        fixture.operator.shutdown().await;
    };
    let (result, ()) = tokio::join!(waiting, stopping);
    assert!(result.is_err());
    assert!(TcpStream::connect(fixture.operator.address()).await.is_err());
    // A second shutdown has no effect.
    fixture.operator.shutdown().await;
}
