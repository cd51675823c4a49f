//! Store port for checks: creation, lookup, conclusion and listing.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::{
        AnyCheck, AnyVerdict, CheckConclusion, CheckId, Concluded, ErrorCode, NumberHash, Sealed, ShardBucket,
    },
    network::NetworkId,
    page::{Page, PageRequest},
    phone::Msisdn,
    product::Product,
    reverse_sms::{NumberLimit, SmsEnvironment},
    search::Filter,
    silent::{SilentWay, WalletFailure},
    tenancy::{ProjectId, WorkspaceId},
    verification::{Locale, Progress},
};

use super::{
    callbacks::NewCallback,
    hashes::CodeHash,
    idempotency::IdempotentResponse,
    search_limit::SearchLimiter,
    store::{Completeness, StoreError, TenantLookup},
};

#[derive(Clone, Debug)]
pub struct NewCheck {
    pub check: AnyCheck,
    pub expectation: Expectation,
    /// Limit of checks for this phone number in the project, for this product. `None`: unlimited.
    pub number_limit: Option<NumberLimit>,
    pub idempotent_response: Option<IdempotentResponse>,
    /// The verification that begins with this check as its first step. `None`: the check is not the first step of one.
    pub verification: Option<Box<NewVerification>>,
}

/// A new verification, stored in the same transaction as the check of its first step.
#[derive(Clone, Debug)]
pub struct NewVerification {
    pub check: AnyCheck,
    /// Progress of the verification, with its first step open.
    pub progress: Progress,
    /// Encrypted input of the steps, such as the phone number.
    pub input: Sealed,
    /// Language of the hosted page. `None`: the browser's language.
    pub locale: Option<Locale>,
}

/// The event that a new check waits for.
#[derive(Clone, Debug)]
pub enum Expectation {
    Sms {
        receiver: Msisdn,
        code: CodeHash,
    },
    /// A device that opens the check's URL.
    Device {
        /// Encrypted input of the check, such as the claimed number.
        input: Sealed,
    },
    /// A device that opens the URL of a verification's silent step. To keep the creation of a verification cheap, no
    /// redirect session is stored yet:
    /// [`open_redirect_session`](super::verifications::VerificationStore::open_redirect_session) stores it when the
    /// device opens the URL. The session's input is then taken from the verification's input.
    DeviceOfStep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateCheckOutcome {
    Created,
    /// The limit of checks for this phone number is reached, and nothing was written. The next check is possible at
    /// `retry_at`.
    TooManyChecks {
        retry_at: Timestamp,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConcludeOutcome {
    Concluded {
        was_pending: bool,
    },
    /// Another request or node has already concluded the check, and nothing was written.
    AlreadyConcluded,
}

/// Details of a check's history that only the console shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckHistory {
    pub pending_at: Option<Timestamp>,
    /// The connector that received the check's last SMS.
    pub connector: Option<String>,
    /// The way that a concluded silent check took last. `None`: no device has begun it.
    pub way: Option<SilentWay>,
    /// Why the phone's wallet led to no verdict. `None`: it led to one, or was not asked.
    pub wallet_failure: Option<WalletFailure>,
    /// The error of the redirect over mobile data after which the wallet was left. `None`: there was no such error.
    pub redirect_error: Option<ErrorCode>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkedPending {
    pub project: ProjectId,
    pub product: Product,
    pub network: Option<NetworkId>,
    pub created_at: Timestamp,
    /// The verification of which the check is a step.
    pub verification: Option<CheckId>,
}

/// Query for a page of one product's checks in a project.
#[derive(Clone, Debug)]
pub struct CheckQuery {
    /// Workspace of the project. Each workspace can run only a few searches at the same time.
    pub workspace: WorkspaceId,
    pub project: ProjectId,
    pub product: Product,
    pub filter: Option<Filter>,
    /// Lists only checks created after this time.
    pub created_after: Option<Timestamp>,
    pub page: PageRequest,
}

/// A row that the transaction that creates a check also writes, and whose database server its key determines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompanionRow {
    /// The recent checks of a phone number, which are limited.
    NumberLimit(NumberHash),
    /// The response to a request with an idempotency key, by the digest of the key.
    IdempotencyKey([u8; 32]),
}

#[async_trait]
pub trait CheckStore: Send + Sync {
    /// Stores the check with its expectation, usage count and idempotent response in one transaction.
    ///
    /// The limit of checks for one phone number holds across nodes and concurrent requests. Rejected checks do not
    /// count towards it.
    async fn create_check(&self, new: NewCheck) -> Result<CreateCheckOutcome, StoreError>;

    /// Whether a check that is stored together with this row is stored faster in this bucket than in some others: one
    /// database server has the row and the rows of the bucket.
    fn are_colocated(&self, row: CompanionRow, bucket: ShardBucket) -> bool;

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

    /// Returns when a check became pending, and the connector that received its SMS. `None`: the check does not exist
    /// in the project.
    async fn find_check_history(
        &self,
        project: ProjectId,
        product: Product,
        id: CheckId,
    ) -> Result<Option<CheckHistory>, StoreError>;

    /// Finds a check by one of several codes. Prefers the first code whose check is open, and otherwise takes the first
    /// code that has a check.
    async fn find_check_by_code(&self, codes: Vec<CodeHash>) -> Result<Option<AnyCheck>, StoreError>;

    /// Finds the newest checks of a number in a project, of all products.
    async fn find_checks_by_number(
        &self,
        project: ProjectId,
        number: NumberHash,
        created_after: Option<Timestamp>,
        limit: u32,
    ) -> Result<Vec<AnyCheck>, StoreError>;

    /// Concludes a check if it is still open. Queues its callback, updates its usage count and deletes its redirect
    /// session in the same transaction.
    async fn conclude(
        &self,
        ending: CheckConclusion,
        callback: Option<NewCallback>,
    ) -> Result<ConcludeOutcome, StoreError>;

    /// Marks as pending all checks that are open, unexpired, and expect an SMS from this number to this receiver.
    /// Considers only checks that match `environment`: live checks, or those of one sandbox project. Records the
    /// connector. Returns the checks that were not pending before, and the verifications that they are steps of.
    async fn mark_pending(
        &self,
        environment: SmsEnvironment,
        number: NumberHash,
        receiver: &Msisdn,
        connector: &str,
        at: Timestamp,
    ) -> Result<Vec<MarkedPending>, StoreError>;

    /// Lists open checks of all projects whose deadline is at or before `now`, longest overdue first. A verification
    /// has the deadline of its current step, so the list contains the verification instead of the step. Several
    /// database servers share `limit`.
    async fn overdue_checks(
        &self,
        now: Timestamp,
        limit: u32,
        completeness: Completeness,
    ) -> Result<Vec<AnyCheck>, StoreError>;

    /// Like [`overdue_checks`](CheckStore::overdue_checks), for one project and product. If checks of the product can
    /// be steps, the list also contains the project's overdue verifications. The list is complete, or the call fails.
    async fn overdue_checks_of_project(
        &self,
        project: ProjectId,
        product: Product,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<AnyCheck>, StoreError>;

    /// Lists checks, newest first. If the filter allows it, takes totals and distant pages from the hourly counters.
    ///
    /// Other queries are searches, which must read more rows. A search uses database connections that are reserved for
    /// searches, and needs a permit from `limiter`. If the workspace already has as many searches as it may, the query
    /// fails with [`StoreError::TooManySearches`]. Queries past the deadline fail with
    /// [`StoreError::DeadlineExceeded`].
    async fn list_checks(&self, query: CheckQuery, limiter: &SearchLimiter) -> Result<Page<AnyCheck>, StoreError>;
}
