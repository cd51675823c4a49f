//! The control plane, which every node caches in memory.
//!
//! Every change of the control plane (workspaces, projects, credentials, keys, revocations) increments the
//! [`ControlPlaneVersion`] in its transaction and marks the changed rows with it. The version row stays locked until
//! the commit, so versions become visible in order and `changes_since` misses nothing.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::tenancy::{ClientId, Credential, Project, Workspace};
use tokio::sync::Notify;

use super::{
    keys::SealedKey,
    row_mac::RowMac,
    store::{ControlPlaneVersion, StoreError},
    tokens::Revocation,
};

/// Changes of the control plane since a version, including deleted credentials.
#[derive(Clone, Debug, Default)]
pub struct ControlPlaneChanges {
    pub version: ControlPlaneVersion,
    /// Whether this is the whole control plane, which replaces the cached one.
    pub is_full_snapshot: bool,
    pub workspaces: Vec<Workspace>,
    pub projects: Vec<Project>,
    pub credentials: Vec<Credential>,
    /// The stored MACs of the credentials. Rows without one are absent.
    pub credential_macs: HashMap<ClientId, RowMac>,
    /// All keys, if any has changed or this is a full snapshot.
    pub keys: Option<Vec<SealedKey>>,
    pub revocations: Vec<Revocation>,
}

#[async_trait]
pub trait ControlPlaneStore: Send + Sync {
    /// Reads the changes since `version` in one consistent snapshot. Returns the full control plane if `version` is
    /// zero, or greater than the database's version, as after a restore.
    ///
    /// Omits revocations that have expired at `now` and, in a full snapshot, credentials deleted more than a day
    /// before.
    async fn changes_since(
        &self,
        version: ControlPlaneVersion,
        now: Timestamp,
    ) -> Result<ControlPlaneChanges, StoreError>;

    /// Notified when another node may have changed the control plane. Notifications may be late or lost.
    fn change_notification(&self) -> Arc<Notify>;
}
