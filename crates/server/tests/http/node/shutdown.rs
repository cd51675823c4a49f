//! Graceful shutdown: requests in progress finish, and no new ones are accepted.

use ringtrue_test_support::WAIT_LIMIT;
use serde_json::json;
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    time::{sleep, timeout},
};

use crate::{
    client::{Request, parse, read_until_closed},
    on_both_stores,
    world::{World, assert_contract},
};

/// A create whose body arrives during shutdown is processed.
async fn request_in_progress_finishes_before_shutdown(world: World) {
    let (node, shutdown) = world.stoppable_node().await;
    let token = world.management_token().await;
    let body = json!({"name": "Last minute"}).to_string();
    let request = Request::post(&format!("{}/projects", world.acme.path()))
        .bearer(&token)
        .header("Content-Type", "application/json")
        .header("Content-Length", body.len().to_string())
        .header("Connection", "keep-alive");
    let mut stream = TcpStream::connect(node.address).await.unwrap();
    stream.write_all(&request.bytes(node.address)).await.unwrap();
    stream.write_all(&body.as_bytes()[..5]).await.unwrap();
    let address = node.address;
    // Once the node has served a request on a later connection, it has also read this head.
    wait_for_next_request(address).await;

    shutdown.cancel();
    let ended = tokio::join!(
        async {
            // A node that does not wait for the body would stop now.
            sleep(std::time::Duration::from_millis(50)).await;
            stream.write_all(&body.as_bytes()[5..]).await.unwrap();
            read_until_closed(&mut stream).await
        },
        timeout(WAIT_LIMIT, node.wait_until_stopped()),
    );
    ended.1.expect("the node stops");
    let response = assert_contract(&request, parse(&ended.0, false)).assert(201);
    assert_eq!(response.json()["name"], "Last minute");
    let projects = world.manage(Request::get(&format!("{}/projects", world.acme.path()))).await.assert(200).json();
    assert_eq!(projects["page"]["total_elements"], 1, "the acknowledged project exists");
    assert!(TcpStream::connect(address).await.is_err(), "the listener is closed");
}

#[tokio::test]
async fn idle_connections_do_not_delay_shutdown() {
    let world = World::sqlite().await;
    let (node, shutdown) = world.stoppable_node().await;
    let mut idle = TcpStream::connect(node.address).await.unwrap();
    let request = Request::get("/livez").header("Connection", "keep-alive").bytes(node.address);
    idle.write_all(&request).await.unwrap();
    wait_for_next_request(node.address).await;
    shutdown.cancel();
    timeout(WAIT_LIMIT, node.wait_until_stopped()).await.expect("the node stops");
    assert!(read_until_closed(&mut idle).await.starts_with(b"HTTP/1.1 200"));
}

/// Like idle connections, incomplete requests and silent connections do not delay the shutdown.
#[tokio::test]
async fn incomplete_request_does_not_delay_shutdown() {
    let world = World::sqlite().await;
    let (node, shutdown) = world.stoppable_node().await;
    let silent = TcpStream::connect(node.address).await.unwrap();
    let mut half = TcpStream::connect(node.address).await.unwrap();
    half.write_all(b"GET /livez HTTP/1.1\r\nHost: ").await.unwrap();
    wait_for_next_request(node.address).await;
    shutdown.cancel();
    timeout(WAIT_LIMIT, node.wait_until_stopped()).await.expect("the node stops");
    drop((silent, half));
}

/// Load balancers stop sending requests to a node that is not ready.
#[tokio::test]
async fn stopping_node_is_not_ready() {
    let world = World::sqlite().await;
    let (node, shutdown) = world.stoppable_node().await;
    let request = Request::get("/readyz");
    let bytes = request.bytes(node.address);
    let mut probe = TcpStream::connect(node.address).await.unwrap();
    probe.write_all(&bytes[..20]).await.unwrap();
    wait_for_next_request(node.address).await;
    shutdown.cancel();
    probe.write_all(&bytes[20..]).await.unwrap();
    let response = assert_contract(&request, parse(&read_until_closed(&mut probe).await, false))
        .assert_problem(503, "service_unavailable");
    assert!(response.header("retry-after").is_some());
    timeout(WAIT_LIMIT, node.wait_until_stopped()).await.expect("the node stops");
}

on_both_stores!(request_in_progress_finishes_before_shutdown);

/// Waits until the node has served another request.
async fn wait_for_next_request(address: std::net::SocketAddr) {
    crate::client::send(address, &Request::get("/livez")).await.assert(200);
}
