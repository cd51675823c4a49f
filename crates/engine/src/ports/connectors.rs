//! Status of connectors to operators.

use std::{fmt, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{network::NetworkId, phone::Msisdn, tenancy::Mode};

/// A connector that reports its status on this node. The status contains no subscribers' numbers, tokens or secrets.
pub trait MonitoredConnector: fmt::Debug + Send + Sync {
    fn connector_status(&self) -> ConnectorStatus;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectorStatus {
    /// Name of the connector in the configuration.
    pub name: Arc<str>,
    /// Display name of the protocol.
    pub kind: &'static str,
    /// `Sandbox` for connectors of the simulated operator.
    pub mode: Mode,
    pub state: ConnectorState,
    pub networks: Vec<NetworkId>,
    /// Receiver numbers whose SMS the connector delivers to us.
    pub receivers: Vec<Msisdn>,
    /// `None`: the connector has no persistent connections.
    pub link_summary: Option<LinkSummary>,
    pub breakers: Vec<BreakerStatus>,
    /// Inbound SMS since the node started or the connector was replaced. `None`: the connector receives no SMS.
    pub counts: Option<MessageCounts>,
    pub health: ConnectorHealth,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectorState {
    Up,
    /// Some links or operations of the connector fail, or its last request failed.
    Degraded,
    Down,
    /// Another node holds the connections, which only one node may have at a time.
    Standby,
    /// The connector has not sent or received any request yet, so it is unknown whether it works.
    Idle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSummary {
    pub up: usize,
    pub configured: usize,
    /// When the connector last got its first connection or lost its last one.
    pub since: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakerStatus {
    /// Display name of the requests that the circuit breaker guards.
    pub operation: &'static str,
    pub position: BreakerPosition,
    /// Number of requests to the operator by outcome, since the node started or the connector was replaced.
    pub calls: Vec<(&'static str, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerPosition {
    Closed,
    Open {
        until: Timestamp,
    },
    /// One probe request is allowed.
    HalfOpen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageCounts {
    pub accepted: u64,
    pub rejected: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectorHealth {
    /// When the operator last sent a valid message or response.
    pub last_success_at: Option<Timestamp>,
    /// The last error. It is kept after recovery.
    pub last_error: Option<LastError>,
    /// For the last SMS that concluded a check: time from its arrival until the conclusion was durable.
    pub conclusion_lag: Option<SignedDuration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastError {
    pub message: String,
    pub at: Timestamp,
}
