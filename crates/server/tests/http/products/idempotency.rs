//! `Idempotency-Key`.

use jiff::SignedDuration;
use ringtrue_test_support::poll_until;
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::{
    client::{HttpResponse, Request},
    on_both_stores,
    products::scripted_sim_swap::ScriptedSimSwap,
    protocol::routes::{self, Ids, Tokens, created_id},
    world::{World, send_to},
};

/// Every create request that is repeated gets the first response byte for byte, including the secret.
async fn repeated_request_gets_the_first_response(world: World) {
    ScriptedSimSwap::simulated(&world);
    let project = world.project("Shop", json!({})).await;
    let ids = Ids::of(&world.acme, &project);
    let tokens = Tokens::of(&world, &project).await;
    for (number, route) in routes::creates().enumerate() {
        let request = route.request(&ids).bearer(tokens.for_route(route));
        let request = request.header("Idempotency-Key", format!("key-{number}"));
        let first = world.send(request.clone()).await.assert(201);
        assert_eq!(first.header("idempotent-replayed"), None);
        assert_eq!(first.text().contains("client_secret"), route.scope() == "management");
        for _ in 0..3 {
            world.advance(SignedDuration::from_secs(1));
            let again = world.send(request.clone()).await.assert(201);
            assert_eq!(again.header("idempotent-replayed"), Some("true"));
            assert_eq!(again.body, first.body, "{route:?}");
            assert_eq!(again.header("content-type"), first.header("content-type"));
        }
    }
    let projects = world.manage(Request::get(&format!("{}/projects", world.acme.path()))).await.json();
    assert_eq!(projects["page"]["total_elements"], 2, "one project of the test and one of the route");
}

