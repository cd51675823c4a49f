//! Helpers that the tests of several crates share: an HTTP client, HTTP servers, databases and processes. Failures
//! panic.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "tests report failures by panics"
)]

pub mod callback_receiver;
pub mod database;
pub mod database_proxy;
pub mod engine;
pub mod http_client;
pub mod http_server;
pub mod leases;
pub mod own_postgres;
pub mod reassembly;
pub mod server_process;

use std::time::{Duration, Instant};

/// Maximum time of every wait, which is enough for a slow machine.
pub const WAIT_LIMIT: Duration = Duration::from_mins(1);

/// Polls a condition every 20 ms until it is met.
///
/// Use it only for conditions without a notification, such as the state of another process, or of a node that reads the
/// database at intervals. For everything else await the event itself: a received request, the end of a task, a log
/// line.
pub async fn poll_until(condition: &str, mut is_met: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !is_met().await {
        assert!(started.elapsed() < WAIT_LIMIT, "timed out waiting for: {condition}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
