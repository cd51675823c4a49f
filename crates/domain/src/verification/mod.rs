//! Verifications: one request that verifies a number with the best method, and falls back to the next one
//! automatically.
//!
//! A verification is a check whose steps are ordinary checks of other products. [`Progress`] is the state machine of
//! its steps. At most one step is open. If a step ends without a verdict, the verification tries the next method, or
//! ends if no method is left.

pub mod funnel;
mod locale;
mod logo;
mod settings;

use jiff::Timestamp;
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

use crate::{
    lifecycle::{AlreadyConcluded, Check, CheckId, CheckOutcome, CheckStatus, Concluded, ErrorCode, Verdict},
    parse_error::default_error,
    product::Product,
    search::{Field, FieldKind},
    sim_swap::SimSwapPeriod,
};

pub use locale::{InvalidLocale, Locale};
pub use logo::{ImageFormat, InvalidLogo, LogoImage, LogoUrl, UploadedLogo};
pub use settings::{
    Brand, BrandName, BrandUrl, Colour, InvalidBrandName, InvalidBrandUrl, InvalidColour, InvalidVerificationTtl,
    VerificationSettings, VerificationTtl,
};

/// A way to verify a number. Each method uses one product. The variants are in the default order, which begins with the
/// method that needs no action by the end-user.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Display,
    EnumString,
    IntoStaticStr,
    VariantArray,
    strum::VariantNames,
)]
#[strum(serialize_all = "snake_case", const_into_str, parse_err_ty = InvalidMethod, parse_err_fn = default_error)]
pub enum Method {
    SecureSna,
    ReverseSms,
}

impl Method {
    /// Returns the product whose checks this method creates.
    pub fn product(self) -> Product {
        match self {
            Method::SecureSna => Product::SecureSna,
            Method::ReverseSms => Product::ReverseSms,
        }
    }

    /// Returns the method that uses a product. `None`: no method uses it.
    pub fn of_product(product: Product) -> Option<Method> {
        Method::VARIANTS.iter().copied().find(|method| method.product() == product)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("unknown method; use `secure_sna` or `reverse_sms`")]
pub struct InvalidMethod;

/// Selects the methods of a verification, in order. Takes those in the request, otherwise those in the project's
/// configuration, otherwise all. Leaves out repeated and ineligible methods.
pub fn select_methods(
    wanted: Option<&[Method]>,
    configured: Option<&[Method]>,
    is_eligible: impl Fn(Method) -> bool,
) -> Vec<Method> {
    let mut selected = Vec::new();
    for &method in wanted.or(configured).unwrap_or(Method::VARIANTS) {
        if !selected.contains(&method) && is_eligible(method) {
            selected.push(method);
        }
    }
    selected
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerificationVerdict {
    pub matched: bool,
    /// The method that gave the verdict.
    pub method: Method,
    /// Whether the SIM is unchanged. `None`: the client did not ask, or the operator could not answer.
    pub no_sim_change: Option<bool>,
}

impl Verdict for VerificationVerdict {
    fn matched(&self) -> Option<bool> {
        Some(self.matched)
    }

    fn verification_verdict(&self) -> Option<VerificationVerdict> {
        Some(*self)
    }
}

pub type VerificationCheck = Check<VerificationVerdict>;

impl Check<VerificationVerdict> {
    /// Concludes the verification with the outcome of its steps, even if the deadline has passed. A match stays a match
    /// if the operator did not answer the SIM Swap query in time.
    pub fn conclude_with_outcome(
        self,
        outcome: CheckOutcome<VerificationVerdict>,
        at: Timestamp,
    ) -> Result<Concluded<VerificationVerdict>, AlreadyConcluded> {
        match outcome {
            CheckOutcome::Expired => self.expire(),
            CheckOutcome::Completed(_) | CheckOutcome::Error(_) => self.conclude(outcome, at),
        }
    }
}

/// Fields that lists of verifications can be filtered by.
pub static SEARCH_FIELDS: [Field; 9] = [
    Field { name: "status", kind: FieldKind::Keyword(<CheckStatus as strum::VariantNames>::VARIANTS) },
    Field { name: "verified", kind: FieldKind::Boolean },
    Field { name: "no_sim_change", kind: FieldKind::Boolean },
    Field { name: "method", kind: FieldKind::Keyword(<Method as strum::VariantNames>::VARIANTS) },
    Field { name: "network_id", kind: FieldKind::Text },
    Field { name: "error_code", kind: FieldKind::Text },
    Field { name: "reference_id", kind: FieldKind::Text },
    Field { name: "created_at", kind: FieldKind::Instant },
    Field { name: "updated_at", kind: FieldKind::Instant },
];

/// How an end-user ends a verification on the hosted page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserEnd {
    /// The end-user cannot use any method, for example because the phone cannot send an SMS.
    GivenUp,
    /// The end-user says that the number is not theirs.
    WrongNumber,
}

impl UserEnd {
    pub fn error_code(self) -> ErrorCode {
        match self {
            UserEnd::GivenUp => ErrorCode::GivenUp,
            UserEnd::WrongNumber => ErrorCode::WrongNumber,
        }
    }
}

/// One step of a verification: a check of a method, or the SIM Swap check at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub product: Product,
    /// Check of the step. `None`: the check could not be created.
    pub check: Option<CheckId>,
    pub state: StepState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepState {
    Open,
    Completed {
        /// For SIM Swap: whether the SIM is unchanged.
        matched: bool,
    },
    Expired,
    Error(ErrorCode),
}

impl StepState {
    /// Returns the final status of the step's check. `None`: the step is open, and the status of its check may be
    /// accepted or pending.
    pub fn ended_status(self) -> Option<CheckStatus> {
        match self {
            StepState::Open => None,
            StepState::Completed { .. } => Some(CheckStatus::Completed),
            StepState::Expired => Some(CheckStatus::Expired),
            StepState::Error(_) => Some(CheckStatus::Error),
        }
    }

