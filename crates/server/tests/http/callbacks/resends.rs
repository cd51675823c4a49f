//! `POST …-checks/{check_id}/callback-resends`.

use jiff::SignedDuration;
use ringtrue_domain::{phone::Msisdn, tenancy::Mode};
use serde_json::{Value, json};

use crate::{
    client::{HttpResponse, Request},
    on_both_stores,
    products::reverse_sms::{CHECKS, EVEN, ReverseSmsClient},
    receiver::Receiver,
    silent::silent_client::{BOTH, Path},
    world::World,
};

const REVERSE_SMS: Path = Path { scope: "reverse_sms", checks: CHECKS };
const BROKEN: &str = "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n";
const AN_HOUR: SignedDuration = SignedDuration::from_hours(1);

fn resend(checks: &str, id: &str) -> Request {
    Request::post(&format!("{checks}/{id}/callback-resends"))
}

/// Concludes a check with a callback to the receiver and returns its id.
async fn ended(backend: &ReverseSmsClient<'_>, receiver: &Receiver) -> String {
    let check = backend.create(json!({"phone_number": EVEN, "callback_url": receiver.url("/cb")})).await;
    backend.text(EVEN, &check.receiver, &check.body).await;
    check.id
}

/// Sends a resend request after the results of earlier attempts were stored.
async fn resent(world: &World, request: Request) -> HttpResponse {
    world.wait_for_callback_results().await;
    world.send(request).await
}

async fn callbacks_of_every_product_can_be_resent(world: World) {
    let project = world.project("Shop", json!({})).await;
    for path in [REVERSE_SMS, BOTH[0], BOTH[1]] {
        let mut receiver = Receiver::start().await;
        let token = world.token(&project.client_id, &project.client_secret, path.scope).await;
        let mut body = if path == REVERSE_SMS { json!({"phone_number": EVEN}) } else { path.body() };
        body["callback_url"] = json!(receiver.url("/cb"));
        let created = world.send(Request::post(path.checks).bearer(&token).json(&body)).await.assert(201).json();
        let id = created["check_id"].as_str().unwrap();
        world.send(resend(path.checks, id).bearer(&token)).await.assert_problem(409, "check_still_open");

        world.advance(AN_HOUR);
        let token = world.token(&project.client_id, &project.client_secret, path.scope).await;
        let check = world.send(Request::get(&format!("{}/{id}", path.checks)).bearer(&token)).await.assert(200).json();
        assert_eq!(check["status"], "EXPIRED");
        let first = receiver.next().await;
        let again = resend(path.checks, id).bearer(&token).header("X-Request-Id", "again-1");
        let scheduled = resent(&world, again).await.assert(202).json();
        assert_eq!(scheduled, json!({"check_id": id, "scheduled_at": scheduled["scheduled_at"]}));

        let second = receiver.next().await;
        assert_eq!(second.body, first.body, "{}", path.scope);
        assert_eq!(second.header("x-service-callback"), path.scope);
        let jwks = world.send(Request::get("/.well-known/jwks.json")).await.json();
        second.assert_signed_by(&jwks);

        let event = newest_event(&world).await;
        assert_eq!(event["action"], "callback.resent");
        assert_eq!(event["actor"], json!({"type": "credential", "id": project.client_id}));
        assert_eq!(event["target"], json!({"type": "check", "id": id}));
        assert_eq!(event["request_id"], "again-1");
    }
}

async fn newest_event(world: &World) -> Value {
    let events = world.manage(Request::get(&format!("{}/audit-events", world.acme.path()))).await.assert(200).json();
    events["content"][0].clone()
}

async fn impossible_resends_are_rejected(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let receiver = Receiver::start().await;
    let silent = backend.create(json!({"phone_number": EVEN})).await;
    backend.text(EVEN, &silent.receiver, &silent.body).await;
    backend.expect_status(&silent.id, "COMPLETED").await;
    let send = async |request: Request| world.send(request.bearer(&backend.token)).await;
    send(resend(CHECKS, &silent.id)).await.assert_problem(409, "callback_missing");

    receiver.respond_with([BROKEN]);
    let trying = ended(&backend, &receiver).await;
    backend.expect_status(&trying, "COMPLETED").await;
    send(resend(CHECKS, &trying)).await.assert_problem(409, "callback_in_progress");

    send(resend(CHECKS, "01a1d990-1c2d-7e3f-8a4b-5c6d7e8f9a0b")).await.assert_problem(404, "check_not_found");
    send(resend(CHECKS, "nonsense")).await.assert_problem(400, "bad_request");
    send(resend(CHECKS, &trying).json(&json!({}))).await.assert_problem(409, "callback_in_progress");
    send(resend(CHECKS, &trying).json(&json!({"now": true}))).await.assert_problem(400, "bad_request");
    send(Request::post(&format!("{CHECKS}/{trying}/callback-resends?now=1"))).await.assert_problem(400, "bad_request");
    world.send(resend(CHECKS, &trying)).await.assert_problem(401, "unauthorized");

    // A token for another product cannot resend the callback of this check.
    let ids = (&backend.project.client_id, &backend.project.client_secret);
    let other_scope = world.token(ids.0, ids.1, BOTH[0].scope).await;
    world.send(resend(CHECKS, &trying).bearer(&other_scope)).await.assert_problem(403, "forbidden");
    world.send(resend(BOTH[0].checks, &trying).bearer(&other_scope)).await.assert_problem(404, "check_not_found");
    let other_project = world.project("Other", json!({})).await;
    let other_token = world.token(&other_project.client_id, &other_project.client_secret, "reverse_sms").await;
    world.send(resend(CHECKS, &trying).bearer(&other_token)).await.assert_problem(403, "forbidden");
}

