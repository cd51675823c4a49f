//! Callback delivery: success, retries and signing keys.

use jiff::SignedDuration;
use ringtrue_engine::{courier::CourierLimits, ports::keys::KeyPurpose};
use ringtrue_server::config::Config;
use ringtrue_test_support::http_server::ReceivedRequest;
use serde_json::json;
use tokio::net::TcpListener;

use crate::{
    client::Request,
    database::Database,
    on_both_stores,
    operators::networks,
    products::reverse_sms::{EVEN, ReverseSmsClient},
    protocol::metadata,
    receiver::{self, Receiver},
    world::World,
};

const NO_CONTENT: &str = "HTTP/1.1 204 No Content\r\n\r\n";
const CREATED: &str = "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n";
const REDIRECT: &str = "HTTP/1.1 301 Moved\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n";
const GONE: &str = "HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n";
const BUSY: &str = "HTTP/1.1 429 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
const BROKEN: &str = "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n";
const NO_RESPONSE: &str = "";

/// Concludes a check with a callback to the receiver.
async fn end_a_check(backend: &ReverseSmsClient<'_>, receiver: &Receiver) -> String {
    let check = backend.create(json!({"phone_number": EVEN, "callback_url": receiver.url("/cb")})).await;
    backend.text(EVEN, &check.receiver, &check.body).await;
    check.id
}

async fn delivery_is_retried_until_200_and_at_most_seven_times(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    receiver.respond_with([NO_RESPONSE, CREATED, NO_CONTENT, REDIRECT, GONE, BUSY, BROKEN]);
    let id = end_a_check(&backend, &receiver).await;
    let jwks = world.send(Request::get("/.well-known/jwks.json")).await.json();
    let first = receiver.next().await;
    first.assert_signed_by(&jwks);
    let mut dates = vec![first.header("date").to_owned()];
    for (attempt, gap) in (2..).zip([10, 20, 30, 40, 50, 60]) {
        settled(&backend, attempt - 1).await;
        world.advance(SignedDuration::from_secs(gap));
        let again = receiver.next().await;
        again.assert_signed_by(&jwks);
        assert_eq!(again.header("x-service-callback-attempt"), attempt.to_string());
        assert_eq!(again.body, first.body, "all attempts have the same body");
        assert_eq!(again.json()["check_id"], id.as_str());
        dates.push(again.header("date").to_owned());
    }
    dates.dedup();
    assert_eq!(dates.len(), 7, "every attempt has its own date: {dates:?}");
    settled(&backend, 7).await;
    world.advance(SignedDuration::from_hours(1));
    // The next callback to arrive is that of a later check, which proves that there is no eighth attempt.
    let next = backend.world.project("Next", json!({})).await;
    let token = backend.world.token(&next.client_id, &next.client_secret, "reverse_sms").await;
    let other = ReverseSmsClient { world: &world, project: next, token };
    let other = end_a_check(&other, &receiver).await;
    assert_eq!(receiver.next().await.json()["check_id"], other.as_str());
    assert!(receiver.is_quiet());
}

async fn project_can_ask_for_longer_retries(world: World) {
    let project = world.project("Patient", json!({"configuration": {"callbacks": {"retry_for": 600}}})).await;
    let token = world.token(&project.client_id, &project.client_secret, "reverse_sms").await;
    let backend = ReverseSmsClient { world: &world, project, token };
    let mut receiver = Receiver::start().await;
    receiver.respond_with([BROKEN; 9]);
    let id = end_a_check(&backend, &receiver).await;
    receiver.next().await;
    for (attempt, gap) in (2..).zip([10, 20, 30, 40, 50, 60, 120, 240]) {
        settled(&backend, attempt - 1).await;
        world.advance(SignedDuration::from_secs(gap));
        let again = receiver.next().await;
        assert_eq!(
            (again.header("x-service-callback-attempt"), &again.json()["check_id"]),
            (&*attempt.to_string(), &json!(id))
        );
    }
    settled(&backend, 9).await;
    world.advance(SignedDuration::from_secs(480));
    let other = end_a_check(&backend, &receiver).await;
    assert_eq!(receiver.next().await.json()["check_id"], other.as_str(), "given up after ten minutes");
}

/// Waits until the last attempt is recorded, because the delay before the next attempt starts at that time. Asserts
/// that at least this many attempts are recorded.
async fn settled(backend: &ReverseSmsClient<'_>, attempts: u32) {
    backend.world.wait_for_callback_results().await;
    let recorded: u64 = backend.world.node.engine.courier().metrics().attempts.values().sum();
    assert!(recorded >= u64::from(attempts), "{recorded} of {attempts} attempts");
}

