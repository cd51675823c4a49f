//! The binds that take messages, and whose turn it is.

use std::{
    future::pending,
    sync::atomic::{AtomicUsize, Ordering},
};

use ringtrue_smpp::session::Link;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// A bind that takes messages.
#[derive(Clone, Debug)]
pub(super) struct Receiver {
    pub(super) link: Link,
    /// Cancelled to break the link without a word.
    pub(super) cut: CancellationToken,
    /// Tells this receiver from all others.
    pub(super) connection: u64,
}

impl Receiver {
    pub(super) fn is_up(&self) -> bool {
        !self.cut.is_cancelled()
    }
}

#[derive(Debug, Default)]
pub(super) struct Binds {
    receivers: watch::Sender<Vec<Receiver>>,
    turn: AtomicUsize,
}

impl Binds {
    /// Lets a receiver have messages, for as long as the registration is kept.
    pub(super) fn register(&self, receiver: Receiver) -> Registration<'_> {
        let connection = receiver.connection;
        self.receivers.send_modify(|receivers| receivers.push(receiver));
        Registration { binds: self, connection }
    }

    /// The next receiver in turn. Waits while there is none.
    pub(super) async fn next(&self) -> Receiver {
        let mut changes = self.receivers.subscribe();
        let Ok(receivers) = changes.wait_for(|receivers| receivers.iter().any(Receiver::is_up)).await else {
            // There is always a sender: these binds have it.
            return pending().await;
        };
        let up: Vec<_> = receivers.iter().filter(|receiver| receiver.is_up()).collect();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        // A link may be cut on another thread after `wait_for` has looked.
        match up.get(turn % up.len().max(1)) {
            Some(receiver) => Receiver::clone(receiver),
            None => receivers[turn % receivers.len()].clone(),
        }
    }
}

/// Ends the registration of a receiver, however its connection ends.
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
