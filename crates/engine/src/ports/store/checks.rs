//! Checks: created, found, ended once, listed.

use std::fmt;

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::{AnyCheck, AnyVerdict, CheckId, Concluded, Ending, NumberHash, Sealed},
    network::NetworkId,
    page::{Page, PageRequest},
    phone::Msisdn,
    product::Product,
    reverse_sms::{NumberGuard, Origin},
    search::Filter,
    tenancy::{ProjectId, WorkspaceId},
};

use super::{Completion, Found, StoreError};
use crate::search_limit::SearchLimiter;

/// A keyed hash of a code together with the number that it must be sent to: finding the hash is finding both.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CodeHash(pub [u8; 32]);

impl fmt::Debug for CodeHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CodeHash(…)")
    }
}

/// A check that is to be stored.
#[derive(Clone, Debug)]
pub struct NewCheck {
    pub check: AnyCheck,
    pub awaits: Awaits,
    /// How often the project may create checks of this product about the number. `None`: as often as it likes.
    pub guard: Option<NumberGuard>,
    pub completion: Option<Completion>,
}

/// What a new check waits for.
#[derive(Clone, Debug)]
pub enum Awaits {
    Sms {
        /// The number that the end-user is told to text: one of ours, so it is no secret.
        receiver: Msisdn,
        code: CodeHash,
    },
    /// A device that opens the check's URL.
    Device {
        /// What must be known when it comes.
        brief: Sealed,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admitted {
    Stored,
    /// The project has asked about this number too often. Nothing was written; one more is taken from this instant on.
    TooOften {
        until: Timestamp,
    },
}

/// The callback of a check that ends, written in the transaction of its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCallback {
    pub url: Sealed,
    /// Rendered once: every attempt sends these bytes.
    pub body: Sealed,
    /// When somebody may send it. An instant in the future is a lease of whoever writes this, who sends it at once.
    pub due_at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    Now {
        /// Whether something of the check was seen before.
        was_pending: bool,
    },
    /// Someone else was first, and nothing was written.
    AlreadyConcluded,
}

/// What is kept of how a check went, besides where it stands: for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Course {
    /// Since when it was pending, or is.
    pub pending_at: Option<Timestamp>,
    /// The connector that brought the last SMS for it.
    pub connector: Option<String>,
}

/// A check that has become pending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkedPending {
    pub project: ProjectId,
    pub product: Product,
    pub network: Option<NetworkId>,
    pub created_at: Timestamp,
}

/// A page of a project's checks of one product.
#[derive(Clone, Debug)]
pub struct CheckQuery {
    /// The workspace of the project, whose searches are limited.
    pub workspace: WorkspaceId,
    pub project: ProjectId,
    pub product: Product,
    pub filter: Option<Filter>,
    /// Checks created at this instant or earlier are left out.
    pub created_after: Option<Timestamp>,
    pub page: PageRequest,
}

#[async_trait]
pub trait CheckStore: Send + Sync {
    /// Stores the check, what it waits for, its count and the answer that its caller gets: all or nothing.
    ///
    /// The guard holds across nodes: of any number of concurrent creates for one project and number at most
    /// `guard.creates` are stored within `guard.within_seconds`. Those that are refused do not count.
    async fn create_check(&self, new: NewCheck) -> Result<Admitted, StoreError>;

    /// Stores a check that has ended as soon as it was made, its count and the answer that its caller gets: all or
    /// nothing. It has no callback.
    async fn create_ended(
        &self,
        concluded: Concluded<AnyVerdict>,
        completion: Option<Completion>,
    ) -> Result<(), StoreError>;

    async fn find_check(
        &self,
        project: ProjectId,
        product: Product,
        id: CheckId,
    ) -> Result<Found<AnyCheck>, StoreError>;

    /// `None`: the project has no such check.
    async fn course_of(&self, project: ProjectId, product: Product, id: CheckId) -> Result<Option<Course>, StoreError>;

    /// The check of the first of these codes that is still open; of the first that is known, if none is.
    async fn check_by_code(&self, codes: Vec<CodeHash>) -> Result<Option<AnyCheck>, StoreError>;

    /// Records the end of a check, queues its callback and moves its count: all or nothing, and only if the check is
    /// still open. What was kept for its device goes.
    async fn conclude(&self, ending: Ending, callback: Option<NewCallback>) -> Result<Recorded, StoreError>;

    /// Marks the open checks within reach of an origin that wait for an SMS from this number to this receiver, that are
    /// not yet pending and whose time is not up, with the name of the connector that brought something. Gives them.
    async fn mark_pending(
        &self,
        origin: Origin,
        number: NumberHash,
        receiver: &Msisdn,
        connector: &str,
        at: Timestamp,
    ) -> Result<Vec<MarkedPending>, StoreError>;

    /// Open checks of any project whose time was up at `now`, the longest overdue first.
    async fn overdue(&self, now: Timestamp, limit: u32) -> Result<Vec<AnyCheck>, StoreError>;

    /// As [`overdue`](CheckStore::overdue), of one project and product.
    async fn overdue_of(
        &self,
        project: ProjectId,
        product: Product,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<AnyCheck>, StoreError>;

    /// Newest first. Totals and deep pages come from the hourly counters wherever the filter allows it.
    ///
    /// A query that would read more than a few rows besides is a search: it takes a permit of its workspace or fails with
    /// [`StoreError::TooManySearches`], and runs on connections that nothing else waits for. Lists and searches that run
    /// too long are stopped, with [`StoreError::DeadlineExceeded`].
    async fn list_checks(&self, query: CheckQuery, limiter: &SearchLimiter) -> Result<Page<AnyCheck>, StoreError>;
}
