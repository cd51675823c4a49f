//! `kill -9` under load, with people in the middle of their checks, on either store: no check that was answered with a
//! 201 is lost, each ends once, and each end is told to its receiver.
//!
//! The process dies at a random moment, or at a certain one: the n-th time that one of its threads calls the system to
//! write, to sync, to send or to receive.
//!
//! The rounds follow each other without waiting for the leases of the dead. When they are over, all checks are brought
//! to their end, and only then is it asked whether every callback has come.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

#[expect(dead_code, reason = "not all of it is needed here")]
mod deployment;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use deployment::{
    CHECKS, Deployment, Server,
    client::{Answer, Request},
    database::Database,
    is_ended,
    load::{Answers, Writers},
    receiver::Receiver,
    try_send,
};
use ringtrue_engine::ports::{Entropy, SystemEntropy};
use serde_json::{Value, json};

/// On each store, besides those that end at a certain moment. `KILL_ROUNDS` asks for more.
const ROUNDS: usize = 25;
/// Within a transaction, after its commit and before the disk has it, before an answer or a callback goes out, before
/// something that came is taken in.
const MOMENTS_ON_SQLITE: [Moment; 12] = [
    ("pwrite64", 50),
    ("pwrite64", 400),
    ("pwrite64", 1_200),
    ("fdatasync", 10),
    ("fdatasync", 60),
    ("fdatasync", 200),
    ("writev", 10),
    ("writev", 100),
    ("sendto", 20),
    ("sendto", 150),
    ("recvfrom", 50),
    ("recvfrom", 300),
];
/// Before a statement, an answer or a callback goes out, or what came is taken in.
const MOMENTS_ON_POSTGRES: [Moment; 12] = [
    ("sendto", 20),
    ("sendto", 60),
    ("sendto", 150),
    ("sendto", 400),
    ("recvfrom", 30),
    ("recvfrom", 100),
    ("recvfrom", 250),
    ("recvfrom", 600),
    ("writev", 5),
    ("writev", 15),
    ("writev", 50),
    ("writev", 80),
];
const WRITERS: usize = 8;
/// A round ends after so many answers, more or less.
const ANSWERS: u8 = 200;
/// The shortest that there is: what nobody texts about must end within the test.
const TTL: u64 = 60;
const ALL_HAVE_ENDED: Duration = Duration::from_secs(TTL + 10);
/// Until the last lease has run out and what failed once was tried again, with time to spare.
const ALL_ARE_TOLD: Duration = Duration::from_secs(75);

/// A call of the system, and how many of them a thread has made before it is killed at the next.
type Moment = (&'static str, u32);

#[tokio::test]
async fn sqlite() {
    let database = Database::sqlite().await;
    every_end_is_told(database.address(), &MOMENTS_ON_SQLITE).await;
}

#[tokio::test]
async fn postgres() {
    let database = Database::postgres().await;
    every_end_is_told(database.address(), &MOMENTS_ON_POSTGRES).await;
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

async fn every_end_is_told(store: &str, moments: &[Moment]) {
    let mut world = World {
        deployment: Deployment::new(store),
        receiver: Receiver::start().await,
        told: Told::default(),
        numbers: Arc::default(),
        token: None,
    };
    let rounds = rounds();
    for _ in 0..rounds {
        let [answers] = (&SystemEntropy::default() as &dyn Entropy).bytes();
        world.round(world.deployment.serve(), Some(usize::from(answers % ANSWERS))).await;
    }
    for (call, count) in moments {
        match world.deployment.serve_with_fault(call, &format!("signal=KILL:when={count}")) {
            Some(server) => world.round(server, None).await,
            // It has died on its way up.
            None => world.receiver.next_round().await,
        }
    }
    let server = world.deployment.serve();
    let token = world.token.unwrap();
    let checks = world.told.lock().unwrap().clone();
    assert!(checks.len() > rounds * 4, "a load of {} checks is none", checks.len());
    let ends = bring_to_an_end(&server, &world.receiver, &token, checks).await;
    are_told(&world.receiver, &ends).await;
}

#[expect(clippy::disallowed_methods, reason = "whoever has the time asks for more")]
fn rounds() -> usize {
    std::env::var("KILL_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().expect("KILL_ROUNDS is a number"))
}

struct World {
    deployment: Deployment,
    receiver: Receiver,
    told: Told,
    numbers: Arc<AtomicUsize>,
    token: Option<String>,
}

impl World {
    /// Lets the writers loose until the process is dead: by our hand after a number of answers, or by itself.
    async fn round(&mut self, mut server: Server, kill_after: Option<usize>) {
        let token = if let Some(token) = &self.token {
            token
        } else {
            let settings = json!({"ttl": TTL, "callback_url": self.receiver.url()});
            self.token.insert(self.deployment.product_token(&server, settings).await)
        };
        let answers = Answers::default();
        let mut writers = Writers::default();
        for _ in 0..WRITERS {
            let (told, numbers, answers) = (Arc::clone(&self.told), Arc::clone(&self.numbers), answers.clone());
            let writer = Writer { address: server.address, token: token.clone(), told, numbers, answers };
            writers.spawn(async move { while writer.step().await.is_some() {} });
        }
        if let Some(enough) = kill_after {
            writers.get(&answers, enough).await;
            server.kill();
        }
        writers.leave().await;
        server.kill();
        self.receiver.next_round().await;
    }
}

/// Everything acknowledged is there, says what it has said before, and comes to its end.
async fn bring_to_an_end(
    server: &Server,
    receiver: &Receiver,
    token: &str,
    checks: BTreeMap<String, Check>,
) -> BTreeMap<String, Value> {
    for (index, (id, check)) in checks.iter().enumerate() {
        let now = read(server, token, id).await;
        if let Some(end) = &check.end {
            assert_eq!(&now, end, "a check has ended twice");
        } else if !is_ended(&now) && index.is_multiple_of(2) {
            let sms = json!({"from": check.number, "to": check.to, "body": check.body});
            server.send(Request::post("/v1/sandbox/inbound-sms").bearer(token).json(&sms)).await.assert(202);
        }
    }
    let mut ends = BTreeMap::new();
    for id in checks.into_keys() {
        let mut check = read(server, token, &id).await;
        if !is_ended(&check) {
            receiver.hear_of(&id, ALL_HAVE_ENDED).await;
            check = read(server, token, &id).await;
            assert!(is_ended(&check), "an end that is none is told: {check}");
        }
        ends.insert(id, check);
    }
    ends
}

async fn are_told(receiver: &Receiver, ends: &BTreeMap<String, Value>) {
    receiver.take_all(&ends.keys().cloned().collect(), ALL_ARE_TOLD).await;
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
    answers: Answers,
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
        self.answers.count();
        Some(answer)
    }
}
