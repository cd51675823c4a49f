//! Callbacks: leased, sent, settled.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    audit::AuditEvent,
    lifecycle::{CheckId, Sealed},
    product::Product,
    tenancy::{Mode, ProjectId},
};

use super::{Completion, Found, StoreError};

/// A callback that somebody holds the lease of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeasedCallback {
    pub check: CheckId,
    pub project: ProjectId,
    pub product: Product,
    /// That of its check, whatever the project is now. It decides which key signs.
    pub mode: Mode,
    pub url: Sealed,
    pub body: Sealed,
    /// How many attempts have failed, or were made before it was sent again.
    pub failed_attempts: u32,
    /// How many of them were made before it was sent again, whatever came of them.
    pub earlier_attempts: u32,
}

/// How often a callback may be sent again by hand.
pub const MAX_RESENDS: u32 = 20;
/// How many attempts of a callback are kept.
pub const MAX_ATTEMPTS_KEPT: u32 = 20;

/// Whether a callback is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resent {
    Queued,
    /// It is still being tried, and nothing was written.
    StillWaiting,
    /// What it said has been erased, and nothing was written.
    Erased,
    /// It was sent again as often as is allowed, and nothing was written.
    LimitReached,
}

/// How an attempt ended, and what follows. The last line of an attempt is also what releases its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    pub check: CheckId,
    /// The attempt that is settled, from 1. An attempt that was settled before is not settled again.
    pub attempt: u32,
    pub then: Then,
    pub log: AttemptLog,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    Delivered,
    RetryAt(Timestamp),
    GivenUp,
}

/// What is remembered of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptLog {
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    /// The status that was answered.
    pub status: Option<u16>,
    /// Why there was no answer, in one word: `timeout`, `blocked_address`, `refused` …
    pub failure: Option<String>,
    /// What was sent and answered, sealed: headers without credentials, the beginning of the answer's body. `None` once it
    /// has been erased.
    pub exchange: Option<Sealed>,
}

/// A callback as it stands, for its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbackRecord {
    pub check: CheckId,
    pub product: Product,
    /// Empty once it has been erased.
    pub url: Sealed,
    /// `None` once it has been erased.
    pub body: Option<Sealed>,
    pub state: CallbackState,
    /// The newest [`MAX_ATTEMPTS_KEPT`], oldest first, each with its number.
    pub attempts: Vec<(u32, AttemptLog)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallbackState {
    /// Waiting for its next attempt, or being sent.
    Waiting {
        due_at: Timestamp,
    },
    Delivered,
    GivenUp,
}

#[async_trait]
pub trait CallbackStore: Send + Sync {
    /// Takes callbacks that are due at `now`, the longest due first, until `lease_until`; none of the projects in `skip`.
    /// No two calls get the same callback before its lease has run out.
    async fn lease_due(
        &self,
        now: Timestamp,
        lease_until: Timestamp,
        limit: u32,
        skip: &[ProjectId],
    ) -> Result<Vec<LeasedCallback>, StoreError>;

    /// When the next callback is due, leased ones included.
    async fn next_due(&self) -> Result<Option<Timestamp>, StoreError>;

    /// Records an attempt and what follows it. `false`: the attempt was settled before, and nothing was written.
    async fn settle(&self, settlement: Settlement) -> Result<bool, StoreError>;

    /// Gives up callbacks that have been due since before an instant, or whose checks expired before it, at most
    /// `limit`. Gives how many.
    async fn give_up_overdue(&self, due_before: Timestamp, limit: u32) -> Result<u64, StoreError>;

    /// Gives leases back, each by its check and the end that it was given with, so that another node can send at once
    /// what this one will not. One that has been taken over or settled since is left alone.
    async fn release(&self, leases: Vec<(CheckId, Timestamp)>, due_at: Timestamp) -> Result<(), StoreError>;

    /// Sends the same body once more, in a new series of attempts that is due at once. For a request with an idempotency
    /// key its answer is stored too, if something is sent.
    async fn resend(
        &self,
        project: ProjectId,
        check: CheckId,
        due_at: Timestamp,
        audit: &AuditEvent,
        completion: Option<Completion>,
    ) -> Result<Found<Resent>, StoreError>;

    async fn callback(&self, project: ProjectId, check: CheckId) -> Result<Found<CallbackRecord>, StoreError>;
}
