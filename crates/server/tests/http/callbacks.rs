//! Delivering callbacks: what counts as success, when it is tried again, what is never opened.

use jiff::SignedDuration;
use ringtrue_engine::{callback::Limits, ports::KeyPurpose};
use ringtrue_server::config::Config;
use serde_json::json;
use tokio::net::TcpListener;

use crate::{
    client::Request,
    database::Database,
    metadata, networks, on_both_stores,
    receiver::{self, Callback, Receiver},
    reverse_sms::{Asker, EVEN},
    world::{World, eventually},
};

const NO_CONTENT: &str = "HTTP/1.1 204 No Content\r\n\r\n";
const CREATED: &str = "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n";
const MOVED: &str = "HTTP/1.1 301 Moved\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n";
const GONE: &str = "HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n";
const BUSY: &str = "HTTP/1.1 429 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
const BROKEN: &str = "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n";
const HANGS_UP: &str = "";

/// Ends a check whose callback goes to the receiver.
async fn end_a_check(asker: &Asker<'_>, receiver: &Receiver) -> String {
    let check = asker.create(json!({"phone_number": EVEN, "callback_url": receiver.url("/cb")})).await;
    asker.text(EVEN, &check.receiver, &check.body).await;
    check.id
}

async fn only_200_ends_the_attempts_and_seven_are_enough(world: World) {
    let asker = Asker::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    receiver.answer([HANGS_UP, CREATED, NO_CONTENT, MOVED, GONE, BUSY, BROKEN]);
    let id = end_a_check(&asker, &receiver).await;
    let jwks = world.send(Request::get("/.well-known/jwks.json")).await.json();
    let first = receiver.next().await;
    first.assert_signed_by(&jwks);
    let mut dates = vec![first.header("date").to_owned()];
    for (attempt, gap) in (2..).zip([10, 20, 30, 40, 50, 60]) {
        settled(&asker, attempt - 1).await;
        world.advance(SignedDuration::from_secs(gap));
        let again = receiver.next().await;
        again.assert_signed_by(&jwks);
        assert_eq!(again.header("x-service-callback-attempt"), attempt.to_string());
        assert_eq!(again.body, first.body, "the same bytes each time");
        assert_eq!(again.json()["check_id"], id.as_str());
        dates.push(again.header("date").to_owned());
    }
    dates.dedup();
    assert_eq!(dates.len(), 7, "every attempt has its own date: {dates:?}");
    settled(&asker, 7).await;
    world.advance(SignedDuration::from_hours(1));
    // Another check's whole way, after which nothing else may have come.
    let next = asker.world.project("Next", json!({})).await;
    let token = asker.world.token(&next.client_id, &next.client_secret, "reverse_sms").await;
    let other = Asker { world: &world, project: next, token };
    let other = end_a_check(&other, &receiver).await;
    assert_eq!(receiver.next().await.json()["check_id"], other.as_str());
    assert!(receiver.is_quiet());
}

/// Waits until so many attempts have been recorded: the next gap is counted from the end of the last.
async fn settled(asker: &Asker<'_>, attempts: u32) {
    let engine = &asker.world.node.engine;
    eventually("an attempt is settled", async || {
        let figures = engine.courier().figures();
        figures.in_flight == 0 && figures.attempts.values().sum::<u64>() >= u64::from(attempts)
    })
    .await;
}

/// Receivers may keep the keys for an hour.
async fn a_key_is_relieved_between_two_attempts(world: World) {
    let mut asker = Asker::sandbox(&world).await;
    let jwks = async || world.send(Request::get("/.well-known/jwks.json")).await.assert(200).json();
    metadata::rotate(&world, KeyPurpose::SandboxCallback, false).await;
    eventually("the next key is published", async || jwks().await["keys"].as_array().unwrap().len() == 3).await;
    // The series begins half a minute before the other key's turn, and takes three and a half. These are its keys, an
    // hour earlier.
    world.advance(SignedDuration::from_hours(23) - SignedDuration::from_secs(30));
    let earlier = jwks().await;
    world.advance(SignedDuration::from_secs(210));
    assert_eq!(jwks().await, earlier);
    world.advance(SignedDuration::from_hours(1) - SignedDuration::from_secs(210));

    let (id, secret) = (&asker.project.client_id, &asker.project.client_secret);
    asker.token = world.token(id, secret, "reverse_sms").await;
    let mut receiver = Receiver::start().await;
    receiver.answer([BROKEN; 7]);
    end_a_check(&asker, &receiver).await;
    let mut signers = vec![];
    for (attempt, gap) in (1..).zip([10, 20, 30, 40, 50, 60, 0]) {
        let callback = receiver.next().await;
        callback.assert_signed_by(&jwks().await);
        callback.assert_signed_by(&earlier);
        signers.push(callback.key_id());
        settled(&asker, attempt).await;
        world.advance(SignedDuration::from_secs(gap));
    }
    let [old, new] = [&signers[0], &signers[6]];
    assert_ne!(old, new);
    assert_eq!(signers, [old, old, new, new, new, new, new].map(Clone::clone), "at its turn, to the second");
}

