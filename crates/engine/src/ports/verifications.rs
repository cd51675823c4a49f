//! Verifications: checks whose steps are checks of other products.
//!
//! A verification is stored as a check with a row beside it, which names the check of the current step. Every move is
//! one conditional write: it names the step that it ends, and writes nothing if another request has ended it before.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::{AnyCheck, AnyVerdict, CheckConclusion, CheckId, CheckStatus, Concluded, NumberHash, Sealed},
    product::Product,
    reverse_sms::NumberLimit,
    tenancy::ProjectId,
    verification::{Locale, Progress},
};

use super::{
    callbacks::NewCallback,
    checks::{MarkedPending, NewCheck},
    hashes::TokenHash,
    idempotency::IdempotentResponse,
    store::StoreError,
};

/// A stored verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerificationRecord {
    pub check: AnyCheck,
    /// The check of the current step, or of the last one. The check of a SIM Swap step is stored at its end.
    pub step: CheckId,
    pub progress: Progress,
    /// `None` after the end.
    pub input: Option<Sealed>,
    /// When the completion code was redeemed.
    pub code_redeemed_at: Option<Timestamp>,
    /// Hash of the redeemed code: the completion code, or the redirect code that gave the verdict of a Secure SNA step.
    pub code_hash: Option<TokenHash>,
    /// Language of the hosted page. `None`: that of the browser.
    pub locale: Option<Locale>,
}

/// The steps of a verification, for lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedProgress {
    pub verification: CheckId,
    pub progress: Progress,
    /// Status of the check of the current step. `None`: it has no check yet.
    pub step_status: Option<CheckStatus>,
}

/// The end of a step, and what follows it.
#[derive(Clone, Debug)]
pub struct Advance {
    pub verification: CheckId,
    /// The step that ends. If it is not the current one, nothing is written.
    pub from: CheckId,
    /// The deadline of this step, which is that of the verification meanwhile.
    pub deadline: Timestamp,
    pub ended: EndedStep,
    /// The progress afterwards.
    pub progress: Progress,
    pub to: AdvanceTo,
    pub at: Timestamp,
    pub options: AdvanceOptions,
}

#[derive(Clone, Debug, Default)]
pub struct AdvanceOptions {
    /// Writes nothing if the redirect session of the step holds a verdict: a verdict wins over giving up.
    pub unless_verdict: bool,
    /// Replaces the sealed input, for a step that needs another one.
    pub input: Option<Sealed>,
    /// The next check counts for its number, but is not refused.
    pub ignores_number_limit: bool,
    /// Response to the request that ends the step.
    pub idempotent_response: Option<IdempotentResponse>,
}

/// What is stored about the step that ends.
#[derive(Clone, Debug)]
pub enum EndedStep {
    /// The conclusion of its check.
    Concluded(CheckConclusion),
    /// The SIM Swap check, which is stored already concluded.
    Created(Box<Concluded<AnyVerdict>>),
    /// Nothing: its check is concluded already, or it is a SIM Swap step without a result, which has no check.
    Unchanged,
}

#[derive(Clone, Debug)]
pub enum AdvanceTo {
    /// The next check. The verification becomes pending.
    Step(Box<NewCheck>),
    /// A SIM Swap step. The verification becomes pending, with a new deadline.
    SimSwap { check: CheckId, deadline: Timestamp },
    /// Erases the input.
    End { conclusion: CheckConclusion, callback: Option<NewCallback> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdvanceOutcome {
    Advanced {
        /// Whether the step was pending before its end.
        step_was_pending: bool,
        /// Whether the verification was pending before.
        was_pending: bool,
    },
    /// Another request or node has ended the step, or it has a verdict (see [`AdvanceOptions::unless_verdict`]), and
    /// nothing was written.
    Lost,
    /// The number limit of the next check is reached, and nothing was written.
    TooManyChecks,
}

/// Changes whenever the hosted page of a verification may show something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageVersion {
    pub step: CheckId,
    pub status: CheckStatus,
    /// `None`: the step has no check yet.
    pub step_status: Option<CheckStatus>,
    /// Whether the operator has answered the device.
    pub has_verdict: bool,
}

/// The redirect session of a step whose device has opened its URL.
#[derive(Clone, Debug)]
pub struct NewRedirectSession {
    pub verification: CheckId,
    pub step: CheckId,
    /// Sealed input of the step.
    pub input: Sealed,
    pub at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedSession {
    /// The verification, if it was not pending before.
    pub pending: Option<MarkedPending>,
}

/// Asks for the limits of a number in a project.
#[derive(Clone, Debug)]
pub struct NumberLimitQuery {
    pub project: ProjectId,
    pub number: NumberHash,
    pub products: Vec<Product>,
    pub limit: NumberLimit,
    pub at: Timestamp,
}

#[async_trait]
pub trait VerificationStore: Send + Sync {
    /// Finds a verification without a tenant: end-users authenticate with the token of the hosted page.
    async fn find_verification(&self, id: CheckId) -> Result<Option<VerificationRecord>, StoreError>;

    /// The progress of several verifications, in any order.
    async fn verification_progress(&self, ids: Vec<CheckId>) -> Result<Vec<ListedProgress>, StoreError>;

    /// The page versions of several verifications, in any order.
    async fn page_versions(&self, ids: Vec<CheckId>) -> Result<Vec<(CheckId, PageVersion)>, StoreError>;

    /// Ends the current step, and starts the next one or concludes the verification, in one transaction. The hash of the
    /// code that was redeemed for a verdict stays with the verification.
    async fn advance(&self, advance: Advance) -> Result<AdvanceOutcome, StoreError>;

    /// Stores the redirect session of a silent step, unless it has one, and marks the verification as pending. `None`:
    /// the step is concluded.
    async fn open_redirect_session(&self, session: NewRedirectSession) -> Result<Option<OpenedSession>, StoreError>;

    /// The products whose limit of checks for a number is reached, and when the next check is admitted.
    async fn reached_number_limits(&self, query: NumberLimitQuery) -> Result<Vec<(Product, Timestamp)>, StoreError>;

    /// Records that the completion code was redeemed, and its hash. `false`: it already was.
    async fn redeem_completion_code(&self, id: CheckId, code: TokenHash, at: Timestamp) -> Result<bool, StoreError>;
}
