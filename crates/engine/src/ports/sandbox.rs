//! Store port for SIM swaps at the sandbox's simulated operator. They are stored, so that the operator behaves the same
//! on all nodes.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::{NumberHash, Sealed},
    tenancy::ProjectId,
};

use super::store::StoreError;

/// A SIM swap that a project has simulated for a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulatedSimSwap {
    pub number_hash: NumberHash,
    pub number: Sealed,
    pub swapped_at: Timestamp,
}

#[async_trait]
pub trait SandboxStore: Send + Sync {
    /// Records a swap, or replaces the recorded swap of the same number. Deletes the project's oldest swaps beyond
    /// `limit`.
    async fn record_simulated_sim_swap(
        &self,
        project: ProjectId,
        swap: &SimulatedSimSwap,
        limit: u32,
        now: Timestamp,
    ) -> Result<(), StoreError>;

    async fn delete_simulated_sim_swap(&self, project: ProjectId, number: NumberHash) -> Result<(), StoreError>;

    /// Lists the swaps of a project, oldest first.
    async fn list_simulated_sim_swaps(&self, project: ProjectId) -> Result<Vec<SimulatedSimSwap>, StoreError>;
}
