//! Requests with invalid or ambiguous framing (RFC 9112) get a problem, and their connection closes.

use ringtrue_server::config::BaseUrl;
use serde_json::json;

use crate::{
    client::{self, HttpResponse, Request, parse},
    on_both_stores,
    world::World,
};

/// A second request that must not be processed.
const HIDDEN: &str = "GET /livez HTTP/1.1\r\nHost: x\r\nX-Request-Id: hidden\r\nConnection: close\r\n\r\n";
const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";

/// Sends a request followed by [`HIDDEN`]. Asserts that only the first gets a response, and returns it.
async fn first_only(world: &World, bytes: &[u8]) -> HttpResponse {
    let bytes = [bytes, HIDDEN.as_bytes()].concat();
    let response = client::send_raw(world.node.address, &bytes).await;
    let text = String::from_utf8_lossy(&response);
    assert!(!text.contains("hidden"), "{:?}: {text}", String::from_utf8_lossy(&bytes));
    let response = parse(&response, false);
    assert_eq!(response.header("connection"), Some("close"), "{text}");
    response
}

#[track_caller]
fn assert_refused(response: &HttpResponse, status: u16, code: &str, case: &str) {
    assert_eq!((response.status, response.code().as_str()), (status, code), "{case}");
    let body = response.json();
    for member in ["type", "title", "detail"] {
        assert!(!body[member].as_str().unwrap().is_empty(), "{case}: {body}");
    }
    assert_eq!(response.header("content-type"), Some("application/problem+json"), "{case}");
    assert_eq!(response.header("x-api-version"), Some("1.0.0"), "{case}");
    assert_eq!(response.header("cache-control"), Some("no-store"), "{case}");
    assert!(response.header("x-request-id").is_some_and(|id| id.len() == 36), "{case}");
    assert!(response.header("date").is_some() && response.header("content-length").is_some(), "{case}");
}

async fn request_must_have_exactly_one_host(world: World) {
    for (case, hosts) in [
        ("none", ""),
        ("two", "Host: a\r\nHost: b\r\n"),
        ("the same one twice", "Host: a\r\nHost: a\r\n"),
        ("both regions", "Host: eu.example.com\r\nHost: us.example.com\r\n"),
        ("a blank", "Host: a b\r\n"),
        ("empty", "Host:\r\n"),
        ("a path", "Host: a/b\r\n"),
        ("credentials", "Host: user:secret@a\r\n"),
        ("an invalid port", "Host: a:http\r\n"),
        ("a port out of range", "Host: a:65536\r\n"),
        ("an address without brackets", "Host: 2001:db8::1\r\n"),
        ("not ASCII", "Host: \u{fc}.example\r\n"),
    ] {
        for line in ["GET /livez HTTP/1.1", "GET http://eu.example.com/livez HTTP/1.1"] {
            let response = first_only(&world, format!("{line}\r\n{hosts}\r\n").as_bytes()).await;
            assert_refused(&response, 400, "bad_request", &format!("{case}, {line}"));
        }
    }
    for target in ["http://user@a/livez", "http://a:99999/livez"] {
        let response = first_only(&world, format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).await;
        assert_refused(&response, 400, "bad_request", target);
    }
    let get = async |line: &str, hosts: &str| {
        let bytes = format!("{line}\r\n{hosts}Connection: close\r\n\r\n");
        parse(&client::send_raw(world.node.address, bytes.as_bytes()).await, false).status
    };
    let absolute = "GET http://eu.example.com/livez HTTP/1.1";
    assert_eq!(
        get(absolute, "Host: us.example.com\r\n").await,
        200,
        "the target takes precedence over the Host header"
    );
    assert_eq!(get("GET http://us.example.com/livez HTTP/1.1", "Host: eu.example.com\r\n").await, 421);
    assert_eq!(get("GET /livez HTTP/1.1", "Host: [::1]:8080\r\n").await, 200);
    assert_eq!(get("GET /livez HTTP/1.0", "").await, 200, "HTTP/1.0 health probes send no Host header");
    assert_eq!(get("GET /livez HTTP/1.0", "Host: a\r\nHost: b\r\n").await, 400);
    let metrics = client::send_raw(world.node.metrics_address.unwrap(), b"GET /livez HTTP/1.1\r\n\r\n").await;
    assert_refused(&parse(&metrics, false), 400, "bad_request", "metrics listener");
}

