//! Requests whose framing is wrong or ambiguous (RFC 9112): they are refused with a problem, and their connection ends.

use serde_json::json;

use crate::{
    client::{self, Answer, Request, parse},
    on_both_stores,
    world::World,
};

/// A second request that must not be read as one.
const HIDDEN: &str = "GET /livez HTTP/1.1\r\nHost: x\r\nX-Request-Id: hidden\r\nConnection: close\r\n\r\n";
const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";

/// Sends a request and another one behind it. Only the first is answered.
async fn first_only(world: &World, bytes: &[u8]) -> Answer {
    let bytes = [bytes, HIDDEN.as_bytes()].concat();
    let answer = client::exchange(world.node.address, &bytes).await;
    let text = String::from_utf8_lossy(&answer);
    assert!(!text.contains("hidden"), "{:?}: {text}", String::from_utf8_lossy(&bytes));
    let answer = parse(&answer, false);
    assert_eq!(answer.header("connection"), Some("close"), "{text}");
    answer
}

/// A refusal has all that every answer has.
#[track_caller]
fn assert_refused(answer: &Answer, status: u16, code: &str, case: &str) {
    assert_eq!((answer.status, answer.code().as_str()), (status, code), "{case}");
    let body = answer.json();
    for member in ["type", "title", "detail"] {
        assert!(!body[member].as_str().unwrap().is_empty(), "{case}: {body}");
    }
    assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{case}");
    assert_eq!(answer.header("x-api-version"), Some("1.0.0"), "{case}");
    assert_eq!(answer.header("cache-control"), Some("no-store"), "{case}");
    assert!(answer.header("x-request-id").is_some_and(|id| id.len() == 36), "{case}");
    assert!(answer.header("date").is_some() && answer.header("content-length").is_some(), "{case}");
}

async fn a_request_names_one_host(world: World) {
    for (case, hosts) in [
        ("none", ""),
        ("two", "Host: a\r\nHost: b\r\n"),
        ("the same one twice", "Host: a\r\nHost: a\r\n"),
        ("of this region and of the other", "Host: eu.example.com\r\nHost: us.example.com\r\n"),
        ("a blank", "Host: a b\r\n"),
        ("empty", "Host:\r\n"),
        ("a path", "Host: a/b\r\n"),
        ("credentials", "Host: user:secret@a\r\n"),
        ("a port that is none", "Host: a:http\r\n"),
        ("a port out of range", "Host: a:65536\r\n"),
        ("an address without brackets", "Host: 2001:db8::1\r\n"),
        ("not ASCII", "Host: \u{fc}.example\r\n"),
    ] {
        for line in ["GET /livez HTTP/1.1", "GET http://eu.example.com/livez HTTP/1.1"] {
            let answer = first_only(&world, format!("{line}\r\n{hosts}\r\n").as_bytes()).await;
            assert_refused(&answer, 400, "bad_request", &format!("{case}, {line}"));
        }
    }
    for target in ["http://user@a/livez", "http://a:99999/livez"] {
        let answer = first_only(&world, format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).await;
        assert_refused(&answer, 400, "bad_request", target);
    }
    let get = async |line: &str, hosts: &str| {
        let bytes = format!("{line}\r\n{hosts}Connection: close\r\n\r\n");
        parse(&client::exchange(world.node.address, bytes.as_bytes()).await, false).status
    };
    let absolute = "GET http://eu.example.com/livez HTTP/1.1";
    assert_eq!(get(absolute, "Host: us.example.com\r\n").await, 200, "the target counts");
    assert_eq!(get("GET http://us.example.com/livez HTTP/1.1", "Host: eu.example.com\r\n").await, 421);
    assert_eq!(get("GET /livez HTTP/1.1", "Host: [::1]:8080\r\n").await, 200);
    assert_eq!(get("GET /livez HTTP/1.0", "").await, 200, "as health probes ask");
    assert_eq!(get("GET /livez HTTP/1.0", "Host: a\r\nHost: b\r\n").await, 400);
    let metrics = client::exchange(world.node.metrics_address.unwrap(), b"GET /livez HTTP/1.1\r\n\r\n").await;
    assert_refused(&parse(&metrics, false), 400, "bad_request", "at the listener for metrics");
}

async fn chunked_is_the_only_transfer_coding(world: World) {
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
    let answer = first_only(&world, token.as_bytes()).await;
    assert_eq!((answer.status, &answer.json()["error"]), (501, &json!("not_implemented")));
    // HTTP/1.0 has no transfer codings.
    let old = format!("POST /oauth2/token HTTP/1.0\r\nHost: x\r\n{FORM}Transfer-Encoding: chunked\r\n\r\n{body}");
    assert_refused(&first_only(&world, old.as_bytes()).await, 400, "bad_request", "HTTP/1.0");
}

/// RFC 9112, section 6.1: the chunks count, and what follows them is not read.
async fn a_length_beside_chunks_is_ignored_and_ends_the_connection(world: World) {
    let token = world.manager().await;
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
        let answer = first_only(&world, bytes.as_bytes()).await.assert(201);
        assert_eq!(answer.json()["name"], name);
    }
}

on_both_stores!(
    a_request_names_one_host,
    chunked_is_the_only_transfer_coding,
    a_length_beside_chunks_is_ignored_and_ends_the_connection,
);

/// What the parser refuses by itself is answered like everything else.
#[tokio::test]
async fn a_request_that_cannot_be_parsed_gets_a_problem() {
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
        ("a length that is none", b"POST /oauth2/token HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n"),
        ("two lengths", b"POST /oauth2/token HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"),
    ] {
        assert_refused(&first_only(&world, bytes).await, 400, "bad_request", case);
    }
    // After a good request on the same connection, too.
    let good = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n";
    let answers =
        client::exchange(world.node.address, format!("{good}GET /livez HTTP/1.1\r\n:\r\n\r\n").as_bytes()).await;
    let answers = String::from_utf8(answers).unwrap();
    let (first, second) = answers.split_once("{\"status\":\"alive\"}").expect("the first answer");
    assert!(first.starts_with("HTTP/1.1 200"), "{first}");
    assert_refused(&parse(second.as_bytes(), false), 400, "bad_request", "the second request");
    let metrics = client::send(world.node.metrics_address.unwrap(), &Request::get("/metrics")).await.assert(200).text();
    let counted = r#"ringtrue_http_requests_total{method="other",route="unparsed",status="400"} 11"#;
    assert!(metrics.contains(counted), "{metrics}");
}

#[tokio::test]
async fn browsers_are_told_to_use_https_where_the_base_url_has_it() {
    for (base_url, expected) in [("https://eu.verify.example", Some("max-age=31536000")), ("http://127.0.0.1:1", None)]
    {
        let world = World::configured(|config| config.base_url = Some(base_url.parse().unwrap())).await;
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
            let answer = client::send(world.node.address, &request).await;
            assert_eq!(answer.header("strict-transport-security"), expected, "{request:?}");
        }
        let metrics = client::send(world.node.metrics_address.unwrap(), &Request::get("/livez")).await;
        assert_eq!(metrics.header("strict-transport-security"), None);
    }
}