/// Receivers may cache the published keys for an hour, so a key must be published for that long before it signs.
async fn retry_after_rotation_uses_the_new_key(world: World) {
    let mut backend = ReverseSmsClient::sandbox(&world).await;
    // The keys of callbacks. Those of ID tokens sign none.
    let jwks = async || {
        let mut keys = world.send(Request::get("/.well-known/jwks.json")).await.assert(200).json();
        keys["keys"].as_array_mut().unwrap().retain(|key| key["use_mode"] != "id_token");
        keys
    };
    metadata::rotate(&world, KeyPurpose::SandboxCallback, false).await;
    assert_eq!(jwks().await["keys"].as_array().unwrap().len(), 3, "the next key is published");
    // The new key signs from 24 hours after the rotation. The attempts start half a minute before that and take three
    // and a half minutes. `earlier` are the keys that a receiver may have cached an hour before.
    world.advance(SignedDuration::from_hours(23) - SignedDuration::from_secs(30));
    let earlier = jwks().await;
    world.advance(SignedDuration::from_secs(210));
    assert_eq!(jwks().await, earlier);
    world.advance(SignedDuration::from_hours(1) - SignedDuration::from_secs(210));

    let (id, secret) = (&backend.project.client_id, &backend.project.client_secret);
    backend.token = world.token(id, secret, "reverse_sms").await;
    let mut receiver = Receiver::start().await;
    receiver.respond_with([BROKEN; 7]);
    end_a_check(&backend, &receiver).await;
    let mut signers = vec![];
    for (attempt, gap) in (1..).zip([10, 20, 30, 40, 50, 60, 0]) {
        let callback = receiver.next().await;
        callback.assert_signed_by(&jwks().await);
        callback.assert_signed_by(&earlier);
        signers.push(callback.key_id());
        settled(&backend, attempt).await;
        world.advance(SignedDuration::from_secs(gap));
    }
    let [old, new] = [&signers[0], &signers[6]];
    assert_ne!(old, new);
    assert_eq!(
        signers,
        [old, old, new, new, new, new, new].map(Clone::clone),
        "the new key signs from the start of its period"
    );
}

/// The live key must not sign sandbox callbacks: with simulated results, anybody could have a match signed.
async fn callbacks_are_signed_with_the_key_of_their_mode(database: Database) {
    let world = networks::world_on(database, networks::THREE).await;
    let mut receiver = Receiver::start().await;
    receiver.respond_with([BROKEN; 2]);
    let live = networks::live(&world, &["23410"]).await;
    live.create(json!({"phone_number": "+447700900123", "callback_url": receiver.url("/cb")})).await;
    let attacker =
        ReverseSmsClient { project: world.project("Attacker", json!({})).await, token: String::new(), ..live };
    let token = world.token(&attacker.project.client_id, &attacker.project.client_secret, "reverse_sms").await;
    let attacker = ReverseSmsClient { token, ..attacker };
    attacker.create(json!({"phone_number": EVEN, "callback_url": receiver.url("/cb")})).await;

    let jwks = world.send(Request::get("/.well-known/jwks.json")).await.assert(200).json();
    let mode_of = |callback: &ReceivedRequest| {
        callback.assert_signed_by(&jwks);
        let keys = jwks["keys"].as_array().unwrap();
        let key = keys.iter().find(|key| key["kid"] == callback.key_id()).unwrap();
        key.get("use_mode").map_or("live", |mode| mode.as_str().unwrap()).to_owned()
    };
    world.advance(SignedDuration::from_secs(301));
    for attempt in ["1", "2"] {
        let mut modes = vec![];
        for _ in 0..2 {
            let callback = receiver.next().await;
            assert_eq!(callback.header("x-service-callback-attempt"), attempt);
            modes.push(mode_of(&callback));
        }
        modes.sort();
        assert_eq!(modes, ["live", "sandbox"]);
        settled(&attacker, 2).await;
        world.advance(SignedDuration::from_secs(10));
    }
}

#[tokio::test]
async fn sandbox_and_live_use_different_keys_on_sqlite() {
    Box::pin(callbacks_are_signed_with_the_key_of_their_mode(Database::sqlite().await)).await;
}

