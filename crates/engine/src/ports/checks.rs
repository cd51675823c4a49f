//! Checks: creation, lookup, conclusion and listing.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::{AnyCheck, AnyVerdict, CheckConclusion, CheckId, Concluded, NumberHash, Sealed},
    network::NetworkId,
    page::{Page, PageRequest},
    phone::Msisdn,
    product::Product,
    reverse_sms::{NumberLimit, SmsOrigin},
    search::Filter,
    tenancy::{ProjectId, WorkspaceId},
    verification::{Locale, Progress},
};

use super::{
    callbacks::NewCallback,
    hashes::CodeHash,
    idempotency::IdempotentResponse,
    search_limit::SearchLimiter,
    store::{StoreError, TenantLookup},
};

#[derive(Clone, Debug)]
pub struct NewCheck {
    pub check: AnyCheck,
    pub expectation: Expectation,
    /// Limit of checks for the number in this project and product. `None`: unlimited.
    pub number_limit: Option<NumberLimit>,
    pub idempotent_response: Option<IdempotentResponse>,
    /// The verification that begins with this check.
    pub verification: Option<Box<NewVerification>>,
}

/// A new verification, stored in the transaction of its first step.
#[derive(Clone, Debug)]
pub struct NewVerification {
    pub check: AnyCheck,
    /// With the open first step.
    pub progress: Progress,
    /// Sealed input of its steps, such as the number.
    pub input: Sealed,
    /// Language of the hosted page. `None`: that of the browser.
    pub locale: Option<Locale>,
}

/// The event that a new check waits for.
#[derive(Clone, Debug)]
pub enum Expectation {
    Sms {
        receiver: Msisdn,
        code: CodeHash,
    },
    /// A device that opens the URL of the check.
    Device {
        /// Sealed input of the check, such as the claimed number.
        input: Sealed,
    },
    /// A device that opens the URL of a step. Its redirect session is stored when it does, see
    /// [`VerificationStore::open_redirect_session`](super::verifications::VerificationStore::open_redirect_session): most of the input
    /// is that of the verification, and creating a verification should not cost more than it has to.
    DeviceOfStep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateCheckOutcome {
    Created,
    /// The number limit is reached, and nothing was written. The next check is possible at `retry_at`.
    TooManyChecks {
        retry_at: Timestamp,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConcludeOutcome {
    Concluded {
        was_pending: bool,
    },
    /// Another request or node was first, and nothing was written.
    AlreadyConcluded,
}

/// Details of a check for the console.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckHistory {
    pub pending_at: Option<Timestamp>,
    /// The connector that received its last SMS.
    pub connector: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkedPending {
    pub project: ProjectId,
    pub product: Product,
    pub network: Option<NetworkId>,
    pub created_at: Timestamp,
}

/// Query for a page of a project's checks of one product.
#[derive(Clone, Debug)]
pub struct CheckQuery {
    /// Workspace of the project, whose concurrent searches are limited.
    pub workspace: WorkspaceId,
    pub project: ProjectId,
    pub product: Product,
    pub filter: Option<Filter>,
    /// Exclusive lower bound of the creation time.
    pub created_after: Option<Timestamp>,
    pub page: PageRequest,
}

#[async_trait]
pub trait CheckStore: Send + Sync {
    /// Stores the check with its expectation, usage count and idempotent response in one transaction.
    ///
    /// The number limit holds across nodes and concurrent requests. Rejected checks do not count.
    async fn create_check(&self, new: NewCheck) -> Result<CreateCheckOutcome, StoreError>;

    /// Stores a check that is concluded on creation, with its usage count and idempotent response. It has no callback.
    async fn create_concluded_check(
        &self,
        concluded: Concluded<AnyVerdict>,
        response: Option<IdempotentResponse>,
    ) -> Result<(), StoreError>;

    async fn find_check(
        &self,
        project: ProjectId,
        product: Product,
        id: CheckId,
    ) -> Result<TenantLookup<AnyCheck>, StoreError>;

    /// `None`: the check does not exist in the project.
    async fn check_history(
        &self,
        project: ProjectId,
        product: Product,
        id: CheckId,
    ) -> Result<Option<CheckHistory>, StoreError>;

    /// Finds the check of the first code with an open check, otherwise of the first known code.
    async fn find_check_by_code(&self, codes: Vec<CodeHash>) -> Result<Option<AnyCheck>, StoreError>;

    /// The newest checks of a project and number, of all products.
    async fn find_checks_by_number(
        &self,
        project: ProjectId,
        number: NumberHash,
        created_after: Option<Timestamp>,
        limit: u32,
    ) -> Result<Vec<AnyCheck>, StoreError>;

    /// Concludes a check if it is still open: queues its callback, updates its usage count and deletes its redirect
    /// session, in one transaction.
    async fn conclude(
        &self,
        ending: CheckConclusion,
        callback: Option<NewCallback>,
    ) -> Result<ConcludeOutcome, StoreError>;

    /// Marks open, unexpired checks as pending that expect an SMS of this origin from the number to the receiver, and
    /// records the connector. Returns the newly pending checks, with the verifications whose steps they are.
    async fn mark_pending(
        &self,
        origin: SmsOrigin,
        number: NumberHash,
        receiver: &Msisdn,
        connector: &str,
        at: Timestamp,
    ) -> Result<Vec<MarkedPending>, StoreError>;

    /// Open checks of all projects whose deadline is before or at `now`, longest overdue first. A verification has the
    /// deadline of its current step, and stands for it.
    async fn overdue_checks(&self, now: Timestamp, limit: u32) -> Result<Vec<AnyCheck>, StoreError>;

    /// Like [`overdue_checks`](CheckStore::overdue_checks), for one project and product. For a product of steps, with
    /// all verifications.
    async fn overdue_checks_of_project(
        &self,
        project: ProjectId,
        product: Product,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<AnyCheck>, StoreError>;

    /// Lists checks, newest first. Totals and deep pages use the hourly counters where the filter allows it.
    ///
    /// A query that must read more rows is a search: it takes a permit of its workspace, or fails with
    /// [`StoreError::TooManySearches`], and uses reserved connections. Queries past the deadline fail with
    /// [`StoreError::DeadlineExceeded`].
    async fn list_checks(&self, query: CheckQuery, limiter: &SearchLimiter) -> Result<Page<AnyCheck>, StoreError>;
}
