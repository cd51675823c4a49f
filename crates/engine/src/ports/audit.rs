//! The audit log.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    audit::{Action, Actor, AuditEvent},
    page::{Page, PageRequest},
    tenancy::WorkspaceId,
};

use super::store::StoreError;

/// `None` matches all events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    pub action: Option<Action>,
    pub actor: Option<Actor>,
}

impl AuditFilter {
    pub const ANY: AuditFilter = AuditFilter { action: None, actor: None };
}

/// Bounds the events that users can cause without a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditCap {
    /// Events with the same action and actor.
    pub limit: u32,
    /// Only later events count.
    pub since: Timestamp,
    pub scope: AuditCapScope,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditCapScope {
    /// Counts the events of the actor, whatever their targets.
    Actor,
    /// Counts the events with the same target.
    Target,
}

#[async_trait]
pub trait AuditStore: Send + Sync {
    /// Stores an event that belongs to no change, unless as many as the cap exist. `false`: nothing was written.
    async fn add_audit_event(&self, audit: &AuditEvent, cap: AuditCap) -> Result<bool, StoreError>;

    /// Lists events of a workspace, newest first.
    async fn list_audit_events(
        &self,
        workspace: WorkspaceId,
        filter: &AuditFilter,
        page: PageRequest,
    ) -> Result<Page<AuditEvent>, StoreError>;

    /// Lists events of all workspaces and of the deployment, newest first.
    async fn list_all_audit_events(
        &self,
        filter: &AuditFilter,
        page: PageRequest,
    ) -> Result<Page<AuditEvent>, StoreError>;
}
