//! Tests three processes that share the rate limit of a workspace.
//!
//! The bounds hold while clients call steadily and nodes exchange their calls in time. On a busy machine, some seconds
//! are not like that. Tests therefore judge only seconds in which both is known to be the case.

use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    ops::RangeInclusive,
    sync::Arc,
    time::Duration,
};

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
const LIMIT: usize = 30;
const WHOLE_LIMIT: RangeInclusive<usize> = LIMIT * 9 / 10..=LIMIT * 11 / 10;
/// Calls per second that are admitted while nodes know each other's load. The API contract sets the upper bound.
const SHARED_LIMIT: RangeInclusive<usize> = LIMIT * 8 / 10..=LIMIT * 12 / 10;
/// Calls per second that are admitted while nodes cannot exchange their load. If each node admitted the whole limit,
/// they would admit three times the limit.
const UNSYNCHRONISED_LIMIT: RangeInclusive<usize> = LIMIT * 8 / 10..=LIMIT * 15 / 10;
/// Number of clients of each node. Together they call it at more than the limit. They pause between calls, because they
/// would otherwise take the processor time that other tests need.
const CLIENTS: usize = 4;
const CALL_INTERVAL: Duration = Duration::from_millis(80);
/// Longest time between two exchanges of a node that is in time: more than the 250 ms at which nodes exchange their
/// calls, and half of the time after which the calls of a silent node no longer count.
const MAX_EXCHANGE_GAP_MILLIS: i64 = 600;
/// Seconds after which nodes know that a load has begun or moved, and have taken over the part of a dead node.
const SETTLING_SECONDS: i64 = 3;

#[tokio::test]
async fn limit_follows_demand() {
    let database = Database::postgres().await;
    let deployment = Deployment::new(database.address());
    let exchanges = Exchanges::record(&database);
    let mut nodes = [(); 3].map(|()| deployment.serve_with(&[("RINGTRUE_RATE_LIMITS__READ", LIMIT.to_string())]));
    let token = deployment.product_token(&nodes[0], json!({})).await;
    for node in &nodes {
        wait_until_known(node, &token).await;
    }

    // While the other nodes are idle, one node admits the whole limit.
    for node in &nodes {
        let load = Load::start(&[node], &token);
        load.assert_admitted(WHOLE_LIMIT, 3, |second| load.is_steady(second)).await;
    }

    // Once busy nodes know of each other, they together admit at most 1.2 times the limit.
    let load = Load::start(&[&nodes[0], &nodes[1], &nodes[2]], &token);
    let is_shared = |second| load.is_steady(second) && exchanges.were_punctual(3, second);
    load.assert_admitted(SHARED_LIMIT, 5, is_shared).await;

    // No call waits for another machine: nodes that cannot exchange their load divide the limit according to the last
    // known load. The test interrupts the exchanges until they end with a load that goes on.
    let mut interrupted = None;
    poll_until("a steady load at the last exchange", async || {
        interrupted = None;
        load.wait_for_second(is_shared).await;
        let locks = [database.lock("node_demand"), database.lock("nodes")];
        let last = exchanges.last_second(3);
        load.wait_for_second(|second| second > last + 1).await;
        if (last - 1..=last + 1).all(|second| load.is_steady(second)) {
            interrupted = Some((locks, last));
        }
        interrupted.is_some()
    })
    .await;
    let (locks, last) = interrupted.expect("interrupted exchanges");
    load.assert_admitted(UNSYNCHRONISED_LIMIT, 4, |second| second > last && load.is_like(last, second)).await;
    drop(locks);
    load.wait_for_second(is_shared).await;

    // When a node dies, the other nodes soon admit its part of the limit, too.
    nodes[2].kill();
    drop(load);
    let load = Load::start(&[&nodes[0], &nodes[1]], &token);
    let is_taken_over = |second| load.is_steady(second) && exchanges.were_punctual(2, second);
    load.assert_admitted(*WHOLE_LIMIT.start()..=*SHARED_LIMIT.end(), 4, is_taken_over).await;
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

/// Calls of a second at a node, by the `Date` of the response.
#[derive(Clone, Copy, Debug, Default)]
struct Calls {
    received: usize,
    admitted: usize,
}

/// Clients that call some nodes at more than the limit, until the value is dropped.
struct Load {
    /// Calls of the nodes by second, without the current one.
    calls: Arc<Mutex<BTreeMap<i64, Vec<Calls>>>>,
    nodes: usize,
    _clients: JoinSet<()>,
}

impl Load {
    fn start(nodes: &[&ServerProcess], token: &str) -> Self {
        let calls = Arc::<Mutex<BTreeMap<i64, Vec<Calls>>>>::default();
        let mut clients = JoinSet::new();
        for (index, address) in nodes.iter().map(|node| node.address).enumerate() {
            for _ in 0..CLIENTS {
                let calls = Arc::clone(&calls);
                let nodes = nodes.len();
                clients.spawn(call_repeatedly(address, token.to_owned(), move |second, is_admitted| {
                    let mut calls = calls.lock();
                    let of_node = &mut calls.entry(second).or_insert_with(|| vec![Calls::default(); nodes])[index];
                    of_node.received += 1;
                    of_node.admitted += usize::from(is_admitted);
                }));
            }
        }
        Load { calls, nodes: nodes.len(), _clients: clients }
    }

    /// Returns the last second in which a call was answered.
    fn last_second(&self) -> i64 {
        self.calls.lock().last_key_value().map_or(0, |(second, _)| *second)
    }

    fn received(&self, node: usize, second: i64) -> usize {
        self.calls.lock().get(&second).map_or(0, |calls| calls[node].received)
    }

    /// Whether each node received about as many calls in a second as in an earlier one, and all together received more
    /// than they may admit.
    fn is_like(&self, earlier: i64, second: i64) -> bool {
        let received = |second| (0..self.nodes).map(move |node| self.received(node, second));
        let is_alike = received(earlier).zip(received(second)).all(|(a, b)| a.abs_diff(b) <= a.max(b) / 4);
        is_alike && received(second).sum::<usize>() > *SHARED_LIMIT.end()
    }

    /// Whether a second is like the one before it. The `Date` of a response may be later than the second in which its
    /// call was counted; in a steady load, as many calls are missing in a second as it has too many.
    fn is_steady(&self, second: i64) -> bool {
        self.is_like(second - 1, second)
    }

    /// Waits for a whole second that meets a condition.
    async fn wait_for_second(&self, is_met: impl Fn(i64) -> bool) {
        self.admitted_in(1, is_met).await;
    }

    /// Compares the mean of the calls admitted in some seconds with bounds.
    async fn assert_admitted(&self, bounds: RangeInclusive<usize>, seconds: usize, is_judged: impl Fn(i64) -> bool) {
        let admitted = self.admitted_in(seconds, is_judged).await;
        let mean = admitted.iter().sum::<usize>() / admitted.len();
        assert!(bounds.contains(&mean), "{admitted:?} in seconds, expected {bounds:?}");
    }

    /// Returns the calls admitted in each of the next whole seconds that meet a condition.
    async fn admitted_in(&self, seconds: usize, is_judged: impl Fn(i64) -> bool) -> Vec<usize> {
        let mut admitted = vec![];
        let mut next = self.last_second() + 1;
        poll_until("whole seconds that meet the condition", async || {
            let Some(first) = self.calls.lock().first_key_value().map(|(second, _)| *second) else { return false };
            next = next.max(first + SETTLING_SECONDS);
            // A second is complete when a call of a later one is answered.
            while next < self.last_second() {
                if is_judged(next) {
                    let calls = self.calls.lock().get(&next).cloned().unwrap_or_default();
                    admitted.push(calls.iter().map(|calls| calls.admitted).sum());
                }
                next += 1;
            }
            admitted.len() >= seconds
        })
        .await;
        admitted
    }
}

/// Calls a node at intervals until the node is gone. Reports the second of each response, and whether the call was
/// admitted.
async fn call_repeatedly(address: SocketAddr, token: String, report: impl Fn(i64, bool)) {
    let request = Request::get(&format!("{CHECKS}?size=1")).bearer(&token);
    let mut calls = interval(CALL_INTERVAL);
    calls.set_missed_tick_behavior(MissedTickBehavior::Delay);
    calls.tick().await;
    while let Some(response) = http_client::try_send(address, &request).await {
        assert!([200, 429].contains(&response.status), "{response:?}");
        let date = response.header("date").expect("a date");
        let second = rfc2822::parse(date).map(|date| Timestamp::from(date).as_second()).expect("an HTTP date");
        report(second, response.status == 200);
        calls.tick().await;
    }
}

/// The times at which nodes have published their calls and read those of the others, recorded by a trigger.
struct Exchanges<'a>(&'a Database);

