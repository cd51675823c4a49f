//! Hourly usage counters, for billing and list totals.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::CheckStatus,
    network::NetworkId,
    product::Product,
    tenancy::{ProjectId, WorkspaceId},
};

use super::StoreError;

/// An increment or decrement of one hourly counter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UsageDelta {
    pub project: ProjectId,
    pub product: Product,
    /// Any instant in the hour.
    pub at: Timestamp,
    pub status: CheckStatus,
    pub matched: Option<bool>,
    pub network: Option<NetworkId>,
    /// Negative when a check leaves this status.
    pub delta: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageGrouping {
    Hour,
    Day,
    Month,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageFilter {
    /// Includes the hours that begin at or after `from` and before `to`.
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
    pub status: CheckStatus,
    pub matched: Option<bool>,
    pub network: Option<NetworkId>,
    pub count: i64,
}

#[async_trait]
pub trait UsageStore: Send + Sync {
    /// Applies all changes atomically.
    async fn add_usage(&self, counts: &[UsageDelta]) -> Result<(), StoreError>;

    /// Non-zero counters, ordered by period, project, product and status.
    async fn usage(&self, workspace: WorkspaceId, filter: UsageFilter) -> Result<Vec<UsageRow>, StoreError>;
}
