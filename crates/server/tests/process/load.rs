//! Clients that create and conclude checks on several nodes, as behind a load balancer. Every response must be a
//! success.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use ringtrue_test_support::http_client::{self, HttpResponse, Request};
use serde_json::{Value, json};
use tokio::sync::{RwLock, RwLockWriteGuard};

use crate::deployment::{CHECKS, ResponseCounter, Writers};

const WRITERS: usize = 6;

pub struct CheckLoad {
    token: String,
    /// Nodes that receive requests in turn. Each request holds a read lock, so a node that was removed under the write
    /// lock has no request in progress.
    nodes: RwLock<Vec<SocketAddr>>,
    /// Responses to the creation of acknowledged checks, by id.
    created: Mutex<BTreeMap<String, Value>>,
    responses: ResponseCounter,
    turns: AtomicUsize,
    is_stopping: AtomicBool,
}

/// A running load: its shared state, and the clients that send the requests.
pub struct RunningLoad {
    pub load: Arc<CheckLoad>,
    writers: Writers,
}

impl RunningLoad {
    /// Starts the load. The token is for Reverse SMS checks of a sandbox project.
    pub fn start(token: &str, nodes: &[SocketAddr]) -> Self {
        let load = Arc::new(CheckLoad {
            token: token.to_owned(),
            nodes: RwLock::new(nodes.to_vec()),
            created: Mutex::default(),
            responses: ResponseCounter::default(),
            turns: AtomicUsize::new(0),
            is_stopping: AtomicBool::new(false),
        });
        let mut writers = Writers::default();
        for _ in 0..WRITERS {
            let load = Arc::clone(&load);
            writers.spawn(async move {
                while !load.is_stopping.load(Ordering::SeqCst) {
                    load.step().await;
                }
            });
        }
        RunningLoad { load, writers }
    }

    /// Waits for this many further responses. Fails if a writer got an error.
    pub async fn proceed(&mut self, responses: usize) {
        let expected = self.load.responses.so_far() + responses;
        self.writers.get(&self.load.responses, expected).await;
    }

    /// Waits for the requests in progress. Returns the acknowledged checks.
    pub async fn stop(self) -> BTreeMap<String, Value> {
        self.load.is_stopping.store(true, Ordering::SeqCst);
        self.writers.join().await;
        self.load.created()
    }
}

impl CheckLoad {
    pub fn created(&self) -> BTreeMap<String, Value> {
        self.created.lock().clone()
    }

    /// Waits for the requests in progress, and blocks new ones while the guard exists.
    pub async fn pause(&self) -> RwLockWriteGuard<'_, Vec<SocketAddr>> {
        self.nodes.write().await
    }

    /// Runs a check from its creation to its conclusion. Every fourth check stays open.
    async fn step(&self) {
        let turn = self.turns.fetch_add(1, Ordering::SeqCst);
        let number = format!("+9901{turn:06}00");
        let create = Request::post(CHECKS).json(&json!({"phone_number": number}));
        let created = self.create(create.header("Idempotency-Key", format!("turn-{turn}"))).await;
        let text = |name: &str| created[name].as_str().unwrap();
        if !turn.is_multiple_of(4) {
            let (to, body) = (text("receiver_phone_number"), text("expected_sms_body"));
            let sms = json!({"from": number, "to": to, "body": body});
            self.send(Request::post("/v1/sandbox/inbound-sms").json(&sms)).await.assert(202);
        }
        self.send(Request::get(&format!("{CHECKS}/{}", text("check_id")))).await.assert(200);
        self.send(Request::get(&format!("{CHECKS}?size=3"))).await.assert(200);
    }

    /// Creates a check and records it. Holds the read lock until then, so that a pause also waits for the record.
    async fn create(&self, request: Request) -> Value {
        let nodes = self.nodes.read().await;
        let created = self.send_to(&nodes, request).await.assert(201).json();
        self.created.lock().insert(created["check_id"].as_str().unwrap().to_owned(), created.clone());
        created
    }

    async fn send(&self, request: Request) -> HttpResponse {
        let nodes = self.nodes.read().await;
        self.send_to(&nodes, request).await
    }

    async fn send_to(&self, nodes: &[SocketAddr], request: Request) -> HttpResponse {
        let node = nodes[self.responses.so_far() % nodes.len()];
        let response = http_client::send(node, &request.bearer(&self.token)).await;
        self.responses.count();
        response
    }
}
