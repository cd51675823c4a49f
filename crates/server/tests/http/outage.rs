//! Database outages: 503 with `Retry-After`, never 500, and no lost writes.

use std::{collections::BTreeSet, net::SocketAddr, sync::Arc, time::Duration};

use jiff::SignedDuration;
use serde_json::json;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

use crate::{
    client::Request,
    database::{Database, server},
    receiver::Receiver,
    reverse_sms::{EVEN, ReverseSmsClient},
    scripted_sim_swap::ScriptedSimSwap,
    sim_swap::SimSwapClient,
    world::{TestProject, World, basic, eventually},
};

/// A proxy to PostgreSQL that can be cut or blocked.
struct DatabaseProxy {
    port: u16,
    state: Arc<watch::Sender<ProxyState>>,
    task: JoinHandle<()>,
}

#[derive(Clone, Copy, PartialEq)]
enum ProxyState {
    Open,
    /// Connections are closed and refused.
    Cut,
    /// Data is held back without an error.
    Blocked,
}

impl DatabaseProxy {
    #[expect(clippy::disallowed_methods, reason = "it ends with its test")]
    async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let url = url::Url::parse(&server()).unwrap();
        let target: SocketAddr = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap()).parse().unwrap();
        let state = Arc::new(watch::Sender::new(ProxyState::Open));
        let watched = Arc::clone(&state);
        let task = tokio::spawn(async move {
            while let Ok((here, _)) = listener.accept().await {
                tokio::spawn(forward(here, target, watched.subscribe()));
            }
        });
        DatabaseProxy { port, state, task }
    }

    fn set_state(&self, state: ProxyState) {
        self.state.send_replace(state);
    }
}

async fn forward(mut here: TcpStream, target: SocketAddr, mut state: watch::Receiver<ProxyState>) {
    if *state.borrow() == ProxyState::Open
        && let Ok(mut there) = TcpStream::connect(target).await
    {
        tokio::select! {
            _ = copy_bidirectional(&mut here, &mut there) => return,
            _ = state.wait_for(|state| *state != ProxyState::Open) => {}
        }
    }
    // Held so that the peer waits; then closed.
    let _ = state.wait_for(|state| *state != ProxyState::Blocked).await;
}

impl Drop for DatabaseProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[tokio::test]
async fn database_outage_returns_503_until_recovery() {
    let way = DatabaseProxy::open().await;
    let world = World::with(Database::postgres().await.behind(way.port), |_| {}).await;
    let project = world.project("Before", json!({})).await;
    let token = world.management_token().await;
    let projects = format!("{}/projects", world.acme.path());

    way.set_state(ProxyState::Cut);
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
        let told = response.text();
        assert!(!told.contains("postgres") && !told.contains("127.0.0.1:5"), "internal details are disclosed: {told}");
    }
    world.send(Request::get("/livez")).await.assert(200);
    world.token_request(&project.client_id, &project.client_secret, "sim_swap").await.assert(200);
    let revoke = Request::post("/oauth2/revoke")
        .header("Authorization", basic(&world.acme.client_id, &world.acme.client_secret))
        .form(&[("token", &token)]);
    world.send(revoke).await.assert_problem(503, "service_unavailable");

    way.set_state(ProxyState::Open);
    eventually("ready again", async || world.send(Request::get("/readyz")).await.status == 200).await;
    let list = world.send(Request::get(&projects).bearer(&token)).await.assert(200).json();
    assert_eq!(list["page"]["total_elements"], 1);
    assert_eq!(list["content"][0]["name"], "Before", "what was refused was not done");
    world.send(Request::post(&projects).bearer(&token).json(&json!({"name": "After"}))).await.assert(201);
}

