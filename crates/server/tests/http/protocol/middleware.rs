//! Routing: paths, methods and connections.

use std::collections::BTreeSet;

use serde_json::json;

use crate::{
    client::{self, Request},
    on_both_stores,
    protocol::routes::{self, Ids, fill},
    world::World,
};

const METHODS: [&str; 10] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "get"];

async fn ids(world: &World) -> Ids {
    Ids::of(&world.acme, &world.project("Shop", json!({})).await)
}

#[tokio::test]
async fn unsupported_methods_return_405_on_every_path() {
    let world = World::sqlite().await;
    let ids = ids(&world).await;
    let token = world.management_token().await;
    for template in routes::templates() {
        let path = fill(template, &ids);
        let supported = routes::methods_of(template);
        for method in METHODS.into_iter().filter(|method| !supported.contains(method)) {
            for request in [Request::new(method, &path), Request::new(method, &path).bearer(&token)] {
                let response = world.send(request).await;
                assert_eq!(response.status, 405, "{method} {template}");
                let code = if routes::is_camara(template) { "METHOD_NOT_ALLOWED" } else { "method_not_allowed" };
                let body = if method == "HEAD" { json!({}) } else { response.json() };
                let given = body.get("error_code").or(body.get("code"));
                assert!(given.is_none_or(|given| given == code), "{method} {template}: {body}");
                assert_eq!(given.is_none(), method == "HEAD", "{method} {template}");
                let allowed: BTreeSet<_> = response.header("allow").unwrap().split(',').map(str::trim).collect();
                assert_eq!(allowed, supported.iter().copied().collect(), "{method} {template}");
            }
        }
    }
}

/// Neither a body nor a header changes the method.
#[tokio::test]
async fn method_override_headers_are_ignored() {
    let world = World::sqlite().await;
    let ids = ids(&world).await;
    let token = world.management_token().await;
    let path = fill("/v1/management/workspaces/{workspace_id}/credentials/{client_id}", &ids);
    for header in ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"] {
        world.send(Request::post(&path).header(header, "DELETE").bearer(&token)).await.assert(405);
        world.send(Request::get(&path).header(header, "DELETE").bearer(&token)).await.assert(200);
    }
    world.send(Request::get(&format!("{path}?_method=DELETE")).bearer(&token)).await.assert(200);
    world.send(Request::get(&path).bearer(&token)).await.assert(200);
}

#[tokio::test]
async fn head_returns_get_without_a_body() {
    let world = World::sqlite().await;
    let ids = ids(&world).await;
    let token = world.management_token().await;
    let paths = routes::all().into_iter().filter(|route| route.method == "GET").map(|route| fill(route.template, &ids));
    for path in paths.chain([format!("{}/projects?size=0", world.acme.path()), "/errors/unknown".to_owned()]) {
        for authorised in [true, false] {
            let of = |method: &str| {
                let request = Request::new(method, &path).header("X-Request-Id", "same");
                if authorised { request.bearer(&token) } else { request }
            };
            let (get, head) = (world.send(of("GET")).await, world.send(of("HEAD")).await);
            assert_eq!((head.status, head.body.as_slice()), (get.status, &b""[..]), "{path}");
            let stable = |headers: &[(String, String)]| -> Vec<(String, String)> {
                let varying_headers = ["date", "x-ratelimit-remaining"];
                let mut kept = headers.to_vec();
                kept.retain(|(name, _)| !varying_headers.contains(&name.to_ascii_lowercase().as_str()));
                kept.sort();
                kept
            };
            assert_eq!(stable(&head.headers), stable(&get.headers), "{path}");
        }
    }
}

