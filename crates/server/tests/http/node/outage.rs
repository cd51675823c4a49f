//! Database outages: 503 with `Retry-After`, never 500, and no lost writes.

use std::{collections::BTreeSet, time::Duration};

use jiff::SignedDuration;
use ringtrue_test_support::{
    database_proxy::{DatabaseProxy, ProxyState},
    poll_until,
};
use serde_json::json;

use crate::{
    client::Request,
    database::Database,
    products::{
        reverse_sms::{EVEN, ReverseSmsClient},
        scripted_sim_swap::ScriptedSimSwap,
        sim_swap::SimSwapClient,
    },
    receiver::Receiver,
    world::{TestProject, World},
};

#[tokio::test]
async fn database_outage_returns_503_until_recovery() {
    let proxy = DatabaseProxy::start().await;
    let world = World::with(Database::postgres().await.behind_proxy(proxy.port), |_| {}).await;
    let project = world.project("Before", json!({})).await;
    let token = world.management_token().await;
    let projects = format!("{}/projects", world.acme.path());

    proxy.set_state(ProxyState::Cut);
    for request in [
        Request::get(&project.path).bearer(&token),
        Request::get(&projects).bearer(&token),
        Request::post(&projects).bearer(&token).json(&json!({"name": "During"})),
        Request::patch(&project.path).bearer(&token).json(&json!({"name": "Changed"})),
        Request::delete(&format!("{}/credentials/{}", project.path, project.client_id)).bearer(&token),
        Request::get("/readyz"),
    ] {
        let response = world.send(request.clone()).await;
        assert_eq!((response.status, response.code().as_str()), (503, "service_unavailable"), "{request:?}");
        assert!(response.header("retry-after").unwrap().parse::<u32>().unwrap() >= 1);
        let body = response.text();
        assert!(!body.contains("postgres") && !body.contains("127.0.0.1:5"), "internal details are disclosed: {body}");
    }
    world.send(Request::get("/livez")).await.assert(200);
    world.token_request(&project.client_id, &project.client_secret, "sim_swap").await.assert(200);
    let revoke = Request::post("/oauth2/revoke")
        .basic(&world.acme.client_id, &world.acme.client_secret)
        .form(&[("token", &token)]);
    world.send(revoke).await.assert_problem(503, "service_unavailable");

    proxy.set_state(ProxyState::Open);
    poll_until("the node is ready", async || world.send(Request::get("/readyz")).await.status == 200).await;
    let list = world.send(Request::get(&projects).bearer(&token)).await.assert(200).json();
    assert_eq!(list["page"]["total_elements"], 1);
    assert_eq!(list["content"][0]["name"], "Before", "rejected requests have no effect");
    world.send(Request::post(&projects).bearer(&token).json(&json!({"name": "After"}))).await.assert(201);
}

/// If the client repeats the request with the same idempotency key after the outage, the check is created once.
#[tokio::test]
async fn create_interrupted_by_an_outage_can_be_repeated() {
    let proxy = DatabaseProxy::start().await;
    let world = World::with(Database::postgres().await.behind_proxy(proxy.port), |_| {}).await;
    let token = world.management_token().await;
    let path = format!("{}/projects", world.acme.path());
    let create = || Request::post(&path).bearer(&token).json(&json!({"name": "Shop"})).header("Idempotency-Key", "k");
    proxy.set_state(ProxyState::Cut);
    world.send(create()).await.assert_problem(503, "service_unavailable");
    proxy.set_state(ProxyState::Open);
    poll_until("the create succeeds", async || world.send(create()).await.status == 201).await;
    assert_eq!(world.send(Request::get(&path).bearer(&token)).await.json()["page"]["total_elements"], 1);
}

