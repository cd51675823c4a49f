//! Nodes of a deployment: heartbeats, the time of the database, housekeeping.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::audit::AuditEvent;
use uuid::Uuid;

use super::store::StoreError;

/// Identifier of a server process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub Uuid);

/// The state of the database that a node has last seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastSeenDatabase {
    /// Zero: none seen yet.
    pub generation: i64,
    /// Result of [`NodeStore::database_identity`]. `None`: not compared.
    pub identity: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeartbeatResult {
    /// Live nodes by id.
    pub nodes: Vec<NodeId>,
    /// Number of heartbeats that the database has recorded.
    pub generation: i64,
    /// Detection of a rollback of the database that no administrator has accepted yet.
    pub rollback_detected_at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseHistory {
    pub generation: i64,
    pub rollback_detected_at: Option<Timestamp>,
    /// Last recorded identity.
    pub identity: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseTime {
    /// Clock of the database server.
    pub clock: Timestamp,
    /// Latest time that a heartbeat recorded.
    pub latest_recorded: Timestamp,
}

/// The last request demand that a node has published.
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

    /// Records that `node` is alive at `now`, and removes nodes without a heartbeat since `dead_before`, with their
    /// demand. Records `now` as the latest time, unless a later one is recorded.
    ///
    /// Marks the database as rolled back if its generation is less than the `known` one, or if none is known and its
    /// identity differs from the recorded one.
    async fn heartbeat(
        &self,
        node: NodeId,
        now: Timestamp,
        dead_before: Timestamp,
        known: LastSeenDatabase,
    ) -> Result<HeartbeatResult, StoreError>;

    /// Identity of this copy of the database, which changes after a restore and after a failover. `None`: unknown.
    async fn database_identity(&self) -> Result<Option<String>, StoreError>;

    /// Reads the recorded generation and identity.
    async fn database_history(&self) -> Result<DatabaseHistory, StoreError>;

    /// Accepts a rolled back database: sets a generation greater than any that a node may have seen, ends all console
    /// sessions, and voids all links and pending invitations. Returns the number of ended sessions.
    async fn accept_restored_database(&self, audit: &AuditEvent) -> Result<u64, StoreError>;

    /// Deletes the latest recorded time, so that only the database's clock counts.
    async fn reset_latest_time(&self) -> Result<(), StoreError>;

    /// Publishes the request demand of `node`. Returns the demand that other nodes have published. Nodes do not wait for
    /// each other.
    async fn exchange_demand(
        &self,
        node: NodeId,
        demand: String,
        now: Timestamp,
    ) -> Result<Vec<PublishedDemand>, StoreError>;

    /// Counts the nodes with a heartbeat since `seen_since`.
    async fn count_live_nodes(&self, seen_since: Timestamp) -> Result<u64, StoreError>;

    /// Removes a node, with its demand and its leases.
    async fn deregister_node(&self, node: NodeId) -> Result<(), StoreError>;
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeletedChecks {
    /// Without those that were dropped with a partition.
    pub checks: u64,
    /// Nothing is left that can be deleted now.
    pub is_complete: bool,
}

#[async_trait]
pub trait HousekeepingStore: Send + Sync {
    /// Checks that the database is reachable and writable, and has all migrations of this binary.
    async fn ping(&self) -> Result<(), StoreError>;

    /// Deletes a batch of expired rows: revocations, idempotency keys, credentials deleted more than 30 days ago,
    /// console sessions, links, failed logins, invitations, accounts unused within a week, and concatenated SMS an hour
    /// after their expiry. Returns the number of deleted rows.
    async fn delete_expired(&self, now: Timestamp) -> Result<u64, StoreError>;

    /// Creates missing partitions of the tables that are divided by time, for checks created from `from` to `until`.
    /// Returns their number.
    async fn create_partitions(&self, from: Timestamp, until: Timestamp) -> Result<u64, StoreError>;

    /// Deletes a batch of audit events, oldest first. Returns the number of deleted rows.
    async fn delete_audit_events_before(&self, before: Timestamp) -> Result<u64, StoreError>;

    /// Hides all checks created before `before` from lists, for good, and deletes the oldest of them with their
    /// callbacks and attempts, as many as one transaction can in about `max_duration`, but at least one. Usage counters
    /// remain.
    ///
    /// Databases that divide checks by month round `before` down to the first of its month (UTC), and drop whole months.
    /// A check that is open, or whose callback is still being sent, is deleted by a call after it has ended. Lists are
    /// fastest if `before` is midnight, UTC.
    async fn delete_old_checks(&self, before: Timestamp, max_duration: Duration) -> Result<DeletedChecks, StoreError>;
}
