//! Slow and hostile clients are disconnected without affecting others.
//!
//! The tests assert no durations, only that the server closes connections and serves others meanwhile.

use std::time::Duration;

use ringtrue_server::config::Config;
use ringtrue_test_support::poll_until;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};

use crate::{
    client::{self, Request, parse, read_until_closed, try_parse},
    database::Database,
    on_both_databases,
    protocol::proxy_protocol,
    world::{World, assert_contract},
};

/// Sets timeouts that are short for the test, but long enough for regular requests on a busy machine.
fn short_timeouts(config: &mut Config) {
    config.http.header_timeout = Duration::from_millis(700);
    config.http.body_timeout = Duration::from_millis(700);
    config.http.idle_timeout = Duration::from_millis(700);
    config.http.write_timeout = Duration::from_millis(700);
}

/// A request that never ends.
const INCOMPLETE_REQUEST: &[u8] = b"GET /livez HTTP/1.1\r\nHost: x\r\nX-A: ";

async fn connect(world: &World) -> TcpStream {
    TcpStream::connect(world.node.address).await.unwrap()
}

#[tokio::test]
async fn silent_connection_is_closed() {
    let world = World::configured(short_timeouts).await;
    let mut stream = connect(&world).await;
    read_until_closed(&mut stream).await;
}

#[tokio::test]
async fn incomplete_head_times_out() {
    let world = World::configured(short_timeouts).await;
    for start in ["G", "GET /livez HTTP/1.1\r\n", "GET /livez HTTP/1.1\r\nHost: x\r\nX-A: "] {
        let mut stream = connect(&world).await;
        stream.write_all(start.as_bytes()).await.unwrap();
        let response = read_until_closed(&mut stream).await;
        assert!(!response.starts_with(b"HTTP/1.1 200"), "{start:?}");
    }
}

/// Single bytes do not extend the timeout.
#[tokio::test]
async fn dripping_head_times_out() {
    let world = World::configured(short_timeouts).await;
    let (mut read, mut write) = connect(&world).await.into_split();
    let drip = async {
        write.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\nX-A: ").await?;
        loop {
            tokio::time::sleep(Duration::from_millis(30)).await;
            write.write_all(b"a").await?;
        }
    };
    tokio::select! {
        _ = read_until_closed(&mut read) => {}
        broken = drip => { let _: std::io::Result<()> = broken; }
    }
}

#[tokio::test]
async fn idle_connection_is_closed() {
    let world = World::configured(short_timeouts).await;
    let mut stream = connect(&world).await;
    let request = Request::get("/livez").header("Connection", "keep-alive");
    stream.write_all(&request.bytes(world.node.address)).await.unwrap();
    let response = read_until_closed(&mut stream).await;
    assert!(response.starts_with(b"HTTP/1.1 200"), "a response before the connection is closed");
}

#[tokio::test]
async fn missing_body_returns_408() {
    let world = World::configured(short_timeouts).await;
    let request = create(&world).await.header("Content-Length", "100");
    let response = client::send_raw(world.node.address, &request.bytes(world.node.address)).await;
    assert_contract(&request, parse(&response, false)).assert_problem(408, "request_timeout");
    let form = Request::post("/oauth2/token")
        .header("Content-Type", "application/x-www-form-urlencoded")
        .header("Content-Length", "100");
    let response = client::send_raw(world.node.address, &form.bytes(world.node.address)).await;
    assert_contract(&form, parse(&response, false)).assert_problem(408, "request_timeout");
}

#[tokio::test]
async fn dripping_body_returns_408() {
    let world = World::configured(short_timeouts).await;
    let request = create(&world).await.header("Content-Length", "10000");
    let (mut read, mut write) = connect(&world).await.into_split();
    let head = request.bytes(world.node.address);
    let drip = async {
        write.write_all(&head).await?;
        loop {
            tokio::time::sleep(Duration::from_millis(30)).await;
            write.write_all(b" ").await?;
        }
    };
    let response = tokio::select! {
        response = read_until_closed(&mut read) => response,
        broken = drip => {
            let _: std::io::Result<()> = broken;
            read_until_closed(&mut read).await
        }
    };
    assert_contract(&request, parse(&response, false)).assert_problem(408, "request_timeout");
}

