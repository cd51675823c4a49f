//! Tests `kill -9` under load with checks in progress, on each store: no acknowledged check is lost, each concludes
//! once, and each callback is delivered.
//!
//! The process is killed at a random time, or when one of its threads makes the n-th system call of a kind: write,
//! sync, send or receive.
//!
//! A round does not wait until the killed process's leases on callbacks expire. Only at the end must all checks be
//! concluded and all callbacks have arrived.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use ringtrue_engine::ports::entropy::{Entropy, SystemEntropy};
use ringtrue_test_support::{
    database::Database,
    http_client::{HttpResponse, Request, try_send},
    server_process::ServerProcess,
};
use serde_json::{Value, json};

use crate::{
    deployment::{CHECKS, Deployment, ResponseCounter, Writers, is_ended},
    receiver::Receiver,
};

/// Number of rounds on each store that kill the process at a random time, in addition to the rounds that kill it at a
/// system call. The environment variable `KILL_ROUNDS` overrides this number.
const ROUNDS: usize = 25;
/// System calls at which the process is killed: within a transaction, between commit and sync, before it sends a
/// response or callback, and before it processes received data.
const SQLITE_KILL_POINTS: [KillPoint; 12] = [
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
/// System calls at which the process is killed: before it sends a statement, response or callback, or processes
/// received data.
const POSTGRES_KILL_POINTS: [KillPoint; 12] = [
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
/// Approximate number of responses in each round.
const RESPONSES_PER_ROUND: u8 = 200;
/// Lifetime of checks in seconds. The minimum, so that checks expire within the test.
const TTL: u64 = 60;
const CONCLUSION_TIMEOUT: Duration = Duration::from_secs(TTL + 10);
/// Time until the killed process's leases on callbacks have expired and failed deliveries were retried, with a margin.
const CALLBACK_TIMEOUT: Duration = Duration::from_secs(75);

/// A system call, and the number of such calls after which the calling thread's process is killed.
type KillPoint = (&'static str, u32);

#[tokio::test]
async fn sqlite() {
    let database = Database::sqlite().await;
    let summary = every_concluded_check_has_its_callback(database.address(), &SQLITE_KILL_POINTS).await;
    println!("SQLite: {summary}");
}

#[tokio::test]
async fn postgres() {
    let database = Database::postgres().await;
    let summary = every_concluded_check_has_its_callback(database.address(), &POSTGRES_KILL_POINTS).await;
    println!("PostgreSQL: {summary}");
}

#[tokio::test]
async fn citus() {
    let database = Database::citus().await;
    let summary = every_concluded_check_has_its_callback(database.address(), &POSTGRES_KILL_POINTS).await;
    println!("Citus: {summary}");
}

/// Data of an acknowledged check, from the responses of the server.
#[derive(Clone, Debug)]
struct Check {
    number: String,
    to: String,
    body: String,
    /// The final state, once observed.
    end: Option<Value>,
}

type CheckLog = Arc<Mutex<BTreeMap<String, Check>>>;

/// Runs all rounds. Returns a summary.
async fn every_concluded_check_has_its_callback(store: &str, moments: &[KillPoint]) -> String {
    let mut world = World {
        deployment: Deployment::new(store),
        receiver: Receiver::start().await,
        log: CheckLog::default(),
        numbers: Arc::default(),
        token: None,
    };
    let (rounds, started) = (rounds(ROUNDS), Instant::now());
    for _ in 0..rounds {
        let [responses] = (&SystemEntropy::default() as &dyn Entropy).bytes();
        world.round(world.deployment.serve(), Some(usize::from(responses % RESPONSES_PER_ROUND))).await;
    }
    let round_duration = started.elapsed() / u32::try_from(rounds).unwrap().max(1);
    for (call, count) in moments {
        match world.deployment.serve_with_fault(call, &format!("signal=KILL:when={count}")) {
            Some(server) => world.round(server, None).await,
            // The process died during startup.
            None => world.receiver.next_round().await,
        }
    }
    let server = world.deployment.serve();
    let token = world.token.unwrap();
    let checks = world.log.lock().clone();
    assert!(checks.len() > rounds * 4, "only {} checks were created", checks.len());
    let verifying = Instant::now();
    let ends = assert_checks_conclude(&server, &world.receiver, &token, checks).await;
    assert_callbacks_arrived(&world.receiver, &ends).await;
    let callbacks: usize = world.receiver.received().values().map(Vec::len).sum();
    let expired = ends.values().filter(|end| end["status"] == "EXPIRED").count();
    format!(
        "{} kills at random times ({} ms each) and {} at system calls; {} checks acknowledged, {} of them expired, {} \
         callbacks received, nothing lost; verified in {} s",
        rounds,
        round_duration.as_millis(),
        moments.len(),
        ends.len(),
        expired,
        callbacks,
        verifying.elapsed().as_secs()
    )
}

#[expect(clippy::disallowed_methods, reason = "set for long runs")]
pub fn rounds(default: usize) -> usize {
    std::env::var("KILL_ROUNDS").map_or(default, |rounds| rounds.parse().expect("KILL_ROUNDS is a number"))
}

struct World {
    deployment: Deployment,
    receiver: Receiver,
    log: CheckLog,
    numbers: Arc<AtomicUsize>,
    token: Option<String>,
}

impl World {
    /// Runs the writers until the process is dead: killed after a number of responses, or by the injected fault.
    async fn round(&mut self, mut server: ServerProcess, kill_after: Option<usize>) {
        let token = if let Some(token) = &self.token {
            token
        } else {
            let settings = json!({"ttl": TTL, "callback_url": self.receiver.url()});
            self.token.insert(self.deployment.product_token(&server, settings).await)
        };
        let responses = ResponseCounter::default();
        let mut writers = Writers::default();
        for _ in 0..WRITERS {
            let (log, numbers, responses) = (Arc::clone(&self.log), Arc::clone(&self.numbers), responses.clone());
            let writer = Writer { address: server.address, token: token.clone(), log, numbers, responses };
            writers.spawn(async move { while writer.step().await.is_some() {} });
        }
        if let Some(enough) = kill_after {
            writers.get(&responses, enough).await;
            server.kill();
        }
        writers.join().await;
        server.kill();
        self.receiver.next_round().await;
    }
}

/// Checks that everything acknowledged exists, is consistent with earlier responses, and concludes.
async fn assert_checks_conclude(
    server: &ServerProcess,
    receiver: &Receiver,
    token: &str,
    checks: BTreeMap<String, Check>,
) -> BTreeMap<String, Value> {
    for (index, (id, check)) in checks.iter().enumerate() {
        let now = read(server, token, id).await;
        if let Some(end) = &check.end {
            assert_eq!(&now, end, "a concluded check changed");
        } else if !is_ended(&now) && index.is_multiple_of(2) {
            let sms = json!({"from": check.number, "to": check.to, "body": check.body});
            server.send(Request::post("/v1/sandbox/inbound-sms").bearer(token).json(&sms)).await.assert(202);
        }
    }
    let mut ends = BTreeMap::new();
    for id in checks.into_keys() {
        let mut check = read(server, token, &id).await;
        if !is_ended(&check) {
            receiver.wait_for_callback(&id, CONCLUSION_TIMEOUT).await;
            check = read(server, token, &id).await;
            assert!(is_ended(&check), "callback of an open check: {check}");
        }
        ends.insert(id, check);
    }
    ends
}

async fn assert_callbacks_arrived(receiver: &Receiver, ends: &BTreeMap<String, Value>) {
    receiver.wait_for_all(&ends.keys().cloned().collect(), CALLBACK_TIMEOUT).await;
    for (id, received) in receiver.received() {
        for (one, next) in received.iter().zip(&received[1..]) {
            assert_eq!(one.body, next.body, "{id}: two attempts have different bodies");
            let is_repeated = one.attempt == next.attempt && one.round < next.round;
            assert!(is_repeated || one.attempt + 1 == next.attempt, "{id}: {received:?}");
        }
        assert_eq!(received[0].attempt, 1, "{id}");
        if let Some(end) = ends.get(&id) {
            let mut callback: Value = serde_json::from_slice(&received[0].body).unwrap();
            if callback["status"] == "EXPIRED" {
                assert_eq!(callback.as_object_mut().unwrap().remove("error_code"), Some(json!("check_expired")));
            }
            assert_eq!(&callback, end, "the callback matches the check");
        }
    }
}

async fn read(server: &ServerProcess, token: &str, id: &str) -> Value {
    let response = server.get(&format!("{CHECKS}/{id}"), token).await;
    assert_eq!(response.status, 200, "the acknowledged check {id} is lost: {}", response.text());
    response.json()
}

struct Writer {
    address: std::net::SocketAddr,
    token: String,
    log: CheckLog,
    numbers: Arc<AtomicUsize>,
    responses: ResponseCounter,
}

impl Writer {
    /// Runs a check from creation to conclusion. Returns `None` if the service is gone.
    async fn step(&self) -> Option<()> {
        let turn = self.numbers.fetch_add(1, Ordering::SeqCst);
        let number = format!("+9901{turn:06}00");
        let created = self.send(Request::post(CHECKS).json(&json!({"phone_number": number}))).await?.assert(201).json();
        let text = |name: &str| created[name].as_str().unwrap().to_owned();
        let id = text("check_id");
        let (to, body) = (text("receiver_phone_number"), text("expected_sms_body"));
        let check = Check { number: number.clone(), to: to.clone(), body: body.clone(), end: None };
        self.log.lock().insert(id.clone(), check);
        if turn.is_multiple_of(4) {
            return Some(());
        }
        let from = if turn.is_multiple_of(3) { "+990777777700" } else { number.as_str() };
        let sms = json!({"from": from, "to": to, "body": body});
        self.send(Request::post("/v1/sandbox/inbound-sms").json(&sms)).await?.assert(202);
        let read = self.send(Request::get(&format!("{CHECKS}/{id}"))).await?.assert(200).json();
        if is_ended(&read) {
            self.log.lock().get_mut(&id).unwrap().end = Some(read);
        }
        Some(())
    }

    async fn send(&self, request: Request) -> Option<HttpResponse> {
        let response = try_send(self.address, &request.bearer(&self.token)).await?;
        self.responses.count();
        Some(response)
    }
}
