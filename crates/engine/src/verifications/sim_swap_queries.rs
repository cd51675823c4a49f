//! SIM Swap requests that this node has sent to operators and that are not answered yet.

use std::collections::HashMap;

use parking_lot::{Mutex, MutexGuard};
use ringtrue_domain::lifecycle::CheckId;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

/// SIM Swap requests to operators that are in progress on this node.
#[derive(Debug)]
pub(super) struct SimSwapQueries {
    /// Open queries by verification. The channel closes when the query ends.
    open: Mutex<HashMap<CheckId, watch::Receiver<()>>>,
    tasks: TaskTracker,
}

impl Default for SimSwapQueries {
    fn default() -> Self {
        let tasks = TaskTracker::new();
        // `TaskTracker::wait` returns only for a closed tracker. A closed tracker can still spawn tasks.
        tasks.close();
        SimSwapQueries { open: Mutex::default(), tasks }
    }
}

impl SimSwapQueries {
    /// Registers a SIM Swap request as in progress, until the returned sender is dropped.
    pub(super) fn register(&self, verification: CheckId) -> watch::Sender<()> {
        let (done, waiting) = watch::channel(());
        self.lock().insert(verification, waiting);
        done
    }

    pub(super) fn remove(&self, verification: CheckId) {
        self.lock().remove(&verification);
    }

    pub(super) fn spawn(&self, query: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(query);
    }

    /// Waits until this node's SIM Swap request for the verification ends. Returns immediately if this node has none.
    pub(super) async fn wait(&self, verification: CheckId) {
        let done = self.lock().get(&verification).cloned();
        if let Some(mut done) = done {
            // An error means that the sender was dropped, so the query has ended.
            let _ = done.changed().await;
        }
    }

    /// Waits until all SIM Swap requests of this node have ended.
    pub(super) async fn wait_until_idle(&self) {
        self.tasks.wait().await;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CheckId, watch::Receiver<()>>> {
        self.open.lock()
    }
}
