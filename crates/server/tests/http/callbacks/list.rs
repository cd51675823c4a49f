//! `GET …/projects/{project_id}/callbacks`.

use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::{
    client::Request,
    on_both_stores,
    products::reverse_sms::{EVEN, ReverseSmsClient},
    receiver::Receiver,
    world::World,
};

const BROKEN: &str = "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n";

async fn callbacks_are_listed_with_their_last_attempt(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    let conclude = async |receiver: &mut Receiver| {
        let body = json!({"phone_number": EVEN, "callback_url": receiver.url("/cb?token=hunter2")});
        let check = backend.create(body).await;
        backend.text(EVEN, &check.receiver, &check.body).await;
        receiver.next().await;
        world.wait_for_callback_results().await;
        check.id
    };
    let delivered = conclude(&mut receiver).await;
    receiver.respond_with([BROKEN]);
    world.advance(SignedDuration::from_secs(1));
    let retrying = conclude(&mut receiver).await;

    let path = format!("{}/callbacks", backend.project.path);
    let list = async |query: &str| world.manage(Request::get(&format!("{path}{query}"))).await.assert(200).json();
    let all = list("").await;
    assert_eq!(all["page"]["total_elements"], 2);
    let host = receiver.url("").trim_start_matches("http://").to_owned();
    let shown = |id: &str, state: &str, result: &str| json!({"check_id": id, "product": "reverse_sms", "receiver": host, "state": state, "attempts": 1, "last_result": result});
    let without_times = |mut callback: Value| {
        assert!(callback.as_object_mut().unwrap().remove("last_attempt_at").is_some());
        let next = callback.as_object_mut().unwrap().remove("next_attempt_at");
        assert_eq!(next.is_some(), callback["state"] == "waiting");
        callback
    };
    assert_eq!(without_times(all["content"][0].clone()), shown(&retrying, "waiting", "500"));
    assert_eq!(without_times(all["content"][1].clone()), shown(&delivered, "delivered", "200"));
    assert!(!all.to_string().contains("hunter2"), "URLs can contain secrets");

    for (query, ids) in [
        ("?state=retrying", &[&retrying][..]),
        ("?state=undeliverable", &[]),
        ("?state=recovered", &[]),
        ("?product=reverse_sms&size=1", &[&retrying]),
        ("?size=1&page=2", &[&delivered]),
        ("?product=verification", &[]),
        ("?receiver=other.example", &[]),
        (&format!("?receiver={host}"), &[&retrying, &delivered]),
    ] {
        let listed = list(query).await;
        let listed: Vec<_> =
            listed["content"].as_array().unwrap().iter().map(|one| one["check_id"].as_str().unwrap()).collect();
        assert_eq!(listed, ids, "{query}");
    }
    for query in ["?state=waiting", "?product=sim_swap", "?product=x", "?receiver=", "?size=0", "?unknown=1"] {
        world.manage(Request::get(&format!("{path}{query}"))).await.assert_problem(400, "bad_request");
    }
    // Neither a token of another workspace nor a token for a product may list the callbacks.
    let other = world.another_tenant().await;
    let other = world.management_token_of(&other).await;
    world.send(Request::get(&path).bearer(&other)).await.assert_problem(403, "forbidden");
    world.send(Request::get(&path).bearer(&backend.token)).await.assert_problem(403, "forbidden");
}

on_both_stores!(callbacks_are_listed_with_their_last_attempt);
