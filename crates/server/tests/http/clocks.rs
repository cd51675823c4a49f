//! Machines whose clocks are wrong: the time is the database's, and nothing is decided by a machine's own clock.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::id::time_ordered;
use ringtrue_engine::{
    callback::signature::read_date,
    nodes::clock_skew,
    ports::{Clock, Entropy, KnownDatabase, NodeId, SystemClock, SystemEntropy},
};
use ringtrue_server::wiring::Running;
use serde_json::json;

use crate::{
    client::{self, Request},
    database::Database,
    receiver::Receiver,
    reverse_sms::{Asker, CHECKS, EVEN},
    world::{World, accepted_at, basic, send_to, soon},
};

const HOUR: SignedDuration = SignedDuration::from_hours(1);
/// Long enough for every task of a node to have looked at the time, and for two samples of the database's.
const A_WHILE: Duration = Duration::from_millis(2_500);
const BROKEN: &str = "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n";

/// The machine's clock, off by a number of milliseconds.
#[derive(Default)]
struct WrongClock {
    off_by: AtomicI64,
}

impl WrongClock {
    fn off_by(skew: SignedDuration) -> Arc<Self> {
        let clock = Arc::<WrongClock>::default();
        clock.set(skew);
        clock
    }

    fn set(&self, skew: SignedDuration) {
        self.off_by.store(i64::try_from(skew.as_millis()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for WrongClock {
    fn now(&self) -> Timestamp {
        SystemClock.now() + SignedDuration::from_millis(self.off_by.load(Ordering::SeqCst))
    }
}

/// Moves the time of a deployment forward, as a database server whose clock has moved would.
async fn advance(node: &Running, by: SignedDuration) {
    let now = node.engine.clock().now();
    let id = NodeId(time_ordered(now, (&SystemEntropy::default() as &dyn Entropy).bytes()));
    let known = KnownDatabase::default();
    node.engine.store().heartbeat(id, now + by, Timestamp::UNIX_EPOCH, known).await.unwrap();
    node.engine.store().leave(id).await.unwrap();
}

fn is_near(one: Timestamp, other: Timestamp) -> bool {
    one.duration_since(other).abs() < SignedDuration::from_secs(30)
}

async fn skew_metric(node: &Running) -> f64 {
    let metrics = client::send(node.metrics_address.unwrap(), &Request::get("/metrics")).await.text();
    let line = metrics.lines().find_map(|line| line.strip_prefix("ringtrue_clock_skew_seconds ")).unwrap();
    line.parse().unwrap()
}

#[tokio::test]
async fn a_node_an_hour_ahead_ends_and_retries_nothing_early() {
    let world = World::following(Database::postgres().await, WrongClock::off_by(SignedDuration::ZERO)).await;
    let ahead = world.following_node(WrongClock::off_by(HOUR)).await;
    let asker = Asker::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    let check = asker.create(json!({"phone_number": EVEN, "callback_url": receiver.url("/")})).await;
    tokio::time::sleep(A_WHILE).await;
    let read = Request::get(&format!("{CHECKS}/{}", check.id)).bearer(&asker.token);
    for node in [&world.node, &ahead] {
        assert_eq!(send_to(node.address, read.clone()).await.assert(200).json()["status"], "ACCEPTED");
    }
    assert!(receiver.is_quiet());

    let there = send_to(
        ahead.address,
        Request::post(CHECKS).bearer(&asker.token).json(&json!({"phone_number": "+990123456702"})),
    );
    let there = there.await.assert(201);
    let created_at: Timestamp = there.json()["created_at"].as_str().unwrap().parse().unwrap();
    assert!(is_near(created_at, SystemClock.now()), "{created_at}");
    assert!(is_near(read_date(there.header("date").unwrap()).unwrap(), SystemClock.now()), "the Date header");

    receiver.answer([BROKEN]);
    asker.text(EVEN, &check.receiver, &check.body).await;
    let ended = asker.ends_as(&check.id, "COMPLETED").await;
    assert!(ended["created_at"].as_str() <= ended["updated_at"].as_str(), "{ended}");
    let first = receiver.next().await;
    assert!(is_near(read_date(first.header("date")).unwrap(), SystemClock.now()), "the signed date");
    tokio::time::sleep(A_WHILE).await;
    assert!(receiver.is_quiet(), "the second attempt is due after ten seconds");
    advance(&world.node, SignedDuration::from_secs(10)).await;
    assert_eq!(receiver.next().await.header("x-service-callback-attempt"), "2");

    assert!((skew_metric(&ahead).await - 3600.0).abs() < 30.0);
    assert!(skew_metric(&world.node).await.abs() < 30.0);
}

#[tokio::test]
async fn a_node_an_hour_behind_ends_and_retries_on_time() {
    let world = World::following(Database::postgres().await, WrongClock::off_by(-HOUR)).await;
    let asker = Asker::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    receiver.answer([BROKEN]);
    let check = asker.create(json!({"phone_number": EVEN, "callback_url": receiver.url("/")})).await;
    advance(&world.node, SignedDuration::from_secs(301)).await;
    let ended = asker.ends_as(&check.id, "EXPIRED").await;
    let updated_at: Timestamp = ended["updated_at"].as_str().unwrap().parse().unwrap();
    assert!(SystemClock.now() < updated_at, "{ended}");
    receiver.next().await;
    let failed = async || {
        let figures = world.node.engine.courier().figures();
        figures.in_flight == 0 && figures.attempts.values().sum::<u64>() == 1
    };
    soon("the first attempt has failed", failed).await;
    advance(&world.node, SignedDuration::from_secs(10)).await;
    assert_eq!(receiver.next().await.header("x-service-callback-attempt"), "2");
    assert!(skew_metric(&world.node).await < -3500.0);
}

/// With SQLite the machine's clock is the database's, but time does not fall below what is recorded.
#[tokio::test]
async fn tokens_stay_dead_when_the_clock_is_set_back() {
    let machine = WrongClock::off_by(SignedDuration::ZERO);
    let world = World::following(Database::sqlite().await, Arc::clone(&machine) as _).await;
    let (expired, revoked) = (world.manager().await, world.manager().await);
    let revoke = Request::post("/oauth2/revoke")
        .header("Authorization", basic(&world.acme.client_id, &world.acme.client_secret))
        .form(&[("token", &revoked)]);
    world.send(revoke).await.assert(200);
    assert!(world.accepts(&expired).await && !world.accepts(&revoked).await);

    machine.set(2 * HOUR);
    soon("the token has expired", async || !world.accepts(&expired).await).await;
    let late = world.node.engine.clock().now();
    soon("the time is recorded", async || {
        world.node.engine.store().database_time(Timestamp::UNIX_EPOCH).await.unwrap().latest >= late
    })
    .await;
    world.node.engine.tidy_up().await.unwrap();

    machine.set(SignedDuration::ZERO);
    tokio::time::sleep(A_WHILE).await;
    let restarted = world.following_node(Arc::clone(&machine) as _).await;
    for node in [&world.node, &restarted] {
        assert!(late <= node.engine.clock().now());
        assert!(clock_skew(node.engine.clock()) < -HOUR, "and the skew is known");
        assert!(!accepted_at(node.address, &expired).await && !accepted_at(node.address, &revoked).await);
        assert!(accepted_at(node.address, &world.manager().await).await, "new tokens are good");
    }
}

/// What a node with a clock that was right has revoked stays revoked on one whose clock is behind.
#[tokio::test]
async fn a_node_behind_takes_no_token_that_has_expired() {
    let world = World::following(Database::postgres().await, WrongClock::off_by(SignedDuration::ZERO)).await;
    let behind = world.following_node(WrongClock::off_by(-2 * HOUR)).await;
    let token = world.manager().await;
    assert!(accepted_at(behind.address, &token).await);
    advance(&world.node, HOUR + SignedDuration::from_secs(1)).await;
    for node in [&world.node, &behind] {
        soon("the token has expired", async || !accepted_at(node.address, &token).await).await;
    }
}
