//! Hourly counters.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::Status,
    network::NetworkId,
    product::Product,
    tenancy::{ProjectId, WorkspaceId},
};

use super::StoreError;

/// A change of one hourly counter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UsageCount {
    pub project: ProjectId,
    pub product: Product,
    /// Any instant of the hour.
    pub at: Timestamp,
    pub status: Status,
    pub matched: Option<bool>,
    pub network: Option<NetworkId>,
    /// Negative when a check leaves this status.
    pub change: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageGrouping {
    Hour,
    Day,
    Month,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageFilter {
    /// Whole hours count: those that begin at or after `from` and before `to`.
    pub from: Timestamp,
    pub to: Timestamp,
    pub grouping: UsageGrouping,
    pub project: Option<ProjectId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageRow {
    pub period_start: Timestamp,
    pub project: ProjectId,
    pub product: Product,
    pub status: Status,
    pub matched: Option<bool>,
    pub network: Option<NetworkId>,
    pub count: i64,
}

#[async_trait]
pub trait UsageStore: Send + Sync {
    /// All of them or none.
    async fn count(&self, counts: &[UsageCount]) -> Result<(), StoreError>;

    /// In the order of period, project, product, status; counters that are zero are left out.
    async fn usage(&self, workspace: WorkspaceId, filter: UsageFilter) -> Result<Vec<UsageRow>, StoreError>;
}