/// The client sends many requests without reading the responses.
#[tokio::test]
async fn client_that_does_not_read_is_disconnected() {
    let world = World::configured(|config| config.http.write_timeout = Duration::from_millis(700)).await;
    let stream = slow_reader(&world).await;
    let request = Request::get("/openapi.json").header("Connection", "keep-alive").bytes(world.node.address);
    let (_unread, mut write) = stream.into_split();
    poll_until("the connection is open", async || connections(&world).await == 2).await;
    let send_requests = async {
        while write.write_all(&request).await.is_ok() {}
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = send_requests => {}
        () = poll_until("the connection is closed", async || connections(&world).await == 1) => {}
    }
}

#[tokio::test]
async fn slow_reader_gets_the_whole_response() {
    let world = World::configured(short_timeouts).await;
    let whole = client::send(world.node.address, &Request::get("/openapi.json")).await.assert(200).body.len();
    let mut stream = slow_reader(&world).await;
    let request = Request::get("/openapi.json").header("Connection", "keep-alive").bytes(world.node.address);
    stream.write_all(&request).await.unwrap();
    let (mut read, mut buffer) = (0, vec![0; whole / 60]);
    while read < whole {
        tokio::time::sleep(Duration::from_millis(30)).await;
        match stream.read(&mut buffer).await {
            Ok(count) if count > 0 => read += count,
            ended => panic!("{ended:?} after {read} of {whole} bytes"),
        }
    }
}

/// Opens hundreds of connections that send nothing, or incomplete requests.
#[tokio::test]
async fn other_clients_are_served_meanwhile() {
    let world = World::configured(|config| {
        config.http.header_timeout = Duration::from_secs(2);
        config.http.max_connections_per_address = 1_000;
    })
    .await;
    let token = world.management_token().await;
    let mut slow = vec![];
    for number in 0..300 {
        let mut stream = connect(&world).await;
        let start: &[u8] = match number % 3 {
            0 => b"",
            1 => b"GET /livez HTTP/1.1\r\nX-",
            _ => b"POST /oauth2/token HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n",
        };
        stream.write_all(start).await.unwrap();
        slow.push(stream);
        if number % 10 == 0 {
            world.send(Request::get("/v1/management/workspaces").bearer(&token)).await.assert(200);
        }
    }
    for _ in 0..20 {
        world.send(Request::get("/v1/management/workspaces").bearer(&token)).await.assert(200);
    }
    for stream in &mut slow {
        read_until_closed(stream).await;
    }
    poll_until("all connections are closed", async || connections(&world).await == 1).await;
}

/// An address cannot exhaust the listener, and closed connections free capacity.
#[tokio::test]
async fn connections_per_address_are_limited() {
    let world = World::configured(|config| config.http.max_connections_per_address = 5).await;
    let mut held_open = vec![];
    for _ in 0..5 {
        held_open.push(used_connection(&world).await);
    }
    for _ in 0..3 {
        let mut sixth = connect(&world).await;
        assert_eq!(read_until_closed(&mut sixth).await, b"", "closed without a response");
    }
    held_open.pop();
    let served = async || {
        let mut stream = connect(&world).await;
        let _ = stream.write_all(&Request::get("/livez").bytes(world.node.address)).await;
        let mut response = vec![];
        let _ = stream.read_to_end(&mut response).await;
        try_parse(&response).is_some_and(|response| response.status == 200)
    };
    poll_until("a new connection is accepted", served).await;
}

/// An address that has filled its own limit with incomplete requests can still open a connection, which replaces the
/// oldest one.
#[tokio::test]
async fn oldest_unused_connection_of_an_address_is_evicted() {
    let world = World::configured(|config| config.http.max_connections_per_address = 3).await;
    let mut held_open = vec![used_connection(&world).await];
    for _ in 0..2 {
        let mut stream = connect(&world).await;
        stream.write_all(INCOMPLETE_REQUEST).await.unwrap();
        held_open.push(stream);
        let count = held_open.len() as u64 + 1;
        poll_until("the connection is counted", async || connections(&world).await == count).await;
    }
    let _newest = used_connection(&world).await;
    assert_eq!(read_until_closed(&mut held_open[1]).await, b"", "the oldest unused connection is evicted");
    let again = Request::get("/livez").bytes(world.node.address);
    held_open[0].write_all(&again).await.unwrap();
    assert!(
        read_until_closed(&mut held_open[0]).await.starts_with(b"HTTP/1.1 200"),
        "a connection that served a request is not evicted"
    );
}

