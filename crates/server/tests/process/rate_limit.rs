//! Tests sustained load above a workspace's rate limit against the real binary: exactly the limit is served, and all
//! other requests get 429.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use ringtrue_engine::ports::clock::{Clock, SystemClock};
use ringtrue_test_support::{
    database::Database,
    http_client::{self, HttpResponse, Request},
};
use serde_json::json;
use tokio::{task::JoinSet, time::interval};

use crate::deployment::{CHECKS, Deployment};

/// Rate limits far below the capacity of this machine, even while other tests run.
const LIMITS: [(&str, &str); 2] = [("RINGTRUE_RATE_LIMITS__READ", "12"), ("RINGTRUE_RATE_LIMITS__CREATE", "6")];
const READS: usize = 12;
const CREATES: usize = 6;
const LOAD: Duration = Duration::from_secs(8);
/// Number of clients for each kind of request. Together they send at least five times as many requests as the limit.
const CLIENTS: usize = 6;
const REQUEST_INTERVAL: Duration = Duration::from_millis(100);

#[tokio::test]
async fn sqlite() {
    limit_holds_under_load(&Database::sqlite().await).await;
}

#[tokio::test]
async fn postgres() {
    limit_holds_under_load(&Database::postgres().await).await;
}

async fn limit_holds_under_load(database: &Database) {
    let deployment = Deployment::new(database.address());
    let server = deployment.serve_with(&LIMITS);
    let token = deployment.product_token(&server, json!({})).await;
    let reads = Arc::new(Calls { limit: READS, success: 200, ..Calls::new(server.address, &token) });
    let creates = Arc::new(Calls { limit: CREATES, success: 201, ..Calls::new(server.address, &token) });
    let mut callers = JoinSet::new();
    let (started_at, first_second) = (Instant::now(), SystemClock.now().as_second());
    for _ in 0..CLIENTS {
        let (reads, creates) = (Arc::clone(&reads), Arc::clone(&creates));
        callers.spawn(async move {
            let mut requests = interval(REQUEST_INTERVAL);
            while started_at.elapsed() < LOAD {
                requests.tick().await;
                reads.make(Request::get(&format!("{CHECKS}?size=1"))).await;
            }
        });
        callers.spawn(async move {
            let mut requests = interval(REQUEST_INTERVAL);
            while started_at.elapsed() < LOAD {
                requests.tick().await;
                let number = format!("+9901{:06}00", creates.made.load(Ordering::SeqCst));
                creates.make(Request::post(CHECKS).json(&json!({"phone_number": number}))).await;
            }
        });
    }
    while let Some(ended) = callers.join_next().await {
        ended.unwrap();
    }
    let seconds = usize::try_from(SystemClock.now().as_second() - first_second).unwrap();
    reads.assert_limited(seconds);
    creates.assert_limited(seconds);

    // A client that waits for `Retry-After` is served.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let all = server.get(&format!("{CHECKS}?size=1"), &token).await.assert(200).json();
    assert_eq!(all["page"]["total_elements"], creates.admitted(), "rejected requests have no effect");
}

/// Requests of one kind and their results.
struct Calls {
    address: SocketAddr,
    token: String,
    limit: usize,
    success: u16,
    made: AtomicUsize,
    refused: AtomicUsize,
}

impl Calls {
    fn new(address: SocketAddr, token: &str) -> Self {
        Calls {
            address,
            token: token.to_owned(),
            limit: 0,
            success: 0,
            made: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
        }
    }

    async fn make(&self, request: Request) {
        self.made.fetch_add(1, Ordering::SeqCst);
        let response = http_client::send(self.address, &request.bearer(&self.token)).await;
        let [limit, remaining, reset] = ["limit", "remaining", "reset"].map(|name| number(&response, name));
        assert!(limit == self.limit && remaining < limit && reset == 1, "{response:?}");
        if response.status != self.success {
            assert_eq!((response.status, response.code().as_str()), (429, "too_many_requests"), "{}", response.text());
            assert_eq!((remaining, response.header("retry-after")), (0, Some("1")));
            self.refused.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn admitted(&self) -> usize {
        self.made.load(Ordering::SeqCst) - self.refused.load(Ordering::SeqCst)
    }

    /// Asserts that the load reached the limit but did not exceed it, in this many seconds of the server's clock.
    fn assert_limited(&self, seconds: usize) {
        let (admitted, refused) = (self.admitted(), self.refused.load(Ordering::SeqCst));
        let most = self.limit * seconds * 105 / 100 + self.limit;
        assert!(admitted <= most, "{admitted} calls were admitted in {seconds} s; at most {most} are allowed");
        assert!(admitted >= self.limit, "fewer calls were admitted than the limit allows: {admitted}");
        assert!(refused > 0, "{admitted} calls do not exceed the limit");
    }
}

fn number(response: &HttpResponse, name: &str) -> usize {
    let value = response.header(&format!("x-ratelimit-{name}"));
    value.unwrap_or_else(|| panic!("no {name}: {response:?}")).parse().expect("a number")
}