async fn chunked_is_the_only_supported_transfer_coding(world: World) {
    let body = "0\r\n\r\n";
    for codings in [
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n",
        "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: chunked;q=1\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: ,chunked\r\n",
        "Transfer-Encoding:\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: gzip, chunked\r\n",
    ] {
        let bytes = format!("POST /v1/sim-swap-checks HTTP/1.1\r\nHost: x\r\n{codings}\r\n{body}");
        assert_refused(&first_only(&world, bytes.as_bytes()).await, 501, "not_implemented", codings);
    }
    let token =
        format!("POST /oauth2/token HTTP/1.1\r\nHost: x\r\n{FORM}Transfer-Encoding: gzip, chunked\r\n\r\n{body}");
    let response = first_only(&world, token.as_bytes()).await;
    assert_eq!((response.status, &response.json()["error"]), (501, &json!("not_implemented")));
    // HTTP/1.0 has no transfer codings.
    let old = format!("POST /oauth2/token HTTP/1.0\r\nHost: x\r\n{FORM}Transfer-Encoding: chunked\r\n\r\n{body}");
    assert_refused(&first_only(&world, old.as_bytes()).await, 400, "bad_request", "HTTP/1.0");
}

/// RFC 9112, section 6.1: chunked takes precedence, and later data is not read.
async fn content_length_with_chunked_closes_the_connection(world: World) {
    let token = world.management_token().await;
    for (name, framing) in [
        ("Length first", "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"),
        ("Length last", "Transfer-Encoding: Chunked\r\nContent-Length: 3\r\n"),
    ] {
        let body = json!({"name": name}).to_string();
        let bytes = format!(
            "POST {}/projects HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\n{framing}\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
            world.acme.path(),
            body.len(),
        );
        let response = first_only(&world, bytes.as_bytes()).await.assert(201);
        assert_eq!(response.json()["name"], name);
    }
}

on_both_stores!(
    request_must_have_exactly_one_host,
    chunked_is_the_only_supported_transfer_coding,
    content_length_with_chunked_closes_the_connection,
);

/// Requests that hyper cannot parse get a problem in the same format.
#[tokio::test]
async fn unparsable_request_gets_a_problem() {
    let world = World::sqlite().await;
    for (case, bytes) in [
        ("no HTTP at all", &b"hello\r\n\r\n"[..]),
        ("a control character in a header", b"GET /livez HTTP/1.1\r\nHost: x\r\nX-A: a\x01b\r\n\r\n"),
        ("a blank before the colon", b"GET /livez HTTP/1.1\r\nHost : x\r\n\r\n"),
        ("a header without a name", b"GET /livez HTTP/1.1\r\nHost: x\r\n: x\r\n\r\n"),
        ("a folded header", b"GET /livez HTTP/1.1\r\nHost: x\r\nX-A: a\r\n b\r\n\r\n"),
        ("no target", b"GET HTTP/1.1\r\nHost: x\r\n\r\n"),
        ("another version", b"GET /livez HTTP/3.0\r\nHost: x\r\n\r\n"),
        ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        ("an invalid length", b"POST /oauth2/token HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n"),
        ("two lengths", b"POST /oauth2/token HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"),
    ] {
        assert_refused(&first_only(&world, bytes).await, 400, "bad_request", case);
    }
    // An invalid request after a valid one on the same connection gets a problem, too.
    let good = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n";
    let responses =
        client::send_raw(world.node.address, format!("{good}GET /livez HTTP/1.1\r\n:\r\n\r\n").as_bytes()).await;
    let responses = String::from_utf8(responses).unwrap();
    let (first, second) = responses.split_once("{\"status\":\"alive\"}").expect("the first response");
    assert!(first.starts_with("HTTP/1.1 200"), "{first}");
    assert_refused(&parse(second.as_bytes(), false), 400, "bad_request", "the second request");
    let metrics = client::send(world.node.metrics_address.unwrap(), &Request::get("/metrics")).await.assert(200).text();
    let counted = r#"ringtrue_http_requests_total{method="other",route="unparsed",status="400"} 11"#;
    assert!(metrics.contains(counted), "{metrics}");
}

#[tokio::test]
async fn hsts_is_sent_with_an_https_base_url() {
    for (base_url, expected) in [("https://eu.verify.example", Some("max-age=31536000")), ("http://127.0.0.1:1", None)]
    {
        let world = World::configured(|config| config.base_url = Some(BaseUrl::parse(base_url).unwrap())).await;
        for request in [
            Request::get("/livez"),
            Request::get("/nowhere"),
            Request::get("/docs"),
            Request::get("/console"),
            Request::get("/v1/management/workspaces"),
            Request::post("/oauth2/token"),
            Request::get("/livez").header("Host", "a b"),
            Request::get("/livez").header("X-\x01", "x"),
        ] {
            let response = client::send(world.node.address, &request).await;
            assert_eq!(response.header("strict-transport-security"), expected, "{request:?}");
        }
        let metrics = client::send(world.node.metrics_address.unwrap(), &Request::get("/livez")).await;
        assert_eq!(metrics.header("strict-transport-security"), None);
    }
}
