//! Store port for the audit log.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    audit::{Action, Actor, AuditEvent},
    page::{Page, PageRequest},
    tenancy::WorkspaceId,
};

use super::store::StoreError;

/// Filter of audit events. A field that is `None` matches all events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    pub action: Option<Action>,
    pub actor: Option<Actor>,
}

impl AuditFilter {
    pub const ANY: AuditFilter = AuditFilter { action: None, actor: None };
}

/// Limits audit events that record no change, such as failed sign-ins, so that a user cannot flood the log with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditCap {
    /// Maximum number of events with the same action and actor.
    pub limit: u32,
    /// Only events after this time count.
    pub since: Timestamp,
    pub scope: AuditCapScope,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditCapScope {
    /// Counts the actor's events with any target.
    Actor,
    /// Counts only the actor's events with the same target.
    Target,
}

#[async_trait]
pub trait AuditStore: Send + Sync {
    /// Stores an event that records no change, unless the cap is reached. `false`: the cap is reached, and nothing was
    /// written.
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
