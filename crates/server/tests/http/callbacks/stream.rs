//! `GET …/projects/{project_id}/callbacks/stream`.

use jiff::SignedDuration;
use ringtrue_callback_signature::{CallbackRequest, parse_jwks, verify};
use ringtrue_test_support::poll_until;
use serde_json::{Value, json};

use crate::{
    client::Request,
    console::live::Events,
    on_both_stores,
    products::reverse_sms::{EVEN, ReverseSmsClient},
    receiver::Receiver,
    world::World,
};

fn path_of(backend: &ReverseSmsClient<'_>) -> String {
    format!("{}/callbacks/stream", backend.project.path)
}

/// Opens a stream and waits until it has started.
async fn open(world: &World, request: Request) -> Events {
    let token = world.management_token().await;
    let mut events = Events::send(world.node.address, request.bearer(&token)).await;
    assert_eq!(events.status, 200);
    events.expect("listening").await;
    events
}

async fn conclude(backend: &ReverseSmsClient<'_>, mut body: Value) -> String {
    body["phone_number"] = json!(EVEN);
    let check = backend.create(body).await;
    backend.text(EVEN, &check.receiver, &check.body).await;
    backend.expect_status(&check.id, "COMPLETED").await;
    check.id
}

async fn next_callback(events: &mut Events) -> Value {
    serde_json::from_str(&events.expect("callback").await).unwrap()
}

/// Asserts that the event contains a request that is signed for its URL.
async fn assert_signed(world: &World, event: &Value) {
    let jwks = world.send(Request::get("/.well-known/jwks.json")).await.json().to_string();
    let url: url::Url = event["url"].as_str().unwrap().parse().unwrap();
    let headers: Vec<_> = event["headers"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()))
        .collect();
    let host = headers.iter().find(|(name, _)| name == "host").map(|(_, value)| value.as_str());
    assert_eq!(host, Some(&url[url::Position::BeforeHost..url::Position::AfterPort]));
    let request = CallbackRequest {
        method: "POST",
        target: &url[url::Position::BeforePath..url::Position::AfterQuery],
        headers: &headers,
        body: event["body"].as_str().unwrap().as_bytes(),
    };
    verify(&request, &parse_jwks(&jwks).unwrap()).unwrap();
}

