//! Nodes with wrong clocks: all decisions use the database time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use ringtrue_callback_signature::parse_date;
use ringtrue_domain::id::uuid_v7;
use ringtrue_engine::{
    node::clock_skew,
    ports::{
        clock::{Clock, SystemClock},
        entropy::{Entropy, SystemEntropy},
        node::{LastSeenDatabase, NodeId},
    },
};
use ringtrue_server::wiring::RunningNode;
use serde_json::json;

use crate::{
    client::{self, Request},
    database::Database,
    products::reverse_sms::{CHECKS, EVEN, ReverseSmsClient},
    receiver::Receiver,
    world::{World, is_token_accepted, poll_with_timeout, send_to},
};

const HOUR: SignedDuration = SignedDuration::from_hours(1);
/// Time for every task of a node to run, and for two samples of the database time.
const SAMPLING_TIME: Duration = Duration::from_millis(2_500);
const BROKEN: &str = "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n";

/// The machine's clock with an offset in milliseconds.
#[derive(Default)]
struct OffsetClock {
    off_by: AtomicI64,
}

impl OffsetClock {
    fn off_by(skew: SignedDuration) -> Arc<Self> {
        let clock = Arc::<OffsetClock>::default();
        clock.set(skew);
        clock
    }

    fn set(&self, skew: SignedDuration) {
        self.off_by.store(i64::try_from(skew.as_millis()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for OffsetClock {
    fn now(&self) -> Timestamp {
        SystemClock.now() + SignedDuration::from_millis(self.off_by.load(Ordering::SeqCst))
    }
}

/// Advances the database time: sends a heartbeat of another node whose clock is ahead.
async fn advance(node: &RunningNode, by: SignedDuration) {
    let now = node.engine.clock().now();
    let id = NodeId(uuid_v7(now, (&SystemEntropy::default() as &dyn Entropy).bytes()));
    let known = LastSeenDatabase::default();
    node.engine.store().heartbeat(id, now + by, Timestamp::UNIX_EPOCH, known).await.unwrap();
    node.engine.store().deregister_node(id).await.unwrap();
}

fn is_near(one: Timestamp, other: Timestamp) -> bool {
    one.duration_since(other).abs() < SignedDuration::from_secs(30)
}

async fn skew_metric(node: &RunningNode) -> f64 {
    let metrics = client::send(node.metrics_address.unwrap(), &Request::get("/metrics")).await.text();
    let line = metrics.lines().find_map(|line| line.strip_prefix("ringtrue_clock_skew_seconds ")).unwrap();
    line.parse().unwrap()
}

#[tokio::test]
async fn node_with_a_fast_clock_expires_and_retries_nothing_early() {
    let world = World::with_database_clock(Database::postgres().await, OffsetClock::off_by(SignedDuration::ZERO)).await;
    let ahead = world.node_with_database_clock(OffsetClock::off_by(HOUR)).await;
    let backend = ReverseSmsClient::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    let check = backend.create(json!({"phone_number": EVEN, "callback_url": receiver.url("/")})).await;
    tokio::time::sleep(SAMPLING_TIME).await;
    let read = Request::get(&format!("{CHECKS}/{}", check.id)).bearer(&backend.token);
    for node in [&world.node, &ahead] {
        assert_eq!(send_to(node.address, read.clone()).await.assert(200).json()["status"], "ACCEPTED");
    }
    assert!(receiver.is_quiet());

    let there = send_to(
        ahead.address,
        Request::post(CHECKS).bearer(&backend.token).json(&json!({"phone_number": "+990123456702"})),
    );
    let there = there.await.assert(201);
    let created_at: Timestamp = there.json()["created_at"].as_str().unwrap().parse().unwrap();
    assert!(is_near(created_at, SystemClock.now()), "{created_at}");
    assert!(is_near(parse_date(there.header("date").unwrap()).unwrap(), SystemClock.now()), "the Date header");

    receiver.respond_with([BROKEN]);
    backend.text(EVEN, &check.receiver, &check.body).await;
    let ended = backend.expect_status(&check.id, "COMPLETED").await;
    assert!(ended["created_at"].as_str() <= ended["updated_at"].as_str(), "{ended}");
    let first = receiver.next().await;
    assert!(is_near(parse_date(first.header("date")).unwrap(), SystemClock.now()), "the signed date");
    tokio::time::sleep(SAMPLING_TIME).await;
    assert!(receiver.is_quiet(), "the second attempt is due after ten seconds");
    advance(&world.node, SignedDuration::from_secs(10)).await;
    assert_eq!(receiver.next().await.header("x-service-callback-attempt"), "2");

    assert!((skew_metric(&ahead).await - 3600.0).abs() < 30.0);
    assert!(skew_metric(&world.node).await.abs() < 30.0);
}

#[tokio::test]
async fn node_with_a_slow_clock_expires_and_retries_on_time() {
    let world = World::with_database_clock(Database::postgres().await, OffsetClock::off_by(-HOUR)).await;
    let backend = ReverseSmsClient::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    receiver.respond_with([BROKEN]);
    let check = backend.create(json!({"phone_number": EVEN, "callback_url": receiver.url("/")})).await;
    advance(&world.node, SignedDuration::from_secs(301)).await;
    poll_with_timeout("the node has the new time", async || backend.get(&check.id).await.json()["status"] == "EXPIRED")
        .await;
    let ended = backend.expect_status(&check.id, "EXPIRED").await;
    let updated_at: Timestamp = ended["updated_at"].as_str().unwrap().parse().unwrap();
    assert!(SystemClock.now() < updated_at, "{ended}");
    receiver.next().await;
    world.wait_for_callback_results().await;
    advance(&world.node, SignedDuration::from_secs(10)).await;
    assert_eq!(receiver.next().await.header("x-service-callback-attempt"), "2");
    assert!(skew_metric(&world.node).await < -3500.0);
}

/// With SQLite, the machine's clock is the database time, but the time never goes back behind the latest recorded time.
#[tokio::test]
async fn expired_tokens_stay_invalid_when_the_clock_is_set_back() {
    let machine = OffsetClock::off_by(SignedDuration::ZERO);
    let world = World::with_database_clock(Database::sqlite().await, Arc::clone(&machine) as _).await;
    let (expired, revoked) = (world.management_token().await, world.management_token().await);
    let revoke = Request::post("/oauth2/revoke")
        .basic(&world.acme.client_id, &world.acme.client_secret)
        .form(&[("token", &revoked)]);
    world.send(revoke).await.assert(200);
    assert!(world.accepts_token(&expired).await && !world.accepts_token(&revoked).await);

    machine.set(2 * HOUR);
    poll_with_timeout("the token has expired", async || !world.accepts_token(&expired).await).await;
    let late = world.node.engine.clock().now();
    poll_with_timeout("the time is recorded", async || {
        world.node.engine.store().database_time(Timestamp::UNIX_EPOCH).await.unwrap().latest_recorded >= late
    })
    .await;
    world.node.engine.node.delete_expired().await.unwrap();

    machine.set(SignedDuration::ZERO);
    tokio::time::sleep(SAMPLING_TIME).await;
    let restarted = world.node_with_database_clock(Arc::clone(&machine) as _).await;
    for node in [&world.node, &restarted] {
        assert!(late <= node.engine.clock().now());
        assert!(clock_skew(node.engine.clock()) < -HOUR, "the skew is measured");
        assert!(!is_token_accepted(node.address, &expired).await && !is_token_accepted(node.address, &revoked).await);
        assert!(is_token_accepted(node.address, &world.management_token().await).await, "new tokens are valid");
    }
}

#[tokio::test]
async fn node_with_a_slow_clock_rejects_expired_tokens() {
    let world = World::with_database_clock(Database::postgres().await, OffsetClock::off_by(SignedDuration::ZERO)).await;
    let behind = world.node_with_database_clock(OffsetClock::off_by(-2 * HOUR)).await;
    let token = world.management_token().await;
    assert!(is_token_accepted(behind.address, &token).await);
    advance(&world.node, HOUR + SignedDuration::from_secs(1)).await;
    for node in [&world.node, &behind] {
        poll_with_timeout("the token has expired", async || !is_token_accepted(node.address, &token).await).await;
    }
}