/// A sandbox check may name anybody's receiver: neither its first callback nor a later attempt passes for a live one.
async fn sandbox_and_live_checks_are_signed_by_different_keys(database: Database) {
    let world = networks::world_on(database, networks::THREE).await;
    let mut receiver = Receiver::start().await;
    receiver.answer([BROKEN; 2]);
    let live = networks::live(&world, &["23410"]).await;
    live.create(json!({"phone_number": "+447700900123", "callback_url": receiver.url("/cb")})).await;
    let attacker = Asker { project: world.project("Attacker", json!({})).await, token: String::new(), ..live };
    let token = world.token(&attacker.project.client_id, &attacker.project.client_secret, "reverse_sms").await;
    let attacker = Asker { token, ..attacker };
    attacker.create(json!({"phone_number": EVEN, "callback_url": receiver.url("/cb")})).await;

    let jwks = world.send(Request::get("/.well-known/jwks.json")).await.assert(200).json();
    let mode_of = |callback: &Callback| {
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
async fn modes_have_keys_of_their_own_on_sqlite() {
    Box::pin(sandbox_and_live_checks_are_signed_by_different_keys(Database::sqlite().await)).await;
}

#[tokio::test]
async fn modes_have_keys_of_their_own_on_postgres() {
    Box::pin(sandbox_and_live_checks_are_signed_by_different_keys(Database::postgres().await)).await;
}

async fn a_200_is_the_end(world: World) {
    let asker = Asker::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    receiver.answer([BROKEN]);
    end_a_check(&asker, &receiver).await;
    receiver.next().await;
    settled(&asker, 1).await;
    world.advance(SignedDuration::from_secs(10));
    receiver.next().await;
    settled(&asker, 2).await;
    world.advance(SignedDuration::from_hours(1));
    assert!(receiver.is_quiet());
    eventually("it is delivered", async || world.node.engine.courier().figures().delivered == 1).await;
}

async fn a_receiver_that_is_away_delays_nobody_else(world: World) {
    let asker = Asker::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    // Accepts connections and never says a word.
    let silent = TcpListener::bind("127.0.0.77:0").await.unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    for index in 0..20 {
        let number = format!("+9901234501{index:02}");
        let check = asker.create(json!({"phone_number": number, "callback_url": url})).await;
        if ![93, 94, 97, 98].contains(&index) {
            asker.text(&number, &check.receiver, &check.body).await;
        }
    }
    let id = end_a_check(&asker, &receiver).await;
    assert_eq!(receiver.next().await.json()["check_id"], id.as_str());
}

/// A second tenant's receivers accept and never answer, far more of them than a node has slots for.
async fn hanging_receivers_of_another_workspace_delay_nobody(world: World) {
    let attacker = world.another_tenant().await;
    let project = world.project_of(&attacker, "Attacker", json!({})).await;
    let token = world.token(&project.client_id, &project.client_secret, "reverse_sms").await;
    let attacker = Asker { world: &world, project, token };
    let mut hanging = vec![];
    for number in 0..HANGING {
        // The one address that worlds may send to, with another port for each: a destination has both.
        let listener = TcpListener::bind((receiver::ADDRESS, 0)).await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        hanging.push(listener);
        let number = format!("+99055500{number:02}00");
        let check = attacker.create(json!({"phone_number": number, "callback_url": url})).await;
        attacker.text(&number, &check.receiver, &check.body).await;
    }
    let held = async || world.node.engine.courier().figures();
    eventually("they hold what they may", async || held().await.in_flight > 0 && held().await.waiting > 0).await;
    let before = held().await;
    assert!(before.in_flight < 16, "at most a part of the unproven share: {before:?}");

    let asker = Asker::sandbox(&world).await;
    for _ in 0..3 {
        let mut receiver = Receiver::start().await;
        let id = end_a_check(&asker, &receiver).await;
        assert_eq!(receiver.next().await.json()["check_id"], id.as_str());
        assert!(held().await.waiting > 0, "the others have not gone away");
    }
}

/// More than the slots of the node below.
const HANGING: usize = 70;

fn few_slots(config: &mut Config) {
    config.courier = Limits { in_flight: 64, unproven_in_flight: 16, poor_in_flight: 16, ..Limits::default() };
}

#[tokio::test]
async fn hanging_receivers_delay_nobody_else_on_sqlite() {
    let world = World::with(Database::sqlite().await, few_slots).await;
    hanging_receivers_of_another_workspace_delay_nobody(world).await;
}

#[tokio::test]
async fn hanging_receivers_delay_nobody_else_on_postgres() {
    let world = World::with(Database::postgres().await, few_slots).await;
    hanging_receivers_of_another_workspace_delay_nobody(world).await;
}

async fn another_node_delivers_what_a_dead_one_held(world: World) {
    let asker = Asker::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    receiver.answer([BROKEN]);
    let (other, death) = world.mortal_node().await;
    let id = end_a_check(&asker, &receiver).await;
    receiver.next().await;
    settled(&asker, 1).await;
    death.cancel();
    other.finished().await;
    world.advance(SignedDuration::from_secs(10));
    let again = receiver.next().await;
    assert_eq!((again.header("x-service-callback-attempt"), &again.json()["check_id"]), ("2", &json!(id)));
}

on_both_stores!(
    only_200_ends_the_attempts_and_seven_are_enough,
    a_key_is_relieved_between_two_attempts,
    a_200_is_the_end,
    a_receiver_that_is_away_delays_nobody_else,
    another_node_delivers_what_a_dead_one_held,
);
