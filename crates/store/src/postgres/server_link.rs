//! The link of batches to a server: its sessions, the detour through the coordinator, and probes of a worker that does not
//! respond.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use ringtrue_engine::ports::store::StoreError;
use tokio::time::{sleep, timeout};
use tokio_postgres::Client;

#[cfg(test)]
use super::placement::Placement;
use super::{
    batch_queue::{error::BatchError, pipeline::BatchSession},
    connect::{CONNECT_TIMEOUT, PostgresConnector},
    placement::{CurrentPlacement, ServerKey},
    reachability::{Reachability, WorkerReachability},
};
use crate::url::PostgresAddress;

/// Time between two probes of an avoided worker.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);
/// Minimum time between two probes.
const MIN_PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// How batches reach a server.
#[derive(derive_more::Debug)]
pub(super) struct ServerLink {
    pub(super) key: ServerKey,
    pub(super) connector: PostgresConnector,
    /// Connects to the coordinator instead. `None`: this is the configured server.
    pub(super) detour: Option<PostgresConnector>,
    pub(super) placement: Arc<CurrentPlacement>,
    pub(super) reachability: Arc<Reachability>,
    pub(super) workers: Arc<WorkerReachability>,
    /// Idle sessions with the coordinator, which batches use while the worker is avoided.
    #[debug("{}", idle_detours.lock().len())]
    idle_detours: Mutex<Vec<BatchSession>>,
}

impl ServerLink {
    /// Returns the link to the configured server.
    pub(super) fn configured(connector: PostgresConnector, placement: Arc<CurrentPlacement>) -> Self {
        ServerLink {
            key: ServerKey::Configured,
            connector,
            detour: None,
            placement,
            reachability: Arc::default(),
            workers: Arc::default(),
            idle_detours: Mutex::default(),
        }
    }

    /// Returns the link to a worker, with this server as its coordinator.
    pub(super) fn link_to_worker(&self, key: &ServerKey, address: &PostgresAddress) -> Self {
        ServerLink {
            key: key.clone(),
            connector: self.connector.on_server(address),
            detour: Some(self.connector.clone()),
            placement: Arc::clone(&self.placement),
            reachability: self.workers.insert(key.clone()),
            workers: Arc::clone(&self.workers),
            idle_detours: Mutex::default(),
        }
    }

    #[cfg(test)]
    pub(super) fn for_tests(address: &PostgresAddress) -> Arc<Self> {
        let connector = PostgresConnector::for_batches(address).unwrap();
        Arc::new(Self::configured(connector, Arc::new(CurrentPlacement::new(Placement::unsharded()))))
    }

    /// Whether this is a worker, so that statements can also go through the coordinator.
    pub(super) fn has_detour(&self) -> bool {
        self.detour.is_some()
    }

    /// Opens a session with the server. `None`: the worker cannot be reached, or accepts no further connection, so the
    /// statements have to take the detour.
    pub(super) async fn open_session(&self, slot: i16) -> Result<Option<BatchSession>, BatchError> {
        if self.has_detour() && self.reachability.is_avoided() {
            return Ok(None);
        }
        let is_for_shards = !self.placement.get().is_unsharded();
        let client = match self.connector.connect_client().await {
            Ok(client) => client,
            Err(failure) if !self.has_detour() => return Err(BatchError::Server(failure.into_store_error())),
            Err(failure) if failure.is_full() => return Ok(None),
            Err(failure) => {
                self.avoid(&failure.into_store_error());
                return Ok(None);
            }
        };
        let is_distributed = self.has_detour() || self.connector.is_distributed();
        start_session(client, slot, is_distributed, is_for_shards).await.map(Some)
    }

    /// Returns a session with the coordinator.
    pub(super) async fn take_detour_session(&self, slot: i16) -> Result<BatchSession, BatchError> {
        {
            let mut idle = self.idle_detours.lock();
            idle.retain(|session| !session.client.is_closed());
            if let Some(position) = idle.iter().position(|session| session.slot == slot) {
                return Ok(idle.swap_remove(position));
            }
        }
        let coordinator = self.detour.as_ref().unwrap_or(&self.connector);
        let (client, _) = coordinator.connect().await.map_err(BatchError::Server)?;
        start_session(client, slot, true, false).await
    }

    /// Keeps a session with the coordinator while the worker is avoided. The coordinator has connections for the queues
    /// of all workers only as an exception.
    pub(super) fn keep_detour(&self, session: BatchSession) {
        let mut idle = self.idle_detours.lock();
        if self.reachability.is_avoided() {
            idle.push(session);
        }
    }

    /// Closes the idle sessions with the coordinator, because the worker is no longer avoided.
    fn close_detours(&self) {
        self.idle_detours.lock().clear();
    }

    /// Avoids the worker until a probe succeeds, because a connection to it has failed.
    pub(super) fn avoid(&self, error: &StoreError) {
        if self.mark_avoided(error) {
            self.reachability.suspect();
        }
    }

    /// Returns whether the worker was not avoided before.
    fn mark_avoided(&self, error: &StoreError) -> bool {
        let is_new = self.reachability.set_avoided();
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
            self.reachability.suspected().await;
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
                self.reachability.set_isolated(is_isolated);
            }
            _ if self.reachability.is_avoided() => {
                self.reachability.set_reachable();
                self.close_detours();
                tracing::info!(server = %self.key, "worker reachable again");
            }
            Ok(_) => self.reachability.set_slow(),
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

async fn start_session(
    client: Client,
    slot: i16,
    is_distributed: bool,
    is_for_shards: bool,
) -> Result<BatchSession, BatchError> {
    match timeout(CONNECT_TIMEOUT, BatchSession::start(client, slot, is_distributed, is_for_shards)).await {
        Ok(session) => session.map_err(BatchError::from),
        Err(_) => Err(BatchError::Server(StoreError::Unavailable("timed out waiting for the server".to_owned()))),
    }
}