async fn every_concluded_check_is_streamed_and_signed(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let before = conclude(&backend, json!({})).await;
    let open_before = backend.create(json!({"phone_number": EVEN})).await;
    world.advance(SignedDuration::from_secs(1));
    let url = "http://localhost:3000/hooks?a=b";
    let path = path_of(&backend);
    let mut events = open(&world, Request::get(&path)).await;
    let mut local =
        open(&world, Request::get(&format!("{path}?url=http%3A%2F%2Flocalhost%3A3000%2Fhooks%3Fa%3Db"))).await;

    let without_url = conclude(&backend, json!({"reference_id": "first"})).await;
    for (stream, signed_for) in [(&mut events, "http://localhost/callbacks"), (&mut local, url)] {
        let event = next_callback(stream).await;
        assert_eq!(event["check_id"], without_url.as_str());
        assert_ne!(event["check_id"], before.as_str());
        assert_eq!((&event["product"], event["url"].as_str().unwrap()), (&json!("reverse_sms"), signed_for));
        assert_signed(&world, &event).await;
        let body: Value = serde_json::from_str(event["body"].as_str().unwrap()).unwrap();
        assert_eq!(
            (&body["status"], &body["match"], &body["reference_id"]),
            (&json!("COMPLETED"), &json!(true), &json!("first"))
        );
    }
    // The callback of a check with a callback URL is delivered to this URL, too. Its event in the stream has the same
    // body.
    let mut receiver = Receiver::start().await;
    let delivered = conclude(&backend, json!({"callback_url": receiver.url("/cb?x=1")})).await;
    let sent = receiver.next().await;
    let event = next_callback(&mut events).await;
    assert_eq!(event["check_id"], delivered.as_str());
    assert_eq!(event["url"], receiver.url("/cb?x=1"));
    assert_eq!(event["body"].as_str().unwrap().as_bytes(), sent.body.as_slice());
    assert_signed(&world, &event).await;
    assert_eq!(next_callback(&mut local).await["url"], url);
    // The stream also has the callback of a check that was created before the stream was opened.
    backend.text(EVEN, &open_before.receiver, &open_before.body).await;
    for stream in [&mut events, &mut local] {
        assert_eq!(next_callback(stream).await["check_id"], open_before.id.as_str());
    }
    // The callback of an expired check is streamed even if no request has read the check.
    let expired = backend.create(json!({"phone_number": EVEN})).await;
    world.advance(SignedDuration::from_mins(15));
    let event = next_callback(&mut events).await;
    assert_eq!(event["check_id"], expired.id.as_str());
    assert!(event["body"].as_str().unwrap().contains(r#""status":"EXPIRED""#), "{event}");
}

async fn verifications_are_streamed_without_their_steps(world: World) {
    let project = world.project("Shop", json!({})).await;
    let token = world.token(&project.client_id, &project.client_secret, "verification").await;
    let mut events = open(&world, Request::get(&format!("{}/callbacks/stream", project.path))).await;
    let body = json!({"phone_number": EVEN, "methods": ["reverse_sms"]});
    let created = world.send(Request::post("/v1/verifications").bearer(&token).json(&body)).await.assert(201).json();
    let id = created["verification_id"].as_str().unwrap();
    let cancel = Request::post(&format!("/v1/verifications/{id}/cancel")).bearer(&token);
    world.send(cancel).await.assert(200);
    let event = next_callback(&mut events).await;
    assert_eq!((&event["check_id"], &event["product"]), (&json!(id), &json!("verification")));
    assert_signed(&world, &event).await;
    let body: Value = serde_json::from_str(event["body"].as_str().unwrap()).unwrap();
    assert_eq!((&body["verification_id"], &body["error_code"]), (&json!(id), &json!("cancelled")));
    // The check of the verification's step concluded at the same time, but has no event: the next event is that of a
    // later verification.
    let created =
        world.send(Request::post("/v1/verifications").bearer(&token).json(&json!({"phone_number": EVEN}))).await;
    let id = created.assert(201).json()["verification_id"].as_str().unwrap().to_owned();
    world.send(Request::post(&format!("/v1/verifications/{id}/cancel")).bearer(&token)).await.assert(200);
    assert_eq!(next_callback(&mut events).await["check_id"], id.as_str());
}

async fn streams_resume_after_the_last_event(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let path = path_of(&backend);
    let old = conclude(&backend, json!({})).await;
    world.advance(SignedDuration::from_mins(30));
    let missed = conclude(&backend, json!({})).await;
    let concluded_at = backend.get(&missed).await.json()["updated_at"].as_str().unwrap().to_owned();
    world.advance(SignedDuration::from_mins(10));
    // A stream resumes a little before the last event, because another node may have stored an earlier check later. It
    // therefore repeats the last event.
    let mut events = open(&world, Request::get(&path).header("Last-Event-ID", &concluded_at)).await;
    assert_eq!(next_callback(&mut events).await["check_id"], missed.as_str());
    let later = conclude(&backend, json!({})).await;
    assert_eq!(next_callback(&mut events).await["check_id"], later.as_str(), "{old} is older than the last event");
    let mut other_node = {
        let node = world.second_node().await;
        let token = world.management_token().await;
        let request = Request::get(&path).header("Last-Event-ID", &concluded_at).bearer(&token);
        let mut events = Events::send(node.address, request).await;
        events.expect("listening").await;
        let first = next_callback(&mut events).await;
        assert_eq!(first["check_id"], missed.as_str(), "any node resumes");
        assert_eq!(next_callback(&mut events).await["check_id"], later.as_str());
        (node, events)
    };
    // One node streams the callbacks of checks that concluded on another node.
    let last = conclude(&backend, json!({})).await;
    assert_eq!(next_callback(&mut other_node.1).await["check_id"], last.as_str());
}

async fn streams_are_authorized_and_limited(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let path = path_of(&backend);
    let token = world.management_token().await;
    let get = |path: &str| Request::get(path).bearer(&token);
    world.send(Request::get(&path)).await.assert_problem(401, "unauthorized");
    world.send(Request::get(&path).bearer(&backend.token)).await.assert_problem(403, "forbidden");
    let other = world.another_tenant().await;
    let other_token = world.management_token_of(&other).await;
    world.send(Request::get(&path).bearer(&other_token)).await.assert_problem(403, "forbidden");
    for query in [
        "?url=http%3A%2F%2Fapp.example.com%2Fcb",
        "?url=http%3A%2F%2Flocalhost.example.com",
        "?url=localhost%3A3000",
        "?url=",
        "?unknown=1",
        "?url=http%3A%2F%2Flocalhost&url=http%3A%2F%2Flocalhost",
    ] {
        world.send(get(&format!("{path}{query}"))).await.assert_problem(400, "bad_request");
    }
    world.send(get(&path).header("Last-Event-ID", "7")).await.assert_problem(400, "bad_request");
    let mut streams = vec![];
    for url in ["http%3A%2F%2F127.0.0.1%3A80%2F", "https%3A%2F%2F%5B%3A%3A1%5D%3A3000%2Fa"] {
        streams.push(open(&world, Request::get(&format!("{path}?url={url}"))).await);
    }
    while streams.len() < 8 {
        streams.push(open(&world, Request::get(&path)).await);
    }
    let refused = world.send(get(&path)).await.assert_problem(429, "too_many_requests");
    assert_eq!(refused.header("retry-after"), Some("5"));
    // All projects of a workspace share a limit, and other workspaces are not affected by it.
    let elsewhere = path_of(&ReverseSmsClient::new_named(&world, "Elsewhere").await);
    while streams.len() < 16 {
        streams.push(open(&world, Request::get(&elsewhere)).await);
    }
    let third = path_of(&ReverseSmsClient::new_named(&world, "Third").await);
    world.send(get(&third)).await.assert_problem(429, "too_many_requests");
    let foreign = world.project_of(&other, "Foreign", json!({})).await;
    let request = Request::get(&format!("{}/callbacks/stream", foreign.path)).bearer(&other_token);
    assert_eq!(Events::send(world.node.address, request).await.status, 200);
    // A closed stream counts against the limit until the server notices the end of the connection, at its next
    // heartbeat.
    drop(streams.remove(0));
    poll_until("room for another stream", async || Events::send(world.node.address, get(&path)).await.status == 200)
        .await;
}

async fn streams_end_when_the_credential_is_deleted(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let credentials = format!("/v1/management/workspaces/{}/credentials", world.acme.workspace_id);
    let created = world.manage(Request::post(&credentials).json(&json!({}))).await.assert(201).json();
    let [id, secret] = ["client_id", "client_secret"].map(|name| created[name].as_str().unwrap().to_owned());
    let token = world.token(&id, &secret, "management").await;
    let mut events = Events::send(world.node.address, Request::get(&path_of(&backend)).bearer(&token)).await;
    events.expect("listening").await;
    world.manage(Request::delete(&format!("{credentials}/{id}"))).await.assert(204);
    while let Some((name, _)) = events.next().await {
        assert_eq!(name, ":");
    }
}

on_both_stores!(
    every_concluded_check_is_streamed_and_signed,
    verifications_are_streamed_without_their_steps,
    streams_resume_after_the_last_event,
    streams_are_authorized_and_limited,
    streams_end_when_the_credential_is_deleted,
);
