//! Round robin over the binds that receive messages.

use std::{
    future::pending,
    sync::atomic::{AtomicUsize, Ordering},
};

use ringtrue_smpp::session::Link;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// A bind that receives messages.
#[derive(Clone, Debug)]
pub(super) struct ReceiverBind {
    pub(super) link: Link,
    /// Cancelled to drop the connection without unbind.
    pub(super) disconnect: CancellationToken,
    /// Number of the connection; unique.
    pub(super) connection: u64,
}

impl ReceiverBind {
    pub(super) fn is_connected(&self) -> bool {
        !self.disconnect.is_cancelled()
    }
}

#[derive(Debug, Default)]
pub(super) struct Binds {
    receivers: watch::Sender<Vec<ReceiverBind>>,
    next_index: AtomicUsize,
}

impl Binds {
    /// Adds a receiver until the registration is dropped.
    pub(super) fn register(&self, receiver: ReceiverBind) -> Registration<'_> {
        let connection = receiver.connection;
        self.receivers.send_modify(|receivers| receivers.push(receiver));
        Registration { binds: self, connection }
    }

    /// The next receiver; waits while there is none.
    pub(super) async fn next_receiver(&self) -> ReceiverBind {
        let mut changes = self.receivers.subscribe();
        let Ok(receivers) = changes.wait_for(|receivers| receivers.iter().any(ReceiverBind::is_connected)).await else {
            // The sender is never dropped.
            return pending().await;
        };
        let connected: Vec<_> = receivers.iter().filter(|receiver| receiver.is_connected()).collect();
        let next_index = self.next_index.fetch_add(1, Ordering::Relaxed);
        // A connection may be dropped on another thread after `wait_for`.
        match connected.get(next_index % connected.len().max(1)) {
            Some(receiver) => ReceiverBind::clone(receiver),
            None => receivers[next_index % receivers.len()].clone(),
        }
    }
}

/// Removes the receiver when dropped.
#[derive(Debug)]
pub(super) struct Registration<'a> {
    binds: &'a Binds,
    connection: u64,
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        self.binds.receivers.send_modify(|receivers| receivers.retain(|one| one.connection != self.connection));
    }
}
