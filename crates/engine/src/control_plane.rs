//! In-memory replica of the control plane: workspaces, projects, credentials, keys and token revocations.
//!
//! It lets a node issue and verify access tokens without a query. A node loads all changes since the last version that
//! it knows: immediately after its own writes, and after a notification or a poll for the writes of other nodes.

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use jiff::Timestamp;
use ringtrue_domain::{
    region::Region,
    tenancy::{ClientId, Credential, Project, ProjectId, RateLimits, Workspace, WorkspaceId},
};
use tokio::sync::Mutex;

use crate::{
    keys::{KeyRing, KeyUnsealError, MasterKey},
    ports::{
        clock::Clock,
        control_plane::{ControlPlaneChanges, ControlPlaneStore},
        row_mac::{RowFields, RowMac, RowSigner, credential_fields},
        store::{ControlPlaneVersion, StoreError},
        tokens::{Revocation, TokenId},
    },
};

/// Time between two polls. Half a second, because a revocation must reach every node within one second.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Maximum number of deleted and expired credentials per workspace that nodes keep in memory, so that requests with
/// them get a specific error. The newest are kept.
pub const MAX_DEAD_CREDENTIALS: u32 = 5_000;

#[derive(Debug, thiserror::Error)]
pub enum RefreshError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Key(#[from] KeyUnsealError),
}

/// Concurrent map with a faster hash function than the standard one. Clients cannot choose the keys in the map, so they
/// cannot cause collisions.
pub type ConcurrentMap<K, V> = papaya::HashMap<K, V, quick_cache::DefaultHashBuilder>;

/// Verifies the MACs of credentials. Returns the valid credentials, and the ids of those that were written or altered
/// outside Ringtrue.
fn verify_credential_macs(
    credentials: Vec<Credential>,
    macs: &HashMap<ClientId, RowMac>,
    keys: &KeyRing,
) -> (Vec<Credential>, Vec<ClientId>) {
    let is_valid = |credential: &Credential| {
        let mac = macs.get(&credential.client_id).copied();
        keys.is_valid(&credential_fields(credential), mac).unwrap_or(false)
    };
    let (valid, altered): (Vec<_>, Vec<_>) = credentials.into_iter().partition(is_valid);
    (valid, altered.into_iter().map(|credential| credential.client_id).collect())
}

#[derive(Debug)]
pub struct ControlPlane {
    workspaces: ConcurrentMap<WorkspaceId, Arc<Workspace>>,
    projects: ConcurrentMap<ProjectId, Arc<Project>>,
    credentials: ConcurrentMap<ClientId, Arc<Credential>>,
    revoked: ConcurrentMap<TokenId, Timestamp>,
    keys: ArcSwap<KeyRing>,
    version: AtomicI64,
    /// Held during a refresh, so that concurrent refreshes apply changes in order.
    refreshing: Mutex<()>,
    master: MasterKey,
}

/// Signs database rows with the current hash key.
impl RowSigner for ControlPlane {
    fn sign(&self, fields: &RowFields) -> Result<RowMac, StoreError> {
        self.keys().sign(fields)
    }
}

impl ControlPlane {
    pub fn empty(master: MasterKey) -> Self {
        ControlPlane {
            workspaces: ConcurrentMap::default(),
            projects: ConcurrentMap::default(),
            credentials: ConcurrentMap::default(),
            revoked: ConcurrentMap::default(),
            keys: ArcSwap::default(),
            version: AtomicI64::new(0),
            refreshing: Mutex::new(()),
            master,
        }
    }

    pub fn workspace(&self, id: WorkspaceId) -> Option<Arc<Workspace>> {
        self.workspaces.pin().get(&id).cloned()
    }

    /// Returns the rate limits that this workspace has instead of the defaults.
    pub fn rate_limit_overrides(&self, id: WorkspaceId) -> RateLimits {
        self.workspaces.pin().get(&id).map(|workspace| workspace.rate_limits).unwrap_or_default()
    }

    /// Returns the data residency of each workspace.
    pub fn data_residencies(&self) -> Vec<Region> {
        self.workspaces.pin().values().map(|workspace| workspace.data_residency).collect()
    }

    pub fn project(&self, id: ProjectId) -> Option<Arc<Project>> {
        self.projects.pin().get(&id).cloned()
    }

    /// Returns up to `limit` projects of a workspace, sorted by name.
    pub fn projects_of(&self, workspace: WorkspaceId, limit: usize) -> Vec<Arc<Project>> {
        let all = self.projects.pin();
        let mut found: Vec<_> = all.values().filter(|project| project.workspace == workspace).cloned().collect();
        found.sort_by(|a, b| a.name.as_str().cmp(b.name.as_str()).then(a.id.0.cmp(&b.id.0)));
        found.truncate(limit);
        found
    }

    pub fn workspace_of(&self, id: ProjectId) -> Option<WorkspaceId> {
        self.projects.pin().get(&id).map(|project| project.workspace)
    }

    /// Returns whether the project exists and satisfies `predicate`. Does not clone the `Arc` of the project, because
    /// all threads would contend for its reference count.
    pub fn has_project_where(&self, id: ProjectId, predicate: impl FnOnce(&Project) -> bool) -> bool {
        self.projects.pin().get(&id).is_some_and(|project| predicate(project))
    }

