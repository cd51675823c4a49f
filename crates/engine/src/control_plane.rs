//! The control plane in memory: who may call, and with what.
//!
//! Minting and checking a token must cost no database round trip, so every node keeps workspaces, projects,
//! credentials, keys and revocations here, and follows the database's change counter: at once after a change of its
//! own, and by hint or poll after a change of another node.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use jiff::Timestamp;
use papaya::HashMap;
use ringtrue_domain::tenancy::{ClientId, Credential, Project, ProjectId, Workspace, WorkspaceId};
use tokio::sync::Mutex;

use crate::{
    keys::{KeyRing, MasterKey, UnopenedKey},
    ports::{Changes, Clock, Revocation, Store, StoreError, TokenId, Version},
};

/// Half of the second within which a revocation must have reached every node.
const POLL: Duration = Duration::from_millis(500);

#[derive(Debug, thiserror::Error)]
pub enum RefreshError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Key(#[from] UnopenedKey),
}

#[derive(Debug)]
pub struct ControlPlane {
    workspaces: HashMap<WorkspaceId, Arc<Workspace>>,
    projects: HashMap<ProjectId, Arc<Project>>,
    credentials: HashMap<ClientId, Arc<Credential>>,
    revoked: HashMap<TokenId, Timestamp>,
    keys: ArcSwap<KeyRing>,
    version: AtomicI64,
    /// Held while changes are taken over, so that they are taken over in order.
    refreshing: Mutex<()>,
    master: MasterKey,
}

impl ControlPlane {
    pub fn empty(master: MasterKey) -> Self {
        ControlPlane {
            workspaces: HashMap::new(),
            projects: HashMap::new(),
            credentials: HashMap::new(),
            revoked: HashMap::new(),
            keys: ArcSwap::default(),
            version: AtomicI64::new(0),
            refreshing: Mutex::new(()),
            master,
        }
    }

    pub fn workspace(&self, id: WorkspaceId) -> Option<Arc<Workspace>> {
        self.workspaces.pin().get(&id).cloned()
    }

    pub fn project(&self, id: ProjectId) -> Option<Arc<Project>> {
        self.projects.pin().get(&id).cloned()
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

    fn take_over(&self, changes: Changes) -> Result<(), UnopenedKey> {
        if let Some(stored) = &changes.keys {
            let ring = KeyRing::open(stored, &self.master, &self.keys.load())?;
            self.keys.store(Arc::new(ring));
        }
        let workspaces = self.workspaces.pin();
        for workspace in changes.workspaces {
            workspaces.insert(workspace.id, Arc::new(workspace));
        }
        let projects = self.projects.pin();
        for project in changes.projects {
            projects.insert(project.id, Arc::new(project));
        }
        let credentials = self.credentials.pin();
        for credential in changes.credentials {
            credentials.insert(credential.client_id.clone(), Arc::new(credential));
        }
        for revocation in changes.revocations {
            self.revoke(revocation);
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

    /// Drops the revocations of tokens that have expired by themselves.
    pub fn forget_expired(&self, now: Timestamp) {
        self.revoked.pin().retain(|_, expires_at| now < *expires_at);
    }
}
