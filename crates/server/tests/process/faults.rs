//! Tests failures of the disk and the database server: requests fail immediately, acknowledged writes survive, and the
//! service recovers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use ringtrue_test_support::{
    database::Database,
    http_client::{self, HttpResponse, Request},
    own_postgres::OwnPostgres,
    poll_until,
    server_process::ServerProcess,
};
use serde_json::json;
use tokio::{task::JoinSet, time::timeout};

use crate::deployment::{CHECKS, Deployment, ResponseCounter};

#[track_caller]
fn assert_unavailable(response: &HttpResponse) {
    assert_eq!((response.status, response.code().as_str()), (503, "service_unavailable"), "{}", response.text());
    assert!(response.header("retry-after").unwrap().parse::<u32>().unwrap() >= 1);
}

/// A failed sync may have lost data, which a later successful sync would not report.
#[tokio::test]
async fn writes_are_refused_after_a_disk_failure_until_restart() {
    let database = Database::sqlite().await;
    let deployment = Deployment::new(database.address());
    let server =
        deployment.serve_with_fault("fdatasync", "error=EIO:when=20").expect("the service is ready before the fault");
    let manager = deployment.manager(server.address).await;
    let credentials = format!("{}/credentials", deployment.path());
    let create = || Request::post(&credentials).bearer(&manager).json(&json!({}));
    let mut created = vec![];
    let refused = loop {
        let response = server.send(create()).await;
        if response.status != 201 {
            break response;
        }
        created.push(response.json()["client_id"].as_str().unwrap().to_owned());
        assert!(created.len() < 1_000, "the disk does not fail");
    };
    assert_unavailable(&refused);
    assert!(!created.is_empty());
    for _ in 0..3 {
        assert_unavailable(&server.send(create()).await);
        assert_unavailable(&server.get(&credentials, &manager).await);
        assert_eq!(server.send(Request::get("/readyz")).await.status, 503);
        assert_eq!(server.send(Request::get("/livez")).await.status, 200);
    }
    drop(server);

    let server = deployment.serve();
    assert_eq!(server.send(Request::get("/readyz")).await.status, 200);
    for client_id in &created {
        let found = server.get(&format!("{credentials}/{client_id}"), &manager).await;
        assert_eq!(found.status, 200, "the acknowledged credential {client_id} is lost");
    }
    server.send(create()).await.assert(201);
}

/// Small writes still succeed on a full disk, as long as SQLite's log has space that was allocated before.
#[tokio::test]
async fn node_is_not_ready_on_a_full_disk() {
    let database = Database::sqlite().await;
    let deployment = Deployment::new(database.address());
    let (server, disk) = deployment.serve_on_small_disk();
    assert_eq!(server.send(Request::get("/readyz")).await.status, 200);
    let manager = deployment.manager(server.address).await;
    let create = || Request::post(&format!("{}/credentials", deployment.path())).bearer(&manager).json(&json!({}));
    server.send(create()).await.assert(201);

    disk.fill();
    poll_until("the node is not ready", async || server.send(Request::get("/readyz")).await.status == 503).await;
    assert_eq!(server.send(Request::get("/livez")).await.status, 200);
    let mut stored = 0;
    let refused = loop {
        let response = server.send(create()).await;
        if response.status != 201 {
            break response;
        }
        stored += 1;
        assert!(stored < 10_000, "the disk is not full");
    };
    assert_unavailable(&refused);
    assert_eq!(server.send(Request::get("/readyz")).await.status, 503);
    let doctor = disk.run(&["doctor"]);
    assert!(!doctor.status.success());
    let report = String::from_utf8_lossy(&doctor.stdout);
    assert!(report.contains("disk full") && report.contains("free space"), "{report}");

    disk.free();
    poll_until("the node is ready", async || server.send(Request::get("/readyz")).await.status == 200).await;
    server.send(create()).await.assert(201);
}

