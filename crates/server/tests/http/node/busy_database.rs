//! Tests a PostgreSQL server that is reachable but cannot process requests: a held lock, an exhausted connection pool,
//! a read-only database. Requests that need the database fail in time, and all others are served.

use std::time::Duration;

use futures_util::future::join_all;
use ringtrue_store::StoreOptions;
use ringtrue_test_support::{WAIT_LIMIT, poll_until};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    client::{HttpResponse, Request},
    database::Database,
    node::keys::insert_keys,
    products::reverse_sms::{CHECKS, EVEN, ReverseSmsClient},
    world::World,
};

/// Maximum response time: the statement timeout of five seconds, with a margin.
const MAX_RESPONSE_TIME: Duration = Duration::from_secs(15);
/// Number of connections that are reserved for lists.
const POOL_SIZE: usize = 2;

#[track_caller]
fn assert_unavailable(response: HttpResponse) {
    let response = response.assert_problem(503, "service_unavailable");
    assert!(response.header("retry-after").unwrap().parse::<u32>().unwrap() >= 1);
}

async fn send_in_time(world: &World, request: Request) -> HttpResponse {
    let what = request.target.clone();
    timeout(MAX_RESPONSE_TIME, world.send(request)).await.unwrap_or_else(|_| panic!("{what} got no response"))
}

/// Returns three requests: a read, a list and a create.
fn calls(backend: &ReverseSmsClient<'_>, id: &str) -> [Request; 3] {
    [
        Request::get(&format!("{CHECKS}/{id}")),
        Request::get(CHECKS),
        Request::post(CHECKS).json(&json!({"phone_number": EVEN})),
    ]
    .map(|request| request.bearer(&backend.token))
}

async fn total(backend: &ReverseSmsClient<'_>) -> Value {
    backend.list("?size=1").await.assert(200).json()["page"]["total_elements"].clone()
}

#[tokio::test]
async fn lock_timeout_returns_503() {
    let world = World::postgres().await;
    let backend = ReverseSmsClient::sandbox(&world).await;
    let check = backend.create(json!({"phone_number": EVEN})).await;

    let lock = world.database.lock("checks");
    let responses = calls(&backend, &check.id).map(|request| send_in_time(&world, request));
    join_all(responses).await.into_iter().for_each(assert_unavailable);
    poll_until("no session waits for a lock", async || world.database.waiting_sessions() == 0).await;
    drop(lock);

    poll_until("the check is readable", async || backend.get(&check.id).await.status == 200).await;
    assert_eq!(total(&backend).await, 1, "rejected requests have no effect");
    backend.create(json!({"phone_number": EVEN})).await;
    assert_eq!(total(&backend).await, 2);
}

/// Lists have their own connections; checks use others.
#[tokio::test]
async fn exhausted_connection_pool_returns_503() {
    let database = Database::postgres().await;
    // With this timeout, blocked lists keep their connections for longer than other requests wait for one.
    let store = database.open_with(&StoreOptions { search_timeout: WAIT_LIMIT, ..StoreOptions::default() }).await;
    insert_keys(&*store).await;
    let world = World::on(database, store, |_| {}).await;
    let backend = ReverseSmsClient::sandbox(&world).await;
    let check = backend.create(json!({"phone_number": EVEN})).await;
    // Only one list of a workspace runs at a time, so it takes as many other workspaces as connections to exhaust the
    // pool.
    let mut lists = Vec::new();
    for _ in 0..POOL_SIZE {
        let tenant = world.another_tenant().await;
        let token = world.management_token_of(&tenant).await;
        lists.push(Request::get(&format!("{}/audit-events", tenant.path())).bearer(&token));
    }

    let lock = world.database.lock("audit_events");
    let blocked_requests = join_all(lists.iter().map(|list| async {
        loop {
            assert_unavailable(send_in_time(&world, list.clone()).await);
        }
    }));
    let meanwhile = async {
        poll_until("all pool connections are in use", async || world.database.waiting_sessions() == POOL_SIZE).await;
        let [read, list, create] = calls(&backend, &check.id).map(|request| send_in_time(&world, request));
        assert_unavailable(list.await);
        read.await.assert(200);
        create.await.assert(201);
    };
    tokio::select! {
        _ = blocked_requests => unreachable!("endless loop"),
        () = meanwhile => {}
    }
    drop(lock);

    assert_eq!(total(&backend).await, 2);
    send_in_time(&world, lists.remove(0)).await.assert(200);
}

#[tokio::test]
async fn reads_work_on_a_read_only_database() {
    let world = World::with(Database::postgres().await, |_| {}).await;
    let backend = ReverseSmsClient::sandbox(&world).await;
    let check = backend.create(json!({"phone_number": EVEN})).await;

    world.database.set_read_only(true);
    let [read, list, create] = calls(&backend, &check.id);
    poll_until("the node is not ready", async || world.send(Request::get("/readyz")).await.status == 503).await;
    // `set_read_only` has closed all connections. Reads succeed once the node has opened new ones.
    for request in [read, list] {
        poll_until("reads succeed", async || send_in_time(&world, request.clone()).await.status == 200).await;
    }
    for _ in 0..3 {
        assert_unavailable(send_in_time(&world, create.clone()).await);
    }
    assert_eq!(total(&backend).await, 1, "rejected requests have no effect");

    world.database.set_read_only(false);
    poll_until("the node is ready", async || world.send(Request::get("/readyz")).await.status == 200).await;
    poll_until("creates succeed", async || send_in_time(&world, create.clone()).await.status == 201).await;
    assert_eq!(total(&backend).await, 2, "rejected requests have no effect");
}
