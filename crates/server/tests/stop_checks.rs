//! SIGTERM under load, on either store: what was begun is finished and answered, what was answered is there, the process
//! ends by itself and in time, and what it has not sent is free for the next one to send at once.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

#[expect(dead_code, reason = "not all of it is needed here")]
mod deployment;

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use deployment::{
    CHECKS, Deployment, Server,
    client::{self, Answer, Request},
    database::Database,
    is_ended,
    load::{Answers, Writers},
    receiver::Receiver,
};
use ringtrue_engine::ports::{Clock, SystemClock};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// In every second of them the receiver keeps the callbacks of the process waiting when it is to stop.
const ROUNDS: usize = 8;
const WRITERS: usize = 8;
/// How many answers a round waits for before it stops.
const ANSWERS: usize = 150;
/// Nothing ends by itself while the test lasts.
const TTL: u64 = 900;
/// The first attempt and, ten seconds later, the second, with time to spare.
const ALL_ARE_TOLD: Duration = Duration::from_mins(1);

#[tokio::test]
async fn sqlite() {
    stopping_drops_nothing(&Database::sqlite().await).await;
}

#[tokio::test]
async fn postgres() {
    stopping_drops_nothing(&Database::postgres().await).await;
}

async fn stopping_drops_nothing(database: &Database) {
    let deployment = Deployment::new(database.address());
    let receiver = Receiver::start().await;
    let mut server = deployment.serve();
    let settings = json!({"ttl": TTL, "callback_url": receiver.url()});
    let writer = Arc::new(Writer {
        token: deployment.product_token(&server, settings).await,
        told: Mutex::default(),
        numbers: AtomicUsize::new(0),
        answers: Answers::default(),
    });
    let mut ended = BTreeSet::new();
    for round in 0..ROUNDS {
        if round.is_multiple_of(2) {
            receiver.hold();
        }
        stop_under_load(server, &writer, &receiver).await;
        let free = due_callbacks(database).await;

        server = deployment.serve();
        ended = writer.ended_checks(&server).await;
        let arrivals = receiver.arrivals();
        let kept: Vec<_> = ended.iter().filter(|id| !arrivals.contains_key(*id) && !free.contains(*id)).collect();
        assert!(kept.is_empty(), "round {round}: {} leases were not given back: {kept:?}", kept.len());
    }
    assert!(ended.len() > ROUNDS * WRITERS, "a load of {} checks is none", ended.len());
    each_is_told_once(&receiver, &ended).await;
}

/// Lets the writers loose, and stops the process in the middle.
async fn stop_under_load(mut server: Server, writer: &Arc<Writer>, receiver: &Receiver) {
    let enough = writer.answers.so_far() + ANSWERS;
    let mut writers = Writers::default();
    for _ in 0..WRITERS {
        let (writer, address) = (Arc::clone(writer), server.address);
        writers.spawn(async move { while writer.step(address).await.is_some() {} });
    }
    writers.get(&writer.answers, enough).await;
    server.terminate();
    writers.leave().await;
    receiver.let_go();
    // Anything else says that it was cut short: its time was up.
    assert_eq!(server.ended().await.code(), Some(0));
}

/// The checks whose callbacks anybody may send now.
async fn due_callbacks(database: &Database) -> BTreeSet<String> {
    let now = SystemClock.now();
    // Taken for no time at all.
    let due = database.open().await.lease_due(now, now, u32::MAX, &[]).await.unwrap();
    due.into_iter().map(|callback| callback.check.to_string()).collect()
}

async fn each_is_told_once(receiver: &Receiver, ended: &BTreeSet<String>) {
    receiver.take_all(ended, ALL_ARE_TOLD).await;
    for (id, arrivals) in receiver.arrivals() {
        let attempts: Vec<_> = arrivals.iter().map(|arrival| arrival.attempt).collect();
        assert!(attempts == [1] || attempts == [1, 2] && !arrivals[0].was_taken(), "{id}: {arrivals:?}");
    }
}

/// Somebody who creates checks and texts about most of them, whichever process answers.
struct Writer {
    token: String,
    /// The ids that a 201 has named.
    told: Mutex<Vec<String>>,
    numbers: AtomicUsize,
    answers: Answers,
}

impl Writer {
    /// `None`: the service is gone.
    async fn step(&self, address: SocketAddr) -> Option<()> {
        let turn = self.numbers.fetch_add(1, Ordering::SeqCst);
        let number = format!("+9901{turn:06}00");
        let create = Request::post(CHECKS).json(&json!({"phone_number": number}));
        let created = self.send(address, create).await?.assert(201).json();
        self.told.lock().unwrap().push(created["check_id"].as_str().unwrap().to_owned());
        if !turn.is_multiple_of(4) {
            let sms = json!({
                "from": number, "to": created["receiver_phone_number"], "body": created["expected_sms_body"],
            });
            self.send(address, Request::post("/v1/sandbox/inbound-sms").json(&sms)).await?.assert(202);
        }
        Some(())
    }

    /// The answer, whole. `None`: there is none at all, for nobody has heard the request.
    async fn send(&self, address: SocketAddr, request: Request) -> Option<Answer> {
        let mut stream = TcpStream::connect(address).await.ok()?;
        stream.write_all(&request.bearer(&self.token).bytes(address)).await.ok()?;
        let mut bytes = vec![];
        let read = stream.read_to_end(&mut bytes).await;
        if bytes.is_empty() {
            return None;
        }
        let whole = client::try_parse(&bytes);
        let answer = whole.unwrap_or_else(|| panic!("cut off ({read:?}): {:?}", String::from_utf8_lossy(&bytes)));
        self.answers.count();
        Some(answer)
    }

    /// All that was told is there, and nothing that was not. Gives those that have ended.
    async fn ended_checks(&self, server: &Server) -> BTreeSet<String> {
        let told = self.told.lock().unwrap().clone();
        let mut ended = BTreeSet::new();
        for id in &told {
            let found = server.get(&format!("{CHECKS}/{id}"), &self.token).await;
            assert_eq!(found.status, 200, "the check {id} was created, and is lost: {}", found.text());
            if is_ended(&found.json()) {
                ended.insert(id.clone());
            }
        }
        let all = server.get(&format!("{CHECKS}?size=1"), &self.token).await.assert(200).json();
        assert_eq!(all["page"]["total_elements"], told.len(), "somebody was not told what was done");
        ended
    }
}
