//! HTTP client that balances its requests over the nodes, as a load balancer does.
//!
//! A request that a node has not received goes to the next node. A request whose response is lost is repeated only if
//! it has no effect: otherwise its outcome is unknown, and the caller must not rely on either.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use anyhow::Context;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use super::{latencies::Latencies, violations::Violations};
use crate::load::{Connection, header};

/// Longer than every timeout of a node.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// More than are in use at the same time while all nodes respond.
const MAX_IDLE_CONNECTIONS: usize = 512;

pub struct Balancer {
    nodes: Vec<Node>,
    next: AtomicUsize,
    /// `None`: responses are not measured.
    latencies: Mutex<Option<Latencies>>,
    /// 503 responses and their times.
    unavailable: Mutex<Vec<(Instant, String)>>,
    violations: Violations,
}

struct Node {
    address: SocketAddr,
    idle: Mutex<Vec<Connection>>,
}

pub struct Request {
    /// Method and path pattern.
    pub route: &'static str,
    pub bytes: Vec<u8>,
    pub expected_status: u16,
    /// Whether it may be sent again after its response was lost.
    pub is_repeatable: bool,
}

pub struct Response {
    /// Index of the node that sent it.
    pub node: usize,
    pub location: Option<String>,
    pub body: String,
}

/// Reason for a failed exchange with one node.
enum ExchangeError {
    /// The node has not received the request.
    NotSent,
    /// The node may have received the request.
    Lost,
}

/// Response with any status.
struct RawResponse {
    status: u16,
    retry_after: bool,
    location: Option<String>,
    body: String,
}

impl Balancer {
    pub fn new(addresses: impl IntoIterator<Item = SocketAddr>, violations: Violations) -> Self {
        let nodes = addresses.into_iter().map(|address| Node { address, idle: Mutex::default() });
        Balancer {
            nodes: nodes.collect(),
            next: AtomicUsize::new(0),
            latencies: Mutex::default(),
            unavailable: Mutex::default(),
            violations,
        }
    }

    /// Starts to measure.
    pub fn measure(&self, latencies: Latencies) {
        *self.latencies.lock() = Some(latencies);
    }

    /// Stops to measure, and returns the measurements.
    pub fn take_latencies(&self) -> Option<Latencies> {
        self.latencies.lock().take()
    }

    pub fn unavailable(&self) -> Vec<(Instant, String)> {
        self.unavailable.lock().clone()
    }

    /// Sends a request that was scheduled for the given time. `None`: it was not acknowledged.
    pub async fn send(&self, scheduled: Instant, request: &Request) -> anyhow::Result<Option<Response>> {
        let Ok(exchanged) = timeout(RESPONSE_TIMEOUT, self.exchange(request)).await else {
            self.violations.add("requests without a response within 30 s", || request.route.to_owned());
            return Ok(None);
        };
        let mut latencies = self.latencies.lock();
        let Some((node, response)) = exchanged else {
            latencies.as_mut().map_or(Ok(()), |latencies| latencies.record_lost(request.route))?;
            return Ok(None);
        };
        if response.status == request.expected_status {
            latencies.as_mut().map_or(Ok(()), |latencies| latencies.record_response(request.route, scheduled))?;
            return Ok(Some(Response { node, location: response.location, body: response.body }));
        }
        if response.status == 503 && response.retry_after {
            latencies.as_mut().map_or(Ok(()), |latencies| latencies.record_unavailable(request.route))?;
            let description = format!("{} at node {node}: {}", request.route, response.body.trim_end());
            self.unavailable.lock().push((Instant::now(), description));
            return Ok(None);
        }
        self.violations.add("unexpected responses", || {
            format!("{}: {} {}", request.route, response.status, response.body.trim_end())
        });
        Ok(None)
    }

    /// Returns the response and the index of its node. `None`: no node responded.
    async fn exchange(&self, request: &Request) -> Option<(usize, RawResponse)> {
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        for turn in 0..self.nodes.len() {
            let node = (first + turn) % self.nodes.len();
            match self.nodes[node].exchange(&request.bytes).await {
                Ok(response) => return Some((node, response)),
                Err(ExchangeError::NotSent) => {}
                Err(ExchangeError::Lost) if request.is_repeatable => {}
                Err(ExchangeError::Lost) => return None,
            }
        }
        None
    }
}

impl Node {
    async fn exchange(&self, request: &[u8]) -> Result<RawResponse, ExchangeError> {
        let mut connection = match self.idle_connection() {
            Some(connection) => connection,
            None => Connection::open(self.address).await.map_err(|_| ExchangeError::NotSent)?,
        };
        let (head, body) = connection.fetch(request).await.map_err(|_| ExchangeError::Lost)?;
        let response = parse(head, body).map_err(|_| ExchangeError::Lost)?;
        let mut idle = self.idle.lock();
        if idle.len() < MAX_IDLE_CONNECTIONS {
            idle.push(connection);
        }
        Ok(response)
    }

    /// Discards connections that the node has closed.
    fn idle_connection(&self) -> Option<Connection> {
        let mut idle = self.idle.lock();
        std::iter::from_fn(|| idle.pop()).find(Connection::is_idle)
    }
}

fn parse(head: &[u8], body: &[u8]) -> anyhow::Result<RawResponse> {
    let status = head.get(9..12).and_then(|status| std::str::from_utf8(status).ok()).context("no status")?;
    Ok(RawResponse {
        status: status.parse()?,
        retry_after: header(head, b"retry-after:").is_some(),
        location: header(head, b"location:").map(str::to_owned),
        body: String::from_utf8_lossy(body).into_owned(),
    })
}
