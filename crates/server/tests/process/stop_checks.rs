//! SIGTERM under load, on either store: requests in progress finish, acknowledged checks exist, the process exits in
//! time, and pending callbacks are released for the next process.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use ringtrue_engine::ports::clock::{Clock, SystemClock};
use ringtrue_test_support::{
    database::Database,
    http_client::{self, HttpResponse, Request},
    server_process::ServerProcess,
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    deployment::{CHECKS, Deployment, ResponseCounter, Writers, is_ended},
    receiver::Receiver,
};

/// Number of rounds. In every second round, the receiver delays callbacks during the shutdown.
const ROUNDS: usize = 8;
const WRITERS: usize = 8;
/// Number of responses in each round before the shutdown.
const RESPONSES_PER_ROUND: usize = 150;
/// Lifetime of checks. So long that no check expires during the test.
const TTL: u64 = 900;
/// Time for the first attempt of a callback and for its retry ten seconds later, with a margin.
const CALLBACK_TIMEOUT: Duration = Duration::from_mins(1);

#[tokio::test]
async fn sqlite() {
    shutdown_loses_no_check_or_callback(&Database::sqlite().await).await;
}

#[tokio::test]
async fn postgres() {
    shutdown_loses_no_check_or_callback(&Database::postgres().await).await;
}

async fn shutdown_loses_no_check_or_callback(database: &Database) {
    let deployment = Deployment::new(database.address());
    let receiver = Receiver::start().await;
    let mut server = deployment.serve();
    let settings = json!({"ttl": TTL, "callback_url": receiver.url()});
    let writer = Arc::new(Writer {
        token: deployment.product_token(&server, settings).await,
        acknowledged: Mutex::default(),
        numbers: AtomicUsize::new(0),
        responses: ResponseCounter::default(),
    });
    let mut ended = BTreeSet::new();
    for round in 0..ROUNDS {
        if round.is_multiple_of(2) {
            receiver.hold();
        }
        stop_under_load(server, &writer, &receiver).await;
        let free = due_callbacks(database).await;

        server = deployment.serve();
        ended = writer.concluded_checks(&server).await;
        let received = receiver.received();
        let kept: Vec<_> = ended.iter().filter(|id| !received.contains_key(*id) && !free.contains(*id)).collect();
        assert!(kept.is_empty(), "round {round}: {} leases were not released: {kept:?}", kept.len());
    }
    assert!(ended.len() > ROUNDS * WRITERS, "only {} checks were created", ended.len());
    each_callback_is_delivered_once(&receiver, &ended).await;
}

/// Runs the writers, and stops the process while they write.
async fn stop_under_load(mut server: ServerProcess, writer: &Arc<Writer>, receiver: &Receiver) {
    let enough = writer.responses.so_far() + RESPONSES_PER_ROUND;
    let mut writers = Writers::default();
    for _ in 0..WRITERS {
        let (writer, address) = (Arc::clone(writer), server.address);
        writers.spawn(async move { while writer.step(address).await.is_some() {} });
    }
    writers.get(&writer.responses, enough).await;
    server.terminate();
    writers.join().await;
    receiver.release();
    // Any other exit code means that the grace period ended before all requests had finished.
    assert_eq!(server.wait_for_exit().await.code(), Some(0));
}

/// Returns the checks whose callbacks are due and not leased by a process.
async fn due_callbacks(database: &Database) -> BTreeSet<String> {
    let now = SystemClock.now();
    // The lease that this query takes ends at once, so that it does not keep the next process from sending the
    // callbacks.
    let due = database.open().await.lease_due_callbacks(now, now, u32::MAX, &[]).await.unwrap();
    due.into_iter().map(|callback| callback.check.to_string()).collect()
}

async fn each_callback_is_delivered_once(receiver: &Receiver, ended: &BTreeSet<String>) {
    receiver.wait_for_all(ended, CALLBACK_TIMEOUT).await;
    for (id, received) in receiver.received() {
        let attempts: Vec<_> = received.iter().map(|callback| callback.attempt).collect();
        assert!(attempts == [1] || attempts == [1, 2] && !received[0].was_accepted(), "{id}: {received:?}");
    }
}

/// Creates checks and sends SMS for most of them, to whichever process is running.
struct Writer {
    token: String,
    /// Ids of checks whose creation was acknowledged with 201.
    acknowledged: Mutex<Vec<String>>,
    numbers: AtomicUsize,
    responses: ResponseCounter,
}

impl Writer {
    /// Creates a check and, for three of four, sends its SMS. Returns `None` if the service is gone.
    async fn step(&self, address: SocketAddr) -> Option<()> {
        let turn = self.numbers.fetch_add(1, Ordering::SeqCst);
        let number = format!("+9901{turn:06}00");
        let create = Request::post(CHECKS).json(&json!({"phone_number": number}));
        let created = self.send(address, create).await?.assert(201).json();
        self.acknowledged.lock().push(created["check_id"].as_str().unwrap().to_owned());
        if !turn.is_multiple_of(4) {
            let sms = json!({
                "from": number, "to": created["receiver_phone_number"], "body": created["expected_sms_body"],
            });
            self.send(address, Request::post("/v1/sandbox/inbound-sms").json(&sms)).await?.assert(202);
        }
        Some(())
    }

    /// Returns the complete response, or `None` if the request was not received.
    async fn send(&self, address: SocketAddr, request: Request) -> Option<HttpResponse> {
        let mut stream = TcpStream::connect(address).await.ok()?;
        stream.write_all(&request.bearer(&self.token).bytes(address)).await.ok()?;
        let mut bytes = vec![];
        let read = stream.read_to_end(&mut bytes).await;
        if bytes.is_empty() {
            return None;
        }
        let whole = http_client::try_parse(&bytes);
        let response =
            whole.unwrap_or_else(|| panic!("incomplete response ({read:?}): {:?}", String::from_utf8_lossy(&bytes)));
        self.responses.count();
        Some(response)
    }

    /// Checks that exactly the acknowledged checks exist. Returns the concluded ones.
    async fn concluded_checks(&self, server: &ServerProcess) -> BTreeSet<String> {
        let acknowledged = self.acknowledged.lock().clone();
        let mut ended = BTreeSet::new();
        for id in &acknowledged {
            let found = server.get(&format!("{CHECKS}/{id}"), &self.token).await;
            assert_eq!(found.status, 200, "the acknowledged check {id} is lost: {}", found.text());
            if is_ended(&found.json()) {
                ended.insert(id.clone());
            }
        }
        let all = server.get(&format!("{CHECKS}?size=1"), &self.token).await.assert(200).json();
        assert_eq!(all["page"]["total_elements"], acknowledged.len(), "a check was created without a response");
        ended
    }
}
