//! Finds out whether a worker of a Citus cluster can be reached, without delaying the statements that need it.
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

use ringtrue_engine::ports::store::StoreError;
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};

use super::{TRANSACTION_TIMEOUT, cluster::ServerLink, connect::CONNECT_TIMEOUT, placement::ServerKey};

/// Time between two probes of an avoided worker.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);
/// Minimum time between two probes.
const MIN_PROBE_INTERVAL: Duration = Duration::from_secs(1);
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

impl ServerLink {
    /// Avoids the worker until a probe succeeds, because a connection to it has failed.
    pub(super) fn avoid(&self, error: &StoreError) {
        if self.mark_avoided(error) {
            self.reachability.suspect();
        }
    }

    /// Returns whether the worker was not avoided before.
    fn mark_avoided(&self, error: &StoreError) -> bool {
        let is_new = !self.reachability.is_avoided.swap(true, Ordering::AcqRel);
        if is_new {
            tracing::warn!(server = %self.key, %error, "worker not reachable: using the coordinator");
        } else {
            tracing::debug!(server = %self.key, %error, "worker still not reachable");
        }
        self.placement.report_stale();
        is_new
    }

    /// Probes the worker when it is suspected, and while it is avoided. Never returns.
    pub(super) async fn run_probes(&self) {
        loop {
            self.reachability.suspected.notified().await;
            self.probe().await;
            while self.reachability.is_avoided() {
                sleep(PROBE_INTERVAL).await;
                self.probe().await;
            }
            sleep(MIN_PROBE_INTERVAL).await;
        }
    }

    async fn probe(&self) {
        match self.connector.connect_client().await {
            Err(failure) if !failure.is_full() => {
                self.mark_avoided(&failure.into_store_error());
                let is_isolated = !self.is_reached_by_coordinator().await;
                self.reachability.is_isolated.store(is_isolated, Ordering::Release);
            }
            _ if self.reachability.is_avoided() => {
                self.reachability.is_isolated.store(false, Ordering::Release);
                self.reachability.is_avoided.store(false, Ordering::Release);
                self.close_detours();
                tracing::info!(server = %self.key, "worker reachable again");
            }
            Ok(_) => self.reachability.is_slow.store(true, Ordering::Release),
            Err(_) => {}
        }
    }

    async fn is_reached_by_coordinator(&self) -> bool {
        let ServerKey::Worker { host, port } = &self.key else { return true };
        let Some(coordinator) = &self.detour else { return true };
        let check = async {
            let client = coordinator.connect_client().await.ok()?;
            let check = "select citus_check_connection_to_node($1, $2)";
            client.query_one(check, &[&&**host, &i32::from(*port)]).await.ok()?.try_get(0).ok()
        };
        timeout(2 * CONNECT_TIMEOUT, check).await.ok().flatten().unwrap_or(false)
    }
}
