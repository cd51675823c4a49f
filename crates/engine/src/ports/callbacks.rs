//! Store port for the callback queue: new callbacks, leases, attempts and retries.

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

/// A check's callback, stored in the transaction that concludes the check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCallback {
    pub url: Sealed,
    /// Encrypted body. Every attempt sends the same bytes.
    pub body: Sealed,
    /// Due time of the first attempt. A time in the future works as a lease: the node that stores the callback sends it
    /// immediately, and other nodes take over only after this time.
    pub due_at: Timestamp,
}

/// A callback that is leased to this node for its next attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeasedCallback {
    pub check: CheckId,
    pub project: ProjectId,
    pub product: Product,
    /// Mode of the check, which selects the signing key. The project's mode may have changed since.
    pub mode: Mode,
    /// When the check was concluded.
    pub created_at: Timestamp,
    pub url: Sealed,
    pub body: Sealed,
    /// Failed attempts since the callback was last resent, plus all attempts before that. The next attempt has this
    /// number plus one.
    pub failed_attempts: u32,
    /// Attempts before the callback was last resent, with any outcome. The retry schedule ignores them.
    pub earlier_attempts: u32,
}

/// Maximum number of manual resends of a callback.
pub const MAX_RESENDS: u32 = 20;
/// Maximum number of logged attempts per callback.
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

/// The result of an attempt. Storing it also releases this node's lease on the callback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptSettlement {
    pub check: CheckId,
    /// Attempt number, from 1. The outcome of each attempt is stored only once.
    pub attempt: u32,
    pub outcome: AttemptOutcome,
    pub log: AttemptRecord,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptOutcome {
    Delivered,
    RetryAt(Timestamp),
    GivenUp,
}

/// The stored log of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptRecord {
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    /// HTTP status of the response. `None`: there was no response.
    pub status: Option<u16>,
    /// Reason why there was no response: `timeout`, `blocked_address`, `connection` …
    pub failure: Option<String>,
    /// Encrypted log of request and response: headers without credentials, truncated response body. `None` after
    /// erasure.
    pub exchange: Option<Sealed>,
}

/// A callback with its logged attempts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbackRecord {
    pub check: CheckId,
    pub product: Product,
    /// Encrypted callback URL. Empty after erasure.
    pub url: Sealed,
    /// Encrypted body. `None` after erasure.
    pub body: Option<Sealed>,
    pub state: CallbackState,
    /// The newest [`MAX_LOGGED_ATTEMPTS`] attempts with their numbers, oldest first.
    pub attempts: Vec<(u32, AttemptRecord)>,
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

/// Selects the callbacks of a project that a list contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallbackSelection {
    /// The callbacks of the newest checks.
    All,
    GivenUp,
    /// Waiting for another attempt after a failed one.
    Retrying,
    /// Delivered after a failed attempt or a resend.
    Recovered,
    /// Not delivered after a failed attempt or a resend: given up, or waiting for another attempt.
    Failing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallbackQuery {
    pub project: ProjectId,
    pub selection: CallbackSelection,
    pub product: Option<Product>,
    /// Lists only callbacks of checks created after this time.
    pub created_after: Option<Timestamp>,
    /// Lists only callbacks of checks created before this time.
    pub created_before: Option<Timestamp>,
    pub limit: u32,
}

/// The callbacks that match a query, newest checks first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallbackList {
    pub callbacks: Vec<ListedCallback>,
    /// The oldest check that was considered, if the limit may have left out older ones. `None`: the list is
    /// complete.
    pub cut_at: Option<CheckId>,
}

/// A callback in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedCallback {
    pub check: CheckId,
    pub product: Product,
    /// Encrypted callback URL. Empty after erasure.
    pub url: Sealed,
    pub is_erased: bool,
    /// When the check was concluded, and the first attempt was due.
    pub created_at: Timestamp,
    pub state: CallbackState,
    pub resends: u32,
    /// `None`: no attempt is logged.
    pub last_attempt: Option<LastAttempt>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastAttempt {
    pub number: u32,
    pub ended_at: Timestamp,
    pub status: Option<u16>,
    pub failure: Option<String>,
}

/// Time and result of an attempt, without the request and the response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptSummary {
    pub check: CheckId,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    pub status: Option<u16>,
    pub failure: Option<String>,
}

/// Numbers of resent callbacks, by current state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResendProgress {
    pub delivered: u64,
    pub waiting: u64,
    pub given_up: u64,
}

#[async_trait]
pub trait CallbackStore: Send + Sync {
    /// Leases callbacks that are due at `now`, longest due first, except those of the projects in `skip`. A callback is
    /// not leased again before `lease_until`. Several database servers share `limit`, and one whose callbacks cannot be
    /// leased is left out for a while.
    async fn lease_due_callbacks(
        &self,
        now: Timestamp,
        lease_until: Timestamp,
        limit: u32,
        skip: &[ProjectId],
    ) -> Result<Vec<LeasedCallback>, StoreError>;

    /// Returns the earliest due time of all callbacks. A leased callback is due when its lease ends.
    async fn next_callback_due_at(&self) -> Result<Option<Timestamp>, StoreError>;

    /// Records the outcome of an attempt. `false`: an outcome of this attempt is already recorded, and nothing was
    /// written.
    async fn settle_attempt(&self, settlement: AttemptSettlement) -> Result<bool, StoreError>;

    /// Gives up at most `limit` waiting callbacks that were due before `due_before`, or whose check had its deadline
    /// before `due_before`. Returns the number of callbacks that were given up.
    async fn give_up_overdue_callbacks(&self, due_before: Timestamp, limit: u32) -> Result<u64, StoreError>;

    /// Releases leases, identified by check and end of lease, so that other nodes can send the callbacks. Ignores
    /// leases that another node has taken over, and callbacks for whose attempt an outcome is already recorded.
    async fn release_leases(&self, leases: Vec<(CheckId, Timestamp)>, due_at: Timestamp) -> Result<(), StoreError>;

    /// Queues a callback again, with the same body, for a new series of attempts. Stores the idempotent response if the
    /// callback is queued.
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

    /// Lists callbacks of a project, newest checks first. [`CallbackSelection::All`] considers only the newest `limit`
    /// checks of each product.
    async fn list_callbacks(&self, query: CallbackQuery) -> Result<CallbackList, StoreError>;

    /// Lists attempts to deliver the callbacks of these checks of a project, at most `limit`. Checks of other projects
    /// are ignored.
    async fn list_attempts(
        &self,
        project: ProjectId,
        checks: Vec<CheckId>,
        limit: u32,
    ) -> Result<Vec<AttemptSummary>, StoreError>;

    /// Counts the resent callbacks in a range of checks: those that are still waiting, and those whose last attempt
    /// ended at `since` or later.
    async fn resend_progress(
        &self,
        project: ProjectId,
        checks: RangeInclusive<CheckId>,
        since: Timestamp,
    ) -> Result<ResendProgress, StoreError>;
}
