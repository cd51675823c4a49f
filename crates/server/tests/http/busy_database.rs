//! A PostgreSQL that answers, and yet does not do what it is asked: somebody holds a lock, all connections are taken,
//! nothing may be written. Whoever needs it is told so in time; whoever does not is served.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    client::{Answer, Request},
    database::Database,
    reverse_sms::{Asker, CHECKS, EVEN},
    world::{World, eventually},
};

/// No answer may take longer, whatever it is: the statement's five seconds, and time to spare.
const LONGEST: Duration = Duration::from_secs(15);
/// Connections for lists.
const POOL: usize = 2;

#[track_caller]
fn assert_unavailable(answer: Answer) {
    let answer = answer.assert_problem(503, "service_unavailable");
    assert!(answer.header("retry-after").unwrap().parse::<u32>().unwrap() >= 1);
}

async fn in_time(world: &World, request: Request) -> Answer {
    let what = request.target.clone();
    timeout(LONGEST, world.send(request)).await.unwrap_or_else(|_| panic!("{what} is not answered"))
}

/// One read, a list, and a create.
fn calls(asker: &Asker<'_>, id: &str) -> [Request; 3] {
    [
        Request::get(&format!("{CHECKS}/{id}")),
        Request::get(CHECKS),
        Request::post(CHECKS).json(&json!({"phone_number": EVEN})),
    ]
    .map(|request| request.bearer(&asker.token))
}

async fn total(asker: &Asker<'_>) -> Value {
    asker.list("?size=1").await.assert(200).json()["page"]["total_elements"].clone()
}

#[tokio::test]
async fn who_waits_for_a_lock_is_told_to_come_again() {
    let world = World::postgres().await;
    let asker = Asker::sandbox(&world).await;
    let check = asker.create(json!({"phone_number": EVEN})).await;

    let lock = world.database.lock("checks");
    let answers = calls(&asker, &check.id).map(|request| in_time(&world, request));
    join_all(answers).await.into_iter().for_each(assert_unavailable);
    eventually("nobody waits any more", async || world.database.waiting_sessions() == 0).await;
    drop(lock);

    eventually("read again", async || asker.get(&check.id).await.status == 200).await;
    assert_eq!(total(&asker).await, 1, "what was refused was not done");
    asker.create(json!({"phone_number": EVEN})).await;
    assert_eq!(total(&asker).await, 2);
}

/// Checks are created and read on connections of their own, and so is everything but lists.
#[tokio::test]
async fn who_finds_all_connections_taken_is_told_to_come_again() {
    let world = World::postgres().await;
    let asker = Asker::sandbox(&world).await;
    let check = asker.create(json!({"phone_number": EVEN})).await;
    let events = Request::get(&format!("{}/audit-events", world.acme.path())).bearer(&world.manager().await);

    let lock = world.database.lock("audit_events");
    // More than there are connections, so that whoever is given up makes room for another of them.
    let crowd = join_all((0..4 * POOL).map(|_| async {
        loop {
            assert_unavailable(in_time(&world, events.clone()).await);
        }
    }));
    let meanwhile = async {
        eventually("all are taken", async || world.database.waiting_sessions() == POOL).await;
        let [read, list, create] = calls(&asker, &check.id).map(|request| in_time(&world, request));
        assert_unavailable(list.await);
        read.await.assert(200);
        create.await.assert(201);
    };
    tokio::select! {
        _ = crowd => unreachable!("it never ends"),
        () = meanwhile => {}
    }
    drop(lock);

    assert_eq!(total(&asker).await, 2);
    in_time(&world, events).await.assert(200);
}

#[tokio::test]
async fn what_needs_no_write_is_read_where_none_is_taken() {
    let world = World::with(Database::postgres().await, |_| {}).await;
    let asker = Asker::sandbox(&world).await;
    let check = asker.create(json!({"phone_number": EVEN})).await;

    world.database.set_read_only(true);
    let [read, list, create] = calls(&asker, &check.id);
    eventually("not ready", async || world.send(Request::get("/readyz")).await.status == 503).await;
    // Connections that were cut are made again.
    for request in [read, list] {
        eventually("read", async || in_time(&world, request.clone()).await.status == 200).await;
    }
    for _ in 0..3 {
        assert_unavailable(in_time(&world, create.clone()).await);
    }
    assert_eq!(total(&asker).await, 1, "what was refused was not done");

    world.database.set_read_only(false);
    eventually("ready again", async || world.send(Request::get("/readyz")).await.status == 200).await;
    eventually("written again", async || in_time(&world, create.clone()).await.status == 201).await;
    assert_eq!(total(&asker).await, 2, "what was refused was not done");
}
