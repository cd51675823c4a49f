//! The database goes away and comes back: 503 with a time to wait in between, never a 500, and nothing lost.

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
    reverse_sms::{Asker, EVEN},
    sim_register::SimRegister,
    sim_swap::Inquirer,
    world::{ProjectOf, World, basic, eventually},
};

/// The way to PostgreSQL, which can be cut or blocked.
struct Way {
    port: u16,
    state: Arc<watch::Sender<State>>,
    task: JoinHandle<()>,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Open,
    /// Connections end, and none is made.
    Cut,
    /// Nothing comes through, and nobody is told.
    Blocked,
}

impl Way {
    #[expect(clippy::disallowed_methods, reason = "it ends with its test")]
    async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let url = url::Url::parse(&server()).unwrap();
        let target: SocketAddr = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap()).parse().unwrap();
        let state = Arc::new(watch::Sender::new(State::Open));
        let watched = Arc::clone(&state);
        let task = tokio::spawn(async move {
            while let Ok((here, _)) = listener.accept().await {
                tokio::spawn(pass_on(here, target, watched.subscribe()));
            }
        });
        Way { port, state, task }
    }

    fn becomes(&self, state: State) {
        self.state.send_replace(state);
    }
}

async fn pass_on(mut here: TcpStream, target: SocketAddr, mut state: watch::Receiver<State>) {
    if *state.borrow() == State::Open
        && let Ok(mut there) = TcpStream::connect(target).await
    {
        tokio::select! {
            _ = copy_bidirectional(&mut here, &mut there) => return,
            _ = state.wait_for(|state| *state != State::Open) => {}
        }
    }
    // Held, so that the peer waits; then closed.
    let _ = state.wait_for(|state| *state != State::Blocked).await;
}

