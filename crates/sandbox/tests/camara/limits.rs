use std::time::Duration;

use ringtrue_sandbox::camara::{Endpoint, EndpointFault, OperatorConfig};
use tokio::{io::AsyncReadExt, net::TcpStream};

use crate::{Bearer, EVEN, Fixture, SIM_SWAP, VERIFY, http_client};

/// Codes and tokens are not evicted by others.
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
}

#[tokio::test]
async fn oversized_body_is_rejected() {
    let fixture = Fixture::start().await;
    let headers = [("content-type", "application/x-www-form-urlencoded")];
    let body = "x".repeat(64 * 1024 + 1);
    let response =
        http_client::send_request(fixture.operator.address(), "POST", "/token", &headers, &body).await.unwrap();
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
    let waiting = http_client::send_request(fixture.operator.address(), "GET", "/jwks", &[], "");
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
