//! How large a request may be, to the byte, and what happens beyond.

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::{
    client::{self, Answer, PATIENCE, Request, parse, to_the_end},
    routes::{self, Ids, Tokens},
    sim_register::SimRegister,
    world::{World, basic, held},
};

const KIB: usize = 1024;

/// A JSON document of exactly so many bytes.
fn padded(body: &Value, length: usize) -> String {
    let text = body.to_string();
    format!("{text}{}", " ".repeat(length - text.len()))
}

#[tokio::test]
async fn a_json_body_has_at_most_16_kib_and_allowed_networks_256() {
    let world = World::sqlite().await;
    SimRegister::simulated(&world);
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
        let answer = world.send(of(most)).await;
        assert!([200, 201].contains(&answer.status), "{route:?}: {}", answer.text());
        for length in [most + 1, 4 * most, 1024 * KIB] {
            world.send(of(length)).await.assert_problem(413, "payload_too_large");
        }
    }
}

#[tokio::test]
async fn a_form_has_at_most_4_kib() {
    let world = World::sqlite().await;
    let form = |start: &str, length: usize| format!("{start}&x={}", "x".repeat(length - start.len() - 3));
    for (endpoint, start) in
        [("/oauth2/token", "grant_type=client_credentials&scope=management"), ("/oauth2/revoke", "token=unknown")]
    {
        let of = |length: usize| {
            Request::post(endpoint)
                .header("Authorization", basic(&world.acme.client_id, &world.acme.client_secret))
                .body("application/x-www-form-urlencoded", form(start, length))
        };
        world.send(of(4 * KIB)).await.assert(200);
        let answer = world.send(of(4 * KIB + 1)).await.assert_problem(413, "payload_too_large");
        assert_eq!(answer.json()["error"], "payload_too_large");
        world.send(of(1024 * KIB)).await.assert_problem(413, "payload_too_large");
    }
}

/// A length that is only declared is refused before anything of it is sent.
#[tokio::test]
async fn a_declared_length_is_believed() {
    let world = World::sqlite().await;
    for length in ["16385", "1000000000", "9223372036854775807"] {
        let request = create(&world).await.header("Content-Length", length);
        let answer = only_head(&world, &request).await.assert_problem(413, "payload_too_large");
        assert_eq!(answer.header("connection").map(str::to_ascii_lowercase), Some("close".to_owned()));
    }
    // Lengths that are none: there is no request to answer, only a connection to close.
    for length in ["-1", "x", "1e3", "1, 2", "18446744073709551615", "18446744073709551616"] {
        let request = create(&world).await.header("Content-Length", length);
        let answer = client::exchange(world.node.address, &head_of(&world, &request)).await;
        assert!([400, 431].contains(&parse(&answer, false).status), "{length}");
    }
}

/// Who asks first whether to send too much is told no, and is not told to go on.
#[tokio::test]
async fn whoever_asks_before_sending_is_answered_at_once() {
    let world = World::sqlite().await;
    for (length, content_type, status) in
        [("16385", "application/json", 413), ("2", "text/plain", 415), ("1000000000", "application/json", 413)]
    {
        let mut request = create(&world).await.header("Content-Length", length).header("Expect", "100-continue");
        request.headers.retain(|(name, _)| name != "Content-Type");
        let answer = only_head(&world, &request.header("Content-Type", content_type)).await;
        assert_eq!(answer.status, status, "{length}");
    }
    let stranger = Request::post(&format!("{}/projects", world.acme.path()))
        .header("Content-Type", "application/json")
        .header("Content-Length", "20")
        .header("Expect", "100-continue");
    only_head(&world, &stranger).await.assert_problem(401, "unauthorized");
}

#[tokio::test]
async fn whoever_asks_before_sending_what_is_good_is_told_to_go_on() {
    let world = World::sqlite().await;
    let body = json!({"name": "Patient"}).to_string();
    let request =
        create(&world).await.header("Content-Length", body.len().to_string()).header("Expect", "100-continue");
    let mut stream = TcpStream::connect(world.node.address).await.unwrap();
    stream.write_all(&head_of(&world, &request)).await.unwrap();
    let go_on = b"HTTP/1.1 100 Continue\r\n\r\n";
    let mut told = vec![0; go_on.len()];
    timeout(PATIENCE, stream.read_exact(&mut told)).await.expect("an interim answer").unwrap();
    assert_eq!(told, go_on);
    stream.write_all(body.as_bytes()).await.unwrap();
    held(&request, parse(&to_the_end(&mut stream).await, false)).assert(201);
}

