//! What every answer carries, whatever was asked.

use std::collections::BTreeSet;

use serde_json::json;

use crate::{
    client::{Answer, Request},
    routes::{self, Ids},
    world::{World, token_request},
};

/// One answer of every kind that can be had without breaking something.
pub async fn all_kinds(world: &World) -> Vec<(Request, Answer)> {
    let project = world.project("Shop", json!({})).await;
    let ids = Ids::of(&world.acme, &project);
    let token = world.manager().await;
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
    let mut answers = vec![];
    for request in requests {
        let answer = world.send(request.clone()).await;
        answers.push((request, answer));
    }
    let statuses: BTreeSet<u16> = answers.iter().map(|(_, answer)| answer.status).collect();
    let expected = [200, 201, 304, 400, 401, 404, 405, 409, 413, 414, 415, 421, 422, 431];
    assert!(expected.iter().all(|status| statuses.contains(status)), "{statuses:?}");
    answers
}

#[tokio::test]
async fn every_answer_has_an_id_and_a_version() {
    let world = World::sqlite().await;
    let mut ids = BTreeSet::new();
    for (request, answer) in all_kinds(&world).await {
        assert_eq!(answer.header("x-api-version"), Some("1.0.0"), "{request:?}");
        let id = answer.header("x-request-id").expect("an id");
        assert!(ids.insert(id.to_owned()), "{id} occurs twice");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{request:?}");
        assert!(answer.header("server").is_none() && answer.header("x-powered-by").is_none());
    }
}

/// What is in an answer is nobody else's: only public pages and keys may be kept.
#[tokio::test]
async fn only_what_is_public_may_be_cached() {
    let world = World::sqlite().await;
    for (request, answer) in all_kinds(&world).await {
        let may_cache =
            ["/.well-known/", "/docs", "/errors", "/assets/"].iter().any(|start| request.target.starts_with(start))
                && answer.status < 400;
        let expected = if may_cache { "public, max-age=3600" } else { "no-store" };
        assert_eq!(answer.header("cache-control"), Some(expected), "{request:?}");
    }
}

/// A page in somebody's browser has no business here.
#[tokio::test]
async fn no_answer_speaks_of_cors() {
    let world = World::sqlite().await;
    let project = world.project("Shop", json!({})).await;
    let ids = Ids::of(&world.acme, &project);
    let token = world.manager().await;
    for route in routes::all().into_iter().filter(|route| route.method != "DELETE") {
        let preflight = Request::new("OPTIONS", &routes::fill(route.template, &ids))
            .header("Access-Control-Request-Method", route.method)
            .header("Access-Control-Request-Headers", "authorization");
        for request in [route.request(&ids), route.request(&ids).bearer(&token), preflight] {
            let answer = world.send(request.header("Origin", "https://evil.example")).await;
            let speaks =
                answer.headers.iter().find(|(name, _)| name.to_ascii_lowercase().starts_with("access-control-"));
            assert_eq!(speaks, None, "{route:?}");
        }
    }
}

#[tokio::test]
async fn every_problem_is_whole_and_leads_to_its_page() {
    let world = World::sqlite().await;
    for (request, answer) in all_kinds(&world).await.into_iter().filter(|(_, answer)| answer.status >= 400) {
        let body = answer.json();
        assert_eq!(body["status"], answer.status, "{request:?}");
        assert_eq!(body["type"], format!("{}/errors/{}", world.node.base_url, answer.code()));
        let page = world.send(Request::get(&format!("/errors/{}", answer.code()))).await.assert(200);
        assert!(page.text().contains(body["title"].as_str().unwrap()));
        assert!(!body["detail"].as_str().unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_sane_request_id_comes_back() {
    let world = World::sqlite().await;
    for sane in ["a", "A-z_0.9", "01a1d982-59ef-7b32-a1f0-5c7d9e2b4f68", &"x".repeat(128)] {
        for path in ["/livez", "/nowhere", "/v1/management/workspaces"] {
            let answer = world.send(Request::get(path).header("X-Request-Id", sane)).await;
            assert_eq!(answer.header("x-request-id"), Some(sane));
        }
    }
}

#[tokio::test]
async fn another_request_id_is_replaced() {
    let world = World::sqlite().await;
    let mut seen = BTreeSet::new();
    for odd in
        [&b""[..], b" ", b"a b", b"a,b", b"a;b", b"<script>", b"\xff\xfe", "ü".as_bytes(), b"a/b", b"{}", &[b'x'; 129]]
    {
        let answer = world.send(Request::get("/livez").header("X-Request-Id", odd)).await.assert(200);
        let id = answer.header("x-request-id").unwrap().to_owned();
        assert_eq!(id.len(), 36, "a UUID in its place: {id}");
        assert!(seen.insert(id));
    }
}
