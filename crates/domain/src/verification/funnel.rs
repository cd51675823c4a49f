//! The funnel of a project's verifications: the stages that they reach, and why they are lost on the way.
//!
//! A verification is counted when a step ends or the hosted page is opened. [`events_of_transition`] derives the events
//! from the progress before and after, so that each stage is counted once without being stored.

use std::{fmt, str::FromStr};

use strum::{Display, EnumString, IntoStaticStr, VariantArray};

use super::{Method, Progress, Step, StepState, VerificationVerdict};
use crate::{
    lifecycle::{CheckOutcome, ErrorCode},
    parse_error::default_error,
    product::Product,
};

/// A stage of the funnel, in order. A verification may leave stages out: a computer cannot try the silent check, and
/// after a silent match no SMS is shown.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Display, EnumString, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "snake_case", const_into_str, parse_err_ty = InvalidFunnelEvent, parse_err_fn = default_error)]
pub enum FunnelStage {
    Created,
    /// The hosted page was opened.
    Opened,
    SilentTried,
    /// The end-user was told what to text.
    SmsShown,
    SmsSent,
}

/// Why a verification, or its silent check, ended without a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LossReason {
    NoMatch,
    Expired,
    Error(ErrorCode),
}

impl LossReason {
    pub fn into_str(self) -> &'static str {
        match self {
            LossReason::NoMatch => "no_match",
            LossReason::Expired => "expired",
            LossReason::Error(code) => code.into_str(),
        }
    }

    /// Whether the end-user stopped, rather than a check or the client.
    pub fn is_given_up(self) -> bool {
        match self {
            LossReason::Expired | LossReason::Error(ErrorCode::GivenUp | ErrorCode::WrongNumber) => true,
            LossReason::NoMatch | LossReason::Error(_) => false,
        }
    }
}

impl FromStr for LossReason {
    type Err = InvalidFunnelEvent;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "no_match" => Ok(LossReason::NoMatch),
            "expired" => Ok(LossReason::Expired),
            code => code.parse().map(LossReason::Error).map_err(|_| InvalidFunnelEvent),
        }
    }
}

/// An event in the life of a verification that the funnel counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FunnelEvent {
    Reached(FunnelStage),
    Verified(Method),
    /// The silent check was tried and ended without a match. The verification may continue with an SMS.
    SilentEnded(LossReason),
    /// The verification ended without a match. `stage` is the last one that it reached.
    Lost {
        stage: FunnelStage,
        reason: LossReason,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("unknown event of the verification funnel")]
pub struct InvalidFunnelEvent;

impl fmt::Display for FunnelEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FunnelEvent::Reached(stage) => write!(f, "reached:{stage}"),
            FunnelEvent::Verified(method) => write!(f, "verified:{method}"),
            FunnelEvent::SilentEnded(reason) => write!(f, "silent_ended:{}", reason.into_str()),
            FunnelEvent::Lost { stage, reason } => write!(f, "lost:{stage}:{}", reason.into_str()),
        }
    }
}

impl FromStr for FunnelEvent {
    type Err = InvalidFunnelEvent;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (kind, rest) = text.split_once(':').ok_or(InvalidFunnelEvent)?;
        match kind {
            "reached" => rest.parse().map(FunnelEvent::Reached),
            "verified" => rest.parse().map(FunnelEvent::Verified).map_err(|_| InvalidFunnelEvent),
            "silent_ended" => rest.parse().map(FunnelEvent::SilentEnded),
            "lost" => {
                let (stage, reason) = rest.split_once(':').ok_or(InvalidFunnelEvent)?;
                Ok(FunnelEvent::Lost { stage: stage.parse()?, reason: reason.parse()? })
            }
            _ => Err(InvalidFunnelEvent),
        }
    }
}

/// Counts of the events of a project's verifications in a time span.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Funnel(pub Vec<(FunnelEvent, i64)>);

impl Funnel {
    pub fn count_reached(&self, stage: FunnelStage) -> i64 {
        self.sum(|event| event == FunnelEvent::Reached(stage))
    }

    pub fn count_verified(&self, method: Method) -> i64 {
        self.sum(|event| event == FunnelEvent::Verified(method))
    }

    /// Counts verifications whose end-user opened the page, and then gave up or did not finish in time.
    pub fn count_given_up(&self) -> i64 {
        self.sum(|event| match event {
            FunnelEvent::Lost { stage, reason } => stage != FunnelStage::Created && reason.is_given_up(),
            _ => false,
        })
    }

