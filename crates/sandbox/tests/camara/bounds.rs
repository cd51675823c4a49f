use std::time::Duration;

use ringtrue_sandbox::camara::{Endpoint, Fault, OperatorConfig};
use tokio::{io::AsyncReadExt, net::TcpStream};

use crate::{Bearer, EVEN, SIM_SWAP, VERIFY, World, wire};

/// Nobody can push a code or a token out by asking for many others.
#[tokio::test]
async fn codes_and_tokens_are_good_however_many_there_are() {
    let world = World::with(OperatorConfig { remembered: 2, ..OperatorConfig::default() }).await;
    let mut codes = vec![];
    for _ in 0..5 {
        codes.push(world.code(EVEN, VERIFY).await);
        world.advance(1);
    }
    assert_eq!(world.redeem(&codes[0]).await.status, 200);
    let mut tokens = vec![];
    for _ in 0..5 {
        tokens.push(world.bearer(Bearer::Network(EVEN, SIM_SWAP)).await.unwrap());
    }
    for token in tokens {
        assert_eq!(world.call_by(Endpoint::CheckSimSwap, Some(&token), "{}").await.status, 200);
    }
    assert_eq!(world.operator.exchanges().len(), 2);
}

#[tokio::test]
async fn operators_with_one_key_take_each_others_codes_and_tokens() {
    let config = || OperatorConfig { seal_key: Some([7; 32]), ..OperatorConfig::default() };
    let [one, two] = [World::with(config()).await, World::with(config()).await];
    let stranger = World::start().await;
    let code = one.code(EVEN, VERIFY).await;
    assert_eq!(stranger.redeem(&code).await.error(), (400, "invalid_grant".into()));
    assert_eq!(two.redeem(&code).await.status, 200);
    assert_eq!(two.redeem(&code).await.error(), (400, "invalid_grant".into()), "once");
    let token = one.bearer(Bearer::Network(EVEN, SIM_SWAP)).await.unwrap();
    assert_eq!(stranger.call_by(Endpoint::CheckSimSwap, Some(&token), "{}").await.status, 401);
    assert_eq!(two.call_by(Endpoint::CheckSimSwap, Some(&token), "{}").await.status, 200);
}

#[tokio::test]
async fn a_body_has_its_limit() {
    let world = World::start().await;
    let headers = [("content-type", "application/x-www-form-urlencoded")];
    let body = "x".repeat(64 * 1024 + 1);
    let reply = wire::exchange(world.operator.address(), "POST", "/token", &headers, &body).await.unwrap();
    assert_eq!(reply.status, 413);
}

#[tokio::test]
async fn a_connection_too_many_is_closed() {
    let world = World::with(OperatorConfig { connections: 1, ..OperatorConfig::default() }).await;
    let mut first = TcpStream::connect(world.operator.address()).await.unwrap();
    let mut second = TcpStream::connect(world.operator.address()).await.unwrap();
    assert_eq!(second.read(&mut [0; 16]).await.unwrap_or(0), 0);
    world.operator.shutdown().await;
    assert_eq!(first.read(&mut [0; 16]).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn an_operator_that_stops_leaves_nothing_behind() {
    let world = World::start().await;
    world.operator.befall(Endpoint::Jwks, Fault::new().late(Duration::from_hours(1)));
    let waiting = wire::exchange(world.operator.address(), "GET", "/jwks", &[], "");
    let stopping = async {
        world.operator.wait_for_requests(Endpoint::Jwks, 1).await;
        world.operator.shutdown().await;
    };
    let (answer, ()) = tokio::join!(waiting, stopping);
    assert!(answer.is_err());
    assert!(TcpStream::connect(world.operator.address()).await.is_err());
    // Once more does no harm.
    world.operator.shutdown().await;
}
