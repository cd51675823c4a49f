//! How connectors are, for whoever runs the deployment.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{network::NetworkId, phone::Msisdn, tenancy::Mode};

/// A connector that says how it is, on this node. What it says holds no number of a subscriber's, no token and no
/// secret.
pub trait Reporting: std::fmt::Debug + Send + Sync {
    fn report(&self) -> ConnectorReport;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectorReport {
    /// Its name in the configuration.
    pub name: Arc<str>,
    /// What it speaks, for people.
    pub kind: &'static str,
    /// `Sandbox` for one of the simulated operator.
    pub mode: Mode,
    pub condition: Condition,
    /// The networks that it asks for.
    pub networks: Vec<NetworkId>,
    /// The numbers of ours whose SMS it brings.
    pub receivers: Vec<Msisdn>,
    /// Only of those that keep links.
    pub links: Option<Links>,
    /// What is kept from the operator for a while, or not.
    pub breakers: Vec<Breaker>,
    /// What was taken, and what was turned away, since this node started or the connector was replaced.
    pub counts: Option<Counts>,
    pub signs: Signs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    Up,
    /// It works in part, or is tried anew.
    Impaired,
    Down,
    /// It only waits to be called, and has not been yet.
    Waiting,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Links {
    pub up: usize,
    pub wanted: usize,
    /// Since when there has been one, or none.
    pub since: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breaker {
    /// What goes through it, for people.
    pub of: &'static str,
    pub position: BreakerPosition,
    /// Calls to the operator by outcome, since this node started or the connector was replaced.
    pub calls: Vec<(&'static str, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerPosition {
    Closed,
    Open {
        until: Timestamp,
    },
    /// One is let through, to see how it goes.
    HalfOpen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    pub taken: u64,
    pub refused: u64,
}

/// What was last noticed of a connector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signs {
    /// The last message or answer that made sense.
    pub heard_at: Option<Timestamp>,
    /// What went wrong last, also when all is well again.
    pub mishap: Option<Mishap>,
    /// How long it took from the arrival of the last SMS that ended a check until that was durable.
    pub lag: Option<SignedDuration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mishap {
    pub what: String,
    pub at: Timestamp,
}
