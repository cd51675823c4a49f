//! An orderly end: what is under way is finished, nothing new is begun.

use serde_json::json;
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    time::{sleep, timeout},
};

use crate::{
    client::{PATIENCE, Request, parse, to_the_end},
    on_both_stores,
    world::{World, held},
};

/// A create whose body is still on its way when the node is told to stop: it is done, and answered.
async fn a_request_under_way_is_finished(world: World) {
    let (node, shutdown) = world.mortal_node().await;
    let token = world.manager().await;
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
    // The head has been read once the node has answered somebody who came later.
    world_has_served(address).await;

    shutdown.cancel();
    let ended = tokio::join!(
        async {
            // Gives the node every chance to end too early.
            sleep(std::time::Duration::from_millis(50)).await;
            stream.write_all(&body.as_bytes()[5..]).await.unwrap();
            to_the_end(&mut stream).await
        },
        timeout(PATIENCE, node.finished()),
    );
    ended.1.expect("the node ends");
    let answer = held(&request, parse(&ended.0, false)).assert(201);
    assert_eq!(answer.json()["name"], "Last minute");
    let projects = world.manage(Request::get(&format!("{}/projects", world.acme.path()))).await.assert(200).json();
    assert_eq!(projects["page"]["total_elements"], 1, "what was answered is there");
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
}

/// Who waits on an open connection is not kept waiting.
#[tokio::test]
async fn idle_connections_do_not_hold_it_up() {
    let world = World::sqlite().await;
    let (node, shutdown) = world.mortal_node().await;
    let mut idle = TcpStream::connect(node.address).await.unwrap();
    let request = Request::get("/livez").header("Connection", "keep-alive").bytes(node.address);
    idle.write_all(&request).await.unwrap();
    world_has_served(node.address).await;
    shutdown.cancel();
    timeout(PATIENCE, node.finished()).await.expect("the node ends");
    assert!(to_the_end(&mut idle).await.starts_with(b"HTTP/1.1 200"));
}

/// Nor does a peer that never finishes its request, or never begins one.
#[tokio::test]
async fn half_a_request_does_not_hold_it_up() {
    let world = World::sqlite().await;
    let (node, shutdown) = world.mortal_node().await;
    let silent = TcpStream::connect(node.address).await.unwrap();
    let mut half = TcpStream::connect(node.address).await.unwrap();
    half.write_all(b"GET /livez HTTP/1.1\r\nHost: ").await.unwrap();
    world_has_served(node.address).await;
    shutdown.cancel();
    timeout(PATIENCE, node.finished()).await.expect("the node ends");
    drop((silent, half));
}

/// A probe that is heard while the node stops says that it is not ready, so that nobody is sent there any more.
#[tokio::test]
async fn a_node_that_stops_is_not_ready() {
    let world = World::sqlite().await;
    let (node, shutdown) = world.mortal_node().await;
    let request = Request::get("/readyz");
    let bytes = request.bytes(node.address);
    let mut probe = TcpStream::connect(node.address).await.unwrap();
    probe.write_all(&bytes[..20]).await.unwrap();
    world_has_served(node.address).await;
    shutdown.cancel();
    probe.write_all(&bytes[20..]).await.unwrap();
    let answer = held(&request, parse(&to_the_end(&mut probe).await, false)).assert_problem(503, "service_unavailable");
    assert!(answer.header("retry-after").is_some());
    timeout(PATIENCE, node.finished()).await.expect("the node ends");
}

on_both_stores!(a_request_under_way_is_finished);

/// Something has been served by this node since.
async fn world_has_served(address: std::net::SocketAddr) {
    crate::client::send(address, &Request::get("/livez")).await.assert(200);
}