/// Two addresses fill the listener with incomplete requests, and a third is served.
async fn two_addresses_cannot_fill_the_listener(database: Database) {
    const TOTAL: usize = 60;
    let world = World::with(database, |config| {
        config.http.max_connections = TOTAL;
        config.http.max_connections_per_address = TOTAL / 2;
    })
    .await;
    let mut half_sent = vec![];
    for at in 0..TOTAL * 2 {
        let from = if at % 2 == 0 { "127.0.0.2" } else { "127.0.0.3" };
        let mut stream = proxy_protocol::connect(from, world.node.address).await;
        // Errors are ignored, because the server evicts some of these connections in favour of later ones.
        let _ = stream.write_all(INCOMPLETE_REQUEST).await;
        half_sent.push(stream);
    }
    poll_until("the listener is full", async || connections(&world).await == TOTAL as u64 + 1).await;
    for _ in 0..TOTAL {
        let mut served = proxy_protocol::connect("127.0.0.4", world.node.address).await;
        served.write_all(&Request::get("/readyz").bytes(world.node.address)).await.unwrap();
        parse(&read_until_closed(&mut served).await, false).assert(200);
    }
    let oldest = &mut half_sent[TOTAL];
    assert_eq!(read_until_closed(oldest).await, b"", "the oldest connection is evicted");
    world.send(Request::get("/readyz")).await.assert(200);
}

on_both_databases!(two_addresses_cannot_fill_the_listener, incomplete_bodies_cannot_fill_the_listener);

#[tokio::test]
async fn trusted_proxy_has_a_higher_connection_limit() {
    let world = World::configured(|config| {
        config.http.max_connections_per_address = 2;
        config.http.max_connections_per_proxy = 6;
        config.http.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    })
    .await;
    let mut held_open = vec![];
    for _ in 0..6 {
        held_open.push(used_connection(&world).await);
    }
    let mut seventh = connect(&world).await;
    assert_eq!(read_until_closed(&mut seventh).await, b"");
}

/// Requests with incomplete bodies fill the listener and are evicted.
async fn incomplete_bodies_cannot_fill_the_listener(database: Database) {
    const TOTAL: usize = 4;
    let world = World::with(database, |config| {
        config.http.max_connections = TOTAL;
        config.http.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    })
    .await;
    let half_sent = create(&world).await.header("Content-Length", "100").bytes(world.node.address);
    let mut held_open = vec![];
    for _ in 0..TOTAL {
        let mut stream = connect(&world).await;
        stream.write_all(&half_sent).await.unwrap();
        held_open.push(stream);
    }
    poll_until("the listener is full", async || connections(&world).await == TOTAL as u64 + 1).await;
    for _ in 0..TOTAL * 2 {
        let mut served = connect(&world).await;
        served.write_all(&Request::get("/livez").bytes(world.node.address)).await.unwrap();
        parse(&read_until_closed(&mut served).await, false).assert(200);
    }
    assert_eq!(read_until_closed(&mut held_open[0]).await, b"", "the oldest connection is evicted");
}

/// Opens a connection that has served a request and stays open.
async fn used_connection(world: &World) -> TcpStream {
    let mut stream = connect(world).await;
    let request = Request::get("/livez").header("Connection", "keep-alive");
    stream.write_all(&request.bytes(world.node.address)).await.unwrap();
    assert_ne!(stream.read(&mut [0; 1024]).await.unwrap(), 0, "no response");
    stream
}

/// Opens a connection with a small receive buffer.
async fn slow_reader(world: &World) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(world.node.address).await.unwrap()
}

/// Returns the number of open connections, including the one of this request.
async fn connections(world: &World) -> u64 {
    metric(world, "ringtrue_http_connections").await
}

async fn metric(world: &World, name: &str) -> u64 {
    let response = client::send(world.node.metrics_address.unwrap(), &Request::get("/metrics")).await.assert(200);
    let text = response.text();
    let line = text.lines().find(|line| line.split(' ').next() == Some(name)).unwrap_or_else(|| panic!("no {name}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// Returns a request that creates a project, without its body.
async fn create(world: &World) -> Request {
    let token = world.management_token().await;
    let body = json!({"name": "Slow"}).to_string();
    assert!(body.len() < 100);
    Request::post(&format!("{}/projects", world.acme.path())).bearer(&token).header("Content-Type", "application/json")
}
