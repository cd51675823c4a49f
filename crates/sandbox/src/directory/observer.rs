//! Request counts of a directory.

use tokio::sync::watch;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectoryCounts {
    /// DNS queries over UDP.
    pub udp_queries: u64,
    /// DNS queries over TCP.
    pub tcp_queries: u64,
    /// HLR requests, with or without a response.
    pub hlr_requests: u64,
    /// HLR requests without the valid secret.
    pub unauthorized: u64,
}

#[derive(Debug, Default)]
pub(super) struct DirectoryObserver(watch::Sender<DirectoryCounts>);

impl DirectoryObserver {
    pub(super) fn count(&self, change: impl FnOnce(&mut DirectoryCounts)) {
        self.0.send_modify(change);
    }

    pub(super) fn counts(&self) -> DirectoryCounts {
        *self.0.borrow()
    }

    pub(super) async fn wait_until(&self, mut predicate: impl FnMut(&DirectoryCounts) -> bool) -> DirectoryCounts {
        let mut changes = self.0.subscribe();
        // The sender is never dropped.
        changes.wait_for(|counts| predicate(counts)).await.map_or_else(|_| self.counts(), |counts| *counts)
    }
}
