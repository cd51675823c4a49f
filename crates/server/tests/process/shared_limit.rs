//! Tests three processes that share the rate limit of a workspace.

use std::{collections::BTreeMap, net::SocketAddr, ops::RangeInclusive, sync::Arc, time::Duration};

use jiff::{Timestamp, fmt::rfc2822};
use parking_lot::Mutex;
use ringtrue_test_support::{
    database::Database,
    http_client::{self, Request},
    poll_until,
    server_process::ServerProcess,
};
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};

use crate::deployment::{CHECKS, Deployment, wait_until_known};

/// Rate limit in calls per second, far below the capacity of this machine.
const LIMIT: usize = 60;
const WHOLE_LIMIT: RangeInclusive<usize> = LIMIT * 9 / 10..=LIMIT * 11 / 10;
/// Calls per second that are admitted while nodes know each other's load. The API contract sets the upper bound.
const SHARED_LIMIT: RangeInclusive<usize> = LIMIT * 8 / 10..=LIMIT * 12 / 10;
/// Calls per second that are admitted while nodes cannot exchange their load. If each node admitted the whole limit,
/// they would admit three times the limit.
const UNSYNCHRONISED_LIMIT: RangeInclusive<usize> = LIMIT * 8 / 10..=LIMIT * 15 / 10;
/// Number of clients of each node. Together they call it at more than three times the limit. They pause between calls,
/// because they would otherwise take the processor time that other tests need.
const CLIENTS: usize = 4;
const CALL_INTERVAL: Duration = Duration::from_millis(20);

#[tokio::test]
async fn limit_follows_demand() {
    let database = Database::postgres().await;
    let deployment = Deployment::new(database.address());
    let mut nodes = [(); 3].map(|()| deployment.serve_with(&[("RINGTRUE_RATE_LIMITS__READ", LIMIT.to_string())]));
    let token = deployment.product_token(&nodes[0], json!({})).await;
    for node in &nodes {
        wait_until_known(node, &token).await;
    }

    // While the other nodes are idle, one node admits the whole limit.
    for node in &nodes {
        Load::start(&[node], &token).assert_admitted(WHOLE_LIMIT, 3).await;
    }

    // Once busy nodes know of each other, they together admit at most 1.2 times the limit.
    let load = Load::start(&[&nodes[0], &nodes[1], &nodes[2]], &token);
    load.measure(2).await;
    load.assert_admitted(SHARED_LIMIT, 5).await;

    // No call waits for another machine: nodes that cannot exchange their load divide the limit according to the last
    // known load. The test therefore waits for a second in which no client was late, so that the last known load is
    // balanced.
    poll_until("a balanced second", async || WHOLE_LIMIT.contains(&load.measure(1).await[0])).await;
    let locks = [database.lock("node_demand"), database.lock("nodes")];
    load.assert_admitted(UNSYNCHRONISED_LIMIT, 4).await;
    drop(locks);
    load.measure(2).await;

    // When a node dies, the other nodes soon admit its part of the limit, too.
    nodes[2].kill();
    load.assert_admitted(*WHOLE_LIMIT.start()..=*SHARED_LIMIT.end(), 4).await;
}

/// A client that calls at four fifths of the limit and moves from node to node is never refused.
#[tokio::test]
async fn client_below_its_limit_is_not_refused_after_a_move() {
    let database = Database::postgres().await;
    let deployment = Deployment::new(database.address());
    let nodes = [(); 3].map(|()| deployment.serve_with(&[("RINGTRUE_RATE_LIMITS__READ", LIMIT.to_string())]));
    let token = deployment.product_token(&nodes[0], json!({})).await;
    for node in &nodes {
        wait_until_known(node, &token).await;
    }
    let request = Request::get(&format!("{CHECKS}?size=1")).bearer(&token);
    let mut calls = interval(Duration::from_secs(1) / u32::try_from(LIMIT * 8 / 10).unwrap());
    // Late calls are not made up for, because the additional calls would exceed the limit.
    calls.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for (number, calls_until_move) in
        [LIMIT, LIMIT / 2, LIMIT * 2, LIMIT / 3, LIMIT, LIMIT * 3, LIMIT].iter().enumerate()
    {
        let node = &nodes[number % nodes.len()];
        for call in 0..*calls_until_move {
            calls.tick().await;
            let response = node.send(request.clone()).await;
            assert_eq!(response.status, 200, "call {call} after move {number}: {}", response.text());
        }
    }
}

/// Clients that call some nodes at more than the limit, until the value is dropped.
struct Load {
    /// Number of admitted calls by second.
    admitted: Arc<Mutex<BTreeMap<i64, usize>>>,
    _clients: JoinSet<()>,
}

impl Load {
    fn start(nodes: &[&ServerProcess], token: &str) -> Self {
        let admitted = Arc::<Mutex<BTreeMap<i64, usize>>>::default();
        let mut clients = JoinSet::new();
        for address in nodes.iter().map(|node| node.address) {
            for _ in 0..CLIENTS {
                clients.spawn(call_repeatedly(address, token.to_owned(), Arc::clone(&admitted)));
            }
        }
        Load { admitted, _clients: clients }
    }

    /// Waits for a second that reaches the lower bound, then compares the mean of the next seconds with the upper
    /// bound.
    ///
    /// Single seconds prove nothing. They are taken from the `Date` header, which may be a moment later than the time
    /// at which the call was counted. Also, clients on a busy machine may send less than the limit.
    async fn assert_admitted(&self, bounds: RangeInclusive<usize>, seconds: usize) {
        poll_until("the admitted calls of a second", async || self.measure(1).await[0] >= *bounds.start()).await;
        let admitted = self.measure(seconds).await;
        let mean = admitted.iter().sum::<usize>() / admitted.len();
        assert!(mean <= *bounds.end(), "{admitted:?}");
    }

    /// Returns the number of calls admitted in each of the next whole seconds.
    async fn measure(&self, seconds: usize) -> Vec<usize> {
        self.admitted.lock().clear();
        // The first and the last second are measured only in part.
        let whole = || {
            let admitted = self.admitted.lock();
            let last = admitted.len().saturating_sub(1);
            admitted.values().take(last).skip(1).copied().collect::<Vec<_>>()
        };
        poll_until("the seconds have passed", async || whole().len() >= seconds).await;
        whole()
    }
}

/// Calls a node at intervals until the node is gone.
async fn call_repeatedly(address: SocketAddr, token: String, admitted: Arc<Mutex<BTreeMap<i64, usize>>>) {
    let request = Request::get(&format!("{CHECKS}?size=1")).bearer(&token);
    let mut calls = interval(CALL_INTERVAL);
    calls.set_missed_tick_behavior(MissedTickBehavior::Delay);
    calls.tick().await;
    while let Some(response) = http_client::try_send(address, &request).await {
        assert!([200, 429].contains(&response.status), "{response:?}");
        let date = response.header("date").expect("a date");
        let second = rfc2822::parse(date).map(|date| Timestamp::from(date).as_second()).expect("an HTTP date");
        *admitted.lock().entry(second).or_default() += usize::from(response.status == 200);
        calls.tick().await;
    }
}
