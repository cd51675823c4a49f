//! Store port for leases on resources that only one node may use at a time, such as connections to an operator.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{node::NodeId, store::StoreError};

/// A lease that a node holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub name: String,
    pub holder: NodeId,
    /// When the lease expires, by the database's clock.
    pub expires_at: Timestamp,
    /// Number of connections that the holder has established.
    pub links_up: u32,
}

/// A request to acquire or renew a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRequest {
    pub name: String,
    pub node: NodeId,
    pub duration: Duration,
    /// Number of connections that the node has established. Other nodes can read it in the lease.
    pub links_up: u32,
}

/// Stores leases. They expire by the database's clock, which is read in the transaction. Embedded databases use
/// `machine_now`.
#[async_trait]
pub trait LeaseStore: Send + Sync {
    /// Acquires the lease if it is free or expired, or renews it if `node` holds it. Returns the current lease, whose
    /// holder may be another node.
    async fn acquire_lease(&self, request: LeaseRequest, machine_now: Timestamp) -> Result<Lease, StoreError>;

    /// Frees the lease if `node` holds it.
    async fn release_lease(&self, name: &str, node: NodeId) -> Result<(), StoreError>;

    /// Returns the lease, unless it is free or expired.
    async fn find_lease(&self, name: &str, machine_now: Timestamp) -> Result<Option<Lease>, StoreError>;
}
