//! Exclusive binds, for an SMSC that allows binds from one node only. A lease in the database decides which node binds.
//!
//! A node requests the lease while it has a bind, or is about to open one. It releases the lease when it has no bind,
//! such as during the delay before a reconnect, so that another node tries next. If a node dies, its lease expires by
//! the clock of the database.
//!
//! The holder measures the lease with its own monotonic clock, starting before it sends the request, and closes its
//! binds [`RELEASE_MARGIN`] before the lease can expire. Two nodes are therefore never bound at the same time, even if
//! their clocks differ or a request takes long.

use std::{sync::Arc, time::Duration};

use ringtrue_engine::ports::{
    clock::Clock,
    leases::{Lease, LeaseRequest, LeaseStore},
    node::NodeId,
    store::StoreError,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::status::BindStatus;

/// Duration of a lease. After the holder has died, no node is bound for at most this long, plus the renewal interval
/// and the time to bind.
const LEASE_DURATION: Duration = Duration::from_secs(5);
const RENEWAL_INTERVAL: Duration = Duration::from_secs(1);
/// How long before the end of the lease the holder begins to unbind.
const RELEASE_MARGIN: Duration = Duration::from_secs(1);
/// Maximum time for a graceful unbind after the lease was lost.
pub(super) const UNBIND_TIMEOUT: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeaseState {
    /// This node may have binds until this time.
    Held {
        until: Instant,
    },
    NotHeld,
}

pub(super) struct BindLease {
    name: String,
    node: NodeId,
    store: Arc<dyn LeaseStore>,
    clock: Arc<dyn Clock>,
    state: watch::Sender<LeaseState>,
    /// Number of binds that are open, or wait to be opened.
    users: watch::Sender<usize>,
}

/// Returns the name of a connector's lease in the database.
pub fn lease_name(connector: &str) -> String {
    format!("smpp:{connector}")
}

/// A bind that needs the lease. The node requests the lease while at least one exists.
#[must_use = "the lease is released when the last user is dropped"]
pub(super) struct LeaseUser<'a>(&'a BindLease);

impl Drop for LeaseUser<'_> {
    fn drop(&mut self) {
        self.0.users.send_modify(|users| *users -= 1);
    }
}

impl LeaseUser<'_> {
    pub(super) async fn wait_until_held(&self) {
        // Waiting fails only if the sender is dropped, and `self` keeps it alive.
        let is_held = |state: &LeaseState| matches!(state, LeaseState::Held { until } if Instant::now() < *until);
        let _ = self.0.state.subscribe().wait_for(is_held).await;
    }

    /// Waits until this node no longer holds the lease, or may have lost it.
    pub(super) async fn wait_until_lost(&self) {
        let mut state = self.0.state.subscribe();
        loop {
            let LeaseState::Held { until } = *state.borrow_and_update() else { return };
            tokio::select! {
                changed = state.changed() => if changed.is_err() { return },
                () = sleep_until(until) => return,
            }
        }
    }
}

impl BindLease {
    pub(super) fn new(connector: &str, node: NodeId, store: Arc<dyn LeaseStore>, clock: Arc<dyn Clock>) -> Self {
        let (state, users) = (watch::Sender::new(LeaseState::NotHeld), watch::Sender::new(0));
        BindLease { name: lease_name(connector), node, store, clock, state, users }
    }

    pub(super) fn add_user(&self) -> LeaseUser<'_> {
        self.users.send_modify(|users| *users += 1);
        LeaseUser(self)
    }

    /// Acquires, renews and releases the lease until `stop` is cancelled and all binds are closed.
    pub(super) async fn run(&self, binds: &BindStatus, stop: &CancellationToken) {
        let (mut users, mut binds_changed) = (self.users.subscribe(), binds.subscribe());
        let mut known_until = Instant::now();
        loop {
            let wanted = *users.borrow_and_update() > 0;
            binds_changed.mark_unchanged();
            if !wanted {
                self.release().await;
                if stop.is_cancelled() {
                    return;
                }
            }
            let requested_at = Instant::now();
            let current = if wanted { self.acquire(binds).await } else { self.find().await };
            match current {
                Ok(lease) => {
                    let other = lease.filter(|lease| lease.holder != self.node);
                    binds.set_other_node(other.map(|lease| lease.links_up as usize));
                    known_until = requested_at + LEASE_DURATION;
                }
                Err(error) => {
                    tracing::debug!(lease.name = self.name, %error, "failed to read or renew the lease; retrying");
                    if known_until <= Instant::now() {
                        binds.set_other_node(None);
                    }
                }
            }
            tokio::select! {
                () = sleep(RENEWAL_INTERVAL) => {}
                // The first bind needs the lease, or the last one no longer does.
                _ = users.wait_for(|users| (*users > 0) != wanted) => {}
                // The number of binds has changed. Renewing the lease reports it to the other nodes.
                _ = binds_changed.changed() => {}
                () = stop.cancelled(), if !wanted => {}
            }
        }
    }

    async fn acquire(&self, binds: &BindStatus) -> Result<Option<Lease>, StoreError> {
        let requested_at = Instant::now();
        let links_up = u32::try_from(binds.status().binds_up).unwrap_or(u32::MAX);
        let request = LeaseRequest { name: self.name.clone(), node: self.node, duration: LEASE_DURATION, links_up };
        let acquired = with_lease_timeout(self.store.acquire_lease(request, self.clock.machine_now())).await;
        match &acquired {
            Ok(lease) if lease.holder == self.node => {
                let until = requested_at + LEASE_DURATION - RELEASE_MARGIN;
                if self.state.send_replace(LeaseState::Held { until }) == LeaseState::NotHeld {
                    tracing::info!(lease.name = self.name, "lease acquired: this node binds");
                }
            }
            Ok(_) => self.lose("another node holds it"),
            // If the renewal fails, the lease stays valid until it expires.
            Err(_) => {
                let held = *self.state.borrow();
                if matches!(held, LeaseState::Held { until } if until <= Instant::now()) {
                    self.lose("it could not be renewed");
                }
            }
        }
        acquired.map(Some)
    }

    async fn find(&self) -> Result<Option<Lease>, StoreError> {
        with_lease_timeout(self.store.find_lease(&self.name, self.clock.machine_now())).await
    }

    fn lose(&self, reason: &str) {
        if self.state.send_replace(LeaseState::NotHeld) != LeaseState::NotHeld {
            tracing::warn!(lease.name = self.name, reason, "lease lost: this node closes its binds");
        }
    }

    /// Releases the lease, if this node holds it. Called when the node has no binds.
    async fn release(&self) {
        if self.state.send_replace(LeaseState::NotHeld) == LeaseState::NotHeld {
            return;
        }
        match with_lease_timeout(self.store.release_lease(&self.name, self.node)).await {
            Ok(()) => tracing::info!(lease.name = self.name, "lease released"),
            // A lease that is not released expires by itself.
            Err(error) => tracing::debug!(lease.name = self.name, %error, "failed to release the lease"),
        }
    }
}

/// Limits a request to the duration of the lease. A later result is useless, because the lease has expired.
async fn with_lease_timeout<T>(request: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    let late = |_| StoreError::Unavailable("no response before the lease expires".to_owned());
    timeout(LEASE_DURATION, request).await.map_err(late)?
}
