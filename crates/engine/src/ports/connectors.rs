//! Status of connectors to operators.

use std::{fmt, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{network::NetworkId, phone::Msisdn, tenancy::Mode};

/// A connector that reports its status on this node, without subscribers' numbers, tokens and secrets.
pub trait MonitoredConnector: fmt::Debug + Send + Sync {
    fn connector_status(&self) -> ConnectorStatus;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectorStatus {
    /// Name in the configuration.
    pub name: Arc<str>,
    /// Display name of the protocol.
    pub kind: &'static str,
    /// `Sandbox` for connectors of the simulated operator.
    pub mode: Mode,
    pub state: ConnectorState,
    /// Networks that it serves.
    pub networks: Vec<NetworkId>,
    /// Receivers whose SMS it delivers.
    pub receivers: Vec<Msisdn>,
    /// Connectors with persistent connections only.
    pub links: Option<LinkStatus>,
    pub breakers: Vec<BreakerStatus>,
    /// Inbound messages since the start of the node or the replacement of the connector.
    pub counts: Option<MessageCounts>,
    pub health: ConnectorHealth,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectorState {
    Up,
    /// Works in part, or is being retried.
    Degraded,
    Down,
    /// Another node holds the connections that only one node may have.
    Standby,
    /// Passive connector that has not received a request yet.
    Idle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkStatus {
    pub up: usize,
    pub configured: usize,
    /// Last change between no link and at least one.
    pub since: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakerStatus {
    /// Display name of the guarded requests.
    pub operation: &'static str,
    pub position: BreakerPosition,
    /// Requests to the operator by outcome, since the start of the node or the replacement of the connector.
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
    /// Last valid message or response.
    pub last_success_at: Option<Timestamp>,
    /// Kept after recovery.
    pub last_error: Option<LastError>,
    /// Time from the arrival of the last SMS that concluded a check until the conclusion was durable.
    pub conclusion_lag: Option<SignedDuration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastError {
    pub message: String,
    pub at: Timestamp,
}
