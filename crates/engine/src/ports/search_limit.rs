//! Limits how many searches of a workspace run concurrently on this node.
//!
//! Only a search that scans a project's checks needs a permit. The store holds the permit until the search's statements
//! have ended, even if the client disconnects earlier.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::{Mutex, MutexGuard};
use ringtrue_domain::tenancy::WorkspaceId;

use crate::ports::store::StoreError;

/// Maximum number of concurrent searches per workspace, running or waiting for a database connection.
pub const MAX_SEARCHES_PER_WORKSPACE: u32 = 2;

#[derive(Debug, Default)]
pub struct SearchLimiter {
    running: Arc<RunningSearches>,
    rejected: AtomicU64,
}

#[derive(Debug, Default)]
struct RunningSearches(Mutex<HashMap<WorkspaceId, u32>>);

/// Permit for one search, released on drop.
#[derive(Debug)]
pub struct SearchPermit {
    workspace: WorkspaceId,
    running: Arc<RunningSearches>,
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

    /// Number of searches that currently hold a permit.
    pub fn running(&self) -> u64 {
        self.running.counts().values().copied().map(u64::from).sum()
    }

    /// Number of searches rejected since the node started.
    pub fn rejected(&self) -> u64 {
        self.rejected.load(Ordering::Relaxed)
    }
}

impl RunningSearches {
    fn counts(&self) -> MutexGuard<'_, HashMap<WorkspaceId, u32>> {
        self.0.lock()
    }
}

impl Drop for SearchPermit {
    fn drop(&mut self) {
        let mut running = self.running.counts();
        match running.get_mut(&self.workspace) {
            Some(count) if *count > 1 => *count -= 1,
            // Removes the entry, so that idle workspaces use no memory.
            _ => drop(running.remove(&self.workspace)),
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn permits_are_limited_per_workspace() {
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
