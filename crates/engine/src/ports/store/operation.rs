//! What running a deployment needs: the audit log, live nodes, tidying up.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    audit::{Action, Actor, AuditEvent},
    page::{Page, PageRequest},
    tenancy::WorkspaceId,
};
use uuid::Uuid;

use super::StoreError;

/// Which events of an audit log are wanted. `None` is any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    pub action: Option<Action>,
    pub actor: Option<Actor>,
}

impl AuditFilter {
    /// All of them.
    pub const ANY: AuditFilter = AuditFilter { action: None, actor: None };
}

#[async_trait]
pub trait AuditStore: Send + Sync {
    /// Of a workspace, newest first.
    async fn audit_events(
        &self,
        workspace: WorkspaceId,
        filter: &AuditFilter,
        page: PageRequest,
    ) -> Result<Page<AuditEvent>, StoreError>;

    /// Of the whole deployment: all workspaces, and what concerns none of them. Newest first.
    async fn all_audit_events(&self, filter: &AuditFilter, page: PageRequest) -> Result<Page<AuditEvent>, StoreError>;
}

/// Names a running process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub Uuid);

/// What a database knows of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseTime {
    /// The clock of the database server.
    pub clock: Timestamp,
    /// The latest time that was recorded with a heartbeat.
    pub latest: Timestamp,
}

#[async_trait]
pub trait NodeStore: Send + Sync {
    /// Reads the time. `machine_now` is the clock of a database that has no server of its own.
    async fn database_time(&self, machine_now: Timestamp) -> Result<DatabaseTime, StoreError>;

    /// Says that `node` is alive `now`, forgets nodes last heard of before `dead_before`, and gives the live ones in
    /// the order of their ids. Records `now` as the latest time, unless a later one is recorded.
    async fn heartbeat(&self, node: NodeId, now: Timestamp, dead_before: Timestamp) -> Result<Vec<NodeId>, StoreError>;

    async fn leave(&self, node: NodeId) -> Result<(), StoreError>;
}

#[async_trait]
pub trait Housekeeping: Send + Sync {
    /// Whether the database answers, takes writes, and has every migration that this binary knows.
    async fn ping(&self) -> Result<(), StoreError>;

    /// Deletes revocations of tokens that have expired, idempotency keys whose time is over, credentials that were
    /// deleted more than 30 days ago, and what the console needs no more (sessions, links, guesses), a bounded number at
    /// a time. Gives how many rows went.
    async fn forget_expired(&self, now: Timestamp) -> Result<u64, StoreError>;
}