#[tokio::test]
async fn unknown_paths_return_404() {
    let world = World::sqlite().await;
    let token = world.management_token().await;
    let (id, workspaces) = (&world.acme.workspace_id, "/v1/management/workspaces");
    for path in [
        "/nowhere",
        "/favicon.ico",
        "/robots.txt",
        "/.env",
        "/.git/config",
        "/metrics",
        "/coverage/v0.1/countries/GB",
        "/coverage/v0.1/device_ip",
        "/coverage/v0.1/device_ips/1.2.3.4",
        "/v1",
        "/v1/",
        "/v1/management",
        "/v1/management/",
        "/v1/management/projects",
        "/v1/Management/workspaces",
        "/oauth2",
        "/oauth2/",
        "/oauth2/device",
        "/oauth2/introspect",
        "/docs/",
        "/errors/",
        "/livez/",
        &format!("{workspaces}/"),
        &format!("{workspaces}/{id}/"),
        &format!("{workspaces}/{id}/nowhere"),
        &format!("{workspaces}/{id}/projects/"),
    ] {
        for method in ["GET", "POST", "DELETE", "OPTIONS"] {
            let response = world.send(Request::new(method, path).bearer(&token)).await;
            assert_eq!((response.status, response.code().as_str()), (404, "not_found"), "{method} {path}");
        }
    }
}

#[tokio::test]
async fn ambiguous_paths_return_404() {
    let world = World::sqlite().await;
    let token = world.management_token().await;
    let (id, workspaces) = (&world.acme.workspace_id, "/v1/management/workspaces");
    for path in [
        "//v1//management//workspaces",
        "//v1/management/workspaces",
        "/v1//management/workspaces",
        "/v1/management/workspaces//",
        "/v1/management/./workspaces",
        "/v1/management/../management/workspaces",
        "/v1/management/%2e/workspaces",
        "/v1/management/%2e%2e/management/workspaces",
        "/v1/management/%2E%2E/management/workspaces",
        "/v1/management/.%2e/management/workspaces",
        "/v1/management%2fworkspaces",
        "/v1/management%2Fworkspaces",
        "/v1/management\\workspaces",
        "/v1/management%5cworkspaces",
        "/v1/management/workspaces;x=y",
        "/v1/management;x=y/workspaces",
        "/v1/management/workspaces%3bx=y",
        "/v1/management/workspaces%00",
        "/v1/management/%77orkspaces%00.json",
        "/v1/management/workspaces%2f",
        "/docs/../livez",
        "/errors/../livez",
        "/errors/%2e%2e",
        "/errors/..%2flivez",
        &format!("{workspaces}/{id};v=1"),
        &format!("{workspaces}/{id}/../{id}"),
        &format!("{workspaces}/%2e%2e"),
    ] {
        let response = world.send(Request::get(path).bearer(&token)).await;
        assert_eq!((response.status, response.code().as_str()), (404, "not_found"), "{path}");
    }
}

/// Percent-encoded slashes, NUL and invalid UTF-8 are rejected as an invalid parameter, but only after authentication.
async fn invalid_bytes_in_path_parameters_return_400(world: World) {
    let project = world.project("Shop", json!({})).await;
    let manager = world.management_token().await;
    let token = async |scope: &str| world.token(&project.client_id, &project.client_secret, scope).await;
    let (eligibility, reverse_sms) = (token("eligibility").await, token("reverse_sms").await);
    let (secure_sna, other_tenant) = (token("secure_sna").await, world.another_tenant().await);
    let other_token = world.management_token_of(&other_tenant).await;
    let workspace = world.acme.path();
    for odd in ["a%00", "%00", "a%2Fb", "%2f", "%FF", "%C3%28", "a%2F..%2Fb", "%ED%A0%80"] {
        for (path, token, code) in [
            (format!("/v1/management/workspaces/{odd}"), &manager, "bad_request"),
            (format!("{workspace}%2Fprojects{odd}"), &manager, "bad_request"),
            (format!("{workspace}/projects/{odd}"), &manager, "bad_request"),
            (format!("{workspace}/credentials/{odd}"), &manager, "bad_request"),
            (format!("{}/credentials/{odd}", project.path), &manager, "bad_request"),
            (format!("/v1/number-verification/reverse-sms-checks/{odd}"), &reverse_sms, "bad_request"),
            (format!("/v1/number-verification/secure-sna-checks/{odd}"), &secure_sna, "bad_request"),
            (format!("/v1/eligibility/phone-numbers/{odd}"), &eligibility, "phone_number_invalid"),
            (format!("/v1/eligibility/phone-numbers/+990123456700{odd}"), &eligibility, "phone_number_invalid"),
            (format!("/v1/eligibility/device-ips/203.0.113.5{odd}"), &eligibility, "ip_invalid"),
        ] {
            let response = world.send(Request::get(&path).bearer(token)).await;
            assert_eq!((response.status, response.code().as_str()), (400, code), "{path}");
            world.send(Request::get(&path)).await.assert_problem(401, "unauthorized");
        }
        let device = format!("/v1/number-verification/secure-sna-checks/{odd}/redirect?t=x");
        world.send(Request::get(&device)).await.assert_problem(400, "bad_request");
        let scope = world.send(Request::get(&format!("{workspace}/projects/{odd}")).bearer(&reverse_sms)).await;
        scope.assert_problem(403, "forbidden");
    }
    let theirs = world.send(Request::get(&format!("{workspace}/projects")).bearer(&other_token)).await;
    theirs.assert_problem(403, "forbidden");
}

