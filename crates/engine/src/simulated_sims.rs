//! SIM swaps that users make at the simulated operator, on any node.
//!
//! Projects share the simulated numbers, so each project sees only its own swaps. A project keeps its newest
//! [`MAX_SWAPS_PER_PROJECT`].

use std::sync::Arc;

use jiff::Timestamp;
use ringtrue_domain::{lifecycle::Sealed, phone::Msisdn, tenancy::ProjectId};

use crate::{
    context::Context,
    ports::{SandboxStore, SimulatedSimSwap, StoreError},
};

const MAX_SWAPS_PER_PROJECT: u32 = 20;

#[derive(derive_more::Debug)]
#[debug("SimulatedSims")]
pub struct SimulatedSims {
    pub(crate) context: Arc<Context>,
    pub(crate) store: Arc<dyn SandboxStore>,
}

impl SimulatedSims {
    pub async fn swap(&self, project: ProjectId, number: &Msisdn, swapped_at: Timestamp) -> Result<(), StoreError> {
        let sealed = self.context.seal(&seal_context(project), number.as_str().as_bytes())?;
        let number_hash = self.context.hash_number(number)?;
        let swap = SimulatedSimSwap { number_hash, number: Sealed(sealed), swapped_at };
        self.store.record_simulated_sim_swap(project, &swap, MAX_SWAPS_PER_PROJECT, self.context.now()).await
    }

    /// Undoes the swap of a number.
    pub async fn restore(&self, project: ProjectId, number: &Msisdn) -> Result<(), StoreError> {
        self.store.delete_simulated_sim_swap(project, self.context.hash_number(number)?).await
    }

    pub async fn swapped_at(&self, project: ProjectId, number: &Msisdn) -> Result<Option<Timestamp>, StoreError> {
        self.store.simulated_sim_swap_time(project, self.context.hash_number(number)?).await
    }

    /// Swapped numbers of a project, with the times of the swaps.
    pub async fn swapped_numbers(&self, project: ProjectId) -> Result<Vec<(String, Timestamp)>, StoreError> {
        let swaps = self.store.list_simulated_sim_swaps(project).await?;
        let unseal = |SimulatedSimSwap { number, swapped_at, .. }: SimulatedSimSwap| {
            let number = self.context.unseal(&seal_context(project), &number.0)?;
            Some((String::from_utf8(number).ok()?, swapped_at))
        };
        // Swaps sealed by a key that is gone are older than any check.
        Ok(swaps.into_iter().filter_map(unseal).collect())
    }
}

/// Stored data depends on it: it must not change.
fn seal_context(project: ProjectId) -> Vec<u8> {
    format!("simulated sim:{project}").into_bytes()
}
