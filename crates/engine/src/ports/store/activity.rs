//! Activity counts of projects, for the console.

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{activity::ActivityCounts, network::NetworkId, product::Product, tenancy::ProjectId};

use super::StoreError;

/// An increment of the counts of one minute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivityCount {
    pub project: ProjectId,
    /// Start of the minute.
    pub minute: Timestamp,
    pub product: Product,
    pub network: Option<NetworkId>,
    pub counts: ActivityCounts,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivityFilter {
    /// Minutes that begin at or after `from` and before `to`.
    pub from: Timestamp,
    pub to: Timestamp,
    /// Length of a period: whole minutes; whole hours for data older than a day.
    pub period: SignedDuration,
    /// `None`: all products.
    pub product: Option<Product>,
    /// `None`: all networks, and checks without a network.
    pub network: Option<NetworkId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActivityPeriod {
    pub start: Timestamp,
    pub counts: ActivityCounts,
}

/// Number of undelivered callbacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitingCallbacks {
    pub count: u64,
    /// The scan limit was reached; there may be more.
    pub is_truncated: bool,
}

#[async_trait]
pub trait ActivityStore: Send + Sync {
    /// Increments counts atomically. `counts` has at most one entry per project, minute, product and network, sorted in
    /// this order.
    async fn add_activity(&self, counts: Vec<ActivityCount>) -> Result<(), StoreError>;

    /// The non-empty periods of a project, in order.
    async fn activity(&self, project: ProjectId, filter: ActivityFilter) -> Result<Vec<ActivityPeriod>, StoreError>;

    /// The networks with activity, in order.
    async fn active_networks(
        &self,
        project: ProjectId,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<NetworkId>, StoreError>;

    /// Counts the undelivered callbacks of a project. Scans a limited number of the deployment's callbacks, so that a
    /// long queue does not slow the query down.
    async fn waiting_callbacks(
        &self,
        project: ProjectId,
        product: Option<Product>,
        scan_limit: u32,
    ) -> Result<WaitingCallbacks, StoreError>;

    /// Rolls a batch of minutes before an instant up into hours. Returns the number of replaced rows.
    async fn roll_up_activity(&self, before: Timestamp) -> Result<u64, StoreError>;

    /// Deletes a batch of hours before an instant. Returns the number of deleted rows.
    async fn delete_activity_before(&self, before: Timestamp) -> Result<u64, StoreError>;
}
