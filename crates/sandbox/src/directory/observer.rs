//! How often a directory was asked.

use tokio::sync::watch;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Questions by DNS that came in a datagram.
    pub by_datagram: u64,
    /// Questions by DNS that came over TCP.
    pub over_tcp: u64,
    /// Requests to the HLR, answered or not.
    pub lookups: u64,
    /// Those of them that did not bring the secret.
    pub without_secret: u64,
}

#[derive(Debug, Default)]
pub(super) struct Observer(watch::Sender<Counts>);

impl Observer {
    pub(super) fn count(&self, change: impl FnOnce(&mut Counts)) {
        self.0.send_modify(change);
    }

    pub(super) fn counts(&self) -> Counts {
        *self.0.borrow()
    }

    pub(super) async fn wait_until(&self, mut wished: impl FnMut(&Counts) -> bool) -> Counts {
        let mut changes = self.0.subscribe();
        // There is always a sender: this observer has it.
        changes.wait_for(|counts| wished(counts)).await.map_or_else(|_| self.counts(), |counts| *counts)
    }
}
