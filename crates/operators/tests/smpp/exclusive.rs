//! An SMSC that allows one bind per account, and the two nodes of a deployment.

use std::time::Duration;

use ringtrue_engine::ports::connectors::{ConnectorState, MonitoredConnector as _};
use ringtrue_operators::smpp::{SmppConfig, SmppConnector, lease_name};
use ringtrue_sandbox::smsc::{DeliveryOutcome, Sms, Smsc, SmscConfig};
use tokio::time::advance;

use crate::{Fixture, HANDSET, SERVICE, peers::ManualSmsc};

struct Node {
    fixture: Fixture,
    connector: SmppConnector,
}

impl Node {
    fn start(fixture: Fixture, port: u16) -> Self {
        let config = SmppConfig { is_exclusive: true, ..Fixture::config(port) };
        Node { connector: fixture.start(config), fixture }
    }

    fn is_bound(&self) -> bool {
        self.connector.status().binds_up == 1
    }

    fn is_standby(&self) -> bool {
        self.connector.connector_status().state == ConnectorState::Standby
    }

    /// Makes the node's requests to the database fail.
    fn set_unreachable(&self, is_unreachable: bool) {
        self.fixture.deployment.leases.set_unreachable(self.fixture.node, is_unreachable);
    }
}

async fn one_bind_smsc() -> Smsc {
    Smsc::start(SmscConfig { max_binds: 1, ..SmscConfig::default() }).await.unwrap()
}

/// Starts two nodes. The first one is bound, and the second stands by.
async fn start_nodes(smsc: &Smsc) -> (Node, Node) {
    let first = Node::start(Fixture::new(), smsc.address().port());
    advance_until("the first node is bound", || first.is_bound()).await;
    let second = Node::start(first.fixture.another_node(), smsc.address().port());
    advance_until("the second node stands by", || second.is_standby()).await;
    (first, second)
}

/// Advances the paused clock in small steps until the event has happened. The tasks and sockets of both nodes run after
/// each step.
async fn advance_until(event: &str, mut has_happened: impl FnMut() -> bool) {
    for _ in 0..2_000 {
        for _ in 0..200 {
            if has_happened() {
                return;
            }
            tokio::task::yield_now().await;
        }
        advance(Duration::from_millis(50)).await;
    }
    panic!("did not happen: {event}");
}

fn holder(node: &Node) -> Option<ringtrue_engine::ports::node::NodeId> {
    node.fixture.deployment.leases.holder(&lease_name("test"))
}

async fn assert_received(smsc: &Smsc, node: &Node, text: &str) {
    let sms = Sms::new(HANDSET, SERVICE, text);
    assert_eq!(smsc.send(sms).unwrap().wait_for_outcome().await, DeliveryOutcome::Acknowledged);
    assert_eq!(node.fixture.inbox.texts().last().map(String::as_str), Some(text));
}

#[tokio::test(start_paused = true)]
async fn one_node_binds_and_the_other_stands_by() {
    let smsc = one_bind_smsc().await;
    let (first, second) = start_nodes(&smsc).await;
    assert_eq!(holder(&first), Some(first.fixture.node));
    assert_eq!(first.connector.connector_status().state, ConnectorState::Up);
    let status = second.connector.connector_status();
    assert_eq!((status.state, status.link_summary.unwrap().up), (ConnectorState::Standby, 0));
    assert_eq!((first.fixture.counters.binds_up(), second.fixture.counters.binds_up()), (1, 0));
    assert!(first.fixture.receivers_available() && second.fixture.receivers_available());
    assert_received(&smsc, &first, "hello").await;
    assert_eq!(smsc.counts().binds_rejected, 0, "the second node has not tried");
}

