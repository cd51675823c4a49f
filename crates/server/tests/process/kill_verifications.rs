//! Tests `kill -9` under load between the steps of verifications, on each store: no acknowledged verification or step
//! is lost, no step begins twice, each verification ends once, and each callback is delivered.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use ringtrue_engine::ports::entropy::{Entropy, SystemEntropy};
use ringtrue_test_support::{
    database::Database,
    http_client::{HttpResponse, Request, token_request, try_send},
    server_process::ServerProcess,
};
use serde_json::{Value, json};

use crate::{
    deployment::{Deployment, ResponseCounter, Writers, is_ended},
    kill_checks::rounds,
    receiver::Receiver,
};

const VERIFICATIONS: &str = "/v1/verifications";
/// Number of rounds on each store. The environment variable `KILL_ROUNDS` overrides this number.
const ROUNDS: usize = 10;
const WRITERS: usize = 8;
/// Approximate number of responses in each round.
const RESPONSES_PER_ROUND: u8 = 120;
/// Lifetime of verifications in seconds. The minimum, so that verifications expire within the test.
const TTL: u64 = 60;
const END_TIMEOUT: Duration = Duration::from_secs(TTL + 10);
/// Time until the killed process's leases on callbacks have expired and failed deliveries were retried, with a margin.
const CALLBACK_TIMEOUT: Duration = Duration::from_secs(75);

#[tokio::test]
async fn sqlite() {
    let database = Database::sqlite().await;
    every_verification_ends_once(database.address()).await;
}

#[tokio::test]
async fn postgres() {
    let database = Database::postgres().await;
    every_verification_ends_once(database.address()).await;
}

#[tokio::test]
async fn citus() {
    let database = Database::citus().await;
    every_verification_ends_once(database.address()).await;
}

/// Data of an acknowledged verification, from the responses of the server.
#[derive(Clone, Debug, Default)]
struct Acknowledged {
    number: String,
    /// Response to the request that gave up the first step.
    moved: Option<Value>,
    end: Option<Value>,
}

type Log = Arc<Mutex<BTreeMap<String, Acknowledged>>>;

/// Access tokens of a project.
#[derive(Clone)]
struct Tokens {
    verification: String,
    reverse_sms: String,
}

async fn every_verification_ends_once(store: &str) {
    let deployment = Deployment::new(store);
    let receiver = Receiver::start().await;
    let (log, numbers) = (Log::default(), Arc::<AtomicUsize>::default());
    let mut tokens = None;
    let rounds = rounds(ROUNDS);
    for _ in 0..rounds {
        let mut server = deployment.serve();
        let tokens = match &tokens {
            Some(tokens) => tokens,
            None => tokens.insert(create_project(&deployment, &server, &receiver).await),
        };
        let [kill_after] = (&SystemEntropy::default() as &dyn Entropy).bytes();
        let responses = ResponseCounter::default();
        let mut writers = Writers::default();
        for _ in 0..WRITERS {
            let (log, numbers, responses) = (Arc::clone(&log), Arc::clone(&numbers), responses.clone());
            let writer = Writer { address: server.address, tokens: tokens.clone(), log, numbers, responses };
            writers.spawn(async move { while writer.step().await.is_some() {} });
        }
        writers.get(&responses, usize::from(kill_after % RESPONSES_PER_ROUND)).await;
        server.kill();
        writers.join().await;
        receiver.next_round().await;
    }
    let (server, tokens) = (deployment.serve(), tokens.unwrap());
    let acknowledged = log.lock().clone();
    assert!(acknowledged.len() > rounds, "only {} verifications were created", acknowledged.len());
    assert_nothing_is_lost(&server, &tokens, &acknowledged).await;
    let ids: BTreeSet<String> = acknowledged.into_keys().collect();
    for id in &ids {
        receiver.wait_for_callback(id, END_TIMEOUT).await;
    }
    receiver.wait_for_all(&ids, CALLBACK_TIMEOUT).await;
    for (id, received) in receiver.received() {
        assert!(received.iter().all(|callback| callback.body == received[0].body), "{id}: two ends: {received:?}");
        // A callback may belong to a verification whose create response was lost with the killed process.
        let end = read(&server, &tokens, &id).await;
        assert!(is_ended(&end), "callback of an open verification: {end}");
        let callback: Value = serde_json::from_slice(&received[0].body).unwrap();
        for name in ["status", "match", "method", "steps"] {
            assert_eq!(callback[name], end[name], "{id}: {name}");
        }
        assert_steps(&end);
    }
}

