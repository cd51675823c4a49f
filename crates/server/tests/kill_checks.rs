//! `kill -9` under load, with people in the middle of their checks, on either store: no check that was answered with a
//! 201 is lost, each ends once, and each end is told to its receiver.
//!
//! The rounds follow each other without waiting for the leases of the dead. When they are over, all checks are brought
//! to their end, and only then is it asked whether every callback has come.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

#[path = "http/client.rs"]
#[expect(dead_code, reason = "not all of the client is needed here")]
mod client;
#[path = "http/database.rs"]
#[expect(dead_code, reason = "nor of the database")]
mod database;
#[path = "kill/deployment.rs"]
#[expect(dead_code, reason = "no token is revoked here")]
mod deployment;
#[path = "kill/receiver.rs"]
mod receiver;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use client::{Answer, Request};
use database::Database;
use deployment::{Deployment, Server, try_send};
use receiver::{Arrival, Receiver};
use ringtrue_engine::ports::{Entropy, SystemEntropy};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// On each store.
const ROUNDS: usize = 25;
const WRITERS: usize = 8;
/// A round ends after so many answers, more or less.
const ANSWERS: u8 = 200;
/// The shortest that there is: what nobody texts about must end within the test.
const TTL: u64 = 60;
/// Until the last lease has run out and what failed once was tried again, with time to spare.
const ALL_ARE_TOLD: Duration = Duration::from_secs(75);

const CHECKS: &str = "/v1/number-verification/reverse-sms-checks";

#[tokio::test]
async fn sqlite() {
    let database = Database::sqlite().await;
    every_end_is_told(database.address()).await;
}

#[tokio::test]
async fn postgres() {
    let database = Database::postgres().await;
    every_end_is_told(database.address()).await;
}

/// What the service has said of a check that it has acknowledged.
#[derive(Clone, Debug)]
struct Check {
    number: String,
    to: String,
    body: String,
    /// How it ended, once somebody has seen that.
    end: Option<Value>,
}

type Told = Arc<Mutex<BTreeMap<String, Check>>>;

async fn every_end_is_told(store: &str) {
    let deployment = Deployment::new(store);
    let receiver = Receiver::start().await;
    let told = Told::default();
    let numbers = Arc::new(AtomicUsize::new(0));
    let mut token = None;
    for _ in 0..ROUNDS {
        let mut server = deployment.serve();
        let token = match &token {
            Some(token) => token,
            None => token.insert(product_token(&server, &deployment, &receiver).await),
        };
        let answers = Arc::new(AtomicUsize::new(0));
        let mut writers = JoinSet::new();
        for _ in 0..WRITERS {
            let (told, numbers, answers) = (Arc::clone(&told), Arc::clone(&numbers), Arc::clone(&answers));
            let writer = Writer { address: server.address, token: token.clone(), told, numbers, answers };
            writers.spawn(async move { while writer.step().await.is_some() {} });
        }
        let [enough] = (&SystemEntropy::default() as &dyn Entropy).bytes();
        while answers.load(Ordering::SeqCst) < usize::from(enough % ANSWERS) {
            tokio::task::yield_now().await;
        }
        server.kill();
        receiver.next_round().await;
        while let Some(ended) = writers.join_next().await {
            ended.unwrap();
        }
    }
    let server = deployment.serve();
    let token = token.unwrap();
    let checks = told.lock().unwrap().clone();
    assert!(checks.len() > ROUNDS * 4, "a load of {} checks is none", checks.len());
    let ends = bring_to_an_end(&server, &token, checks).await;
    are_told(&receiver, &ends).await;
}

/// Everything acknowledged is there, says what it has said before, and comes to its end.
async fn bring_to_an_end(server: &Server, token: &str, checks: BTreeMap<String, Check>) -> BTreeMap<String, Value> {
    for (index, (id, check)) in checks.iter().enumerate() {
        let now = read(server, token, id).await;
        if let Some(end) = &check.end {
            assert_eq!(&now, end, "a check has ended twice");
        } else if !is_ended(&now) && index.is_multiple_of(2) {
            let sms = json!({"from": check.number, "to": check.to, "body": check.body});
            server.send(Request::post("/v1/sandbox/inbound-sms").bearer(token).json(&sms)).await.assert(202);
        }
    }
    let begun = Instant::now();
    let mut ends = BTreeMap::new();
    for id in checks.into_keys() {
        let mut check = read(server, token, &id).await;
        while !is_ended(&check) {
            assert!(begun.elapsed() < Duration::from_secs(TTL + 10), "{check} does not end");
            tokio::time::sleep(Duration::from_millis(200)).await;
            check = read(server, token, &id).await;
        }
        ends.insert(id, check);
    }
    ends
}