impl Drop for Way {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[tokio::test]
async fn without_its_database_the_service_says_so_and_recovers() {
    let way = Way::open().await;
    let world = World::with(Database::postgres().await.behind(way.port), |_| {}).await;
    let project = world.project("Before", json!({})).await;
    let token = world.manager().await;
    let projects = format!("{}/projects", world.acme.path());

    way.becomes(State::Cut);
    for request in [
        Request::get(&project.path).bearer(&token),
        Request::get(&projects).bearer(&token),
        Request::post(&projects).bearer(&token).json(&json!({"name": "During"})),
        Request::patch(&project.path).bearer(&token).json(&json!({"name": "Changed"})),
        Request::delete(&format!("{}/credentials/{}", project.path, project.client_id)).bearer(&token),
        Request::get("/readyz"),
    ] {
        let answer = world.send(request.clone()).await;
        assert_eq!((answer.status, answer.code().as_str()), (503, "service_unavailable"), "{request:?}");
        assert!(answer.header("retry-after").unwrap().parse::<u32>().unwrap() >= 1);
        let told = answer.text();
        assert!(!told.contains("postgres") && !told.contains("127.0.0.1:5"), "nothing of our insides: {told}");
    }
    world.send(Request::get("/livez")).await.assert(200);
    world.token_request(&project.client_id, &project.client_secret, "sim_swap").await.assert(200);
    let revoke = Request::post("/oauth2/revoke")
        .header("Authorization", basic(&world.acme.client_id, &world.acme.client_secret))
        .form(&[("token", &token)]);
    world.send(revoke).await.assert_problem(503, "service_unavailable");

    way.becomes(State::Open);
    eventually("ready again", async || world.send(Request::get("/readyz")).await.status == 200).await;
    let list = world.send(Request::get(&projects).bearer(&token)).await.assert(200).json();
    assert_eq!(list["page"]["total_elements"], 1);
    assert_eq!(list["content"][0]["name"], "Before", "what was refused was not done");
    world.send(Request::post(&projects).bearer(&token).json(&json!({"name": "After"}))).await.assert(201);
}

/// A key whose request met the outage is not lost: the same request, sent again, is done once.
#[tokio::test]
async fn a_create_that_met_the_outage_can_be_repeated() {
    let way = Way::open().await;
    let world = World::with(Database::postgres().await.behind(way.port), |_| {}).await;
    let token = world.manager().await;
    let path = format!("{}/projects", world.acme.path());
    let create = || Request::post(&path).bearer(&token).json(&json!({"name": "Shop"})).header("Idempotency-Key", "k");
    way.becomes(State::Cut);
    world.send(create()).await.assert_problem(503, "service_unavailable");
    way.becomes(State::Open);
    eventually("done at last", async || world.send(create()).await.status == 201).await;
    assert_eq!(world.send(Request::get(&path).bearer(&token)).await.json()["page"]["total_elements"], 1);
}

/// A database that says nothing at all is given up too: nobody is kept waiting for ever.
#[tokio::test]
async fn a_database_that_does_not_answer_is_not_waited_for() {
    let way = Way::open().await;
    let database = Database::postgres().await.behind(way.port);
    let world = World::with(database, |config| config.http.request_timeout = Duration::from_secs(1)).await;
    let token = world.manager().await;
    let path = format!("{}/projects", world.acme.path());
    way.becomes(State::Blocked);
    for request in
        [Request::get(&path).bearer(&token), Request::post(&path).bearer(&token).json(&json!({"name": "Shop"}))]
    {
        let answer = world.send(request).await.assert_problem(503, "service_unavailable");
        assert!(answer.header("retry-after").is_some());
    }
    world.token_request(&world.acme.client_id, &world.acme.client_secret, "management").await.assert(200);
    way.becomes(State::Open);
    eventually("served again", async || world.send(Request::get(&path).bearer(&token)).await.status == 200).await;
}

/// The operator has answered, and nobody can write it down. The caller is told so, and asks again by the same key.
#[tokio::test]
async fn an_answer_about_a_sim_that_met_the_outage_is_asked_for_again() {
    let way = Way::open().await;
    let world = World::with(Database::postgres().await.behind(way.port), |_| {}).await;
    let register = SimRegister::simulated(&world);
    let inquirer = Inquirer::sandbox(&world).await;
    let ProjectOf { client_id, client_secret, .. } = &inquirer.project;
    let eligibility = world.token(client_id, client_secret, "eligibility").await;
    let create = || inquirer.keyed("k", EVEN);
    register.fall_silent();
    let cut = async {
        eventually("the operator is asked", async || register.asked() == 1).await;
        way.becomes(State::Cut);
        register.speak();
    };
    let (refused, ()) = futures_util::future::join(world.send(create()), cut).await;
    assert!(refused.assert_problem(503, "service_unavailable").header("retry-after").is_some());
    let number = Request::get(&format!("/v1/eligibility/phone-numbers/{EVEN}"));
    world.send(number.bearer(&eligibility)).await.assert(200);

    way.becomes(State::Open);
    // Nobody could give the key back: its lease runs out.
    world.advance(SignedDuration::from_secs(61));
    eventually("done at last", async || world.send(create()).await.status == 201).await;
    assert_eq!(inquirer.list("").await.json()["page"]["total_elements"], 1, "what was refused was not done");
    assert_eq!(register.asked(), 2);
}

/// The operator is asked to send again what could not be recorded, and does.
#[tokio::test]
async fn sms_that_met_the_outage_come_again() {
    let way = Way::open().await;
    let world = World::with(Database::postgres().await.behind(way.port), |_| {}).await;
    let asker = Asker::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    let numbers = [EVEN, "+990123456702", "+990123456704"];
    let mut checks = vec![];
    for number in numbers {
        checks.push(asker.create(json!({"phone_number": number, "callback_url": receiver.url("/")})).await);
    }
    way.becomes(State::Cut);
    let texts = checks.iter().zip(numbers).map(|(check, number)| asker.text(number, &check.receiver, &check.body));
    futures_util::future::join_all(texts).await;
    for answer in [
        asker.post(json!({"phone_number": "+990123456706"})).await,
        asker.get(&checks[0].id).await,
        asker.list("").await,
    ] {
        let answer = answer.assert_problem(503, "service_unavailable");
        assert!(answer.header("retry-after").unwrap().parse::<u32>().unwrap() >= 1);
    }
    assert!(receiver.is_quiet(), "nothing was recorded, so nothing is told");

    way.becomes(State::Open);
    eventually("served again", async || asker.get(&checks[0].id).await.status == 200).await;
    for check in &checks {
        assert_eq!(asker.ends_as(&check.id, "COMPLETED").await["match"], true);
    }
    let mut told = BTreeSet::new();
    for _ in &checks {
        told.insert(receiver.next().await.json()["check_id"].as_str().unwrap().to_owned());
    }
    assert_eq!(told, checks.into_iter().map(|check| check.id).collect(), "each once");
    assert!(receiver.is_quiet());
    assert_eq!(asker.list("").await.json()["page"]["total_elements"], 3, "what was refused was not done");
}
