//! SIM Swap questions of this node that operators have not answered yet.

use std::collections::HashMap;

use parking_lot::{Mutex, MutexGuard};
use ringtrue_domain::lifecycle::CheckId;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

/// The SIM Swap questions that this node is asking.
#[derive(Debug)]
pub(super) struct SimSwapQuestions {
    /// By verification. Receivers are notified at the end.
    open: Mutex<HashMap<CheckId, watch::Receiver<()>>>,
    tasks: TaskTracker,
}

impl Default for SimSwapQuestions {
    fn default() -> Self {
        let tasks = TaskTracker::new();
        // Lets `wait` return when no task is left; spawning still works.
        tasks.close();
        SimSwapQuestions { open: Mutex::default(), tasks }
    }
}

impl SimSwapQuestions {
    /// The question ends when the sender is dropped.
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

    /// Waits for the answer to a question that this node asks.
    pub(super) async fn wait(&self, verification: CheckId) {
        let done = self.lock().get(&verification).cloned();
        if let Some(mut done) = done {
            // An error means that the question has ended.
            let _ = done.changed().await;
        }
    }

    /// Waits for all questions.
    pub(super) async fn wait_idle(&self) {
        self.tasks.wait().await;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CheckId, watch::Receiver<()>>> {
        self.open.lock()
    }
}