    pub fn credential(&self, client_id: &str) -> Option<Arc<Credential>> {
        self.credentials.pin().get(client_id).cloned()
    }

    pub fn is_revoked(&self, token: TokenId) -> bool {
        self.revoked.pin().contains_key(&token)
    }

    pub fn keys(&self) -> arc_swap::Guard<Arc<KeyRing>> {
        self.keys.load()
    }

    pub fn master_key(&self) -> &MasterKey {
        &self.master
    }

    /// Applies the revocation of a token on this node at once, before the next refresh.
    pub fn apply_revocation(&self, revocation: Revocation) {
        self.revoked.pin().insert(revocation.token, revocation.expires_at);
    }

    /// Loads and applies the changes since the last refresh.
    pub async fn refresh(&self, store: &dyn ControlPlaneStore, now: Timestamp) -> Result<(), RefreshError> {
        let _guard = self.refreshing.lock().await;
        let changes = store.changes_since(ControlPlaneVersion(self.version.load(Ordering::Acquire)), now).await?;
        self.apply(changes)?;
        Ok(())
    }

    /// Applies changes. If a key cannot be unsealed, keeps the current keys and returns the error, but applies all
    /// other changes: a deleted credential must not stay valid.
    fn apply(&self, changes: ControlPlaneChanges) -> Result<(), KeyUnsealError> {
        let all = changes.is_full_snapshot;
        let current = self.keys.load_full();
        let unsealed = changes.keys.as_ref().map(|stored| KeyRing::from_sealed(stored, &self.master, &current));
        let (ring, outcome) = match unsealed {
            None => (current, Ok(())),
            Some(Ok(ring)) => (Arc::new(ring), Ok(())),
            Some(Err(error)) => (current, Err(error)),
        };
        let (credentials, altered) = verify_credential_macs(changes.credentials, &changes.credential_macs, &ring);
        insert_entries(&self.workspaces, changes.workspaces.into_iter().map(|it| (it.id, Arc::new(it))), all);
        insert_entries(&self.projects, changes.projects.into_iter().map(|it| (it.id, Arc::new(it))), all);
        insert_entries(&self.credentials, credentials.into_iter().map(|it| (it.client_id.clone(), Arc::new(it))), all);
        for client_id in &altered {
            self.credentials.pin().remove(client_id);
            if outcome.is_ok() {
                tracing::error!(client.id = %client_id, "credential was written or altered outside Ringtrue; rejected");
            }
        }
        for revocation in changes.revocations {
            self.apply_revocation(revocation);
        }
        self.keys.store(ring);
        outcome?;
        self.version.store(changes.version.0, Ordering::Release);
        Ok(())
    }

    /// Refreshes after each notification and each poll interval, until the future is dropped.
    pub async fn run_refresh(&self, store: &dyn ControlPlaneStore, clock: &dyn Clock) {
        let hint = store.change_notification();
        let mut is_healthy = true;
        loop {
            // A missed notification delays the refresh by at most one poll interval.
            let _ = tokio::time::timeout(POLL_INTERVAL, hint.notified()).await;
            let refreshed = self.refresh(store, clock.now()).await;
            match &refreshed {
                Err(error) if is_healthy => tracing::warn!(%error, "control-plane refresh failed; retrying"),
                Ok(()) if !is_healthy => tracing::info!("control-plane refresh recovered"),
                _ => {}
            }
            is_healthy = refreshed.is_ok();
        }
    }

    /// Removes the revocations of expired tokens. Removes the oldest deleted and expired credentials of workspaces that
    /// have more than [`MAX_DEAD_CREDENTIALS`].
    pub fn drop_expired(&self, now: Timestamp) {
        self.revoked.pin().retain(|_, expires_at| now < *expires_at);
        let credentials = self.credentials.pin();
        let mut dead: HashMap<WorkspaceId, Vec<(Timestamp, ClientId)>> = HashMap::new();
        for credential in credentials.values() {
            if let Some(died_at) = credential.inactive_since(now) {
                let dead_in_workspace = dead.entry(credential.owner.workspace()).or_default();
                dead_in_workspace.push((died_at, credential.client_id.clone()));
            }
        }
        for mut dead_in_workspace in dead.into_values() {
            let surplus = dead_in_workspace.len().saturating_sub(MAX_DEAD_CREDENTIALS as usize);
            if surplus > 0 {
                dead_in_workspace.sort_unstable();
                for (_, client_id) in dead_in_workspace.drain(..surplus) {
                    credentials.remove(&client_id);
                }
            }
        }
    }
}

/// Inserts entries into a map. If `are_complete`, removes all other entries from the map.
fn insert_entries<K: Clone + Eq + Hash, V>(
    map: &ConcurrentMap<K, V>,
    entries: impl Iterator<Item = (K, V)>,
    are_complete: bool,
) {
    let map = map.pin();
    let mut present = HashSet::new();
    for (key, value) in entries {
        if are_complete {
            present.insert(key.clone());
        }
        map.insert(key, value);
    }
    if are_complete {
        map.retain(|key, _| present.contains(key));
    }
}