impl<'a> Exchanges<'a> {
    fn record(database: &'a Database) -> Self {
        database.execute(
            "create table exchanges (node_id uuid, published_at bigint);
             create function record_exchange() returns trigger language plpgsql as
                 'begin insert into exchanges values (new.node_id, new.published_at); return new; end';
             create trigger record_exchange after insert or update on node_demand
                 for each row execute function record_exchange()",
        );
        Exchanges(database)
    }

    /// Returns the times of each node's exchanges, in milliseconds.
    fn by_node(&self) -> HashMap<String, Vec<i64>> {
        let mut times = HashMap::<String, Vec<i64>>::new();
        for line in self.0.query("select node_id, published_at from exchanges order by published_at").lines() {
            let (node, at) = line.split_once('|').expect("two columns");
            times.entry(node.trim().to_owned()).or_default().push(at.trim().parse().expect("milliseconds"));
        }
        times
    }

    /// Whether this many nodes exchanged their calls in time, in a second and in the one before.
    fn were_punctual(&self, nodes: usize, second: i64) -> bool {
        let (from, until) = ((second - 1) * 1_000, (second + 1) * 1_000);
        let is_punctual = |times: &&Vec<i64>| {
            // From the last exchange before the two seconds until their end.
            let first = times.partition_point(|at| *at < from).saturating_sub(1);
            let within = times[first..].iter().take_while(|at| **at < until).copied();
            let times: Vec<i64> = within.chain([until]).collect();
            times[0] <= from && times.windows(2).all(|pair| pair[1] - pair[0] <= MAX_EXCHANGE_GAP_MILLIS)
        };
        self.by_node().values().filter(is_punctual).count() >= nodes
    }

    /// Returns the second of the first of the last exchanges of the nodes that exchanged last.
    fn last_second(&self, nodes: usize) -> i64 {
        let mut last: Vec<i64> = self.by_node().values().filter_map(|times| times.last().copied()).collect();
        last.sort_unstable_by(|a, b| b.cmp(a));
        last[nodes - 1] / 1_000
    }
}