on_both_stores!(invalid_bytes_in_path_parameters_return_400);

/// Responses are sent in the order of the requests.
#[tokio::test]
async fn connection_serves_many_requests() {
    let world = World::sqlite().await;
    let token = world.management_token().await;
    let projects = format!("{}/projects", world.acme.path());
    let to_bytes = |id: &str, request: Request| {
        let last = id == "last";
        let request =
            request.header("X-Request-Id", id).header("Connection", if last { "close" } else { "keep-alive" });
        request.bytes(world.node.address)
    };
    let pipelined = [
        to_bytes("first", Request::get("/livez")),
        to_bytes("second", Request::post(&projects).bearer(&token).json(&json!({"name": "Shop"}))),
        to_bytes("third", Request::get("/nowhere")),
        to_bytes("fourth", Request::new("HEAD", "/livez")),
        to_bytes("last", Request::get(&projects).bearer(&token)),
    ]
    .concat();
    let responses = String::from_utf8(client::send_raw(world.node.address, &pipelined).await).unwrap();
    let ids: Vec<_> = responses
        .lines()
        .filter_map(|line| line.to_lowercase().strip_prefix("x-request-id: ").map(str::to_owned))
        .collect();
    assert_eq!(ids, ["first", "second", "third", "fourth", "last"]);
    assert!(responses.contains("HTTP/1.1 201") && responses.contains("HTTP/1.1 404"), "{responses}");
}

/// Repeated lengths, or a length with chunks, allow request smuggling.
#[tokio::test]
async fn request_smuggling_is_rejected() {
    let world = World::sqlite().await;
    let hidden = "GET /hidden HTTP/1.1\r\nHost: x\r\nX-Request-Id: hidden\r\nConnection: close\r\n\r\n";
    for (framing, status) in [
        (format!("Content-Length: 5\r\nContent-Length: {}\r\n\r\n{hidden}", hidden.len()), 400),
        (
            format!(
                "Content-Length: {}\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n{hidden}",
                hidden.len() + 5
            ),
            501,
        ),
        (format!("Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{hidden}"), 501),
        (format!("Content-Length : {}\r\n\r\n{hidden}", hidden.len()), 400),
    ] {
        let bytes = format!(
            "POST /oauth2/token HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n{framing}"
        );
        let response = String::from_utf8(client::send_raw(world.node.address, bytes.as_bytes()).await).unwrap();
        assert!(response.starts_with(&format!("HTTP/1.1 {status}")), "{framing:?}: {response}");
        assert!(!response.contains("hidden"), "{framing:?}: {response}");
    }
}

#[tokio::test]
async fn absolute_and_asterisk_targets() {
    let world = World::sqlite().await;
    let address = world.node.address;
    for (request, expected) in [
        (Request::get(&format!("http://{address}/livez")), &[200][..]),
        (Request::get("http://elsewhere.example/livez"), &[200]),
        (Request::get("/livez?"), &[200]),
        (Request::get("/livez?x=y"), &[200]),
        (Request::new("OPTIONS", "*"), &[404, 405]),
        (Request::new("CONNECT", "elsewhere.example:443"), &[404, 405]),
        (Request::get("livez"), &[400, 404]),
        (Request::get("/livez#x"), &[200, 400]),
        (Request::get("/l\u{ef}vez"), &[400, 404]),
        (Request::get("/livez%"), &[400, 404]),
        (Request::get("/%ff"), &[404]),
    ] {
        let response = client::send(address, &request).await;
        assert!(expected.contains(&response.status), "{request:?} is {}", response.status);
    }
}
