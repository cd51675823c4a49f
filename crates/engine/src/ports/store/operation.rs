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

/// What a node knows of the database before a heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownDatabase {
    /// The last generation that it has seen; zero: none.
    pub generation: i64,
    /// What [`NodeStore::database_identity`] says now. `None`: it is not compared.
    pub identity: Option<String>,
}

/// What a heartbeat found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// The live nodes, in the order of their ids.
    pub nodes: Vec<NodeId>,
    /// How many heartbeats the database has seen.
    pub generation: i64,
    /// When it was noticed that the database went back, and nobody has said that this is right.
    pub went_back_at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseHistory {
    pub generation: i64,
    pub went_back_at: Option<Timestamp>,
    /// The identity that was recorded last.
    pub identity: Option<String>,
}

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
    ///
    /// Marks the database as one that went back when its generation is below what is `known` of it, and when nothing is
    /// known and its identity is not the recorded one.
    async fn heartbeat(
        &self,
        node: NodeId,
        now: Timestamp,
        dead_before: Timestamp,
        known: KnownDatabase,
    ) -> Result<Heartbeat, StoreError>;

    /// The identity of this copy of the database: another one after a restore, and after a standby has taken over. `None`:
    /// there is no telling.
    async fn database_identity(&self) -> Result<Option<String>, StoreError>;

    /// What is recorded of the database's past. Writes nothing.
    async fn database_history(&self) -> Result<DatabaseHistory, StoreError>;

    /// Records that the database is accepted although it went back, with a generation above any that a node may remember;
    /// ends all console sessions, and voids all links and pending invitations. Returns the number of sessions.
    async fn accept_restored_database(&self, audit: &AuditEvent) -> Result<u64, StoreError>;

    /// Forgets the latest recorded time, so that the clock of the database counts alone.
    async fn reset_latest_time(&self) -> Result<(), StoreError>;

    /// Publishes what `node` was asked for, and gives what other nodes have published since `stale_before`.
    async fn exchange_demand(
        &self,
        node: NodeId,
        demand: String,
        now: Timestamp,
        stale_before: Timestamp,
    ) -> Result<Vec<(NodeId, String)>, StoreError>;

    async fn leave(&self, node: NodeId) -> Result<(), StoreError>;
}

#[async_trait]
pub trait Housekeeping: Send + Sync {
    /// Whether the database answers, takes writes, and has every migration that this binary knows.
    async fn ping(&self) -> Result<(), StoreError>;

    /// Deletes revocations of tokens that have expired, idempotency keys whose time is over, credentials that were
    /// deleted more than 30 days ago, and what the console needs no more (sessions, links, guesses, invitations,
    /// accounts that nobody has used within a week), a bounded number at a time. Gives how many rows went.
    async fn forget_expired(&self, now: Timestamp) -> Result<u64, StoreError>;

    /// Deletes audit events of before this instant, the oldest first, a bounded number at a time. Gives how many rows
    /// went.
    async fn delete_audit_events(&self, before: Timestamp) -> Result<u64, StoreError>;
}
