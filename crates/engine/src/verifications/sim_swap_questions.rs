//! SIM Swap requests of this node that operators have not answered yet.

use std::collections::HashMap;

use parking_lot::{Mutex, MutexGuard};
use ringtrue_domain::lifecycle::CheckId;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

/// The SIM Swap requests ("questions") to operators that are in progress on this node.
#[derive(Debug)]
pub(super) struct SimSwapQuestions {
    /// Open questions by verification. The channel closes when the question ends.
    open: Mutex<HashMap<CheckId, watch::Receiver<()>>>,
    tasks: TaskTracker,
}

impl Default for SimSwapQuestions {
    fn default() -> Self {
        let tasks = TaskTracker::new();
        // `TaskTracker::wait` returns only for a closed tracker. A closed tracker can still spawn tasks.
        tasks.close();
        SimSwapQuestions { open: Mutex::default(), tasks }
    }
}

impl SimSwapQuestions {
    /// Registers a question. The question ends when the returned sender is dropped.
    pub(super) fn begin(&self, verification: CheckId) -> watch::Sender<()> {
        let (done, waiting) = watch::channel(());
        self.lock().insert(verification, waiting);
        done
    }

    pub(super) fn remove(&self, verification: CheckId) {
        self.lock().remove(&verification);
    }

    pub(super) fn spawn(&self, question: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(question);
    }

    /// Waits until a question of this node ends. Returns immediately if there is none for the verification.
    pub(super) async fn wait(&self, verification: CheckId) {
        let done = self.lock().get(&verification).cloned();
        if let Some(mut done) = done {
            // An error means that the sender was dropped, so the question has ended.
            let _ = done.changed().await;
        }
    }

    /// Waits until all questions of this node have ended.
    pub(super) async fn wait_idle(&self) {
        self.tasks.wait().await;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CheckId, watch::Receiver<()>>> {
        self.open.lock()
    }
}
