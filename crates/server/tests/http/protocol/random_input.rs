//! Random input gets documented responses and never 5xx.
//!
//! Cases use a fixed seed, so failures are reproducible.

use std::time::Duration;

use proptest::{
    collection::vec,
    prelude::*,
    sample::{Index, select},
    strategy::ValueTree,
    test_runner::TestRunner,
};
use serde_json::json;

use crate::{
    client::{Request, parse, send_raw},
    protocol::routes::{self, Ids, Route},
    world::{World, assert_contract},
};

/// Number of cases of each kind.
const CASES: usize = 250;

/// Well-formed HTTP with random content.
#[tokio::test]
async fn random_requests_get_documented_responses() {
    let world = World::sqlite().await;
    let project = world.project("Shop", json!({})).await;
    let credentials = format!("{}/credentials", world.acme.path());
    let spare = world.manage(Request::post(&credentials).json(&json!({}))).await.assert(201).json();
    // Uses a spare credential, because a random request may delete the credential in its path.
    let workspace_client = spare["client_id"].as_str().unwrap().to_owned();
    let ids = Ids { workspace_client, ..Ids::of(&world.acme, &project) };
    let token = world.management_token().await;
    let mut runner = TestRunner::deterministic();
    for _ in 0..CASES {
        let drawn = any_request().new_tree(&mut runner).expect("a case").current();
        let request = drawn.build(&ids, &token);
        let bytes = send_raw(world.node.address, &request.bytes(world.node.address)).await;
        assert!(!bytes.is_empty(), "no response to {request:?}");
        let response = parse(&bytes, request.method == "HEAD");
        assert!(response.status < 500, "{} for {request:?}", response.status);
        assert_contract(&request, response);
    }
    world.send(Request::get("/readyz")).await.assert(200);
}

/// Bytes that may or may not be HTTP.
#[tokio::test]
async fn random_bytes_do_not_break_the_server() {
    // The timeouts are short, because incomplete requests have to time out.
    let world = World::configured(|config| {
        config.http.header_timeout = Duration::from_millis(300);
        config.http.body_timeout = Duration::from_millis(300);
    })
    .await;
    let mut runner = TestRunner::deterministic();
    for _ in 0..CASES {
        let bytes = any_bytes().new_tree(&mut runner).expect("a case").current();
        let response = send_raw(world.node.address, &[&bytes[..], b"\r\nConnection: close\r\n\r\n"].concat()).await;
        if response.is_empty() {
            continue;
        }
        assert!(response.starts_with(b"HTTP/1."), "{:?}", String::from_utf8_lossy(&response));
        let status = response.get(9..12).and_then(|status| std::str::from_utf8(status).ok()).expect("a status");
        assert!(
            ["100", "200", "400", "401", "404", "405", "408", "413", "414", "415", "431", "501"].contains(&status),
            "{status}: {bytes:?}"
        );
    }
    world.send(Request::get("/readyz")).await.assert(200);
}

