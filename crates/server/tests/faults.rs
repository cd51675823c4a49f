//! What is under the service fails: the disk, or the database's server. Whoever asks is told so at once, nothing that was
//! answered is lost, and the service goes on when it can.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

#[expect(dead_code, reason = "not all of it is needed here")]
mod deployment;
#[path = "faults/own_postgres.rs"]
mod own_postgres;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use deployment::{
    CHECKS, Deployment, Server,
    client::{self, Answer, Request},
    database::Database,
    load::Answers,
};
use own_postgres::OwnPostgres;
use serde_json::json;
use tokio::task::JoinSet;

#[track_caller]
fn assert_unavailable(answer: &Answer) {
    assert_eq!((answer.status, answer.code().as_str()), (503, "service_unavailable"), "{}", answer.text());
    assert!(answer.header("retry-after").unwrap().parse::<u32>().unwrap() >= 1);
}

/// A sync that has failed may have lost what it was to keep, and the next one does not say so any more.
#[tokio::test]
async fn a_disk_that_has_failed_once_is_not_trusted_before_a_restart() {
    let database = Database::sqlite().await;
    let deployment = Deployment::new(database.address());
    let server = deployment.serve_with_fault("fdatasync", "error=EIO:when=20").expect("it gets ready before");
    let manager = deployment.manager(server.address).await;
    let credentials = format!("{}/credentials", deployment.path());
    let create = || Request::post(&credentials).bearer(&manager).json(&json!({}));
    let mut created = vec![];
    let refused = loop {
        let answer = server.send(create()).await;
        if answer.status != 201 {
            break answer;
        }
        created.push(answer.json()["client_id"].as_str().unwrap().to_owned());
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
        assert_eq!(found.status, 200, "{client_id} was created, and is lost");
    }
    server.send(create()).await.assert(201);
}

/// How long the server is away: longer than anybody waits for it.
const AWAY: Duration = Duration::from_secs(8);
/// No answer may take longer, whatever it is.
const LONGEST: Duration = Duration::from_secs(15);
const RECOVERED_WITHIN: Duration = Duration::from_secs(10);
const WRITERS: usize = 8;
/// What is written before, and again after, the server is away.
const ENOUGH: usize = 100;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgres_that_is_stopped_hard_is_waited_for_and_loses_nothing() {
    let postgres = OwnPostgres::start().await;
    under_writers(&postgres, async |server, writing| {
        postgres.halt();
        let stopped = Instant::now();
        while stopped.elapsed() < AWAY {
            assert_unavailable(&writing.create().await);
            assert_eq!(server.send(Request::get("/readyz")).await.status, 503);
            assert_eq!(server.send(Request::get("/livez")).await.status, 200);
        }
        assert!(writing.unavailable.load(Ordering::SeqCst) > 0);
        postgres.resume();
    })
    .await;
}

/// Commits wait for the standby, so whatever was answered is there when it takes over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_that_takes_over_has_all_that_was_answered() {
    let postgres = OwnPostgres::start_pair().await;
    under_writers(&postgres, async |server, writing| {
        postgres.halt();
        // The standby is there, and takes no writes yet.
        assert_unavailable(&writing.create().await);
        assert_eq!(server.send(Request::get("/readyz")).await.status, 503);
        postgres.promote_standby();
    })
    .await;
}

/// Has checks created all the time while something happens to the database, until well after it is back.
async fn under_writers(postgres: &OwnPostgres, happen: impl AsyncFnOnce(&Server, &Writing)) {
    let deployment = Deployment::new(&postgres.url);
    let server = deployment.serve();
    let writing = Arc::new(Writing {
        address: server.address,
        token: deployment.product_token(&server, json!({})).await,
        created: Mutex::default(),
        written: Answers::default(),
        unavailable: AtomicUsize::new(0),
        numbers: AtomicUsize::new(0),
    });
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        let writing = Arc::clone(&writing);
        writers.spawn(async move { writing.go_on().await });
    }
    writing.written.reach(ENOUGH).await;

    happen(&server, &writing).await;
    let back = Instant::now();
    while writing.create().await.status != 201 || server.send(Request::get("/readyz")).await.status != 200 {
        assert!(back.elapsed() < RECOVERED_WITHIN, "it does not notice that its database is back");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    writing.written.reach(writing.written.so_far() + ENOUGH).await;
    // Whoever has not been answered yet is not waited for.
    writers.shutdown().await;

    is_all_there(&server, &writing).await;
}

async fn is_all_there(server: &Server, writing: &Writing) {
    let created = writing.created.lock().unwrap().clone();
    for id in &created {
        let found = server.get(&format!("{CHECKS}/{id}"), &writing.token).await;
        assert_eq!(found.status, 200, "{id} was created, and is lost: {}", found.text());
    }
    let total = server.get(&format!("{CHECKS}?size=1"), &writing.token).await.assert(200).json();
    let total = total["page"]["total_elements"].as_u64().unwrap();
    let tried = writing.numbers.load(Ordering::SeqCst) as u64;
    assert!((created.len() as u64..=tried).contains(&total), "{total} checks are counted");
}

/// People who create checks all the time.
struct Writing {
    address: std::net::SocketAddr,
    token: String,
    /// The ids that a 201 has named.
    created: Mutex<Vec<String>>,
    written: Answers,
    /// Answers that asked to come again.
    unavailable: AtomicUsize,
    numbers: AtomicUsize,
}

impl Writing {
    async fn go_on(&self) {
        loop {
            if self.create().await.status != 201 {
                // As somebody does who was told to wait.
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    /// One more check. It is created, or whoever asks is told to come again: soon, and nothing else.
    async fn create(&self) -> Answer {
        let number = format!("+9901{:06}00", self.numbers.fetch_add(1, Ordering::SeqCst));
        let request = Request::post(CHECKS).bearer(&self.token).json(&json!({"phone_number": number}));
        let answer = tokio::time::timeout(LONGEST, client::send(self.address, &request)).await.expect("an answer");
        if answer.status == 201 {
            self.created.lock().unwrap().push(answer.json()["check_id"].as_str().unwrap().to_owned());
            self.written.count();
        } else {
            assert_unavailable(&answer);
            self.unavailable.fetch_add(1, Ordering::SeqCst);
        }
        answer
    }
}