    pub fn error_code(self) -> Option<ErrorCode> {
        match self {
            StepState::Error(code) => Some(code),
            _ => None,
        }
    }
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepEnd {
    /// A verdict: whether the number matches. For SIM Swap: whether the SIM is unchanged.
    Verdict(bool),
    Expired,
    Error(ErrorCode),
}

impl<V: Verdict> From<&CheckOutcome<V>> for StepEnd {
    fn from(outcome: &CheckOutcome<V>) -> Self {
        match outcome {
            CheckOutcome::Completed(verdict) => {
                verdict.matched().map_or(StepEnd::Error(ErrorCode::InternalError), StepEnd::Verdict)
            }
            CheckOutcome::Expired => StepEnd::Expired,
            CheckOutcome::Error(code) => StepEnd::Error(*code),
        }
    }
}

/// What a verification does after a step has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// Creates a check of this method.
    Start(Method),
    /// Asks the operator about SIM changes within the period.
    AskSimSwap(SimSwapPeriod),
    End(CheckOutcome<VerificationVerdict>),
}

/// The steps of a verification so far, and the settings that decide what follows. It contains no personal data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The selected methods, in order.
    pub methods: Vec<Method>,
    /// Steps in order. Only the last one may be open.
    pub steps: Vec<Step>,
    pub fall_back_on_mismatch: bool,
    pub sim_swap_period: Option<SimSwapPeriod>,
}

impl Progress {
    /// Returns the progress of a verification without steps. Its first step will use the first method.
    pub fn new(methods: Vec<Method>, fall_back_on_mismatch: bool, sim_swap_period: Option<SimSwapPeriod>) -> Self {
        Progress { methods, steps: vec![], fall_back_on_mismatch, sim_swap_period }
    }

    /// Returns the product and the check of the open step. `None`: no step is open.
    pub fn open_step(&self) -> Option<(Product, CheckId)> {
        let step = self.steps.last().filter(|step| step.state == StepState::Open)?;
        Some((step.product, step.check?))
    }

    /// Whether the open step follows one that was given up.
    pub fn follows_given_up_step(&self) -> bool {
        matches!(self.steps.as_slice(), [.., before, _] if before.state == StepState::Error(ErrorCode::GivenUp))
    }

    /// Whether the last step was given up, by itself or because the whole verification ended.
    pub fn ends_with_given_up_step(&self) -> bool {
        self.steps.last().is_some_and(|last| last.state == StepState::Error(ErrorCode::GivenUp))
    }

    /// Returns the check of the last Secure SNA step with a verdict. If a redirect code (with which a device returns
    /// from the operator) was redeemed, it belonged to this check.
    pub fn redeemed_step(&self) -> Option<CheckId> {
        let is_redeemed =
            |step: &&Step| step.product == Product::SecureSna && matches!(step.state, StepState::Completed { .. });
        self.steps.iter().rev().find(is_redeemed)?.check
    }

    /// Whether a Secure SNA step has ended. It is then too late to redeem the code with which its device returned from
    /// the operator.
    pub fn has_ended_silent_step(&self) -> bool {
        self.steps.iter().any(|step| step.product == Product::SecureSna && step.state != StepState::Open)
    }

    /// Returns the methods that were not tried yet, in order.
    pub fn remaining_methods(&self) -> impl Iterator<Item = Method> {
        let is_tried = |method: &Method| self.steps.iter().any(|step| step.product == method.product());
        self.methods.iter().copied().filter(move |method| !is_tried(method))
    }

