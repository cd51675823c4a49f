//! How many searches of a workspace run at the same time on this node.
//!
//! Lists that counters or a few rows can answer are not limited here. A search that has to scan a project's checks takes
//! a permit, which the store holds until its statements have ended, even if the client disconnects before.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use ringtrue_domain::tenancy::WorkspaceId;

use crate::ports::StoreError;

/// Searches of one workspace that run, or wait for a connection, at the same time.
pub const MAX_SEARCHES_PER_WORKSPACE: u32 = 2;

#[derive(Debug, Default)]
pub struct SearchLimiter {
    running: Arc<Running>,
    rejected: AtomicU64,
}

#[derive(Debug, Default)]
struct Running(Mutex<HashMap<WorkspaceId, u32>>);

/// Permission for one search. Dropping it makes room for the next.
#[derive(Debug)]
pub struct SearchPermit {
    workspace: WorkspaceId,
    running: Arc<Running>,
}

impl SearchLimiter {
    pub fn try_acquire(&self, workspace: WorkspaceId) -> Result<SearchPermit, StoreError> {
        let mut running = self.running.counts();
        let count = running.entry(workspace).or_default();
        if *count >= MAX_SEARCHES_PER_WORKSPACE {
            self.rejected.fetch_add(1, Ordering::Relaxed);
            return Err(StoreError::TooManySearches);
        }
        *count += 1;
        Ok(SearchPermit { workspace, running: Arc::clone(&self.running) })
    }

    /// Searches that hold a permit now.
    pub fn running(&self) -> u64 {
        self.running.counts().values().copied().map(u64::from).sum()
    }

    /// Searches that were rejected since the node started.
    pub fn rejected(&self) -> u64 {
        self.rejected.load(Ordering::Relaxed)
    }
}

impl Running {
    fn counts(&self) -> MutexGuard<'_, HashMap<WorkspaceId, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SearchPermit {
    fn drop(&mut self) {
        let mut running = self.running.counts();
        match running.get_mut(&self.workspace) {
            Some(count) if *count > 1 => *count -= 1,
            // Workspaces without a running search take no memory.
            _ => drop(running.remove(&self.workspace)),
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_workspace_has_two_permits_and_others_have_their_own() {
        let limiter = SearchLimiter::default();
        let [shop, bank] = [1, 2].map(|number| WorkspaceId(Uuid::from_u128(number)));
        let first = limiter.try_acquire(shop).unwrap();
        let second = limiter.try_acquire(shop).unwrap();
        assert!(matches!(limiter.try_acquire(shop), Err(StoreError::TooManySearches)));
        let other = limiter.try_acquire(bank).unwrap();
        assert_eq!((limiter.running(), limiter.rejected()), (3, 1));
        drop(first);
        let third = limiter.try_acquire(shop).unwrap();
        assert!(limiter.try_acquire(shop).is_err());
        drop((second, third, other));
        assert_eq!(limiter.running(), 0);
        assert!(limiter.running.counts().is_empty());
    }
}