    /// Returns why verifications got no further than `stage`, most frequent reason first. For the silent check, returns
    /// why it ended without a match, even if the verification continued with an SMS.
    pub fn losses(&self, stage: FunnelStage) -> Vec<(LossReason, i64)> {
        let reason = |event: FunnelEvent| match event {
            FunnelEvent::SilentEnded(reason) if stage == FunnelStage::SilentTried => Some(reason),
            FunnelEvent::Lost { stage: at, reason } if at == stage && stage != FunnelStage::SilentTried => Some(reason),
            _ => None,
        };
        let mut losses: Vec<_> = self.0.iter().filter_map(|(event, count)| Some((reason(*event)?, *count))).collect();
        losses.sort_by_key(|(reason, count)| (std::cmp::Reverse(*count), *reason));
        losses
    }

    fn sum(&self, is_counted: impl Fn(FunnelEvent) -> bool) -> i64 {
        self.0.iter().filter(|(event, _)| is_counted(*event)).map(|(_, count)| count).sum()
    }
}

/// A transition of a verification: its current step ends, and then another step begins or the verification ends.
#[derive(Clone, Copy, Debug)]
pub struct Transition<'t> {
    /// The verification before the transition, whose last step is open.
    pub before: &'t Progress,
    pub after: &'t Progress,
    /// Whether the hosted page was opened before.
    pub is_opened: bool,
    /// Whether the end-user had begun the step that ends: an SMS arrived, or the device was redirected.
    pub step_was_pending: bool,
    /// Outcome of the verification. `None`: it goes on with another step.
    pub outcome: Option<CheckOutcome<VerificationVerdict>>,
}

/// Returns the events that a transition adds to the funnel.
pub fn events_of_transition(transition: &Transition<'_>) -> Vec<FunnelEvent> {
    let Transition { before, after, is_opened, step_was_pending, outcome } = *transition;
    let mut events = Vec::new();
    let is_acted_on = |step: &Step| step_was_pending || is_answered(step.state);
    let Some(ended) = before.steps.len().checked_sub(1).and_then(|last| after.steps.get(last)) else { return events };
    let result = outcome.map(|outcome| match outcome {
        CheckOutcome::Completed(VerificationVerdict { matched: true, method, .. }) => Ok(method),
        CheckOutcome::Completed(_) => Err(LossReason::NoMatch),
        CheckOutcome::Expired => Err(LossReason::Expired),
        CheckOutcome::Error(code) => Err(LossReason::Error(code)),
    });

    if ended.product == Product::SecureSna && is_acted_on(ended) {
        events.push(FunnelEvent::Reached(FunnelStage::SilentTried));
        let reason = match (ended.state, result) {
            // The end-user or the client ended the whole verification, and its reason says more than the step's.
            (StepState::Error(ErrorCode::GivenUp), Some(Err(reason))) => Some(reason),
            (state, _) => loss_of_step(state),
        };
        events.extend(reason.map(FunnelEvent::SilentEnded));
    }
    let is_first_text = text_steps(before).count() == 1;
    if ended.product == Product::ReverseSms && is_first_text && is_acted_on(ended) {
        if !is_sms_shown(before, is_opened) {
            events.push(FunnelEvent::Reached(FunnelStage::SmsShown));
        }
        events.push(FunnelEvent::Reached(FunnelStage::SmsSent));
    }
    let begins_first_text = text_steps(before).count() == 0 && text_steps(after).any(|step| step.check.is_some());
    if begins_first_text && is_sms_shown(after, is_opened) {
        events.push(FunnelEvent::Reached(FunnelStage::SmsShown));
    }
    match result {
        Some(Ok(method)) => events.push(FunnelEvent::Verified(method)),
        Some(Err(reason)) => {
            let is_sent = text_steps(after).any(|step| is_answered(step.state))
                || (ended.product == Product::ReverseSms && step_was_pending);
            let is_tried = after.steps.iter().any(|step| step.product == Product::SecureSna && is_answered(step.state))
                || (ended.product == Product::SecureSna && step_was_pending);
            let stage = match () {
                () if is_sent => FunnelStage::SmsSent,
                () if is_sms_shown(after, is_opened) => FunnelStage::SmsShown,
                () if is_tried => FunnelStage::SilentTried,
                () if is_opened => FunnelStage::Opened,
                () => FunnelStage::Created,
            };
            events.push(FunnelEvent::Lost { stage, reason });
        }
        None => {}
    }
    events
}