/// Compares the verifications with earlier responses, and completes some of them.
async fn assert_nothing_is_lost(
    server: &ServerProcess,
    tokens: &Tokens,
    acknowledged: &BTreeMap<String, Acknowledged>,
) {
    for (index, (id, Acknowledged { number, moved, end })) in acknowledged.iter().enumerate() {
        let now = read(server, tokens, id).await;
        assert_steps(&now);
        if let Some(end) = end {
            assert_eq!(&now, end, "an ended verification changed");
        }
        let Some(moved) = moved else { continue };
        assert_eq!(now["steps"][0], moved["steps"][0], "{id}: the first step ended");
        assert_eq!(now["steps"][1]["check_id"], moved["steps"][1]["check_id"], "{id}: the second step began once");
        if !is_ended(&now) && index.is_multiple_of(2) {
            server.send(sms(number, &moved["next_step"], tokens)).await.assert(202);
        }
    }
}

/// Each method has at most one step, and only the last step of an open verification is open.
#[track_caller]
fn assert_steps(verification: &Value) {
    let steps = verification["steps"].as_array().unwrap();
    let methods: BTreeSet<_> = steps.iter().map(|step| step["method"].as_str().unwrap()).collect();
    assert_eq!(methods.len(), steps.len(), "{verification}");
    let open = steps.iter().filter(|step| !is_ended(step)).count();
    assert_eq!(open, usize::from(!is_ended(verification)), "{verification}");
}

async fn create_project(deployment: &Deployment, server: &ServerProcess, receiver: &Receiver) -> Tokens {
    let manager = deployment.manager(server.address).await;
    let settings = json!({"ttl": TTL, "callback_url": receiver.url()});
    let project = json!({"name": "Shop", "configuration": {"verification": settings}});
    let create = Request::post(&format!("{}/projects", deployment.path())).bearer(&manager).json(&project);
    let credential = server.send(create).await.assert(201).json()["credentials"][0].clone();
    let token = async |scope| {
        let [id, secret] = ["client_id", "client_secret"].map(|name| credential[name].as_str().unwrap());
        server.send(token_request(id, secret, scope)).await.access_token()
    };
    Tokens { verification: token("verification").await, reverse_sms: token("reverse_sms").await }
}

async fn read(server: &ServerProcess, tokens: &Tokens, id: &str) -> Value {
    let response = server.get(&format!("{VERIFICATIONS}/{id}"), &tokens.verification).await;
    assert_eq!(response.status, 200, "the acknowledged verification {id} is lost: {}", response.text());
    response.json()
}

/// Builds the request that sends the SMS of a step.
fn sms(from: &str, next_step: &Value, tokens: &Tokens) -> Request {
    let (to, body) = (&next_step["receiver_phone_number"], &next_step["expected_sms_body"]);
    let sms = json!({"from": from, "to": to, "body": body});
    Request::post("/v1/sandbox/inbound-sms").bearer(&tokens.reverse_sms).json(&sms)
}

struct Writer {
    address: SocketAddr,
    tokens: Tokens,
    log: Log,
    numbers: Arc<AtomicUsize>,
    responses: ResponseCounter,
}

impl Writer {
    /// Runs a verification. One third of them stop at the first step, and another third at the second. Returns `None`
    /// if the server is gone.
    async fn step(&self) -> Option<()> {
        let turn = self.numbers.fetch_add(1, Ordering::SeqCst);
        let number = format!("+9901{turn:06}00");
        let token = &self.tokens.verification;
        let create = Request::post(VERIFICATIONS).bearer(token).json(&json!({"phone_number": number}));
        let created = self.send(create).await?.assert(201).json();
        let id = created["verification_id"].as_str().unwrap().to_owned();
        self.record(&id, |known| known.number.clone_from(&number));
        if turn.is_multiple_of(3) {
            return Some(());
        }
        let path = format!("{VERIFICATIONS}/{id}");
        let moved = self.send(Request::post(&format!("{path}/next")).bearer(token)).await?.assert(200).json();
        assert_eq!(moved["next_step"]["method"], "reverse_sms", "{moved}");
        self.record(&id, |known| known.moved = Some(moved.clone()));
        if turn % 3 == 1 {
            return Some(());
        }
        self.send(sms(&number, &moved["next_step"], &self.tokens)).await?.assert(202);
        let read = self.send(Request::get(&path).bearer(token)).await?.assert(200).json();
        if is_ended(&read) {
            assert_eq!((&read["match"], &read["method"]), (&json!(true), &json!("reverse_sms")), "{read}");
            self.record(&id, |known| known.end = Some(read));
        }
        Some(())
    }

    fn record(&self, id: &str, change: impl FnOnce(&mut Acknowledged)) {
        change(self.log.lock().entry(id.to_owned()).or_default());
    }

    async fn send(&self, request: Request) -> Option<HttpResponse> {
        let response = try_send(self.address, &request).await?;
        self.responses.count();
        Some(response)
    }
}
