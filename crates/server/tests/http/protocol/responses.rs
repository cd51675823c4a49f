//! Headers and format of every response.

use std::collections::BTreeSet;

use serde_json::json;

use crate::{
    client::{HttpResponse, Request, token_request},
    protocol::routes::{self, Ids},
    world::World,
};

/// Returns one response of every kind that can be requested without side effects.
pub async fn all_kinds(world: &World) -> Vec<(Request, HttpResponse)> {
    let project = world.project("Shop", json!({})).await;
    let ids = Ids::of(&world.acme, &project);
    let token = world.management_token().await;
    let mut requests: Vec<Request> = routes::all().into_iter().map(|route| route.request(&ids)).collect();
    requests.extend(
        routes::managed().filter(|route| route.method != "DELETE").map(|route| route.request(&ids).bearer(&token)),
    );
    let projects = format!("{}/projects", world.acme.path());
    let post = || Request::post(&projects).bearer(&token);
    requests.extend([
        token_request(&world.acme.client_id, &world.acme.client_secret, "management"),
        token_request(&world.acme.client_id, "wrong", "management"),
        Request::get("/nowhere"),
        Request::new("OPTIONS", "/livez"),
        Request::get("/livez").header("Host", "us.api.example.com"),
        Request::get(&format!("/livez?{}", "x".repeat(9_000))),
        Request::get("/livez").header("X-Filler", "x".repeat(9_000)),
        post().json(&json!({"name": "A better name"})),
        post().body("application/json", " ".repeat(20_000)),
        post().body("text/plain", "x"),
        post().json(&json!({"name": "x"})).header("Idempotency-Key", "k"),
        post().json(&json!({"name": "y"})).header("Idempotency-Key", "k"),
        Request::get("/.well-known/jwks.json").header("If-None-Match", "*"),
    ]);
    let mut responses = vec![];
    for request in requests {
        let response = world.send(request.clone()).await;
        responses.push((request, response));
    }
    let statuses: BTreeSet<u16> = responses.iter().map(|(_, response)| response.status).collect();
    let expected = [200, 201, 304, 400, 401, 404, 405, 409, 413, 414, 415, 421, 422, 431];
    assert!(expected.iter().all(|status| statuses.contains(status)), "{statuses:?}");
    responses
}

#[tokio::test]
async fn every_response_has_a_request_id_and_an_api_version() {
    let world = World::sqlite().await;
    let mut ids = BTreeSet::new();
    for (request, response) in all_kinds(&world).await {
        assert_eq!(response.header("x-api-version"), Some("1.0.0"), "{request:?}");
        let id = response.header("x-request-id").expect("an id");
        assert!(ids.insert(id.to_owned()), "{id} occurs twice");
        assert_eq!(response.header("x-content-type-options"), Some("nosniff"), "{request:?}");
        assert!(response.header("server").is_none() && response.header("x-powered-by").is_none());
    }
}

/// Only public pages and keys are cacheable.
#[tokio::test]
async fn only_public_documents_are_cacheable() {
    let world = World::sqlite().await;
    for (request, response) in all_kinds(&world).await {
        let may_cache =
            ["/.well-known/", "/docs", "/errors", "/assets/"].iter().any(|start| request.target.starts_with(start))
                && response.status < 400;
        let expected = if may_cache { "public, max-age=3600" } else { "no-store" };
        assert_eq!(response.header("cache-control"), Some(expected), "{request:?}");
    }
}

#[tokio::test]
async fn responses_have_no_cors_headers() {
    let world = World::sqlite().await;
    let project = world.project("Shop", json!({})).await;
    let ids = Ids::of(&world.acme, &project);
    let token = world.management_token().await;
    for route in routes::all().into_iter().filter(|route| route.method != "DELETE") {
        let preflight = Request::new("OPTIONS", &routes::fill(route.template, &ids))
            .header("Access-Control-Request-Method", route.method)
            .header("Access-Control-Request-Headers", "authorization");
        for request in [route.request(&ids), route.request(&ids).bearer(&token), preflight] {
            let response = world.send(request.header("Origin", "https://evil.example")).await;
            let cors_header =
                response.headers.iter().find(|(name, _)| name.to_ascii_lowercase().starts_with("access-control-"));
            assert_eq!(cors_header, None, "{route:?}");
        }
    }
}

#[tokio::test]
async fn every_problem_is_complete_and_links_its_page() {
    let world = World::sqlite().await;
    for (request, response) in all_kinds(&world).await.into_iter().filter(|(_, response)| response.status >= 400) {
        let body = response.json();
        if routes::is_camara(&request.target) {
            assert_eq!(body["status"], response.status, "{request:?}");
            continue;
        }
        assert_eq!(body["status"], response.status, "{request:?}");
        assert_eq!(body["type"], format!("{}/errors/{}", world.node.base_url, response.code()));
        let page = world.send(Request::get(&format!("/errors/{}", response.code()))).await.assert(200);
        assert!(page.text().contains(body["title"].as_str().unwrap()));
        assert!(!body["detail"].as_str().unwrap().is_empty());
    }
}

#[tokio::test]
async fn valid_request_id_is_echoed() {
    let world = World::sqlite().await;
    for valid in ["a", "A-z_0.9", "01a1d982-59ef-7b32-a1f0-5c7d9e2b4f68", &"x".repeat(128)] {
        for path in ["/livez", "/nowhere", "/v1/management/workspaces"] {
            let response = world.send(Request::get(path).header("X-Request-Id", valid)).await;
            assert_eq!(response.header("x-request-id"), Some(valid));
        }
    }
}

#[tokio::test]
async fn invalid_request_id_is_replaced() {
    let world = World::sqlite().await;
    let mut seen = BTreeSet::new();
    for invalid in
        [&b""[..], b" ", b"a b", b"a,b", b"a;b", b"<script>", b"\xff\xfe", "ü".as_bytes(), b"a/b", b"{}", &[b'x'; 129]]
    {
        let response = world.send(Request::get("/livez").header("X-Request-Id", invalid)).await.assert(200);
        let id = response.header("x-request-id").unwrap().to_owned();
        assert_eq!(id.len(), 36, "replaced by a UUID: {id}");
        assert!(seen.insert(id));
    }
}
