//! Store ports for a project's activity counts per minute, shown in the console, and for hourly usage counters, used
//! for billing and list totals.

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    activity::ActivityCounts,
    lifecycle::CheckStatus,
    network::NetworkId,
    product::Product,
    silent::SilentWay,
    tenancy::{ProjectId, WorkspaceId},
    verification::funnel::{Funnel, FunnelEvent},
};

use super::store::StoreError;

/// An increment of a project's activity counts in one minute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivityDelta {
    pub project: ProjectId,
    /// Start of the minute.
    pub minute: Timestamp,
    pub product: Product,
    pub network: Option<NetworkId>,
    /// Whether the checks are steps of verifications.
    pub is_step: bool,
    pub counts: ActivityCounts,
}

/// An increment of one count in the funnel of a project's verifications that were created in one minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunnelDelta {
    pub project: ProjectId,
    /// Start of the minute.
    pub minute: Timestamp,
    pub event: FunnelEvent,
    pub count: i64,
}

/// Selects the checks whose activity is counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivityScope {
    /// Verifications, their steps, and all other checks.
    All,
    Verifications,
    /// Checks of one product, or of all products but verifications. Steps of verifications do not count.
    Checks(Option<Product>),
}

impl ActivityScope {
    pub fn includes(self, product: Product, is_step: bool) -> bool {
        match self {
            ActivityScope::All => true,
            ActivityScope::Verifications => product == Product::Verification,
            ActivityScope::Checks(None) => product != Product::Verification && !is_step,
            ActivityScope::Checks(Some(wanted)) => product == wanted && !is_step,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivityFilter {
    /// Includes the minutes that begin at or after `from` and before `to`.
    pub from: Timestamp,
    pub to: Timestamp,
    /// Length of the periods to sum up: whole minutes, or whole hours for data older than a day.
    pub period: SignedDuration,
    pub scope: ActivityScope,
    /// `None`: all networks, and checks without a network.
    pub network: Option<NetworkId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeriodActivity {
    pub start: Timestamp,
    pub counts: ActivityCounts,
}

/// Activity counts of one product on one network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkActivity {
    pub product: Product,
    /// Whether the checks are steps of verifications.
    pub is_step: bool,
    pub network: Option<NetworkId>,
    pub counts: ActivityCounts,
}

/// Number of completed checks that took this many milliseconds from creation to completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletionDuration {
    pub millis: i64,
    pub count: i64,
}

/// Number of callbacks that wait for an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitingCallbacks {
    pub count: u64,
    /// Whether the scan limit was reached, so that there may be more.
    pub is_truncated: bool,
}

#[async_trait]
pub trait ActivityStore: Send + Sync {
    /// Increments counts atomically. `counts` must have at most one entry per project, minute, product, network and
    /// kind (step or not), and must be sorted in this order.
    async fn add_activity(&self, counts: Vec<ActivityDelta>) -> Result<(), StoreError>;

    /// Increments counts atomically. `counts` must have at most one entry per project, minute and event.
    async fn add_funnel(&self, counts: Vec<FunnelDelta>) -> Result<(), StoreError>;

    /// Returns the funnel of the verifications created at or after `from` and before `to`.
    async fn funnel(&self, project: ProjectId, from: Timestamp, to: Timestamp) -> Result<Funnel, StoreError>;

    /// Returns the counts of a project by period, in order. Omits periods without activity.
    async fn activity(&self, project: ProjectId, filter: ActivityFilter) -> Result<Vec<PeriodActivity>, StoreError>;

    /// Returns the counts of a project by product, network and kind (step or not), in this order.
    async fn activity_by_network(
        &self,
        project: ProjectId,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<NetworkActivity>, StoreError>;

    /// Returns the completion times of the stored checks that match the filter, shortest first. For verifications, these
    /// are the times until the number was verified. `None`: the project has `scan_limit` or more checks of these
    /// products in the time range, on any network, which is too many to read.
    async fn completion_durations(
        &self,
        project: ProjectId,
        filter: ActivityFilter,
        scan_limit: u32,
    ) -> Result<Option<Vec<CompletionDuration>>, StoreError>;

    /// Counts the undelivered callbacks of a project. Scans a limited number of the deployment's callbacks, so that a
    /// long queue does not slow the query down.
    async fn waiting_callbacks(
        &self,
        project: ProjectId,
        scope: ActivityScope,
        scan_limit: u32,
    ) -> Result<WaitingCallbacks, StoreError>;

    /// Merges a batch of per-minute counts before `before`, also those of funnels, into per-hour counts. Returns the
    /// number of replaced rows.
    async fn roll_up_activity(&self, before: Timestamp) -> Result<u64, StoreError>;

    /// Deletes a batch of per-hour counts before `before`, also those of funnels. Returns the number of deleted rows.
    async fn delete_activity_before(&self, before: Timestamp) -> Result<u64, StoreError>;
}

/// An increment or decrement of one hourly usage counter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UsageDelta {
    pub project: ProjectId,
    pub product: Product,
    /// Any time within the hour that the counter belongs to.
    pub at: Timestamp,
    pub status: CheckStatus,
    pub matched: Option<bool>,
    pub network: Option<NetworkId>,
    /// The way that a concluded silent check took. `None`: the check is open, or of another product.
    pub via: Option<SilentWay>,
    /// Negative when a check leaves this status, because its next status is counted instead.
    pub delta: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsagePeriod {
    Hour,
    Day,
    Month,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageFilter {
    /// Includes the hours that begin at or after `from` and before `to`.
    pub from: Timestamp,
    pub to: Timestamp,
    pub period: UsagePeriod,
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
    pub via: Option<SilentWay>,
    pub count: i64,
}

#[async_trait]
pub trait UsageStore: Send + Sync {
    /// Applies all changes atomically.
    async fn add_usage(&self, counts: &[UsageDelta]) -> Result<(), StoreError>;

    /// Returns the counters that are not zero, ordered by period, project, product and status.
    async fn usage(&self, workspace: WorkspaceId, filter: UsageFilter) -> Result<Vec<UsageRow>, StoreError>;
}
