//! Shares the connections or threads for lists between workspaces. Each workspace reads one list at a time, and only a
//! limited number of its lists may wait. One workspace therefore cannot occupy all connections or threads.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use ringtrue_domain::tenancy::{ProjectId, WorkspaceId};
use ringtrue_engine::ports::store::StoreError;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// Maximum number of a workspace's lists that wait for their turn. Further lists are rejected. The number exceeds the
/// default rate limit of reads, so that a burst within the rate limit is served.
const MAX_WAITING_LISTS: usize = 256;
/// Maximum time for which a list waits for other lists of its workspace.
const TURN_TIMEOUT: Duration = Duration::from_secs(5);

/// The tenant on whose behalf a list is read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ListOwner {
    Workspace(WorkspaceId),
    Project(ProjectId),
    /// Lists for administrators, across all workspaces.
    Deployment,
}

impl From<WorkspaceId> for ListOwner {
    fn from(workspace: WorkspaceId) -> Self {
        ListOwner::Workspace(workspace)
    }
}

impl From<ProjectId> for ListOwner {
    fn from(project: ProjectId) -> Self {
        ListOwner::Project(project)
    }
}

/// The queues of all workspaces that have lists running or waiting. The key `None` stands for lists for administrators.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListTurns(Arc<Mutex<HashMap<Option<WorkspaceId>, Queue>>>);

#[derive(Debug)]
struct Queue {
    turn: Arc<Semaphore>,
    /// Number of lists that run or wait.
    lists: usize,
}

/// The right to read one list. Dropping it ends the turn.
#[derive(Debug)]
pub(crate) struct ListTurn {
    // Fields are dropped in this order, and the permit must be released first. Dropping the last place removes the
    // workspace's queue: a new list could then begin in a new queue while this permit is still held.
    _permit: OwnedSemaphorePermit,
    _place: Place,
}

/// A place in a workspace's queue, held while a list runs or waits.
#[derive(Debug)]
struct Place {
    workspace: Option<WorkspaceId>,
    turns: ListTurns,
}

impl ListTurns {
    /// Waits until the workspace may read a list. Lists for administrators have no workspace. Fails if too many lists
    /// of the workspace wait already, or if the wait takes longer than `TURN_TIMEOUT`.
    pub(crate) async fn take(&self, workspace: Option<WorkspaceId>) -> Result<ListTurn, StoreError> {
        let (turn, place) = self.enqueue(workspace)?;
        let permit = timeout(TURN_TIMEOUT, turn.acquire_owned()).await.map_err(|_| StoreError::TooManySearches)?;
        Ok(ListTurn { _permit: permit.map_err(|_| StoreError::TooManySearches)?, _place: place })
    }

    fn enqueue(&self, workspace: Option<WorkspaceId>) -> Result<(Arc<Semaphore>, Place), StoreError> {
        let mut queues = self.queues();
        let queue = queues.entry(workspace).or_insert_with(|| Queue { turn: Arc::new(Semaphore::new(1)), lists: 0 });
        if queue.lists > MAX_WAITING_LISTS {
            return Err(StoreError::TooManySearches);
        }
        queue.lists += 1;
        Ok((Arc::clone(&queue.turn), Place { workspace, turns: self.clone() }))
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<Option<WorkspaceId>, Queue>> {
        self.0.lock()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut queues = self.turns.queues();
        match queues.get_mut(&self.workspace) {
            Some(queue) if queue.lists > 1 => queue.lists -= 1,
            // Removes the queue of an idle workspace, to free its memory.
            _ => drop(queues.remove(&self.workspace)),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, future::join_all};
    use uuid::Uuid;

    use super::*;

    #[tokio::test]
    async fn one_list_of_a_workspace_runs_and_some_wait() {
        let turns = ListTurns::default();
        let [shop, bank] = [1, 2].map(|number| Some(WorkspaceId(Uuid::from_u128(number))));
        let running = turns.take(shop).await.unwrap();
        let mut waiting: Vec<_> = (0..MAX_WAITING_LISTS).map(|_| Box::pin(turns.take(shop))).collect();
        assert!(waiting.iter_mut().all(|list| list.now_or_never().is_none()));
        assert!(matches!(turns.take(shop).await, Err(StoreError::TooManySearches)));
        for other in [bank, None] {
            turns.take(other).await.unwrap();
        }
        drop(running);
        let next = waiting.remove(0).now_or_never().expect("its turn").unwrap();
        assert!(join_all(&mut waiting).now_or_never().is_none());
        drop((next, waiting));
        assert!(turns.queues().is_empty());
    }
}
