//! Store ports for a deployment's nodes: heartbeats, the database's time, and housekeeping.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::audit::AuditEvent;
use uuid::Uuid;

use super::store::StoreError;

/// Identifier of a server process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub Uuid);

/// The database as a node has last seen it, to detect a rollback.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastSeenDatabase {
    /// Last seen [`HeartbeatResult::generation`]. Zero: none seen yet.
    pub generation: i64,
    /// Current result of [`NodeStore::database_identity`]. `None`: the identity is not compared.
    pub identity: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeartbeatResult {
    /// Live nodes, sorted by id.
    pub nodes: Vec<NodeId>,
    /// Number of heartbeats that the database has recorded. It decreases only if the database is rolled back.
    pub generation: i64,
    /// When a rollback of the database was detected. `None`: no rollback, or an administrator has accepted it.
    pub rollback_detected_at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseHistory {
    pub generation: i64,
    pub rollback_detected_at: Option<Timestamp>,
    /// Last recorded database identity.
    pub identity: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseTime {
    /// The database server's clock.
    pub clock: Timestamp,
    /// Latest time that any heartbeat has recorded.
    pub latest_recorded: Timestamp,
}

/// The request counts that a node published last. Nodes divide rate limits among themselves by these counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedDemand {
    pub node: NodeId,
    pub published_at: Timestamp,
    pub demand: String,
}

#[async_trait]
pub trait NodeStore: Send + Sync {
    /// Reads the database's time. Embedded databases return `machine_now`.
    async fn database_time(&self, machine_now: Timestamp) -> Result<DatabaseTime, StoreError>;

    /// Records that `node` is alive at `now`. Removes nodes without a heartbeat since `dead_before`, with their
    /// published demand. Records `now` as the latest time, unless a later one is recorded.
    ///
    /// Marks the database as rolled back if its generation is lower than the generation in `known`. If `known` has no
    /// generation, marks it if its identity differs from the recorded one.
    async fn heartbeat(
        &self,
        node: NodeId,
        now: Timestamp,
        dead_before: Timestamp,
        known: LastSeenDatabase,
    ) -> Result<HeartbeatResult, StoreError>;

    /// Returns the identity of this copy of the database, which changes after a restore and after a failover. `None`:
    /// the database has no identity, or does not permit reading it.
    async fn database_identity(&self) -> Result<Option<String>, StoreError>;

    /// Reads the recorded generation and identity.
    async fn database_history(&self) -> Result<DatabaseHistory, StoreError>;

    /// Accepts a rolled-back database. Sets a generation greater than any that a node may have seen, ends all console
    /// sessions, and voids all links and pending invitations. Returns the number of ended sessions.
    async fn accept_restored_database(&self, audit: &AuditEvent) -> Result<u64, StoreError>;

    /// Deletes the latest recorded time, so that nodes follow the database's clock even if it was set back.
    async fn reset_latest_time(&self) -> Result<(), StoreError>;

    /// Publishes the request counts of `node`, and returns what the other nodes published last, without waiting for
    /// them to publish again.
    async fn exchange_demand(
        &self,
        node: NodeId,
        demand: String,
        now: Timestamp,
    ) -> Result<Vec<PublishedDemand>, StoreError>;

    /// Counts the nodes with a heartbeat since `seen_since`.
    async fn count_live_nodes(&self, seen_since: Timestamp) -> Result<u64, StoreError>;

    /// Removes a node, with its published demand and its leases.
    async fn deregister_node(&self, node: NodeId) -> Result<(), StoreError>;
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeletedChecks {
    /// Number of checks deleted row by row. Does not include checks that were dropped with a whole partition.
    pub deleted_rows: u64,
    /// Whether nothing is left that can be deleted now.
    pub is_complete: bool,
}

#[async_trait]
pub trait HousekeepingStore: Send + Sync {
    /// Checks that the database is reachable and writable, and has all migrations of this binary.
    async fn ping(&self) -> Result<(), StoreError>;

    /// Deletes a batch of expired rows: token revocations, idempotency keys, credentials deleted more than 30 days ago,
    /// console sessions, links, failed logins, invitations, accounts that were not used within a week of their
    /// creation, and concatenated SMS that expired more than an hour ago. Returns the number of deleted rows.
    async fn delete_expired(&self, now: Timestamp) -> Result<u64, StoreError>;

    /// Creates the missing partitions of time-partitioned tables, for checks created from `from` to `until`. Returns
    /// the number of created partitions.
    async fn create_partitions(&self, from: Timestamp, until: Timestamp) -> Result<u64, StoreError>;

    /// Deletes a batch of audit events, oldest first. Returns the number of deleted rows.
    async fn delete_audit_events_before(&self, before: Timestamp) -> Result<u64, StoreError>;

    /// Deletes checks created before `before`, with their callbacks and attempts. First hides all of them from lists
    /// permanently. Then deletes the oldest ones, as many as one transaction can in about `max_duration`, but at least
    /// one. Keeps the usage counters.
    ///
    /// Databases that partition checks by month round `before` down to the first of its month (UTC), and drop whole
    /// months. Open checks, and checks whose callback is still being sent, remain until a later call. Lists are fastest
    /// if `before` is midnight UTC.
    async fn delete_old_checks(&self, before: Timestamp, max_duration: Duration) -> Result<DeletedChecks, StoreError>;
}