async fn different_request_with_the_same_key_returns_422(world: World) {
    let (projects, credentials) =
        (format!("{}/projects", world.acme.path()), format!("{}/credentials", world.acme.path()));
    let create = async |path: &str, body: &str| {
        world.manage(Request::post(path).body("application/json", body).header("Idempotency-Key", "key")).await
    };
    let first = create(&projects, r#"{"name":"Shop"}"#).await.assert(201);
    for (path, body) in [
        (&projects, r#"{"name":"Other"}"#),
        (&projects, r#"{"name":"Shop","mode":"live"}"#),
        (&projects, r#"{"name":"Shop" }"#),
        (&credentials, "{}"),
    ] {
        create(path, body).await.assert_problem(422, "idempotency_key_reused");
    }
    assert_eq!(create(&projects, r#"{"name":"Shop"}"#).await.body, first.body);
}

async fn keys_of_checks_are_scoped_to_the_project(world: World) {
    ScriptedSimSwap::simulated(&world);
    let [one, other] = [world.project("One", json!({})).await, world.project("Other", json!({})).await];
    let [own, others] = [Tokens::of(&world, &one).await, Tokens::of(&world, &other).await];
    for route in routes::checks() {
        let key = format!("key of {}", route.scope()).replace(' ', "-");
        let create = async |tokens: &Tokens, body: &Value| {
            let request = Request::post(route.template).bearer(tokens.for_route(route)).json(body);
            world.send(request.header("Idempotency-Key", &key)).await
        };
        let (same, mut another) = (route.good_body(), route.good_body());
        another["reference_id"] = json!("another");
        let first = create(&own, &same).await.assert(201);
        create(&own, &another).await.assert_problem(422, "idempotency_key_reused");
        assert_eq!(create(&own, &same).await.assert(201).body, first.body);

        let elsewhere = create(&others, &another).await.assert(201);
        assert_eq!(elsewhere.header("idempotent-replayed"), None, "{route:?}");
        assert_ne!(created_id(&elsewhere.json()), created_id(&first.json()));
    }
}

/// The other requests get the same response as the first, or 409 while the first is in progress.
async fn one_of_many_concurrent_requests_creates_the_resource(world: World) {
    ScriptedSimSwap::simulated(&world);
    let project = world.project("Shop", json!({})).await;
    let tokens = Tokens::of(&world, &project).await;
    let ids = Ids::of(&world.acme, &project);
    // Projects are left out: after the first round, their name is taken.
    let routes = || routes::creates().filter(|route| !route.template.ends_with("/projects"));
    for (round, route) in (0..3).flat_map(|round| routes().map(move |route| (round, route))) {
        let key = format!("round-{round}-{}", route.template.len());
        let request = route.request(&ids).bearer(tokens.for_route(route)).header("Idempotency-Key", &key);
        let one = || world.send(request.clone());
        let responses = futures_util::future::join_all((0..24).map(|_| one())).await;
        let mut made = vec![];
        for response in responses {
            match (response.status, response.header("idempotent-replayed")) {
                (201, replayed) => made.push((replayed.is_none(), response.body)),
                (409, None) => assert_eq!(response.code(), "idempotency_in_progress"),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(made.iter().filter(|(is_first, _)| *is_first).count(), 1);
        assert!(made.iter().all(|(_, body)| *body == made[0].1));
        let again = one().await.assert(201);
        assert_eq!((again.header("idempotent-replayed"), &again.body), (Some("true"), &made[0].1));
    }
    for route in routes() {
        let list = Request::get(&routes::fill(route.template, &ids)).bearer(tokens.for_route(route));
        let others = match route.scope() {
            // The workspace credential that existed before.
            "management" => 1,
            // Checks that the verifications created as their first steps.
            "secure_sna" => 3,
            _ => 0,
        };
        let total = &world.send(list).await.assert(200).json()["page"]["total_elements"];
        assert_eq!(*total, others + 3, "{route:?}");
    }
}

async fn keys_are_scoped_to_the_workspace(world: World) {
    let other = world.another_tenant().await;
    let tokens =
        [(world.acme.path(), world.management_token().await), (other.path(), world.management_token_of(&other).await)];
    let mut bodies: Vec<Value> = vec![];
    for (path, token) in tokens {
        let request = Request::post(&format!("{path}/projects")).bearer(&token).json(&json!({"name": "Shop"}));
        let response = world.send(request.header("Idempotency-Key", "same")).await.assert(201);
        assert_eq!(response.header("idempotent-replayed"), None);
        bodies.push(response.json()["project_id"].clone());
    }
    assert_ne!(bodies[0], bodies[1]);
}

async fn keys_are_scoped_to_the_project(world: World) {
    let token = world.management_token().await;
    let mut ids: Vec<Value> = vec![];
    for name in ["One", "Two"] {
        let project = world.project(name, json!({})).await;
        let request = Request::post(&format!("{}/credentials", project.path)).bearer(&token).json(&json!({}));
        let response = world.send(request.header("Idempotency-Key", "same")).await.assert(201);
        assert_eq!(response.header("idempotent-replayed"), None);
        ids.push(response.json()["client_id"].clone());
    }
    assert_ne!(ids[0], ids[1]);
}

/// A request without permission is rejected before its idempotency key is looked up or stored, whether or not the owner
/// has used the same key.
async fn unauthorized_management_requests_use_no_keys(world: World) {
    let project = world.project("Shop", json!({})).await;
    let ids = Ids::of(&world.acme, &project);
    let (owner, other_tenant) =
        (world.management_token().await, world.management_token_of(&world.another_tenant().await).await);
    for (number, route) in routes::managed().filter(|route| route.method == "POST").enumerate() {
        let request = route.request(&ids).header("Idempotency-Key", format!("key-{number}"));
        let send_as_other_tenant = async || {
            let response = world.send(request.clone().bearer(&other_tenant)).await.assert_problem(403, "forbidden");
            assert_eq!(response.header("idempotent-replayed"), None);
            response.body
        };
        let before = send_as_other_tenant().await;
        let first = world.send(request.clone().bearer(&owner)).await.assert(201);
        assert_eq!(first.header("idempotent-replayed"), None, "the unauthorized request claimed the key of {route:?}");
        assert_eq!(send_as_other_tenant().await, before, "the response shows that the key exists");
        let other_body = request.clone().body("application/json", "[]").bearer(&other_tenant);
        assert_eq!(world.send(other_body).await.assert_problem(403, "forbidden").body, before);
        let again = world.send(request.bearer(&owner)).await.assert(201);
        assert_eq!((again.header("idempotent-replayed"), &again.body), (Some("true"), &first.body));
    }
}

/// Two workspaces can use the same key independently.
async fn unauthorized_product_requests_use_no_keys(world: World) {
    ScriptedSimSwap::simulated(&world);
    let project = world.project("Shop", json!({})).await;
    let theirs = world.project_of(&world.another_tenant().await, "Shop", json!({})).await;
    let [owner, other_project] = [Tokens::of(&world, &project).await, Tokens::of(&world, &theirs).await];
    for route in routes::checks() {
        let request = Request::post(route.template).json(&route.good_body()).header("Idempotency-Key", route.scope());
        let create =
            async |tokens: &Tokens| world.send(request.clone().bearer(tokens.for_route(route))).await.assert(201);
        let [own, foreign] = [create(&owner).await, create(&other_project).await];
        assert_eq!(foreign.header("idempotent-replayed"), None, "{route:?}");
        assert_ne!(created_id(&own.json()), created_id(&foreign.json()));
        if route.scope() == "sim_swap" {
            continue;
        }
        // The other project must not resend this callback. Its rejected requests do not use up the key for the owner.
        let id = created_id(&own.json()).to_owned();
        let resend = Request::post(&format!("{}/{id}/callback-resends", route.template));
        let key = format!("resend-{}", route.scope());
        for key in [&key, route.scope()] {
            let resend = resend.clone().header("Idempotency-Key", key).bearer(other_project.for_route(route));
            world.send(resend).await.assert_problem(403, "forbidden");
        }
        let resend = resend.header("Idempotency-Key", &key).bearer(owner.for_route(route));
        world.send(resend).await.assert_problem(409, "check_still_open");
    }
}

async fn key_can_be_reused_after_a_day(world: World) {
    let path = format!("{}/credentials", world.acme.path());
    let create = async || {
        world.manage(Request::post(&path).json(&json!({})).header("Idempotency-Key", "daily")).await.assert(201)
    };
    let first = create().await;
    world.advance(SignedDuration::from_hours(24) - SignedDuration::from_millis(1));
    assert_eq!(create().await.body, first.body);
    world.advance(SignedDuration::from_millis(1));
    world.node.engine.node.delete_expired().await.unwrap();
    let second = create().await;
    assert_eq!(second.header("idempotent-replayed"), None);
    assert_ne!(second.body, first.body);
    assert_eq!(create().await.body, second.body);
}

async fn expired_key_can_be_reused_before_housekeeping(world: World) {
    let path = format!("{}/credentials", world.acme.path());
    let create =
        async |body: &Value| world.manage(Request::post(&path).json(body).header("Idempotency-Key", "daily")).await;
    create(&json!({})).await.assert(201);
    world.advance(SignedDuration::from_hours(24));
    let other = create(&json!({"scopes": ["management"]})).await.assert(201);
    assert_eq!(other.header("idempotent-replayed"), None);
}

async fn failed_request_releases_its_key(world: World) {
    let taken = world.project("Taken", json!({})).await;
    let other = world.another_tenant().await;
    let create = async |path: &str, body: &Value| {
        world.manage(Request::post(path).json(body).header("Idempotency-Key", "once")).await
    };
    let (projects, elsewhere) = (format!("{}/projects", world.acme.path()), format!("{}/projects", other.path()));
    create(&projects, &json!({"name": ""})).await.assert_problem(400, "bad_request");
    create(&projects, &json!({"name": "Taken"})).await.assert_problem(409, "project_name_taken");
    create(&projects, &json!({"name": "Taken"})).await.assert_problem(409, "project_name_taken");
    let http =
        json!({"name": "New", "mode": "live", "configuration": {"discovery": {"callback_url": "http://x.example"}}});
    create(&projects, &http).await.assert_problem(400, "callback_url_invalid");
    create(&elsewhere, &json!({"name": "New"})).await.assert_problem(403, "forbidden");
    world.manage(Request::patch(&taken.path).json(&json!({"name": "Free"}))).await.assert(200);
    let done = create(&projects, &json!({"name": "Taken"})).await.assert(201);
    assert_eq!(done.header("idempotent-replayed"), None);
}

#[tokio::test]
async fn idempotency_keys_have_1_to_255_visible_characters() {
    let world = World::configured(|config| config.number_limit.max_checks = 100).await;
    ScriptedSimSwap::simulated(&world);
    let project = world.project("Shop", json!({})).await;
    let tokens = Tokens::of(&world, &project).await;
    let ids = Ids::of(&world.acme, &project);
    for route in routes::creates() {
        let request = route.request(&ids).bearer(tokens.for_route(route));
        let create = async |key: &[u8]| world.send(request.clone().header("Idempotency-Key", key)).await;
        for bad in [&b""[..], b"a b", b"a\tb", "schl\u{fc}ssel".as_bytes(), b"\xff", &[b'x'; 256], &[b'x'; 4000]] {
            let response = create(bad).await.assert_problem(400, "bad_request");
            assert!(response.detail().contains("Idempotency-Key"), "{route:?}: {}", response.detail());
        }
        let twice = request.clone().header("Idempotency-Key", "a").header("Idempotency-Key", "b");
        world.send(twice).await.assert_problem(400, "bad_request");
        // Projects are left out: their name can be taken only once.
        if route.template.ends_with("/projects") {
            continue;
        }
        for good in ["x", "!~", "a/b?c=d", "\"quoted\"", "8e03978e-40d5-43e8-bc93-6894a57f9324", &"x".repeat(255)] {
            let key = format!("{:.253}{:02}", good, route.template.len());
            create(key.as_bytes()).await.assert(201);
        }
    }
}

#[tokio::test]
async fn requests_without_a_key_are_independent() {
    let world = World::sqlite().await;
    let path = format!("{}/credentials", world.acme.path());
    let create =
        async || world.manage(Request::post(&path).json(&json!({}))).await.assert(201).json()["client_id"].clone();
    assert_ne!(create().await, create().await);
}

/// The response to the creation of a project contains a secret, which a copy of the database must not reveal.
async fn stored_response_is_encrypted(world: World) {
    let path = format!("{}/projects", world.acme.path());
    let create = Request::post(&path).json(&json!({"name": "Shop"})).header("Idempotency-Key", "my-very-own-key");
    let created = world.manage(create).await.assert(201).json();
    let secret = created["credentials"][0]["client_secret"].as_str().unwrap().to_owned();
    let id = created["credentials"][0]["client_id"].as_str().unwrap().to_owned();
    let dump = world.database.dump();
    assert!(
        !found(&dump, &secret) && !found(&dump, secret.trim_start_matches("rts_")),
        "the secret is in the database"
    );
    assert!(!found(&dump, "my-very-own-key"), "the key is in the database");
    assert!(found(&dump, &id), "the client id is in the database: the search works");
}

/// The request is processed once even if the client disconnects.
async fn disconnected_client_can_repeat_its_request(world: World) {
    let token = world.management_token().await;
    let projects = format!("{}/projects", world.acme.path());
    let request = Request::post(&projects).bearer(&token).json(&json!({"name": "Shop"})).header("Idempotency-Key", "k");
    for _ in 0..5 {
        let mut stream = TcpStream::connect(world.node.address).await.unwrap();
        stream.write_all(&request.bytes(world.node.address)).await.unwrap();
    }
    let is_created = async || match world.send(request.clone()).await {
        HttpResponse { status: 201, .. } => true,
        response => {
            response.assert_problem(409, "idempotency_in_progress");
            false
        }
    };
    poll_until("the project is created", is_created).await;
    assert_eq!(world.manage(Request::get(&projects)).await.json()["page"]["total_elements"], 1);
}

async fn any_node_replays_the_response(world: World) {
    let second = world.second_node().await;
    let token = world.management_token().await;
    let path = format!("{}/credentials", world.acme.path());
    let request = Request::post(&path).bearer(&token).json(&json!({})).header("Idempotency-Key", "k");
    let first = world.send(request.clone()).await.assert(201);
    let again = send_to(second.address, request).await.assert(201);
    assert_eq!((again.header("idempotent-replayed"), &again.body), (Some("true"), &first.body));
}

on_both_stores!(
    repeated_request_gets_the_first_response,
    different_request_with_the_same_key_returns_422,
    keys_of_checks_are_scoped_to_the_project,
    one_of_many_concurrent_requests_creates_the_resource,
    keys_are_scoped_to_the_workspace,
    keys_are_scoped_to_the_project,
    unauthorized_management_requests_use_no_keys,
    unauthorized_product_requests_use_no_keys,
    key_can_be_reused_after_a_day,
    expired_key_can_be_reused_before_housekeeping,
    failed_request_releases_its_key,
    stored_response_is_encrypted,
    disconnected_client_can_repeat_its_request,
    any_node_replays_the_response,
);

/// Searches for a text verbatim and in hex, as PostgreSQL prints bytes.
fn found(dump: &[u8], text: &str) -> bool {
    let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
    [text.as_bytes(), hex.as_bytes()].iter().any(|needle| dump.windows(needle.len()).any(|window| window == *needle))
}