    /// Adds an open step with its check. Fails if another step is open.
    pub fn begin_step(mut self, product: Product, check: CheckId) -> Result<Self, AlreadyConcluded> {
        if self.open_step().is_some() {
            return Err(AlreadyConcluded);
        }
        self.steps.push(Step { product, check: Some(check), state: StepState::Open });
        Ok(self)
    }

    /// Ends the open step, and returns what follows. After the verification's TTL, no further method is tried: the
    /// verification expires, unless the step has decided it.
    pub fn end_step(mut self, end: StepEnd, is_past_ttl: bool) -> Result<(Self, Move), AlreadyConcluded> {
        let Some(step) = self.steps.last_mut().filter(|step| step.state == StepState::Open) else {
            return Err(AlreadyConcluded);
        };
        step.state = match end {
            StepEnd::Verdict(matched) => StepState::Completed { matched },
            StepEnd::Expired => StepState::Expired,
            StepEnd::Error(code) => StepState::Error(code),
        };
        let next = self.next_move(is_past_ttl);
        Ok((self, next))
    }

    /// Ends the open step because the whole verification ends: the client cancelled it, or the end-user ended it.
    pub fn abandon_step(mut self) -> Result<Self, AlreadyConcluded> {
        let Some(step) = self.steps.last_mut().filter(|step| step.state == StepState::Open) else {
            return Err(AlreadyConcluded);
        };
        step.state = StepState::Error(ErrorCode::GivenUp);
        Ok(self)
    }

    /// Records that the check of a method could not be created, and returns what follows.
    #[must_use]
    pub fn record_creation_failure(mut self, method: Method, code: ErrorCode, is_past_ttl: bool) -> (Self, Move) {
        self.steps.push(Step { product: method.product(), check: None, state: StepState::Error(code) });
        let next = self.next_move(is_past_ttl);
        (self, next)
    }

    /// Decides what follows the last step, which has ended.
    fn next_move(&self, is_past_ttl: bool) -> Move {
        let Some(last) = self.steps.last() else { return self.next_method_or_end(is_past_ttl) };
        match (Method::of_product(last.product), last.state) {
            (Some(method), StepState::Completed { matched: true }) => match self.sim_swap_period {
                Some(period) => Move::AskSimSwap(period),
                None => end_with_verdict(true, method, None),
            },
            (Some(Method::ReverseSms), StepState::Completed { matched: false })
                if !is_past_ttl && self.may_text_again() =>
            {
                Move::Start(Method::ReverseSms)
            }
            (Some(method), StepState::Completed { matched: false }) if self.is_verdict_on_mismatch(method) => {
                end_with_verdict(false, method, None)
            }
            (Some(_), _) => self.next_method_or_end(is_past_ttl),
            // The last step is the SIM Swap step.
            (None, state) => match self.matching_method() {
                Some(method) => end_with_verdict(true, method, unchanged_sim(state)),
                None => Move::End(CheckOutcome::Error(ErrorCode::InternalError)),
            },
        }
    }

    /// Whether a mismatch of Reverse SMS leads to a second Reverse SMS step. A phone with two SIMs may have sent the
    /// first SMS from the wrong one.
    fn may_text_again(&self) -> bool {
        self.steps.iter().filter(|step| step.product == Product::ReverseSms).count() == 1
    }

    /// Whether a mismatch of this method is the verdict of the verification. A phone with two SIMs may use the other
    /// one for mobile data, so projects can choose to try the next method after a mismatch of Secure SNA.
    fn is_verdict_on_mismatch(&self, method: Method) -> bool {
        method != Method::SecureSna || !self.fall_back_on_mismatch
    }

    fn next_method_or_end(&self, is_past_ttl: bool) -> Move {
        match self.remaining_methods().next() {
            _ if is_past_ttl => Move::End(CheckOutcome::Expired),
            Some(method) => Move::Start(method),
            None => Move::End(CheckOutcome::Error(ErrorCode::MethodsExhausted)),
        }
    }

    /// Returns the method that matched before the SIM Swap step.
    fn matching_method(&self) -> Option<Method> {
        let is_match = |step: &&Step| step.state == StepState::Completed { matched: true };
        self.steps.iter().filter(is_match).find_map(|step| Method::of_product(step.product))
    }
}

fn end_with_verdict(matched: bool, method: Method, no_sim_change: Option<bool>) -> Move {
    Move::End(CheckOutcome::Completed(VerificationVerdict { matched, method, no_sim_change }))
}

fn unchanged_sim(state: StepState) -> Option<bool> {
    match state {
        StepState::Completed { matched } => Some(matched),
        StepState::Open | StepState::Expired | StepState::Error(_) => None,
    }
}

#[cfg(test)]
mod tests;
