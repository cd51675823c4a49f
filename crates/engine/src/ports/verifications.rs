//! Store port for verifications, which run checks of other products as their steps.
//!
//! A verification is stored as a check, and as a second row that names the check of the current step. Every transition
//! is one conditional write: it names the step that it ends, and writes nothing if another request has already ended
//! that step.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::{AnyCheck, AnyVerdict, CheckConclusion, CheckId, CheckStatus, Concluded, NumberHash, Sealed},
    product::Product,
    reverse_sms::{NumberLimit, Platform},
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
    /// Id of the current step's check, or of the last step's after the end. A SIM Swap step's check is stored only when
    /// the step ends.
    pub step: CheckId,
    pub progress: Progress,
    /// Encrypted input of the steps. `None`: the verification has ended.
    pub input: Option<Sealed>,
    /// When the completion code was redeemed. `None`: not yet.
    pub code_redeemed_at: Option<Timestamp>,
    /// Hash of the redeemed code: the completion code after Reverse SMS, or the code that the device got when it
    /// returned from its operator (Secure SNA). `None`: no code was redeemed.
    pub code_hash: Option<TokenHash>,
    /// Language of the hosted page. `None`: the browser's language.
    pub locale: Option<Locale>,
    /// `None`: the hosted page was not opened yet.
    pub opening: Option<PageOpening>,
}

/// When the hosted page was first opened, and on which platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageOpening {
    pub at: Timestamp,
    pub platform: Platform,
}

/// A verification's steps, for lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedProgress {
    pub verification: CheckId,
    pub progress: Progress,
    /// Status of the current step's check. `None`: the check is not stored yet.
    pub step_status: Option<CheckStatus>,
}

/// A transition of a verification: ends the current step, and starts the next one or concludes the verification.
#[derive(Clone, Debug)]
pub struct Advance {
    pub verification: CheckId,
    /// Check of the step that ends. If it is not the current step, nothing is written.
    pub from: CheckId,
    /// Deadline of the ending step. The verification has the same deadline while the step is open.
    pub deadline: Timestamp,
    pub ended: EndedStep,
    /// Progress of the verification after this transition.
    pub progress: Progress,
    pub to: AdvanceTo,
    pub at: Timestamp,
    pub options: AdvanceOptions,
}

#[derive(Clone, Debug, Default)]
pub struct AdvanceOptions {
    /// Writes nothing if the step's redirect session already has a verdict, because a verdict takes precedence over
    /// giving up.
    pub unless_verdict: bool,
    /// Replaces the verification's encrypted input. `None`: the next step uses the same input.
    pub input: Option<Sealed>,
    /// Creates the next check even if the limit of checks for its phone number is reached. The check still counts
    /// towards the limit.
    pub ignores_number_limit: bool,
    /// Response to the request that ends the step, stored under that request's idempotency key.
    pub idempotent_response: Option<IdempotentResponse>,
}

/// What a transition stores about the check of the ending step.
#[derive(Clone, Debug)]
pub enum EndedStep {
    /// Stores the conclusion of the check.
    Concluded(CheckConclusion),
    /// Stores the SIM Swap check, which is already concluded.
    Created(Box<Concluded<AnyVerdict>>),
    /// Stores nothing. The check is already concluded, or the step is a SIM Swap step without a result, which has no
    /// check.
    Unchanged,
}

#[derive(Clone, Debug)]
pub enum AdvanceTo {
    /// Starts a step with this check. The verification becomes pending.
    Step(Box<NewCheck>),
    /// Starts a SIM Swap step, whose check is stored later. The verification becomes pending, with a new deadline.
    SimSwap { check: CheckId, deadline: Timestamp },
    /// Concludes the verification, and erases its input.
    End { conclusion: CheckConclusion, callback: Option<NewCallback> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdvanceOutcome {
    Advanced {
        /// Whether the step's check was pending before its end.
        step_was_pending: bool,
        /// Whether the verification was pending before the transition.
        was_pending: bool,
    },
    /// Another request or node has already ended the step, or the step has a verdict (see
    /// [`AdvanceOptions::unless_verdict`]). Nothing was written.
    Lost,
    /// The limit of checks for the phone number is reached, so the next check is refused. Nothing was written.
    TooManyChecks,
}

/// The state that a verification's hosted page shows. It changes whenever the page may have to show something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageVersion {
    pub step: CheckId,
    pub status: CheckStatus,
    /// `None`: the step's check is not stored yet.
    pub step_status: Option<CheckStatus>,
    /// Whether the redirect session has the operator's verdict.
    pub has_verdict: bool,
}

/// The redirect session of a silent step, stored when the device opens the step's URL.
#[derive(Clone, Debug)]
pub struct NewRedirectSession {
    pub verification: CheckId,
    pub step: CheckId,
    /// Encrypted input of the step.
    pub input: Sealed,
    pub at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedSession {
    /// The verification, if opening the session marked it as pending. `None`: it was already pending.
    pub pending: Option<MarkedPending>,
}

/// Query for the products that accept no more checks of a phone number in a project.
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
    /// Finds a verification by id alone. Takes no tenant, because end-users authenticate with the hosted page's token.
    async fn find_verification(&self, id: CheckId) -> Result<Option<VerificationRecord>, StoreError>;

    /// Returns the progress of several verifications, in any order.
    async fn verification_progress(&self, ids: Vec<CheckId>) -> Result<Vec<ListedProgress>, StoreError>;

    /// Returns the page versions of several verifications, in any order. Leaves out those of a database server that
    /// does not respond. Fails if no server responds.
    async fn page_versions(&self, ids: Vec<CheckId>) -> Result<Vec<(CheckId, PageVersion)>, StoreError>;

    /// Ends the current step, and starts the next one or concludes the verification, in one transaction. If the step's
    /// verdict was given by redeeming a code, stores the hash of that code with the verification.
    async fn advance(&self, advance: Advance) -> Result<AdvanceOutcome, StoreError>;

    /// Stores the redirect session of a silent step, unless the step already has one, and marks the verification as
    /// pending. `None`: the step is concluded.
    async fn open_redirect_session(&self, session: NewRedirectSession) -> Result<Option<OpenedSession>, StoreError>;

    /// Returns the products whose limit of checks for this phone number is reached, each with the time when the next
    /// check is admitted.
    async fn reached_number_limits(&self, query: NumberLimitQuery) -> Result<Vec<(Product, Timestamp)>, StoreError>;

    /// Records the first opening of the hosted page. `false`: the page was opened before.
    async fn record_opening(&self, id: CheckId, opening: PageOpening) -> Result<bool, StoreError>;

    /// Records that the completion code was redeemed, with its hash. `false`: it was already redeemed.
    async fn redeem_completion_code(&self, id: CheckId, code: TokenHash, at: Timestamp) -> Result<bool, StoreError>;
}