/// Returns the events that the first opening of the hosted page adds to the funnel.
pub fn events_of_opening(progress: &Progress) -> Vec<FunnelEvent> {
    let mut events = vec![FunnelEvent::Reached(FunnelStage::Opened)];
    let is_texting = progress.open_step().is_some_and(|(product, _)| product == Product::ReverseSms);
    if is_texting && !is_sms_shown(progress, false) {
        events.push(FunnelEvent::Reached(FunnelStage::SmsShown));
    }
    events
}

/// Whether the state shows that a device or an SMS arrived, or that the operator answered.
fn is_answered(state: StepState) -> bool {
    match state {
        StepState::Open | StepState::Expired => false,
        StepState::Completed { .. } => true,
        StepState::Error(code) => !matches!(code, ErrorCode::GivenUp | ErrorCode::TooManyRequests),
    }
}

fn loss_of_step(state: StepState) -> Option<LossReason> {
    match state {
        StepState::Open | StepState::Completed { matched: true } => None,
        StepState::Completed { matched: false } => Some(LossReason::NoMatch),
        StepState::Expired => Some(LossReason::Expired),
        StepState::Error(code) => Some(LossReason::Error(code)),
    }
}

fn text_steps(progress: &Progress) -> impl Iterator<Item = &Step> {
    progress.steps.iter().filter(|step| step.product == Product::ReverseSms)
}