/// The same request with the same key is processed once.
#[tokio::test]
async fn create_interrupted_by_an_outage_can_be_repeated() {
    let way = DatabaseProxy::open().await;
    let world = World::with(Database::postgres().await.behind(way.port), |_| {}).await;
    let token = world.management_token().await;
    let path = format!("{}/projects", world.acme.path());
    let create = || Request::post(&path).bearer(&token).json(&json!({"name": "Shop"})).header("Idempotency-Key", "k");
    way.set_state(ProxyState::Cut);
    world.send(create()).await.assert_problem(503, "service_unavailable");
    way.set_state(ProxyState::Open);
    eventually("done at last", async || world.send(create()).await.status == 201).await;
    assert_eq!(world.send(Request::get(&path).bearer(&token)).await.json()["page"]["total_elements"], 1);
}

#[tokio::test]
async fn unresponsive_database_does_not_block_requests() {
    let way = DatabaseProxy::open().await;
    let database = Database::postgres().await.behind(way.port);
    let world = World::with(database, |config| config.http.request_timeout = Duration::from_secs(1)).await;
    let token = world.management_token().await;
    let path = format!("{}/projects", world.acme.path());
    way.set_state(ProxyState::Blocked);
    for request in
        [Request::get(&path).bearer(&token), Request::post(&path).bearer(&token).json(&json!({"name": "Shop"}))]
    {
        let response = world.send(request).await.assert_problem(503, "service_unavailable");
        assert!(response.header("retry-after").is_some());
    }
    world.token_request(&world.acme.client_id, &world.acme.client_secret, "management").await.assert(200);
    way.set_state(ProxyState::Open);
    eventually("served again", async || world.send(Request::get(&path).bearer(&token)).await.status == 200).await;
}

/// The operator has responded, but the result cannot be stored. The client repeats the request with the same key.
#[tokio::test]
async fn sim_swap_interrupted_by_an_outage_can_be_repeated() {
    let way = DatabaseProxy::open().await;
    let world = World::with(Database::postgres().await.behind(way.port), |_| {}).await;
    let register = ScriptedSimSwap::simulated(&world);
    let backend = SimSwapClient::sandbox(&world).await;
    let TestProject { client_id, client_secret, .. } = &backend.project;
    let eligibility = world.token(client_id, client_secret, "eligibility").await;
    let create = || backend.keyed("k", EVEN);
    register.stop_responding();
    let cut = async {
        eventually("the operator is queried", async || register.asked() == 1).await;
        way.set_state(ProxyState::Cut);
        register.resume_responding();
    };
    let (refused, ()) = futures_util::future::join(world.send(create()), cut).await;
    assert!(refused.assert_problem(503, "service_unavailable").header("retry-after").is_some());
    let number = Request::get(&format!("/v1/eligibility/phone-numbers/{EVEN}"));
    world.send(number.bearer(&eligibility)).await.assert(200);

    way.set_state(ProxyState::Open);
    // The key could not be released; its lease expires.
    world.advance(SignedDuration::from_secs(61));
    eventually("done at last", async || world.send(create()).await.status == 201).await;
    assert_eq!(backend.list("").await.json()["page"]["total_elements"], 1, "what was refused was not done");
    assert_eq!(register.asked(), 2);
}

#[tokio::test]
async fn sms_received_during_an_outage_are_redelivered() {
    let way = DatabaseProxy::open().await;
    let world = World::with(Database::postgres().await.behind(way.port), |_| {}).await;
    let backend = ReverseSmsClient::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    let numbers = [EVEN, "+990123456702", "+990123456704"];
    let mut checks = vec![];
    for number in numbers {
        checks.push(backend.create(json!({"phone_number": number, "callback_url": receiver.url("/")})).await);
    }
    way.set_state(ProxyState::Cut);
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

    way.set_state(ProxyState::Open);
    eventually("served again", async || backend.get(&checks[0].id).await.status == 200).await;
    for check in &checks {
        assert_eq!(backend.ends_as(&check.id, "COMPLETED").await["match"], true);
    }
    let mut told = BTreeSet::new();
    for _ in &checks {
        told.insert(receiver.next().await.json()["check_id"].as_str().unwrap().to_owned());
    }
    assert_eq!(told, checks.into_iter().map(|check| check.id).collect(), "each once");
    assert!(receiver.is_quiet());
    assert_eq!(backend.list("").await.json()["page"]["total_elements"], 3, "what was refused was not done");
}