/// A body in chunks has no declared length; it is counted.
#[tokio::test]
async fn chunks_are_counted() {
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
async fn a_body_without_end_is_cut_off() {
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
    let answer = tokio::select! {
        answer = to_the_end(&mut read) => answer,
        broken = endless => {
            let _: std::io::Result<()> = broken;
            to_the_end(&mut read).await
        }
    };
    held(&request, parse(&answer, false)).assert_problem(413, "payload_too_large");
}

#[tokio::test]
async fn a_url_has_at_most_8_kib() {
    let world = World::sqlite().await;
    let token = world.manager().await;
    for path in ["/livez", "/docs", "/v1/management/workspaces", "/nowhere"] {
        let of = |length: usize| format!("{path}?{}", "x".repeat(length - path.len() - 1));
        let fits = world.send(Request::get(&of(8 * KIB)).bearer(&token)).await;
        assert!([200, 400, 404].contains(&fits.status), "{path}: {}", fits.status);
        for length in [8 * KIB + 1, 32 * KIB] {
            let answer = client::send(world.node.address, &Request::get(&of(length)).bearer(&token)).await;
            answer.assert_problem(414, "uri_too_long");
        }
    }
    let segment = format!("/v1/management/workspaces/{}", "x".repeat(8 * KIB));
    world.send(Request::get(&segment).bearer(&token)).await.assert_problem(414, "uri_too_long");
}

#[tokio::test]
async fn the_headers_have_at_most_8_kib() {
    let world = World::sqlite().await;
    let token = world.manager().await;
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

/// Beyond what is read at all, the parser refuses a request before the edge sees it; the answer is the same.
#[tokio::test]
async fn beyond_all_measure_the_answer_is_the_same() {
    let world = World::sqlite().await;
    let huge = "x".repeat(1024 * KIB);
    for (request, status, code) in [
        (Request::get("/livez").header("X-Filler", &huge), 431, "request_header_fields_too_large"),
        (Request::get("/livez").header(&huge, "x"), 431, "request_header_fields_too_large"),
        (Request::get(&format!("/{}", &huge[..66 * KIB])), 414, "uri_too_long"),
        (Request::get(&format!("/{huge}")), 414, "uri_too_long"),
    ] {
        let answer = client::exchange(world.node.address, &request.bytes(world.node.address)).await;
        let answer = parse(&answer, false).assert_problem(status, code);
        assert_eq!(answer.header("connection"), Some("close"));
        assert!(answer.header("x-request-id").is_some() && answer.header("x-api-version").is_some());
    }
    world.send(Request::get("/livez")).await.assert(200);
}

/// Their number does not matter, only their size.
#[tokio::test]
async fn many_small_headers_are_taken() {
    let world = World::sqlite().await;
    let many = |count: usize| (0..count).fold(Request::get("/livez"), |request, _| request.header("X", ""));
    for count in [101, 1000, 1600] {
        world.send(many(count)).await.assert(200);
    }
    for count in [1640, 5000] {
        world.send(many(count)).await.assert_problem(431, "request_header_fields_too_large");
    }
}

/// A create without its body.
async fn create(world: &World) -> Request {
    let token = world.manager().await;
    Request::post(&format!("{}/projects", world.acme.path())).bearer(&token).header("Content-Type", "application/json")
}

fn head_of(world: &World, request: &Request) -> Vec<u8> {
    Request { body: None, ..request.clone() }.bytes(world.node.address)
}

/// Sends a head and nothing after it; the answer must come all the same.
async fn only_head(world: &World, request: &Request) -> Answer {
    let answer = client::exchange(world.node.address, &head_of(world, request)).await;
    assert!(!answer.starts_with(b"HTTP/1.1 100"), "told to go on: {}", String::from_utf8_lossy(&answer));
    held(request, parse(&answer, false))
}
