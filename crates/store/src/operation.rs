//! Frequent operations of the data plane. Each database runs them in batches: `postgres::batch_queue` and
//! `sqlite::writer`.

use std::future::Future;

use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::{
        AnyCheck, AnyVerdict, CheckConclusion, CheckId, CheckStatus, Concluded, Lifecycle, Sealed, Verdict as _,
    },
    network::NetworkId,
    phone::Msisdn,
    reverse_sms::NumberLimit,
    sign_in::SignInId,
    sim_swap::SimSwapVerdict,
    tenancy::ProjectId,
};
use ringtrue_engine::ports::{
    activity::UsageDelta,
    callbacks::{AttemptSettlement, NewCallback},
    checks::{ConcludeOutcome, CreateCheckOutcome, Expectation, NewCheck, NewVerification},
    hashes::{CodeHash, TokenHash},
    idempotency::{ClaimOutcome, IdempotencyClaim, IdempotentResponse},
    sign_in::{EndedSignIn, SignInCheck, SignInEnd, SignInRecord},
    silent::{BeginRedirect, SealedVerdict},
    store::StoreError,
};

use crate::row::Row;

/// An operation of one caller, with its parameters.
pub(crate) trait Operation: Send + Sync + 'static {
    type Output: Send + 'static;
}

/// Runs an operation in a batch with those of other callers.
pub(crate) trait Run<O: Operation>: Send + Sync + 'static {
    /// Runs an operation. Returns when its effect is durable.
    fn run(&self, operation: O) -> impl Future<Output = Result<O::Output, StoreError>> + Send;
}

impl Operation for AttemptSettlement {
    type Output = bool;
}

impl Operation for IdempotencyClaim {
    type Output = ClaimOutcome;
}

/// Inserts a new check, which is open or already concluded.
#[derive(Clone, Debug)]
pub(crate) struct InsertCheck {
    pub check: AnyCheck,
    /// What the check waits for: an SMS or a device. `None`: the check is already concluded.
    pub expectation: Option<Expectation>,
    pub number_limit: Option<NumberLimit>,
    pub idempotent_response: Option<IdempotentResponse>,
    /// The verification to insert together with the check, which is its first step. `None`: the check does not begin a
    /// verification.
    pub verification: Option<Box<NewVerification>>,
}

impl Operation for InsertCheck {
    type Output = CreateCheckOutcome;
}

impl InsertCheck {
    pub(crate) fn accepted(new: NewCheck) -> Self {
        let NewCheck { check, expectation, number_limit, idempotent_response, verification } = new;
        InsertCheck { check, expectation: Some(expectation), number_limit, idempotent_response, verification }
    }

    /// Inserts a check that is already concluded. Omits its number and its URLs, because nothing uses them any more.
    pub(crate) fn concluded(concluded: Concluded<AnyVerdict>, idempotent_response: Option<IdempotentResponse>) -> Self {
        let check = AnyCheck { claimed: None, callback_url: None, redirect_url: None, ..concluded.into_check() };
        InsertCheck { check, expectation: None, number_limit: None, idempotent_response, verification: None }
    }

    pub(crate) fn row(&self) -> CheckRow<'_> {
        let has_deadline = matches!(self.check.state, Lifecycle::Open(_)) && self.check.verification.is_none();
        CheckRow {
            check: &self.check,
            expectation: self.expectation.as_ref(),
            deadline: has_deadline.then_some(self.check.expires_at),
        }
    }

    /// Returns the row of the check and, if it begins a verification, the row of the verification.
    pub(crate) fn rows(&self) -> impl Iterator<Item = CheckRow<'_>> {
        let verification = self.verification.as_ref();
        let deadline = Some(self.check.expires_at);
        let verification = verification.map(|new| CheckRow { check: &new.check, expectation: None, deadline });
        [self.row()].into_iter().chain(verification)
    }
}

/// A new row of `checks`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckRow<'a> {
    pub check: &'a AnyCheck,
    pub expectation: Option<&'a Expectation>,
    /// When the check expires. `None`: the check is concluded, or is a step of a verification. In the second case, the
    /// row of the verification has the deadline of the step, so one row of `deadlines` is enough to find both.
    pub deadline: Option<Timestamp>,
}

impl<'a> CheckRow<'a> {
    pub(crate) fn concluded_at(&self) -> Option<Timestamp> {
        self.check.updated_at()
    }

    pub(crate) fn matched(&self) -> Option<bool> {
        self.check.verdict()?.matched()
    }

