//! Leases in memory, in place of the database. They expire by the clock of tokio, which tests can pause.

use std::collections::HashMap;

use async_trait::async_trait;
use jiff::Timestamp;
use parking_lot::Mutex;
use ringtrue_engine::ports::{
    leases::{Lease, LeaseRequest, LeaseStore},
    node::NodeId,
    store::StoreError,
};
use tokio::time::Instant;

/// The leases that the nodes of one test share. A test can make them unreachable for a node.
#[derive(Debug, Default)]
pub struct InMemoryLeases {
    leases: Mutex<HashMap<String, (Lease, Instant)>>,
    unreachable: Mutex<Vec<NodeId>>,
}

impl InMemoryLeases {
    /// Makes all requests of a node fail, as if it could not reach the database.
    pub fn set_unreachable(&self, node: NodeId, is_unreachable: bool) {
        let mut unreachable = self.unreachable.lock();
        unreachable.retain(|known| *known != node);
        if is_unreachable {
            unreachable.push(node);
        }
    }

    pub fn holder(&self, name: &str) -> Option<NodeId> {
        self.find(name).map(|lease| lease.holder)
    }

    fn check(&self, node: NodeId) -> Result<(), StoreError> {
        if self.unreachable.lock().contains(&node) {
            return Err(StoreError::Unavailable("unreachable".to_owned()));
        }
        Ok(())
    }

    fn find(&self, name: &str) -> Option<Lease> {
        let leases = self.leases.lock();
        leases.get(name).filter(|(_, expires_at)| Instant::now() < *expires_at).map(|(lease, _)| lease.clone())
    }
}

#[async_trait]
impl LeaseStore for InMemoryLeases {
    async fn acquire_lease(&self, request: LeaseRequest, _: Timestamp) -> Result<Lease, StoreError> {
        let LeaseRequest { name, node, duration, links_up } = request;
        self.check(node)?;
        if let Some(other) = self.find(&name).filter(|lease| lease.holder != node) {
            return Ok(other);
        }
        let lease = Lease { name: name.clone(), holder: node, expires_at: Timestamp::MAX, links_up };
        self.leases.lock().insert(name, (lease.clone(), Instant::now() + duration));
        Ok(lease)
    }

    async fn release_lease(&self, name: &str, node: NodeId) -> Result<(), StoreError> {
        self.check(node)?;
        let mut leases = self.leases.lock();
        if leases.get(name).is_some_and(|(lease, _)| lease.holder == node) {
            leases.remove(name);
        }
        Ok(())
    }

    async fn find_lease(&self, name: &str, _: Timestamp) -> Result<Option<Lease>, StoreError> {
        Ok(self.find(name))
    }
}
