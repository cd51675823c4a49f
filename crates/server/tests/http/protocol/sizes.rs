//! Exact size limits of requests.

use ringtrue_test_support::WAIT_LIMIT;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::{
    client::{self, HttpResponse, Request, parse, read_until_closed},
    products::scripted_sim_swap::ScriptedSimSwap,
    protocol::routes::{self, Ids, Tokens},
    world::{World, assert_contract},
};

const KIB: usize = 1024;

/// Pads a JSON document with spaces to exactly this many bytes.
fn padded(body: &Value, length: usize) -> String {
    let text = body.to_string();
    format!("{text}{}", " ".repeat(length - text.len()))
}

#[tokio::test]
async fn json_bodies_are_limited_to_16_kib_and_allowed_networks_to_256() {
    let world = World::sqlite().await;
    ScriptedSimSwap::simulated(&world);
    let project = world.project("Shop", json!({})).await;
    let ids = Ids::of(&world.acme, &project);
    let tokens = Tokens::of(&world, &project).await;
    for route in routes::with_body() {
        let of = |length: usize| {
            Request::new(route.method, &routes::fill(route.template, &ids))
                .bearer(tokens.for_route(route))
                .body("application/json", padded(&route.good_body(), length))
        };
        let most = if route.template.ends_with("/allowed-networks") { 256 * KIB } else { 16 * KIB };
        let response = world.send(of(most)).await;
        assert!([200, 201].contains(&response.status), "{route:?}: {}", response.text());
        for length in [most + 1, 4 * most, 1024 * KIB] {
            world.send(of(length)).await.assert_problem(413, "payload_too_large");
        }
    }
}

#[tokio::test]
async fn forms_are_limited_to_4_kib() {
    let world = World::sqlite().await;
    let form = |start: &str, length: usize| format!("{start}&x={}", "x".repeat(length - start.len() - 3));
    for (endpoint, start) in
        [("/oauth2/token", "grant_type=client_credentials&scope=management"), ("/oauth2/revoke", "token=unknown")]
    {
        let of = |length: usize| {
            Request::post(endpoint)
                .basic(&world.acme.client_id, &world.acme.client_secret)
                .body("application/x-www-form-urlencoded", form(start, length))
        };
        world.send(of(4 * KIB)).await.assert(200);
        let response = world.send(of(4 * KIB + 1)).await.assert_problem(413, "payload_too_large");
        assert_eq!(response.json()["error"], "payload_too_large");
        world.send(of(1024 * KIB)).await.assert_problem(413, "payload_too_large");
    }
}

#[tokio::test]
async fn declared_content_length_is_checked_first() {
    let world = World::sqlite().await;
    for length in ["16385", "1000000000", "9223372036854775807"] {
        let request = create(&world).await.header("Content-Length", length);
        let response = only_head(&world, &request).await.assert_problem(413, "payload_too_large");
        assert_eq!(response.header("connection").map(str::to_ascii_lowercase), Some("close".to_owned()));
    }
    // Invalid lengths are rejected by the HTTP parser.
    for length in ["-1", "x", "1e3", "1, 2", "18446744073709551615", "18446744073709551616"] {
        let request = create(&world).await.header("Content-Length", length);
        let response = client::send_raw(world.node.address, &head_of(&world, &request)).await;
        assert!([400, 431].contains(&parse(&response, false).status), "{length}");
    }
}

/// The rejection is sent instead of 100 Continue.
#[tokio::test]
async fn expect_continue_is_rejected_without_reading_the_body() {
    let world = World::sqlite().await;
    for (length, content_type, status) in
        [("16385", "application/json", 413), ("2", "text/plain", 415), ("1000000000", "application/json", 413)]
    {
        let mut request = create(&world).await.header("Content-Length", length).header("Expect", "100-continue");
        request.headers.retain(|(name, _)| name != "Content-Type");
        let response = only_head(&world, &request.header("Content-Type", content_type)).await;
        assert_eq!(response.status, status, "{length}");
    }
    let unauthenticated = Request::post(&format!("{}/projects", world.acme.path()))
        .header("Content-Type", "application/json")
        .header("Content-Length", "20")
        .header("Expect", "100-continue");
    only_head(&world, &unauthenticated).await.assert_problem(401, "unauthorized");
}

#[tokio::test]
async fn expect_continue_is_accepted_for_a_valid_body() {
    let world = World::sqlite().await;
    let body = json!({"name": "Patient"}).to_string();
    let request =
        create(&world).await.header("Content-Length", body.len().to_string()).header("Expect", "100-continue");
    let mut stream = TcpStream::connect(world.node.address).await.unwrap();
    stream.write_all(&head_of(&world, &request)).await.unwrap();
    let expected = b"HTTP/1.1 100 Continue\r\n\r\n";
    let mut received = vec![0; expected.len()];
    timeout(WAIT_LIMIT, stream.read_exact(&mut received)).await.expect("an interim response").unwrap();
    assert_eq!(received, expected);
    stream.write_all(body.as_bytes()).await.unwrap();
    assert_contract(&request, parse(&read_until_closed(&mut stream).await, false)).assert(201);
}