#[derive(Clone, Debug)]
struct RandomRequest {
    route: Index,
    method: Option<&'static str>,
    segments: Vec<String>,
    query: Option<String>,
    authorization: Authorization,
    headers: Vec<(&'static str, Vec<u8>)>,
    body: Option<(&'static str, Vec<u8>)>,
}

#[derive(Clone, Debug)]
enum Authorization {
    None,
    Good,
    Other(Vec<u8>),
}

impl RandomRequest {
    /// Builds a request to a known path with some parameters replaced, or to an unknown path.
    fn build(&self, ids: &Ids, token: &str) -> Request {
        let twice_as_often = routes::with_body().chain(routes::with_body());
        let routes: Vec<Route> = routes::all().into_iter().chain(twice_as_often).collect();
        let route = self.route.get(&routes);
        let path = match self.segments.as_slice() {
            [] => routes::fill(route.template, ids),
            [one] => {
                let nonsense = Ids {
                    workspace_id: if one.len() % 3 == 0 { one.clone() } else { ids.workspace_id.clone() },
                    project_id: one.clone(),
                    project_client: one.clone(),
                    workspace_client: one.clone(),
                    check_id: one.clone(),
                };
                routes::fill(route.template, &nonsense)
            }
            many => format!("/{}", many.join("/")),
        };
        let query = self.query.as_ref().map(|query| format!("?{query}")).unwrap_or_default();
        // Paths with random segments keep the route's method, because ambiguous ones return 404 whatever the method.
        let method = self.method.filter(|_| self.segments.is_empty()).unwrap_or(route.method);
        let mut request = Request::new(method, &format!("{path}{query}"));
        request = match &self.authorization {
            Authorization::None => request,
            Authorization::Good => request.bearer(token),
            Authorization::Other(value) => request.header("Authorization", value),
        };
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        match &self.body {
            Some((content_type, body)) => request.body(content_type, body),
            None => request,
        }
    }
}

fn any_request() -> impl Strategy<Value = RandomRequest> {
    let methods = select(vec!["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "X"]);
    let authorization = prop_oneof![
        1 => Just(Authorization::None),
        6 => Just(Authorization::Good),
        1 => visible().prop_map(Authorization::Other),
    ];
    let names =
        vec!["Accept", "Idempotency-Key", "X-Request-Id", "X-Forwarded-For", "If-None-Match", "Cookie", "Origin"];
    (
        any::<Index>(),
        proptest::option::weighted(0.2, methods),
        prop_oneof![3 => Just(vec![]), 2 => vec(segment(), 1), 1 => vec(segment(), 2..6)],
        proptest::option::weighted(0.4, query()),
        authorization,
        vec((select(names), visible()), 0..3),
        proptest::option::weighted(0.7, (content_type(), body())),
    )
        .prop_map(|(route, method, segments, query, authorization, headers, body)| RandomRequest {
            route,
            method,
            segments,
            query,
            authorization,
            headers,
            body,
        })
}

/// Generates a path segment of characters that are allowed in a request line.
fn segment() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zA-Z0-9._~!$&'()*+,:@-]{1,40}",
        "(%[0-9a-fA-F]{2}){1,12}",
        "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    ]
}

fn query() -> impl Strategy<Value = String> {
    prop_oneof![
        "(size|page|search|from|to|group_by|project_id|x)=[a-zA-Z0-9%=;,()'*+:.-]{0,30}",
        "[a-zA-Z0-9%&=;,()'*+:.-]{0,60}",
        "search=(name|mode|disabled|created_at)(==|!=|=in=|=gt=|%3C)[a-z0-9,()'*;]{0,20}",
    ]
}

fn content_type() -> impl Strategy<Value = &'static str> {
    prop_oneof![6 => Just("application/json"), 1 => Just("application/x-www-form-urlencoded"), 1 => Just("text/plain"), 1 => Just("")]
}

/// Generates a header value without control characters.
fn visible() -> impl Strategy<Value = Vec<u8>> {
    vec(prop_oneof![0x21_u8..0x7f, 0x80_u8..=0xff], 0..40)
}

/// Generates random bytes and nearly valid JSON bodies.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let member = "name|mode|disabled|products|configuration|scopes|expires_at|networks|x";
    let value = "null|true|-?[0-9]{1,25}|\"[a-z ]{0,9}\"|\\[\\]|\\[\"sim_swap\"\\]|\\{\\}|\\{\"reverse_sms\":\\{\"ttl\":[0-9]{1,4}\\}\\}";
    let object = |members: Vec<(String, String)>| {
        let members: Vec<_> = members.into_iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        format!("{{{}}}", members.join(","))
    };
    prop_oneof![
        2 => vec(any::<u8>(), 0..200),
        6 => vec((member, value), 1..4).prop_map(object).prop_map(String::into_bytes),
        1 => "[\\[\\]{}:,\"0-9a-z\\\\]{0,80}".prop_map(String::into_bytes),
        1 => "(grant_type|scope|token|client_id)=[a-z_%0-9&=]{0,60}".prop_map(String::into_bytes),
    ]
}

/// Generates requests with a broken request line, headers or framing, and arbitrary bytes.
fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        4 => select(vec!["GET /livez HTTP/1.1\r\n", "POST /oauth2/token HTTP/1.1\r\n", "GET / HTTP/1.0\r\n"]),
        1 => select(vec![
            "GET /livez\r\n", "GET /livez HTTP/0.9\r\n", "GET /livez HTTP/2.0\r\n", "GET  /livez HTTP/1.1\r\n", "\r\n\r\n",
            "GET /livez HTTP/1.1\n", "P\u{fc}T / HTTP/1.1\r\n", "GET \u{0} HTTP/1.1\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        ]),
    ];
    let header = prop_oneof![
        3 => select(vec![
            "Host: x\r\n", "X-A: b\r\n", "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n", "Connection: Upgrade\r\n",
            "Upgrade: h2c\r\n", "Expect: 100-continue\r\n", "Content-Type: application/x-www-form-urlencoded\r\n",
        ]),
        1 => select(vec![
            "Content-Length: -1\r\n", "Content-Length: 5, 6\r\n", "Transfer-Encoding: identity\r\n", "X A: b\r\n", ": b\r\n",
            "X-A\r\n", " folded\r\n", "X-A: \u{0}\r\n", "X-A: b\n", "Transfer-Encoding: chunked, x\r\n",
        ]),
    ];
    let chunks = "([0-9a-fA-F]{1,18}|x|)\r\n[a-z]{0,9}\r\n(0\r\n\r\n|)".prop_map(String::into_bytes);
    let request = (line, vec(header, 0..4), prop_oneof![vec(any::<u8>(), 0..40), chunks]);
    prop_oneof![
        1 => vec(any::<u8>(), 0..300),
        6 => request.prop_map(|(line, headers, body)| [line.as_bytes(), headers.concat().as_bytes(), b"\r\n", &body].concat()),
    ]
}