#[tokio::test(start_paused = true)]
async fn stopped_node_releases_its_lease() {
    let smsc = one_bind_smsc().await;
    let (first, second) = start_nodes(&smsc).await;
    let stopping = tokio::time::Instant::now();
    first.connector.shutdown().await;
    assert_eq!((holder(&first), stopping.elapsed()), (None, Duration::ZERO));
    advance_until("the second node is bound", || second.is_bound()).await;
    assert!(stopping.elapsed() < Duration::from_secs(4), "sooner than the lease would have expired");
    assert!(second.fixture.receivers_available());
    assert_received(&smsc, &second, "hello").await;
    assert_eq!(smsc.counts().binds_rejected, 0);
}

/// A node that cannot reach the database cannot renew its lease, so it unbinds before another node may bind.
#[tokio::test(start_paused = true)]
async fn isolated_node_unbinds_before_another_binds() {
    let smsc = one_bind_smsc().await;
    let (first, second) = start_nodes(&smsc).await;
    first.set_unreachable(true);
    let isolated = tokio::time::Instant::now();
    advance_until("the first node has unbound", || !first.is_bound()).await;
    assert_eq!(holder(&second), Some(first.fixture.node), "its lease has not expired");
    assert!(!second.is_bound());
    assert!(first.fixture.receivers_available() && second.fixture.receivers_available(), "within the grace period");
    advance_until("the second node is bound", || second.is_bound()).await;
    assert!(isolated.elapsed() < Duration::from_secs(8), "within seconds: {:?}", isolated.elapsed());
    assert_eq!(smsc.counts().binds_rejected, 0);
    first.set_unreachable(false);
    advance_until("the first node stands by", || first.is_standby()).await;
    assert_received(&smsc, &second, "hello").await;
}

/// An outage of the database that is shorter than the lease changes nothing.
#[tokio::test(start_paused = true)]
async fn short_outage_of_the_database_keeps_the_bind() {
    let smsc = one_bind_smsc().await;
    let (first, second) = start_nodes(&smsc).await;
    for node in [&first, &second] {
        node.set_unreachable(true);
    }
    for _ in 0..20 {
        advance(Duration::from_millis(100)).await;
        tokio::task::yield_now().await;
    }
    assert!(first.is_bound());
    for node in [&first, &second] {
        node.set_unreachable(false);
    }
    for _ in 0..100 {
        advance(Duration::from_millis(100)).await;
        tokio::task::yield_now().await;
        assert!(first.is_bound() && !second.is_bound());
    }
    assert_received(&smsc, &first, "hello").await;
}

/// A node that cannot reach the SMSC leaves the bind to another one.
#[tokio::test(start_paused = true)]
async fn node_that_cannot_bind_hands_over() {
    let smsc = one_bind_smsc().await;
    let unreachable = ManualSmsc::start().await.port();
    let first = Node::start(Fixture::new(), unreachable);
    advance_until("the first node has failed", || first.connector.status().last_error.is_some()).await;
    let second = Node::start(first.fixture.another_node(), smsc.address().port());
    advance_until("the second node is bound", || second.is_bound()).await;
    advance_until("the first node stands by", || first.is_standby()).await;
    assert!(first.fixture.receivers_available());
    assert_received(&smsc, &second, "hello").await;
}

/// While no node can bind, every node reports that the receivers are unavailable.
#[tokio::test(start_paused = true)]
async fn receivers_become_unavailable_on_all_nodes() {
    let smsc = one_bind_smsc().await;
    let (first, second) = start_nodes(&smsc).await;
    smsc.set_refuse_binds(true);
    smsc.drop_connections();
    let are_down = || [&first, &second].iter().all(|node| !node.fixture.receivers_available());
    advance_until("the receivers are unavailable", are_down).await;
    for node in [&first, &second] {
        assert_eq!(node.connector.connector_status().state, ConnectorState::Down);
    }
    smsc.set_refuse_binds(false);
    let are_available = || [&first, &second].iter().all(|node| node.fixture.receivers_available());
    advance_until("the receivers are available", are_available).await;
    advance_until("one node is bound", || first.is_bound() != second.is_bound()).await;
}
