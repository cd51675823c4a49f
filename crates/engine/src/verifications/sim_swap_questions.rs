//! SIM Swap questions of verifications that have matched.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use ringtrue_domain::lifecycle::CheckId;
use tokio::sync::watch;

/// The SIM Swap questions that this node is asking. Receivers are notified at the end.
#[derive(Debug, Default)]
pub(crate) struct SimSwapQuestions(Mutex<HashMap<CheckId, watch::Receiver<()>>>);

impl SimSwapQuestions {
    pub(super) fn insert(&self, verification: CheckId, done: watch::Receiver<()>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(verification, done);
    }

    pub(super) fn remove(&self, verification: CheckId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&verification);
    }

    /// Waits for the answer to a question that this node asks.
    pub(crate) async fn wait(&self, verification: CheckId) {
        let done = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&verification).cloned();
        if let Some(mut done) = done {
            // An error means that the question has ended.
            let _ = done.changed().await;
        }
    }
}
