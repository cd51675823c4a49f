//! The control plane in memory: who may call, and with what.
//!
//! Minting and checking a token must cost no database round trip, so every node keeps workspaces, projects,
//! credentials, keys and revocations here, and follows the database's change counter: at once after a change of its
//! own, and by hint or poll after a change of another node.

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
    keys::{KeyRing, MasterKey, UnopenedKey},
    ports::{Changes, Clock, Revocation, Store, StoreError, TokenId, Version},
};

/// Half of the second within which a revocation must have reached every node.
const POLL: Duration = Duration::from_millis(500);

/// How many dead credentials (deleted or expired) of a workspace are kept, the newest ones. Their use is answered with
/// `unauthorized`, and every node has them in memory.
pub const DEAD_CREDENTIALS_KEPT: u32 = 5_000;

#[derive(Debug, thiserror::Error)]
pub enum RefreshError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Key(#[from] UnopenedKey),
}

/// Asked several times in every call, so with a quicker hash than the standard one. Its keys are made by us: nobody
/// else can choose them to collide.
pub type Map<K, V> = papaya::HashMap<K, V, quick_cache::DefaultHashBuilder>;

#[derive(Debug)]
pub struct ControlPlane {
    workspaces: Map<WorkspaceId, Arc<Workspace>>,
    projects: Map<ProjectId, Arc<Project>>,
    credentials: Map<ClientId, Arc<Credential>>,
    revoked: Map<TokenId, Timestamp>,
    keys: ArcSwap<KeyRing>,
    version: AtomicI64,
    /// Held while changes are taken over, so that they are taken over in order.
    refreshing: Mutex<()>,
    master: MasterKey,
}

impl ControlPlane {
    pub fn empty(master: MasterKey) -> Self {
        ControlPlane {
            workspaces: Map::default(),
            projects: Map::default(),
            credentials: Map::default(),
            revoked: Map::default(),
            keys: ArcSwap::default(),
            version: AtomicI64::new(0),
            refreshing: Mutex::new(()),
            master,
        }
    }

    pub fn workspace(&self, id: WorkspaceId) -> Option<Arc<Workspace>> {
        self.workspaces.pin().get(&id).cloned()
    }

    /// The limits that a workspace has of its own.
    pub fn own_limits(&self, id: WorkspaceId) -> RateLimits {
        self.workspaces.pin().get(&id).map(|workspace| workspace.rate_limits).unwrap_or_default()
    }

    /// Where the data of each workspace resides.
    pub fn residences(&self) -> Vec<Region> {
        self.workspaces.pin().values().map(|workspace| workspace.data_residency).collect()
    }

    pub fn project(&self, id: ProjectId) -> Option<Arc<Project>> {
        self.projects.pin().get(&id).cloned()
    }

    /// Read in place, as [`project_has`](Self::project_has) does.
    pub fn workspace_of(&self, id: ProjectId) -> Option<WorkspaceId> {
        self.projects.pin().get(&id).map(|project| project.workspace)
    }

    /// Whether there is such a project of which `fact` holds. Asked in place: all threads would count their handles on
    /// the same few projects, and wait for each other.
    pub fn project_has(&self, id: ProjectId, fact: impl FnOnce(&Project) -> bool) -> bool {
        self.projects.pin().get(&id).is_some_and(|project| fact(project))
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

    pub fn master(&self) -> &MasterKey {
        &self.master
    }

    /// Makes a revocation effective on this node, without waiting for the next refresh.
    pub fn revoke(&self, revocation: Revocation) {
        self.revoked.pin().insert(revocation.token, revocation.expires_at);
    }

    /// Takes over what has changed in the database since the last time.
    pub async fn refresh(&self, store: &dyn Store, now: Timestamp) -> Result<(), RefreshError> {
        let _in_order = self.refreshing.lock().await;
        let changes = store.changes_since(Version(self.version.load(Ordering::Acquire)), now).await?;
        self.take_over(changes)?;
        Ok(())
    }

    /// Tenants first: a key that does not open must not keep a deleted credential alive.
    fn take_over(&self, changes: Changes) -> Result<(), UnopenedKey> {
        let all = changes.is_everything;
        lay(&self.workspaces, changes.workspaces.into_iter().map(|it| (it.id, Arc::new(it))), all);
        lay(&self.projects, changes.projects.into_iter().map(|it| (it.id, Arc::new(it))), all);
        lay(&self.credentials, changes.credentials.into_iter().map(|it| (it.client_id.clone(), Arc::new(it))), all);
        for revocation in changes.revocations {
            self.revoke(revocation);
        }
        if let Some(stored) = &changes.keys {
            let ring = KeyRing::open(stored, &self.master, &self.keys.load())?;
            self.keys.store(Arc::new(ring));
        }
        self.version.store(changes.version.0, Ordering::Release);
        Ok(())
    }

    /// Follows the database until the future is dropped.
    pub async fn follow(&self, store: &dyn Store, clock: &dyn Clock) {
        let hint = store.change_hint();
        let mut was_well = true;
        loop {
            // Whichever comes first; a hint that was missed costs one poll.
            let _ = tokio::time::timeout(POLL, hint.notified()).await;
            let refreshed = self.refresh(store, clock.now()).await;
            match &refreshed {
                Err(error) if was_well => tracing::warn!(%error, "the control plane is not up to date"),
                Ok(()) if !was_well => tracing::info!("the control plane is up to date again"),
                _ => {}
            }
            was_well = refreshed.is_ok();
        }
    }

    /// Drops the revocations of tokens that have expired by themselves, and the oldest dead credentials of workspaces
    /// that have more of them than the database keeps.
    pub fn forget_expired(&self, now: Timestamp) {
        self.revoked.pin().retain(|_, expires_at| now < *expires_at);
        let credentials = self.credentials.pin();
        let mut dead: HashMap<WorkspaceId, Vec<(Timestamp, ClientId)>> = HashMap::new();
        for credential in credentials.values() {
            if let Some(died_at) = credential.died_at(now) {
                let of_workspace = dead.entry(credential.owner.workspace()).or_default();
                of_workspace.push((died_at, credential.client_id.clone()));
            }
        }
        for mut of_workspace in dead.into_values() {
            let surplus = of_workspace.len().saturating_sub(DEAD_CREDENTIALS_KEPT as usize);
            if surplus > 0 {
                of_workspace.sort_unstable();
                for (_, client_id) in of_workspace.drain(..surplus) {
                    credentials.remove(&client_id);
                }
            }
        }
    }
}

/// Takes entries over. When they are everything, what is not among them goes.
fn lay<K: Clone + Eq + Hash, V>(map: &Map<K, V>, entries: impl Iterator<Item = (K, V)>, are_everything: bool) {
    let map = map.pin();
    let mut told = HashSet::new();
    for (key, value) in entries {
        if are_everything {
            told.insert(key.clone());
        }
        map.insert(key, value);
    }
    if are_everything {
        map.retain(|key, _| told.contains(key));
    }
}