async fn erased_callback_returns_410(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    let id = ended(&backend, &receiver).await;
    receiver.next().await;
    world.wait_for_callback_results().await;
    world.node.engine.node.erase_number(&Msisdn::parse(EVEN, Mode::Sandbox).unwrap()).await.unwrap();
    world.send(resend(CHECKS, &id).bearer(&backend.token)).await.assert_problem(410, "callback_erased");
}

async fn repeated_resend_with_the_same_key_sends_nothing(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    let id = ended(&backend, &receiver).await;
    receiver.next().await;
    let keyed = || resend(CHECKS, &id).bearer(&backend.token).header("Idempotency-Key", "again");
    let first = resent(&world, keyed()).await.assert(202);
    assert_eq!(first.header("idempotent-replayed"), None);
    receiver.next().await;
    for _ in 0..3 {
        let again = world.send(keyed()).await.assert(202);
        assert_eq!((again.header("idempotent-replayed"), &again.body), (Some("true"), &first.body));
    }
    let other = ended(&backend, &receiver).await;
    assert_eq!(receiver.next().await.json()["check_id"], other.as_str(), "replayed requests send no callback");
    let reused = resend(CHECKS, &other).bearer(&backend.token).header("Idempotency-Key", "again");
    world.send(reused).await.assert_problem(422, "idempotency_key_reused");
}

async fn resends_are_limited_to_twenty_and_their_log_is_bounded(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    let (cookie, body) = ("session=secret-of-the-receiver", "x".repeat(60_000));
    let head = format!("HTTP/1.1 200 OK\r\nSet-Cookie: {cookie}\r\nX-Long: {}\r\n", "y".repeat(1_500));
    let response = format!("{head}X-Longer: {}\r\nContent-Length: {}\r\n\r\n{body}", "z".repeat(1_500), body.len());
    receiver.respond_with([&*response.leak(); 21]);
    let id = ended(&backend, &receiver).await;
    receiver.next().await;
    for _ in 0..20 {
        resent(&world, resend(CHECKS, &id).bearer(&backend.token)).await.assert(202);
        receiver.next().await;
    }
    world.wait_for_callback_results().await;
    let keyed = || resend(CHECKS, &id).bearer(&backend.token).header("Idempotency-Key", "one-more");
    for _ in 0..2 {
        let refused = world.send(keyed()).await.assert_problem(409, "limit_reached");
        assert!(refused.detail().contains("20 times"), "{}", refused.detail());
    }
    // The limit of resends for one check does not affect other checks of the project.
    let other = ended(&backend, &receiver).await;
    receiver.next().await;
    resent(&world, resend(CHECKS, &other).bearer(&backend.token)).await.assert(202);

    let project = backend.project.project_id.parse().unwrap();
    let callback =
        world.node.engine.callbacks.read_logged_callback(project, id.parse().unwrap()).await.unwrap().unwrap();
    let numbers: Vec<u32> = callback.attempts.iter().map(|attempt| attempt.number).collect();
    assert_eq!(numbers, (2..=21).collect::<Vec<_>>());
    for attempt in callback.attempts {
        let kept = attempt.exchange.unwrap().received.unwrap();
        let names: Vec<&str> = kept.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((names, kept.body.len()), (vec!["x-long"], 4_096));
    }
}

#[tokio::test]
async fn resend_counts_against_the_create_limit() {
    let world = World::configured(|config| config.rate_limits.create = 2).await;
    let backend = ReverseSmsClient::sandbox(&world).await;
    let send = async || world.send(resend(CHECKS, "01a1d990-1c2d-7e3f-8a4b-5c6d7e8f9a0b").bearer(&backend.token)).await;
    assert_eq!(send().await.assert_problem(404, "check_not_found").header("x-ratelimit-limit"), Some("2"));
    send().await.assert_problem(404, "check_not_found");
    send().await.assert_problem(429, "too_many_requests");
}

on_both_stores!(
    callbacks_of_every_product_can_be_resent,
    impossible_resends_are_rejected,
    erased_callback_returns_410,
    repeated_resend_with_the_same_key_sends_nothing,
    resends_are_limited_to_twenty_and_their_log_is_bounded,
);