    pub(crate) fn error_code(&self) -> Option<&'static str> {
        self.check.error_code().map(|code| code.into_str())
    }

    pub(crate) fn sim_swap(&self) -> Option<SimSwapVerdict> {
        match self.check.verdict() {
            Some(AnyVerdict::Sim(swap)) => Some(*swap),
            _ => None,
        }
    }

    pub(crate) fn expected_sms(&self) -> Option<(&'a Msisdn, &'a CodeHash)> {
        match self.expectation {
            Some(Expectation::Sms { receiver, code }) => Some((receiver, code)),
            _ => None,
        }
    }

    /// The sealed (encrypted) input of a silent check, which is stored in its redirect session. `None`: no redirect
    /// session is inserted with this check.
    pub(crate) fn silent_input(&self) -> Option<&'a Sealed> {
        match self.expectation {
            Some(Expectation::Device { input }) => Some(input),
            _ => None,
        }
    }

    pub(crate) fn usage(&self) -> UsageDelta {
        UsageDelta {
            project: self.check.project,
            product: self.check.product,
            at: self.check.created_at,
            status: self.check.status(),
            matched: self.matched(),
            network: self.check.network.clone(),
            via: None,
            delta: 1,
        }
    }
}

/// Concludes a check, and inserts its callback, if any.
#[derive(Clone, Debug)]
pub(crate) struct ConcludeCheck {
    pub conclusion: CheckConclusion,
    pub callback: Option<NewCallback>,
}

impl Operation for ConcludeCheck {
    type Output = ConcludeOutcome;
}

impl ConcludeCheck {
    /// Returns the changes of the usage counters: one check less with its previous status, and one more with its final
    /// status. The previous status is pending if the check was ever pending.
    pub(crate) fn usage_changes(&self, before: &OpenCheck) -> [UsageDelta; 2] {
        let conclusion = &self.conclusion;
        let concluded = UsageDelta {
            project: conclusion.project,
            product: conclusion.product,
            at: conclusion.created_at,
            status: conclusion.status,
            matched: conclusion.matched,
            network: before.network.clone(),
            via: conclusion.provenance.way,
            delta: 1,
        };
        let status = if before.was_pending { CheckStatus::Pending } else { CheckStatus::Accepted };
        [UsageDelta { status, matched: None, via: None, delta: -1, ..concluded.clone() }, concluded]
    }
}

/// Columns of a check that was open, returned by the statement that concludes it. The check that the caller read
/// earlier may be stale: a redirect of the device may have changed the check's network since.
#[derive(Clone, Debug)]
pub(crate) struct OpenCheck {
    pub expires_at: Timestamp,
    pub was_pending: bool,
    pub network: Option<NetworkId>,
}

/// The columns that [`OpenCheck::from_row`] reads.
macro_rules! open_check_columns {
    () => {
        "checks.id, expires_at, pending_at, network_id"
    };
}
pub(crate) use open_check_columns;

impl OpenCheck {
    pub(crate) fn from_row(row: Row) -> Result<Self, StoreError> {
        let mut row = row.reader("checks");
        row.uuid("id")?;
        Ok(OpenCheck {
            expires_at: row.instant("expires_at")?,
            was_pending: row.instant_or_null("pending_at")?.is_some(),
            network: row.parsed_or_null("network_id")?,
        })
    }
}

/// Finds checks. The output has a row with the columns of each.
#[derive(Clone, Debug)]
pub(crate) enum FindCheck {
    ById(CheckId),
    /// Finds the check of each code. The rows of all are on one server, unless a shard has moved.
    ByCodes(Vec<CodeHash>),
    /// Finds a check with the columns of its redirect session. They are null if the check is concluded.
    WithRedirectSession(CheckId),
}

impl Operation for FindCheck {
    /// A row for the id, or for each code, in their order. `None`: there is no such check.
    type Output = Vec<Option<Row>>;
}

/// Changes the redirect session of a check. Each change has a condition, such as that no verdict is stored yet.
#[derive(Clone, Debug)]
pub(crate) enum RedirectOperation {
    Begin(BeginRedirect),
    /// Consumes the OAuth `state` with which a device returns from its operator. A `state` is valid once.
    ConsumeState {
        check: CheckId,
        state_hash: TokenHash,
    },
    StoreVerdict {
        check: CheckId,
        verdict: SealedVerdict,
    },
    /// Removes the verdict from the session, for a caller that may use it once.
    TakeVerdict(CheckId),
}

impl Operation for RedirectOperation {
    /// `None`: the condition did not hold, and nothing was written. The rows of
    /// [`ConsumeState`](RedirectOperation::ConsumeState) and [`TakeVerdict`](RedirectOperation::TakeVerdict) have the
    /// columns of the check, of its redirect session and of the pending redirect, as they were before.
    type Output = Option<Row>;
}

impl RedirectOperation {
    pub(crate) fn check(&self) -> CheckId {
        match self {
            RedirectOperation::Begin(redirect) => redirect.check,
            RedirectOperation::ConsumeState { check, .. }
            | RedirectOperation::StoreVerdict { check, .. }
            | RedirectOperation::TakeVerdict(check) => *check,
        }
    }
}

/// Writes a row of a sign-in. Each change of a stored sign-in has a condition.
#[derive(Clone, Debug)]
pub(crate) enum SignInOperation {
    Create(SignInRecord),
    /// Replaces the check of a sign-in that has not ended and whose check is `from`.
    ReplaceCheck {
        id: SignInId,
        from: Option<CheckId>,
        to: SignInCheck,
        number: Option<Sealed>,
    },
    /// Ends a sign-in that has not ended, inserts the session of the browser, and counts the sign-in.
    End(EndedSignIn),
    /// Redeems a code that has not expired and was not redeemed.
    Redeem {
        id: SignInId,
        at: Timestamp,
        expires_at: Timestamp,
    },
    /// Records the use of an assertion that was not used before.
    UseAssertion {
        assertion: TokenHash,
        expires_at: Timestamp,
    },
}