#[tokio::test]
async fn sandbox_and_live_use_different_keys_on_postgres() {
    Box::pin(callbacks_are_signed_with_the_key_of_their_mode(Database::postgres().await)).await;
}

async fn delivered_callback_is_not_retried(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    receiver.respond_with([BROKEN]);
    end_a_check(&backend, &receiver).await;
    receiver.next().await;
    settled(&backend, 1).await;
    world.advance(SignedDuration::from_secs(10));
    receiver.next().await;
    settled(&backend, 2).await;
    world.advance(SignedDuration::from_hours(1));
    assert!(receiver.is_quiet());
    assert_eq!(world.node.engine.courier().metrics().delivered, 1);
}

async fn unreachable_endpoint_does_not_delay_others(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    // This receiver accepts connections and never responds.
    let silent = TcpListener::bind("127.0.0.77:0").await.unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    for index in 0..20 {
        let number = format!("+9901234501{index:02}");
        let check = backend.create(json!({"phone_number": number, "callback_url": url})).await;
        if ![93, 94, 97, 98].contains(&index) {
            backend.text(&number, &check.receiver, &check.body).await;
        }
    }
    let id = end_a_check(&backend, &receiver).await;
    assert_eq!(receiver.next().await.json()["check_id"], id.as_str());
}

/// A second tenant has many more receivers that never respond than the node has delivery slots.
async fn hanging_endpoints_do_not_delay_other_workspaces(world: World) {
    let attacker = world.another_tenant().await;
    let project = world.project_of(&attacker, "Attacker", json!({})).await;
    let token = world.token(&project.client_id, &project.client_secret, "reverse_sms").await;
    let attacker = ReverseSmsClient { world: &world, project, token };
    let mut hanging = vec![];
    for number in 0..HANGING {
        // Callbacks are allowed to this address only. Each receiver has its own port, because a destination is an
        // address and a port.
        let listener = TcpListener::bind((receiver::ADDRESS, 0)).await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        hanging.push(listener);
        let number = format!("+99055500{number:02}00");
        let check = attacker.create(json!({"phone_number": number, "callback_url": url})).await;
        attacker.text(&number, &check.receiver, &check.body).await;
    }
    world.wait_for_sms().await;
    let before = world.node.engine.courier().metrics();
    assert!(
        before.in_flight > 0 && before.waiting > 0 && before.in_flight < 16,
        "new destinations use only a part of the slots: {before:?}"
    );

    let backend = ReverseSmsClient::sandbox(&world).await;
    for _ in 0..3 {
        let mut receiver = Receiver::start().await;
        let id = end_a_check(&backend, &receiver).await;
        assert_eq!(receiver.next().await.json()["check_id"], id.as_str());
        assert!(world.node.engine.courier().metrics().waiting > 0, "the other callbacks are still queued");
    }
}

/// Number of receivers that never respond. More than the node in the test has delivery slots.
const HANGING: usize = 70;

fn few_slots(config: &mut Config) {
    config.courier =
        CourierLimits { concurrency: 64, unproven_concurrency: 16, poor_concurrency: 16, ..CourierLimits::default() };
}

#[tokio::test]
async fn hanging_endpoints_do_not_delay_other_workspaces_on_sqlite() {
    let world = World::with(Database::sqlite().await, few_slots).await;
    hanging_endpoints_do_not_delay_other_workspaces(world).await;
}

#[tokio::test]
async fn hanging_endpoints_do_not_delay_other_workspaces_on_postgres() {
    let world = World::with(Database::postgres().await, few_slots).await;
    hanging_endpoints_do_not_delay_other_workspaces(world).await;
}

async fn another_node_delivers_callbacks_of_a_dead_node(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    receiver.respond_with([BROKEN]);
    let (other, death) = world.stoppable_node().await;
    let id = end_a_check(&backend, &receiver).await;
    receiver.next().await;
    settled(&backend, 1).await;
    death.cancel();
    other.wait_until_stopped().await;
    world.advance(SignedDuration::from_secs(10));
    let again = receiver.next().await;
    assert_eq!((again.header("x-service-callback-attempt"), &again.json()["check_id"]), ("2", &json!(id)));
}

on_both_stores!(
    delivery_is_retried_until_200_and_at_most_seven_times,
    project_can_ask_for_longer_retries,
    retry_after_rotation_uses_the_new_key,
    delivered_callback_is_not_retried,
    unreachable_endpoint_does_not_delay_others,
    another_node_delivers_callbacks_of_a_dead_node,
);