#[tokio::test]
async fn chunked_bodies_are_limited() {
    let world = World::sqlite().await;
    let chunked = |body: &str, size: usize| -> Vec<u8> {
        let chunks = body.as_bytes().chunks(size);
        let mut bytes: Vec<u8> =
            chunks.flat_map(|chunk| [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat()).collect();
        bytes.extend(b"0\r\n\r\n");
        bytes
    };
    for (name, length, size, status) in [
        ("one", 16 * KIB, 16 * KIB, 201),
        ("two", 16 * KIB, 1000, 201),
        ("three", 100, 1, 201),
        ("four", 16 * KIB + 1, 16 * KIB + 1, 413),
        ("five", 16 * KIB + 1, 4096, 413),
    ] {
        let mut request = create(&world).await.header("Transfer-Encoding", "chunked");
        request.body = Some(chunked(&padded(&json!({"name": name}), length), size));
        world.send(request).await.assert(status);
    }
}

#[tokio::test]
async fn endless_body_is_cut_off() {
    let world = World::sqlite().await;
    let request = create(&world).await.header("Transfer-Encoding", "chunked");
    let stream = TcpStream::connect(world.node.address).await.unwrap();
    let (mut read, mut write) = stream.into_split();
    let head = head_of(&world, &request);
    let endless = async {
        write.write_all(&head).await?;
        let chunk = [b"1000\r\n", &[b' '; 0x1000][..], b"\r\n"].concat();
        loop {
            write.write_all(&chunk).await?;
        }
    };
    let response = tokio::select! {
        response = read_until_closed(&mut read) => response,
        broken = endless => {
            let _: std::io::Result<()> = broken;
            read_until_closed(&mut read).await
        }
    };
    assert_contract(&request, parse(&response, false)).assert_problem(413, "payload_too_large");
}

#[tokio::test]
async fn urls_are_limited_to_8_kib() {
    let world = World::sqlite().await;
    let token = world.management_token().await;
    for path in ["/livez", "/docs", "/v1/management/workspaces", "/nowhere"] {
        let of = |length: usize| format!("{path}?{}", "x".repeat(length - path.len() - 1));
        let fits = world.send(Request::get(&of(8 * KIB)).bearer(&token)).await;
        assert!([200, 400, 404].contains(&fits.status), "{path}: {}", fits.status);
        for length in [8 * KIB + 1, 32 * KIB] {
            let response = client::send(world.node.address, &Request::get(&of(length)).bearer(&token)).await;
            response.assert_problem(414, "uri_too_long");
        }
    }
    let segment = format!("/v1/management/workspaces/{}", "x".repeat(8 * KIB));
    world.send(Request::get(&segment).bearer(&token)).await.assert_problem(414, "uri_too_long");
}

#[tokio::test]
async fn headers_are_limited_to_8_kib() {
    let world = World::sqlite().await;
    let token = world.management_token().await;
    let spare = 8 * KIB - token.len() - 200;
    for path in ["/livez", "/v1/management/workspaces"] {
        let of = |length: usize| Request::get(path).bearer(&token).header("X-Filler", "x".repeat(length));
        world.send(of(spare)).await.assert(200);
        for length in [8 * KIB, 32 * KIB, 64 * KIB] {
            world.send(of(length)).await.assert_problem(431, "request_header_fields_too_large");
        }
        let many =
            (0..90).fold(Request::get(path), |request, number| request.header(&format!("X-{number}"), "x".repeat(100)));
        world.send(many).await.assert_problem(431, "request_header_fields_too_large");
    }
    let long_token = Request::get("/v1/management/workspaces").bearer(&"x".repeat(9 * KIB));
    world.send(long_token).await.assert_problem(431, "request_header_fields_too_large");
}

/// hyper rejects such requests before the middleware; the response is the same.
#[tokio::test]
async fn oversized_heads_get_the_same_problem_from_the_parser() {
    let world = World::sqlite().await;
    let huge = "x".repeat(1024 * KIB);
    for (request, status, code) in [
        (Request::get("/livez").header("X-Filler", &huge), 431, "request_header_fields_too_large"),
        (Request::get("/livez").header(&huge, "x"), 431, "request_header_fields_too_large"),
        (Request::get(&format!("/{}", &huge[..66 * KIB])), 414, "uri_too_long"),
        (Request::get(&format!("/{huge}")), 414, "uri_too_long"),
    ] {
        let response = client::send_raw(world.node.address, &request.bytes(world.node.address)).await;
        let response = parse(&response, false).assert_problem(status, code);
        assert_eq!(response.header("connection"), Some("close"));
        assert!(response.header("x-request-id").is_some() && response.header("x-api-version").is_some());
    }
    world.send(Request::get("/livez")).await.assert(200);
}

/// The number of headers is limited as well as their total size.
#[tokio::test]
async fn number_of_headers_is_limited() {
    let world = World::sqlite().await;
    let many = |count: usize| (0..count).fold(Request::get("/livez"), |request, _| request.header("X", ""));
    for count in [10, 90] {
        world.send(many(count)).await.assert(200);
    }
    for count in [101, 1000, 1640, 5000] {
        world.send(many(count)).await.assert_problem(431, "request_header_fields_too_large");
    }
}

/// Returns a request that creates a project, without its body.
async fn create(world: &World) -> Request {
    let token = world.management_token().await;
    Request::post(&format!("{}/projects", world.acme.path())).bearer(&token).header("Content-Type", "application/json")
}

fn head_of(world: &World, request: &Request) -> Vec<u8> {
    Request { body: None, ..request.clone() }.bytes(world.node.address)
}

/// Sends a head only and reads the response.
async fn only_head(world: &World, request: &Request) -> HttpResponse {
    let response = client::send_raw(world.node.address, &head_of(world, request)).await;
    assert!(!response.starts_with(b"HTTP/1.1 100"), "unexpected 100 Continue: {}", String::from_utf8_lossy(&response));
    assert_contract(request, parse(&response, false))
}
