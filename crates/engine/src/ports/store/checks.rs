//! Checks: creation, lookup, conclusion, listing, redirect sessions, and erasure of personal data.
//!
//! A redirect session is a row beside its check, from creation to conclusion. Each step is a conditional write: a
//! `state` is consumed once, and the operator's verdict is stored once.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    audit::AuditEvent,
    lifecycle::{AnyCheck, AnyVerdict, Bucket, CheckConclusion, CheckId, Concluded, NumberHash, Sealed},
    network::NetworkId,
    page::{Page, PageRequest},
    phone::Msisdn,
    product::Product,
    reverse_sms::{NumberLimit, SmsOrigin},
    search::Filter,
    tenancy::{ProjectId, WorkspaceId},
};

use super::{IdempotentResponse, NewVerification, StoreError, TenantLookup};
use crate::ports::search_limit::SearchLimiter;

/// A keyed hash of a code and its receiver.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Debug)]
#[debug("CodeHash(…)")]
pub struct CodeHash(pub [u8; 32]);

impl CodeHash {
    /// The bucket of the check with this code.
    pub fn bucket(self) -> Bucket {
        let [.., high, low] = self.0;
        Bucket::of([high, low])
    }
}

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
    /// [`VerificationStore::open_redirect_session`](super::VerificationStore::open_redirect_session): most of the input
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

/// The callback of a check, written in the transaction of its conclusion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCallback {
    pub url: Sealed,
    /// Every attempt sends these bytes.
    pub body: Sealed,
    /// Due time of the first attempt. A future instant is a lease of the writing node, which sends immediately.
    pub due_at: Timestamp,
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

/// A keyed hash of a secret: OAuth `state`, redemption code, session token or link token.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, derive_more::Debug)]
#[debug("TokenHash(…)")]
pub struct TokenHash(pub [u8; 32]);

/// A check with its redirect session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedirectSessionRecord {
    pub check: AnyCheck,
    /// `None` after the conclusion of the check.
    pub session: Option<RedirectSession>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedirectSession {
    pub input: Sealed,
    /// Of the last redirect, until its `state` is consumed.
    pub state_hash: Option<TokenHash>,
    pub verdict: Option<SealedVerdict>,
    pub wrong_codes: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedVerdict {
    pub code_hash: TokenHash,
    pub verdict: Sealed,
}

/// A device is redirected to its operator.
#[derive(Clone, Debug)]
pub struct BeginRedirect {
    pub check: CheckId,
    pub network: NetworkId,
    pub state_hash: TokenHash,
    /// Sealed data for the return of the device.
    pub pending_redirect: Sealed,
    pub at: Timestamp,
}

/// The result of a consumed `state`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumedState {
    pub record: RedirectSessionRecord,
    pub pending_redirect: Sealed,
}

#[async_trait]
pub trait RedirectSessionStore: Send + Sync {
    /// Finds a check without a tenant: devices authenticate with the URL of the check.
    async fn redirect_session(&self, check: CheckId) -> Result<Option<RedirectSessionRecord>, StoreError>;

    /// Marks the check as pending on a network, and replaces any earlier `state`. `false`: the check is concluded or
    /// has a verdict.
    async fn begin_redirect(&self, redirect: BeginRedirect) -> Result<bool, StoreError>;

    /// Consumes a `state`. `None`: it is invalid.
    ///
    /// Not durable on return: a crash before the next step of the check may undo it.
    async fn consume_state(&self, check: CheckId, state: TokenHash) -> Result<Option<ConsumedState>, StoreError>;

    /// Stores the operator's verdict. `false`: the check is concluded or has a verdict.
    async fn store_verdict(&self, check: CheckId, verdict: SealedVerdict) -> Result<bool, StoreError>;

    /// Counts a wrong code. Returns the total, or `None` if the check is concluded.
    async fn count_wrong_code(&self, check: CheckId) -> Result<Option<u32>, StoreError>;
}

/// Numbers of erased records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErasureCounts {
    pub checks: u64,
    pub callbacks: u64,
    pub attempts: u64,
    /// Records that are still needed and erased later.
    pub deferred: Option<DeferredErasure>,
}

/// Erasure deferred until open checks conclude.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeferredErasure {
    pub checks: u64,
    /// Latest deadline of these checks.
    pub until: Timestamp,
}

impl ErasureCounts {
    /// Details of the audit event: deferred erasures.
    pub fn audit_details(&self) -> Vec<String> {
        self.deferred.map_or_else(Vec::new, |deferred| {
            vec![format!("open_checks={}", deferred.checks), format!("open_until={:.3}", deferred.until)]
        })
    }
}

#[async_trait]
pub trait PrivacyStore: Send + Sync {
    /// Erases the data of a number: its hash and tail in concluded checks, their redirect and callback URLs, and the
    /// bodies and logs of their callbacks. Data of open checks and undelivered callbacks is still needed: its erasure
    /// is deferred. Writes the audit event in the same transaction, with the number of open checks.
    async fn erase_number(&self, number: NumberHash, audit: &AuditEvent) -> Result<ErasureCounts, StoreError>;

    /// Performs deferred erasures of [`erase_number`](PrivacyStore::erase_number) whose checks have concluded and whose
    /// callbacks were delivered or given up.
    async fn erase_deferred(&self, limit: u32) -> Result<ErasureCounts, StoreError>;

    /// Erases the same data of checks that discovered a number and concluded before `ended_before`.
    async fn erase_discovered_numbers(&self, ended_before: Timestamp, limit: u32) -> Result<ErasureCounts, StoreError>;

    /// Erases the same data of checks that concluded before `ended_before`.
    async fn erase_old_checks(&self, ended_before: Timestamp, limit: u32) -> Result<ErasureCounts, StoreError>;
}
