//! SIM swaps that users simulate in the sandbox. Nodes share them through the database.
//!
//! All projects use the same simulated numbers, but each project sees only its own swaps. A project keeps its newest
//! [`MAX_SWAPS_PER_PROJECT`] swaps.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use jiff::Timestamp;
use quick_cache::sync::Cache;
use ringtrue_domain::{lifecycle::Sealed, phone::Msisdn, tenancy::ProjectId};
use tokio::sync::Mutex;

use crate::{
    context::Context,
    ports::{
        sandbox::{SandboxStore, SimulatedSimSwap},
        store::StoreError,
    },
};

const MAX_SWAPS_PER_PROJECT: u32 = 20;
/// Maximum number of projects for which concurrent checks share one database read.
const MAX_SHARED_READS: usize = 256;

#[derive(derive_more::Debug)]
#[debug("SimulatedSims")]
pub struct SimulatedSims {
    context: Arc<Context>,
    store: Arc<dyn SandboxStore>,
    reads: Cache<ProjectId, Arc<SharedRead>>,
}

/// Lets concurrent checks of a project share one read of its swaps. A check never uses a read that began before the
/// check, because that read could miss a swap that the caller has just made.
#[derive(Default)]
struct SharedRead {
    requests: AtomicU64,
    last: Mutex<LastRead>,
}

#[derive(Default)]
struct LastRead {
    /// Number of the last request that arrived before the read began.
    requests: u64,
    swaps: Arc<[SimulatedSimSwap]>,
}

impl SharedRead {
    async fn get(
        &self,
        read: impl AsyncFnOnce() -> Result<Vec<SimulatedSimSwap>, StoreError>,
    ) -> Result<Arc<[SimulatedSimSwap]>, StoreError> {
        let request = self.requests.fetch_add(1, Ordering::SeqCst) + 1;
        // Waits until the read in progress ends, if there is one. If the last read began before this request, it may
        // miss a swap, so the swaps are read again.
        let mut last = self.last.lock().await;
        if last.requests < request {
            let requests = self.requests.load(Ordering::SeqCst);
            let swaps = read().await?.into();
            *last = LastRead { requests, swaps };
        }
        Ok(Arc::clone(&last.swaps))
    }
}

impl SimulatedSims {
    pub(crate) fn new(context: Arc<Context>, store: Arc<dyn SandboxStore>) -> Self {
        SimulatedSims { context, store, reads: Cache::new(MAX_SHARED_READS) }
    }

    pub async fn record_swap(
        &self,
        project: ProjectId,
        number: &Msisdn,
        swapped_at: Timestamp,
    ) -> Result<(), StoreError> {
        let sealed = self.context.seal(&seal_context(project), number.as_str().as_bytes())?;
        let number_hash = self.context.hash_number(number)?;
        let swap = SimulatedSimSwap { number_hash, number: Sealed(sealed), swapped_at };
        self.store.record_simulated_sim_swap(project, &swap, MAX_SWAPS_PER_PROJECT, self.context.now()).await
    }

    /// Removes the simulated swap of a number.
    pub async fn undo_swap(&self, project: ProjectId, number: &Msisdn) -> Result<(), StoreError> {
        self.store.delete_simulated_sim_swap(project, self.context.hash_number(number)?).await
    }

    pub async fn swapped_at(&self, project: ProjectId, number: &Msisdn) -> Result<Option<Timestamp>, StoreError> {
        let number_hash = self.context.hash_number(number)?;
        let shared = self.reads.get_or_insert_with(&project, || Ok::<_, StoreError>(Arc::default()))?;
        let swaps = shared.get(async || self.store.list_simulated_sim_swaps(project).await).await?;
        Ok(swaps.iter().find(|swap| swap.number_hash == number_hash).map(|swap| swap.swapped_at))
    }

    /// Lists the swapped numbers of a project, with the times of the swaps.
    pub async fn swapped_numbers(&self, project: ProjectId) -> Result<Vec<(String, Timestamp)>, StoreError> {
        let swaps = self.store.list_simulated_sim_swaps(project).await?;
        let unseal = |SimulatedSimSwap { number, swapped_at, .. }: SimulatedSimSwap| {
            let number = self.context.unseal(&seal_context(project), &number.0)?;
            Some((String::from_utf8(number).ok()?, swapped_at))
        };
        // Omits swaps whose seal key is deleted. They are more than a year old, because seal keys are kept that long
        // after their rotation.
        Ok(swaps.into_iter().filter_map(unseal).collect())
    }
}

/// Returns the context to which an encrypted number is bound. It must stay the same in all releases, because numbers
/// that are stored with another context cannot be unsealed.
fn seal_context(project: ProjectId) -> Vec<u8> {
    format!("simulated sim:{project}").into_bytes()
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures_util::{FutureExt, future::join_all};
    use ringtrue_domain::lifecycle::NumberHash;

    use super::*;

    fn swap(number: u8) -> SimulatedSimSwap {
        let number_hash = NumberHash([number; 32]);
        SimulatedSimSwap { number_hash, number: Sealed(vec![number]), swapped_at: Timestamp::UNIX_EPOCH }
    }

    #[tokio::test]
    async fn concurrent_checks_share_a_read() {
        let (shared, reads) = (SharedRead::default(), AtomicU64::new(0));
        let read = async || {
            let read = reads.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            Ok(vec![swap(u8::try_from(read).unwrap())])
        };
        let swaps = join_all((0..100).map(|_| shared.get(read))).await;
        // The first read began before the requests of the other checks, so these share a second read.
        assert_eq!(**swaps[0].as_ref().unwrap(), [swap(0)]);
        for shared in &swaps[1..] {
            assert_eq!(**shared.as_ref().unwrap(), [swap(1)]);
        }
        assert_eq!(reads.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn a_check_never_uses_an_earlier_read() {
        let shared = SharedRead::default();
        assert_eq!(*shared.get(async || Ok(vec![])).await.unwrap(), []);
        assert_eq!(*shared.get(async || Ok(vec![swap(1)])).await.unwrap(), [swap(1)]);
    }

    #[tokio::test]
    async fn a_cancelled_or_failed_read_is_repeated() {
        let shared = SharedRead::default();
        assert!(shared.get(async || pending().await).now_or_never().is_none());
        assert!(shared.get(async || Err(StoreError::Refused(String::new()))).await.is_err());
        assert_eq!(*shared.get(async || Ok(vec![swap(1)])).await.unwrap(), [swap(1)]);
    }
}