impl Operation for SignInOperation {
    /// `false`: the condition did not hold, and nothing was written.
    type Output = bool;
}

/// The columns of a sign-in that tell how it has ended.
#[derive(Clone, Copy, Default)]
pub(crate) struct SignInEndColumns<'a> {
    pub proof: Option<&'a Sealed>,
    pub code_expires_at: Option<Timestamp>,
    pub error: Option<&'a str>,
}

impl<'a> SignInEndColumns<'a> {
    /// `None`: the sign-in has not ended.
    pub(crate) fn new(end: Option<&'a SignInEnd>) -> Self {
        match end {
            Some(SignInEnd::Proven { proof, code_expires_at, .. }) => {
                SignInEndColumns { proof: Some(proof), code_expires_at: Some(*code_expires_at), error: None }
            }
            Some(SignInEnd::Failed { error }) => SignInEndColumns { error: Some(error), ..SignInEndColumns::default() },
            None => SignInEndColumns::default(),
        }
    }
}

/// Returns the changes of the usage counters when a redirect begins. `None`: the counters stay the same. `before` has
/// the columns `id, project_id, product, created_at, status, network_id` of the check before the redirect.
pub(crate) fn redirect_usage_changes(
    before: Row,
    redirect: &BeginRedirect,
) -> Result<Option<[UsageDelta; 2]>, StoreError> {
    let mut row = before.reader("checks");
    row.uuid("id")?;
    let before = UsageDelta {
        project: ProjectId(row.uuid("project_id")?),
        product: row.parsed("product")?,
        at: row.instant("created_at")?,
        status: row.parsed("status")?,
        matched: None,
        network: row.parsed_or_null::<NetworkId>("network_id")?,
        via: None,
        delta: -1,
    };
    let network = Some(redirect.network.clone());
    let after = UsageDelta { status: CheckStatus::Pending, network, delta: 1, ..before.clone() };
    let is_changed = (before.status, &before.network) != (after.status, &after.network);
    Ok(is_changed.then_some([before, after]))
}

/// Limits the number of checks for each project, product and phone number, by the creation times of recent checks.
///
/// The stored times are in ascending order: if the clock of a node is behind, its check is recorded with the newest
/// time that is already stored. Among any `max_checks + 1` admitted checks, the first and the last are therefore at
/// least one window apart.
pub(crate) mod number_limit {
    use jiff::Timestamp;
    use ringtrue_domain::reverse_sms::NumberLimit;

    pub(crate) fn window_millis(limit: NumberLimit) -> i64 {
        i64::from(limit.window_seconds) * 1_000
    }

    /// Returns the time until which the limit admits no further check. `instants` are the creation times that count
    /// towards the limit. `None`: the limit is not reached.
    pub(crate) fn blocked_until(limit: NumberLimit, instants: &[i64]) -> Option<Timestamp> {
        let max_checks = usize::try_from(limit.max_checks).unwrap_or(usize::MAX);
        let oldest_counted = instants.len().checked_sub(max_checks.max(1))?;
        let until = instants.get(oldest_counted)?.saturating_add(window_millis(limit));
        Timestamp::from_millisecond(until).ok()
    }

    /// Adds the creation time of an admitted check to `instants`, and keeps only the newest `max_checks` times.
    pub(crate) fn with_create(limit: NumberLimit, instants: &[i64], at: Timestamp) -> Vec<i64> {
        let at = at.as_millisecond();
        let kept = usize::try_from(limit.max_checks).unwrap_or(usize::MAX).saturating_sub(1);
        let mut next = instants[instants.len().saturating_sub(kept)..].to_vec();
        next.push(instants.last().map_or(at, |&newest| newest.max(at)));
        next
    }
}

#[cfg(test)]
mod tests {
    use super::{number_limit::*, *};

    const LIMIT: NumberLimit = NumberLimit { max_checks: 2, window_seconds: 10 };

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    #[test]
    fn oldest_counted_check_determines_when_limit_opens() {
        for (instants, until) in
            [(&[][..], None), (&[5_000], None), (&[5_000, 7_000], Some(15_000)), (&[1, 5_000, 7_000], Some(15_000))]
        {
            assert_eq!(blocked_until(LIMIT, instants), until.map(at), "{instants:?}");
        }
    }

    #[test]
    fn only_times_that_may_still_count_are_kept() {
        assert_eq!(with_create(LIMIT, &[], at(9)), [9]);
        assert_eq!(with_create(LIMIT, &[1, 5], at(9)), [5, 9]);
        assert_eq!(with_create(LIMIT, &[1, 5], at(3)), [5, 5], "clock is behind");
    }
}