/// Whether somebody was told what to text. If the step before has only expired and the page was never opened, nobody
/// is there.
fn is_sms_shown(progress: &Progress, is_opened: bool) -> bool {
    let Some(text) = progress.steps.iter().position(|step| step.product == Product::ReverseSms) else { return false };
    progress.steps[text].check.is_some()
        && (is_opened || progress.steps[..text].iter().any(|step| step.state != StepState::Expired))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::lifecycle::CheckId;

    /// Parses steps such as `sna=open sms=given_up`.
    fn progress(steps: &str) -> Progress {
        let state = |text: &str| match text {
            "open" => StepState::Open,
            "match" => StepState::Completed { matched: true },
            "no_match" => StepState::Completed { matched: false },
            "expired" => StepState::Expired,
            code => StepState::Error(code.parse().unwrap()),
        };
        let step = |text: &str| {
            let (product, rest) = text.split_once('=').unwrap();
            let product = match product {
                "sna" => Product::SecureSna,
                "sms" => Product::ReverseSms,
                _ => Product::SimSwap,
            };
            Step { product, check: Some(CheckId(Uuid::from_u128(1))), state: state(rest) }
        };
        let mut progress = Progress::new(vec![Method::SecureSna, Method::ReverseSms], false, None);
        progress.steps = steps.split(' ').map(step).collect();
        progress
    }

    /// Parses an outcome such as `match=secure_sna`. `None`: the verification continues.
    fn outcome(text: &str) -> Option<CheckOutcome<VerificationVerdict>> {
        let verdict = |matched, method: &str| {
            let verdict = VerificationVerdict { matched, method: method.parse().unwrap(), no_sim_change: None };
            CheckOutcome::Completed(verdict)
        };
        match (text, text.split_once('=')) {
            ("", _) => None,
            ("expired", _) => Some(CheckOutcome::Expired),
            (_, Some((result, method))) => Some(verdict(result == "match", method)),
            (code, None) => Some(CheckOutcome::Error(code.parse().unwrap())),
        }
    }

    #[test]
    fn transitions_are_counted_once() {
        const YES: bool = true;
        const NO: bool = false;
        for (before, after, is_opened, step_was_pending, ends_with, expected) in [
            ("sna=open", "sna=match", YES, YES, "match=secure_sna", "reached:silent_tried verified:secure_sna"),
            (
                "sna=open",
                "sna=not_mobile_ip sms=open",
                YES,
                NO,
                "",
                "reached:silent_tried silent_ended:not_mobile_ip reached:sms_shown",
            ),
            ("sna=open", "sna=given_up sms=open", YES, NO, "", "reached:sms_shown"),
            ("sna=open", "sna=expired sms=open", NO, NO, "", ""),
            (
                "sna=open",
                "sna=expired sms=open",
                YES,
                YES,
                "",
                "reached:silent_tried silent_ended:expired reached:sms_shown",
            ),
            (
                "sna=open",
                "sna=no_match",
                NO,
                YES,
                "no_match=secure_sna",
                "reached:silent_tried silent_ended:no_match lost:silent_tried:no_match",
            ),
            (
                "sna=open",
                "sna=given_up",
                YES,
                YES,
                "wrong_number",
                "reached:silent_tried silent_ended:wrong_number lost:silent_tried:wrong_number",
            ),
            ("sna=open", "sna=given_up", YES, NO, "given_up", "lost:opened:given_up"),
            (
                "sna=given_up sms=open",
                "sna=given_up sms=match",
                YES,
                NO,
                "match=reverse_sms",
                "reached:sms_sent verified:reverse_sms",
            ),
            (
                "sms=open",
                "sms=match",
                NO,
                NO,
                "match=reverse_sms",
                "reached:sms_shown reached:sms_sent verified:reverse_sms",
            ),
            ("sms=open", "sms=no_match sms=open", YES, NO, "", "reached:sms_sent"),
            (
                "sms=no_match sms=open",
                "sms=no_match sms=no_match",
                YES,
                NO,
                "no_match=reverse_sms",
                "lost:sms_sent:no_match",
            ),
            ("sms=open", "sms=expired", YES, NO, "expired", "lost:sms_shown:expired"),
            ("sms=open", "sms=expired", YES, YES, "expired", "reached:sms_sent lost:sms_sent:expired"),
            ("sms=open", "sms=expired", NO, NO, "expired", "lost:created:expired"),
            ("sms=open", "sms=given_up", NO, NO, "cancelled", "lost:created:cancelled"),
            ("sms=match sim=open", "sms=match sim=no_match", YES, NO, "match=reverse_sms", "verified:reverse_sms"),
        ] {
            let (before, after, outcome) = (progress(before), progress(after), outcome(ends_with));
            let transition = Transition { before: &before, after: &after, is_opened, step_was_pending, outcome };
            let events: Vec<_> = events_of_transition(&transition).iter().map(ToString::to_string).collect();
            assert_eq!(events.join(" "), expected, "{transition:?}");
        }
    }

    #[test]
    fn opening_shows_the_sms_unless_it_was_shown() {
        for (steps, expected) in [
            ("sna=open", "reached:opened"),
            ("sms=open", "reached:opened reached:sms_shown"),
            ("sna=expired sms=open", "reached:opened reached:sms_shown"),
            ("sna=given_up sms=open", "reached:opened"),
            ("sms=match", "reached:opened"),
        ] {
            let events: Vec<_> = events_of_opening(&progress(steps)).iter().map(ToString::to_string).collect();
            assert_eq!(events.join(" "), expected, "{steps}");
        }
    }

    #[test]
    fn events_round_trip() {
        let reasons = [LossReason::NoMatch, LossReason::Expired]
            .into_iter()
            .chain(ErrorCode::VARIANTS.iter().copied().map(LossReason::Error));
        let stages = FunnelStage::VARIANTS.iter().copied();
        let mut events: Vec<_> = stages.clone().map(FunnelEvent::Reached).collect();
        events.extend(Method::VARIANTS.iter().copied().map(FunnelEvent::Verified));
        for reason in reasons {
            events.push(FunnelEvent::SilentEnded(reason));
            events.extend(stages.clone().map(|stage| FunnelEvent::Lost { stage, reason }));
        }
        for event in events {
            assert_eq!(event.to_string().parse(), Ok(event));
        }
        for wrong in ["", "reached", "reached:", "lost:opened", "lost::expired", "verified:discovery", "x:y"] {
            assert_eq!(wrong.parse::<FunnelEvent>(), Err(InvalidFunnelEvent), "{wrong}");
        }
    }

    #[test]
    fn losses_are_sorted_by_count() {
        let lost = |stage, reason| FunnelEvent::Lost { stage, reason };
        let funnel = Funnel(vec![
            (FunnelEvent::Reached(FunnelStage::Opened), 10),
            (FunnelEvent::Verified(Method::SecureSna), 4),
            (FunnelEvent::SilentEnded(LossReason::NoMatch), 3),
            (lost(FunnelStage::SilentTried, LossReason::NoMatch), 1),
            (lost(FunnelStage::Created, LossReason::Expired), 9),
            (lost(FunnelStage::SmsShown, LossReason::Error(ErrorCode::GivenUp)), 2),
            (lost(FunnelStage::SmsShown, LossReason::Expired), 5),
        ]);
        assert_eq!((funnel.count_reached(FunnelStage::Opened), funnel.count_verified(Method::SecureSna)), (10, 4));
        assert_eq!(funnel.count_given_up(), 7, "pages that were never opened do not count");
        let shown = funnel.losses(FunnelStage::SmsShown);
        assert_eq!(shown, [(LossReason::Expired, 5), (LossReason::Error(ErrorCode::GivenUp), 2)]);
        assert_eq!(funnel.losses(FunnelStage::SilentTried), [(LossReason::NoMatch, 3)]);
    }
}