/// Downtime of the database server. Longer than any timeout.
const DOWNTIME: Duration = Duration::from_secs(8);
/// Maximum response time during the outage.
const MAX_RESPONSE_TIME: Duration = Duration::from_secs(15);
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(10);
const WRITERS: usize = 8;
/// Number of checks that are created before the outage. As many are created after it.
const CHECKS_BEFORE_AND_AFTER: usize = 100;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_postgres_is_killed() {
    let postgres = OwnPostgres::start().await;
    create_checks_during(&postgres, async |server, writing| {
        postgres.halt();
        let stopped = Instant::now();
        while stopped.elapsed() < DOWNTIME {
            assert_unavailable(&writing.create().await);
            assert_eq!(server.send(Request::get("/readyz")).await.status, 503);
            assert_eq!(server.send(Request::get("/livez")).await.status, 200);
        }
        assert!(writing.unavailable.load(Ordering::SeqCst) > 0);
        postgres.resume();
    })
    .await;
}

/// Commits wait for the standby, so the standby has all acknowledged writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn promoted_standby_has_all_acknowledged_writes() {
    let postgres = OwnPostgres::start_pair().await;
    create_checks_during(&postgres, async |server, writing| {
        postgres.halt();
        // The standby is up but read-only.
        assert_unavailable(&writing.create().await);
        assert_eq!(server.send(Request::get("/readyz")).await.status, 503);
        postgres.promote_standby();
    })
    .await;
}

/// Creates checks continuously during a fault, until well after recovery.
async fn create_checks_during(postgres: &OwnPostgres, inject_fault: impl AsyncFnOnce(&ServerProcess, &CheckWriters)) {
    let deployment = Deployment::new(&postgres.url);
    let server = deployment.serve();
    let writing = Arc::new(CheckWriters {
        address: server.address,
        token: deployment.product_token(&server, json!({})).await,
        created: Mutex::default(),
        written: ResponseCounter::default(),
        unavailable: AtomicUsize::new(0),
        numbers: AtomicUsize::new(0),
    });
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        let writing = Arc::clone(&writing);
        writers.spawn(async move { writing.run().await });
    }
    writing.written.wait_for_count(CHECKS_BEFORE_AND_AFTER).await;

    inject_fault(&server, &writing).await;
    let is_back =
        async || writing.create().await.status == 201 && server.send(Request::get("/readyz")).await.status == 200;
    let recovered = timeout(RECOVERY_TIMEOUT, poll_until("the service recovers", is_back)).await;
    assert!(recovered.is_ok(), "the service does not recover");
    writing.written.wait_for_count(writing.written.so_far() + CHECKS_BEFORE_AND_AFTER).await;
    // Aborts the writers without waiting for their requests in progress.
    writers.shutdown().await;

    assert_all_exist(&server, &writing).await;
}

async fn assert_all_exist(server: &ServerProcess, writing: &CheckWriters) {
    let created = writing.created.lock().clone();
    for id in &created {
        let found = server.get(&format!("{CHECKS}/{id}"), &writing.token).await;
        assert_eq!(found.status, 200, "the acknowledged check {id} is lost: {}", found.text());
    }
    let total = server.get(&format!("{CHECKS}?size=1"), &writing.token).await.assert(200).json();
    let total = total["page"]["total_elements"].as_u64().unwrap();
    let tried = writing.numbers.load(Ordering::SeqCst) as u64;
    assert!((created.len() as u64..=tried).contains(&total), "unexpected number of checks: {total}");
}

/// Clients that create checks continuously.
struct CheckWriters {
    address: std::net::SocketAddr,
    token: String,
    /// Ids of checks whose creation was acknowledged with 201.
    created: Mutex<Vec<String>>,
    written: ResponseCounter,
    /// Number of responses with 503.
    unavailable: AtomicUsize,
    numbers: AtomicUsize,
}

impl CheckWriters {
    async fn run(&self) {
        loop {
            if self.create().await.status != 201 {
                // Waits before retrying, as a client would.
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    /// Creates a check. The response, possibly a 503, must arrive in time.
    async fn create(&self) -> HttpResponse {
        let number = format!("+9901{:06}00", self.numbers.fetch_add(1, Ordering::SeqCst));
        let request = Request::post(CHECKS).bearer(&self.token).json(&json!({"phone_number": number}));
        let response = timeout(MAX_RESPONSE_TIME, http_client::send(self.address, &request)).await.expect("a response");
        if response.status == 201 {
            self.created.lock().push(response.json()["check_id"].as_str().unwrap().to_owned());
            self.written.count();
        } else {
            assert_unavailable(&response);
            self.unavailable.fetch_add(1, Ordering::SeqCst);
        }
        response
    }
}
