//! Callback queue: new callbacks, leases, attempts, retries.

use std::ops::RangeInclusive;

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    audit::AuditEvent,
    lifecycle::{CheckId, Sealed},
    product::Product,
    tenancy::{Mode, ProjectId},
};

use super::{
    idempotency::IdempotentResponse,
    store::{StoreError, TenantLookup},
};

/// The callback of a check, written in the transaction of its conclusion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCallback {
    pub url: Sealed,
    /// Every attempt sends these bytes.
    pub body: Sealed,
    /// Due time of the first attempt. A future instant is a lease of the writing node, which sends immediately.
    pub due_at: Timestamp,
}

/// A callback under lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeasedCallback {
    pub check: CheckId,
    pub project: ProjectId,
    pub product: Product,
    /// Mode of the check, which selects the signing key. The project may have changed its mode since.
    pub mode: Mode,
    /// When the check ended.
    pub created_at: Timestamp,
    pub url: Sealed,
    pub body: Sealed,
    /// Failed attempts, plus all attempts before the last resend.
    pub failed_attempts: u32,
    /// Attempts before the last resend, with any outcome.
    pub earlier_attempts: u32,
}

/// Maximum number of manual resends of a callback.
pub const MAX_RESENDS: u32 = 20;
/// Maximum number of stored attempts of a callback.
pub const MAX_LOGGED_ATTEMPTS: u32 = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResendOutcome {
    Queued,
    /// The callback is still being delivered; nothing was written.
    StillWaiting,
    /// The body has been erased; nothing was written.
    Erased,
    /// [`MAX_RESENDS`] is reached; nothing was written.
    LimitReached,
}

/// The result of an attempt. Storing it also releases the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptSettlement {
    pub check: CheckId,
    /// Attempt number, from 1. An attempt is settled once.
    pub attempt: u32,
    pub outcome: AttemptOutcome,
    pub log: AttemptLog,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptOutcome {
    Delivered,
    RetryAt(Timestamp),
    GivenUp,
}

/// The stored log of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptLog {
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    /// HTTP status of the response.
    pub status: Option<u16>,
    /// Reason for a missing response: `timeout`, `blocked_address`, `connection` …
    pub failure: Option<String>,
    /// Request and response, sealed: headers without credentials, truncated response body. `None` after erasure.
    pub exchange: Option<Sealed>,
}

/// A callback with its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbackRecord {
    pub check: CheckId,
    pub product: Product,
    /// Empty after erasure.
    pub url: Sealed,
    /// `None` after erasure.
    pub body: Option<Sealed>,
    pub state: CallbackState,
    /// The newest [`MAX_LOGGED_ATTEMPTS`] with their numbers, oldest first.
    pub attempts: Vec<(u32, AttemptLog)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallbackState {
    /// Waiting for the next attempt, or being sent.
    Waiting {
        due_at: Timestamp,
    },
    Delivered,
    GivenUp,
}

/// Which callbacks of a project are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallbackSelection {
    /// Those of the newest checks.
    All,
    GivenUp,
    /// Waiting for another attempt after a failed one.
    Retrying,
    /// Delivered after a failed attempt or a resend.
    Recovered,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallbackQuery {
    pub project: ProjectId,
    pub selection: CallbackSelection,
    pub product: Option<Product>,
    /// Exclusive lower bound of the creation time of the checks.
    pub created_after: Option<Timestamp>,
    pub limit: u32,
}

/// A callback in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedCallback {
    pub check: CheckId,
    pub product: Product,
    /// Empty after erasure.
    pub url: Sealed,
    pub is_erased: bool,
    pub state: CallbackState,
    pub resends: u32,
    /// `None`: not attempted.
    pub last_attempt: Option<LastAttempt>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastAttempt {
    pub number: u32,
    pub ended_at: Timestamp,
    pub status: Option<u16>,
    pub failure: Option<String>,
}

/// Number of resent callbacks by their current state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResendProgress {
    pub delivered: u64,
    pub waiting: u64,
    pub given_up: u64,
}

#[async_trait]
pub trait CallbackStore: Send + Sync {
    /// Leases callbacks that are due at `now`, longest due first, except those of the projects in `skip`. A callback is
    /// not leased again before `lease_until`.
    async fn lease_due_callbacks(
        &self,
        now: Timestamp,
        lease_until: Timestamp,
        limit: u32,
        skip: &[ProjectId],
    ) -> Result<Vec<LeasedCallback>, StoreError>;

    /// The earliest due time, including the ends of leases.
    async fn next_callback_due_at(&self) -> Result<Option<Timestamp>, StoreError>;

    /// Records the outcome of an attempt. `false`: the attempt is already settled, and nothing was written.
    async fn settle_attempt(&self, settlement: AttemptSettlement) -> Result<bool, StoreError>;

    /// Gives up at most `limit` callbacks that were due, or whose checks expired, before `due_before`. Returns their
    /// number.
    async fn give_up_overdue_callbacks(&self, due_before: Timestamp, limit: u32) -> Result<u64, StoreError>;

    /// Releases leases, identified by check and lease end, so that other nodes can send the callbacks. Leases that were
    /// taken over or settled meanwhile are unchanged.
    async fn release_leases(&self, leases: Vec<(CheckId, Timestamp)>, due_at: Timestamp) -> Result<(), StoreError>;

    /// Queues the same body for a new series of attempts. Stores the idempotent response if the callback is queued.
    async fn resend_callback(
        &self,
        project: ProjectId,
        check: CheckId,
        due_at: Timestamp,
        audit: &AuditEvent,
        response: Option<IdempotentResponse>,
    ) -> Result<TenantLookup<ResendOutcome>, StoreError>;

    async fn find_callback(
        &self,
        project: ProjectId,
        check: CheckId,
    ) -> Result<TenantLookup<CallbackRecord>, StoreError>;

    /// Callbacks of a project, newest checks first. [`CallbackSelection::All`] considers only the newest `limit` checks of
    /// each product.
    async fn list_callbacks(&self, query: CallbackQuery) -> Result<Vec<ListedCallback>, StoreError>;

    /// Counts the resent callbacks of a range of checks: those that wait, and those that were settled at `since` or
    /// later.
    async fn resend_progress(
        &self,
        project: ProjectId,
        checks: RangeInclusive<CheckId>,
        since: Timestamp,
    ) -> Result<ResendProgress, StoreError>;
}
