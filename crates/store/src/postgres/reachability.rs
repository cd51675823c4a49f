//! Whether the workers of a Citus cluster can be reached, so that no statement waits for one that cannot.
//!
//! A worker is avoided after a connection to it has failed, until a probe in the background succeeds. The first probe
//! follows at once, because the failure may have concerned that connection only. Meanwhile statements use the
//! connections that are open. If a worker does not respond to a statement in time, it may be down or merely slow: a
//! probe distinguishes the two. A slow worker gets more time, and a silent one is avoided.
//!
//! Statements that also write rows of another worker are sent by the other servers, which may reach a worker that this
//! node does not. So they fail only if the coordinator cannot reach it either.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::RwLock;
use tokio::sync::Notify;

use super::{TRANSACTION_TIMEOUT, placement::ServerKey};

/// How long statements that concern all servers wait for one of them. Long for a statement, and short enough that a
/// silent worker does not hold up what concerns the others.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Reachability {
    is_avoided: AtomicBool,
    /// Whether the coordinator could not reach the avoided worker either.
    is_isolated: AtomicBool,
    /// Whether the worker responded to the last probe, after it had not responded to a statement in time.
    is_slow: AtomicBool,
    suspected: Notify,
}

impl Reachability {
    /// Whether statements take the detour through the coordinator.
    pub(super) fn is_avoided(&self) -> bool {
        self.is_avoided.load(Ordering::Acquire)
    }

    /// Whether other servers cannot be expected to reach the worker either.
    pub(super) fn is_isolated(&self) -> bool {
        self.is_isolated.load(Ordering::Acquire)
    }

    /// Returns how long to wait for the worker's response, if other servers have to be asked too.
    pub(super) fn response_timeout(&self) -> Duration {
        if self.is_slow.load(Ordering::Acquire) { TRANSACTION_TIMEOUT } else { RESPONSE_TIMEOUT }
    }

    /// Has the worker probed soon, because it did not respond.
    pub(super) fn suspect(&self) {
        self.suspected.notify_one();
    }

    /// Waits until the worker is suspected.
    pub(super) async fn suspected(&self) {
        self.suspected.notified().await;
    }

    /// Returns whether the worker was not avoided before.
    pub(super) fn set_avoided(&self) -> bool {
        !self.is_avoided.swap(true, Ordering::AcqRel)
    }

    pub(super) fn set_isolated(&self, is_isolated: bool) {
        self.is_isolated.store(is_isolated, Ordering::Release);
    }

    pub(super) fn set_reachable(&self) {
        self.is_isolated.store(false, Ordering::Release);
        self.is_avoided.store(false, Ordering::Release);
    }

    /// Records that the worker responds to probes, though not to a statement in time.
    pub(super) fn set_slow(&self) {
        self.is_slow.store(true, Ordering::Release);
    }

    pub(super) fn record_response(&self, after: Duration) {
        if after < RESPONSE_TIMEOUT && self.is_slow.load(Ordering::Relaxed) {
            self.is_slow.store(false, Ordering::Release);
        }
    }
}

/// The reachability of the workers that this node has used.
#[derive(Debug, Default)]
pub(super) struct WorkerReachability(RwLock<BTreeMap<ServerKey, Arc<Reachability>>>);

impl WorkerReachability {
    pub(super) fn insert(&self, server: ServerKey) -> Arc<Reachability> {
        let reachability = Arc::<Reachability>::default();
        self.0.write().insert(server, Arc::clone(&reachability));
        reachability
    }

    pub(super) fn is_isolated(&self, server: &ServerKey) -> bool {
        self.0.read().get(server).is_some_and(|reachability| reachability.is_isolated())
    }

    /// Has the worker probed soon, because a statement of another server that needs it has failed.
    pub(super) fn suspect(&self, server: &ServerKey) {
        if let Some(reachability) = self.0.read().get(server) {
            reachability.suspect();
        }
    }
}
