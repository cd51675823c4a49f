//! What is counted for people who look after a project.

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{activity::Counts, network::NetworkId, product::Product, tenancy::ProjectId};

use super::StoreError;

/// What is to be added to the counts of a minute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivityCount {
    pub project: ProjectId,
    /// The beginning of the minute.
    pub minute: Timestamp,
    pub product: Product,
    pub network: Option<NetworkId>,
    pub counts: Counts,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivityFilter {
    /// Minutes that begin at or after `from` and before `to`.
    pub from: Timestamp,
    pub to: Timestamp,
    /// How long a period is: whole minutes, and whole hours for what is older than a day.
    pub period: SignedDuration,
    /// `None`: all of them.
    pub product: Option<Product>,
    /// `None`: all of them, and what has none.
    pub network: Option<NetworkId>,
}

/// What was counted in one period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActivityPeriod {
    pub start: Timestamp,
    pub counts: Counts,
}

/// Callbacks that wait for their next attempt, or are being sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitingCallbacks {
    pub count: u64,
    /// Not all callbacks of the deployment were looked at: there may be more.
    pub is_cut: bool,
}

#[async_trait]
pub trait ActivityStore: Send + Sync {
    /// Adds to what is there: all of it or nothing. Each minute of a project, product and network is named once, in
    /// this order.
    async fn add_activity(&self, counts: Vec<ActivityCount>) -> Result<(), StoreError>;

    /// A project's periods in which something was counted, in their order.
    async fn activity(&self, project: ProjectId, filter: ActivityFilter) -> Result<Vec<ActivityPeriod>, StoreError>;

    /// The networks that something was counted for, in their order.
    async fn active_networks(
        &self,
        project: ProjectId,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<NetworkId>, StoreError>;

    /// A project's callbacks that wait, among the first so many of the deployment: a count must not take longer the
    /// worse things are.
    async fn waiting_callbacks(
        &self,
        project: ProjectId,
        product: Option<Product>,
        among: u32,
    ) -> Result<WaitingCallbacks, StoreError>;

    /// Sums minutes that begin before an instant up into hours, a bounded number at a time. Gives how many went.
    async fn sum_activity_up(&self, before: Timestamp) -> Result<u64, StoreError>;

    /// Deletes hours that begin before an instant, a bounded number at a time. Gives how many rows went.
    async fn forget_activity(&self, before: Timestamp) -> Result<u64, StoreError>;
}