async fn are_told(receiver: &Receiver, ends: &BTreeMap<String, Value>) {
    let begun = Instant::now();
    loop {
        let arrivals = receiver.arrivals();
        let missing: Vec<_> = ends.keys().filter(|id| !arrivals.get(*id).is_some_and(|all| is_settled(all))).collect();
        if missing.is_empty() {
            break;
        }
        assert!(begun.elapsed() < ALL_ARE_TOLD, "{} ends were never told: {missing:?}", missing.len());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    for (id, arrivals) in receiver.arrivals() {
        for (one, next) in arrivals.iter().zip(&arrivals[1..]) {
            assert_eq!(one.body, next.body, "{id} is told in two ways");
            let is_repeated = one.attempt == next.attempt && one.round < next.round;
            assert!(is_repeated || one.attempt + 1 == next.attempt, "{id}: {arrivals:?}");
        }
        assert_eq!(arrivals[0].attempt, 1, "{id}");
        if let Some(end) = ends.get(&id) {
            let mut said: Value = serde_json::from_slice(&arrivals[0].body).unwrap();
            if said["status"] == "EXPIRED" {
                assert_eq!(said.as_object_mut().unwrap().remove("error_code"), Some(json!("check_expired")));
            }
            assert_eq!(&said, end, "the callback says what the check says");
        }
    }
}

/// Whether the last was answered with a 200.
fn is_settled(arrivals: &[Arrival]) -> bool {
    arrivals.last().is_some_and(Arrival::was_taken)
}

fn is_ended(check: &Value) -> bool {
    !["ACCEPTED", "PENDING"].contains(&check["status"].as_str().unwrap())
}

async fn read(server: &Server, token: &str, id: &str) -> Value {
    let answer = server.get(&format!("{CHECKS}/{id}"), token).await;
    assert_eq!(answer.status, 200, "the check {id} was created, and is lost: {}", answer.text());
    answer.json()
}

struct Writer {
    address: std::net::SocketAddr,
    token: String,
    told: Told,
    numbers: Arc<AtomicUsize>,
    answers: Arc<AtomicUsize>,
}

impl Writer {
    /// A check from its beginning to its end. `None`: the service is gone.
    async fn step(&self) -> Option<()> {
        let turn = self.numbers.fetch_add(1, Ordering::SeqCst);
        let number = format!("+9901{turn:06}00");
        let created = self.send(Request::post(CHECKS).json(&json!({"phone_number": number}))).await?.assert(201).json();
        let text = |name: &str| created[name].as_str().unwrap().to_owned();
        let id = text("check_id");
        let (to, body) = (text("receiver_phone_number"), text("expected_sms_body"));
        let check = Check { number: number.clone(), to: to.clone(), body: body.clone(), end: None };
        self.told.lock().unwrap().insert(id.clone(), check);
        if turn.is_multiple_of(4) {
            return Some(());
        }
        let from = if turn.is_multiple_of(3) { "+990777777700" } else { number.as_str() };
        let sms = json!({"from": from, "to": to, "body": body});
        self.send(Request::post("/v1/sandbox/inbound-sms").json(&sms)).await?.assert(202);
        let read = self.send(Request::get(&format!("{CHECKS}/{id}"))).await?.assert(200).json();
        if is_ended(&read) {
            self.told.lock().unwrap().get_mut(&id).unwrap().end = Some(read);
        }
        Some(())
    }

    async fn send(&self, request: Request) -> Option<Answer> {
        let answer = try_send(self.address, &request.bearer(&self.token)).await?;
        self.answers.fetch_add(1, Ordering::SeqCst);
        Some(answer)
    }
}

/// A token of a new project whose callbacks go to this receiver.
async fn product_token(server: &Server, deployment: &Deployment, receiver: &Receiver) -> String {
    let manager = deployment.manager(server.address).await;
    let settings = json!({"ttl": TTL, "callback_url": receiver.url()});
    let project = json!({"name": "Shop", "configuration": {"reverse_sms": settings}});
    let create = Request::post(&format!("{}/projects", deployment.path())).bearer(&manager).json(&project);
    let credential = server.send(create).await.assert(201).json()["credentials"][0].clone();
    let text = |name: &str| credential[name].as_str().unwrap().to_owned();
    let basic = BASE64_STANDARD.encode(format!("{}:{}", text("client_id"), text("client_secret")));
    let request = Request::post("/oauth2/token")
        .header("Authorization", format!("Basic {basic}"))
        .form(&[("grant_type", "client_credentials"), ("scope", "reverse_sms")]);
    server.send(request).await.assert(200).json()["access_token"].as_str().unwrap().to_owned()
}
