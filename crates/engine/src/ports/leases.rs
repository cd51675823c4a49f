//! Leases on what only one node may use at a time.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{node::NodeId, store::StoreError};

/// A lease that a node holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub name: String,
    pub holder: NodeId,
    /// By the database's clock.
    pub expires_at: Timestamp,
    /// Established connections of the holder.
    pub links_up: u32,
}

/// A request to acquire or renew a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRequest {
    pub name: String,
    pub node: NodeId,
    pub duration: Duration,
    /// Published to other nodes.
    pub links_up: u32,
}

/// Leases expire by the clock of the database, read in the transaction. Embedded databases use `machine_now`.
#[async_trait]
pub trait LeaseStore: Send + Sync {
    /// Acquires the lease if it is free or expired, or renews it if `node` holds it. Returns the lease, which another
    /// node may hold.
    async fn acquire_lease(&self, request: LeaseRequest, machine_now: Timestamp) -> Result<Lease, StoreError>;

    /// Frees the lease if `node` holds it.
    async fn release_lease(&self, name: &str, node: NodeId) -> Result<(), StoreError>;

    /// Returns the lease, unless it is free or expired.
    async fn find_lease(&self, name: &str, machine_now: Timestamp) -> Result<Option<Lease>, StoreError>;
}