#[tokio::test]
async fn unresponsive_database_does_not_block_requests() {
    let proxy = DatabaseProxy::start().await;
    let database = Database::postgres().await.behind_proxy(proxy.port);
    let world = World::with(database, |config| config.http.request_timeout = Duration::from_secs(1)).await;
    let token = world.management_token().await;
    let path = format!("{}/projects", world.acme.path());
    proxy.set_state(ProxyState::Blocked);
    for request in
        [Request::get(&path).bearer(&token), Request::post(&path).bearer(&token).json(&json!({"name": "Shop"}))]
    {
        let response = world.send(request).await.assert_problem(503, "service_unavailable");
        assert!(response.header("retry-after").is_some());
    }
    world.token_request(&world.acme.client_id, &world.acme.client_secret, "management").await.assert(200);
    proxy.set_state(ProxyState::Open);
    poll_until("reads succeed", async || world.send(Request::get(&path).bearer(&token)).await.status == 200).await;
}

/// The operator has responded, but the result cannot be stored. The client repeats the request with the same
/// idempotency key.
#[tokio::test]
async fn sim_swap_interrupted_by_an_outage_can_be_repeated() {
    let proxy = DatabaseProxy::start().await;
    let world = World::with(Database::postgres().await.behind_proxy(proxy.port), |_| {}).await;
    let operator = ScriptedSimSwap::simulated(&world);
    let backend = SimSwapClient::sandbox(&world).await;
    let TestProject { client_id, client_secret, .. } = &backend.project;
    let eligibility = world.token(client_id, client_secret, "eligibility").await;
    let create = || backend.keyed("k", EVEN);
    operator.stop_responding();
    let cut = async {
        operator.wait_for_requests(1).await;
        proxy.set_state(ProxyState::Cut);
        operator.resume_responding();
    };
    let (refused, ()) = futures_util::future::join(world.send(create()), cut).await;
    assert!(refused.assert_problem(503, "service_unavailable").header("retry-after").is_some());
    let number = Request::get(&format!("/v1/eligibility/phone-numbers/{EVEN}"));
    world.send(number.bearer(&eligibility)).await.assert(200);

    proxy.set_state(ProxyState::Open);
    // During the outage, the node could not delete its lease on the idempotency key, so the lease has to expire first.
    world.advance(SignedDuration::from_secs(61));
    poll_until("the create succeeds", async || world.send(create()).await.status == 201).await;
    assert_eq!(backend.list("").await.json()["page"]["total_elements"], 1, "rejected requests have no effect");
    assert_eq!(operator.request_count(), 2);
}

#[tokio::test]
async fn sms_received_during_an_outage_are_redelivered() {
    let proxy = DatabaseProxy::start().await;
    let world = World::with(Database::postgres().await.behind_proxy(proxy.port), |_| {}).await;
    let backend = ReverseSmsClient::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    let numbers = [EVEN, "+990123456702", "+990123456704"];
    let mut checks = vec![];
    for number in numbers {
        checks.push(backend.create(json!({"phone_number": number, "callback_url": receiver.url("/")})).await);
    }
    proxy.set_state(ProxyState::Cut);
    let texts = checks.iter().zip(numbers).map(|(check, number)| backend.text(number, &check.receiver, &check.body));
    futures_util::future::join_all(texts).await;
    for response in [
        backend.post(json!({"phone_number": "+990123456706"})).await,
        backend.get(&checks[0].id).await,
        backend.list("").await,
    ] {
        let response = response.assert_problem(503, "service_unavailable");
        assert!(response.header("retry-after").unwrap().parse::<u32>().unwrap() >= 1);
    }
    assert!(receiver.is_quiet(), "nothing was stored, so no callback is sent");

    proxy.set_state(ProxyState::Open);
    poll_until("reads succeed", async || backend.get(&checks[0].id).await.status == 200).await;
    for check in &checks {
        assert_eq!(backend.expect_status(&check.id, "COMPLETED").await["match"], true);
    }
    let mut received = BTreeSet::new();
    for _ in &checks {
        received.insert(receiver.next().await.json()["check_id"].as_str().unwrap().to_owned());
    }
    assert_eq!(received, checks.into_iter().map(|check| check.id).collect(), "one callback for each check");
    assert!(receiver.is_quiet());
    assert_eq!(backend.list("").await.json()["page"]["total_elements"], 3, "rejected requests have no effect");
}
