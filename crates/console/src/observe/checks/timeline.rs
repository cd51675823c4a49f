//! Timeline of a check: its events, and every attempt to deliver its callback. The timeline of a verification also has
//! the events of its steps.

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    lifecycle::{AnyCheck, CheckOutcome, ErrorCode, Lifecycle, Verdict},
    product::Product,
    reverse_sms::Platform,
    silent::{SilentWay, WalletFailure},
    verification::{Step, StepState},
};
use ringtrue_engine::{
    callbacks::{Attempt, LoggedCallback},
    ports::{callbacks::CallbackState, checks::CheckHistory},
    verifications::VerificationMilestones,
};

use crate::{
    observe::{checks::check_view::result_label, failure_label::failure_label},
    page::{
        ExactTime,
        redaction::{NumberMask, format_headers},
    },
};

#[derive(Debug)]
pub struct AttemptView {
    pub number: u32,
    pub millis: i128,
    pub outcome: String,
    pub request: Option<String>,
    pub response: Option<String>,
}

#[derive(Debug)]
pub struct TimelineEvent {
    pub at: ExactTime,
    /// Time since the creation of the check.
    pub after: String,
    pub title: String,
    pub text: String,
    pub is_failure: bool,
    /// Details of the event if it is an attempt to deliver the callback.
    pub attempt: Option<AttemptView>,
}

impl TimelineEvent {
    fn new(at: Timestamp, title: impl Into<String>, text: impl Into<String>) -> Self {
        TimelineEvent {
            at: ExactTime(at),
            after: String::new(),
            title: title.into(),
            text: text.into(),
            is_failure: false,
            attempt: None,
        }
    }

    fn failure(self) -> Self {
        TimelineEvent { is_failure: true, ..self }
    }
}

/// Formats a duration as seconds with milliseconds, or as minutes and seconds.
fn format_elapsed(elapsed: SignedDuration) -> String {
    let (seconds, millis) = (elapsed.as_secs(), elapsed.subsec_millis());
    match seconds {
        ..0 => String::new(),
        0..60 => format!("+{seconds}.{millis:03} s"),
        _ => format!("+{} min {}.{millis:03} s", seconds / 60, seconds % 60),
    }
}

/// A step of a verification with its check.
#[derive(Debug)]
pub struct StepRecord {
    pub step: Step,
    /// `None`: the step has no check, because it could not begin or its SIM Swap check is not stored yet.
    pub check: Option<(AnyCheck, CheckHistory)>,
}

/// What happened to a verification besides its own events.
#[derive(Debug)]
pub struct VerificationEvents {
    pub history: VerificationMilestones,
    pub steps: Vec<StepRecord>,
}

/// Builds the timeline of a check. `verification` is present if the check is a verification.
pub fn build_timeline(
    check: &AnyCheck,
    history: &CheckHistory,
    verification: Option<&VerificationEvents>,
    callback: Option<&LoggedCallback>,
    may_develop: bool,
) -> Vec<TimelineEvent> {
    let mut events = vec![TimelineEvent::new(check.created_at, "Created", "")];
    match verification {
        Some(verification) => events.extend(verification_events(check, verification)),
        None => events.extend(history.pending_at.into_iter().flat_map(|at| pending_events(check, history, at))),
    }
    match &check.state {
        Lifecycle::Open(_) => {
            events.push(TimelineEvent::new(check.expires_at, "Expires", "Unless it completes earlier."));
        }
        Lifecycle::Concluded { outcome, at } => {
            if is_concluded_by_sms(check) {
                events.push(TimelineEvent::new(*at, "SMS received", describe_connector(history)));
            }
            events.extend(redirect_error_event(check, history));
            events.extend(wallet_event(history, *at));
            events.push(conclusion_event(check, outcome, *at, history.pending_at.is_some()));
        }
    }
    let mask = NumberMask::for_callback(callback.and_then(|callback| callback.body.as_deref()));
    for attempt in callback.iter().flat_map(|callback| &callback.attempts) {
        let title = format!("Callback, attempt {}", attempt.number);
        let event = TimelineEvent {
            attempt: Some(attempt_view(attempt, may_develop.then_some(&mask))),
            ..TimelineEvent::new(attempt.started_at, title, "")
        };
        events.push(if attempt.status == Some(200) { event } else { event.failure() });
    }
    if let Some(CallbackState::Waiting { due_at }) = callback.map(|callback| callback.state) {
        events.push(TimelineEvent::new(due_at, "Callback, next attempt", ""));
    }
    if let Some(at) = verification.and_then(|verification| verification.history.code_redeemed_at) {
        events.push(TimelineEvent::new(at, "Code redeemed", "Your backend has confirmed the result."));
    }
    if verification.is_some() {
        // Steps may end while an attempt is made, so the events are not in order by themselves.
        events.sort_by_key(|event| event.at.0);
    }
    for event in events.iter_mut().skip(1) {
        event.after = format_elapsed(check.created_at.duration_until(event.at.0));
    }
    events
}

/// Returns the opening of the hosted page and the events of all steps.
fn verification_events(check: &AnyCheck, verification: &VerificationEvents) -> Vec<TimelineEvent> {
    let mut events = Vec::new();
    if let Some(opening) = verification.history.opening {
        let device = match opening.platform {
            Platform::Android => "On an Android phone.",
            Platform::Ios => "On an iPhone or iPad.",
            Platform::Unknown => "On a computer or another device.",
        };
        events.push(TimelineEvent::new(opening.at, "Page opened", device));
    }
    let mut last_end = check.created_at;
    for StepRecord { step, check } in &verification.steps {
        let Some((check, history)) = check else {
            if let StepState::Error(code) = step.state {
                let title = format!("{} left out", step.product.title());
                events.push(TimelineEvent::new(last_end, title, code.into_str()).failure());
            }
            continue;
        };
        events.extend(step_events(check, history));
        last_end = check.updated_at().unwrap_or(last_end);
    }
    events
}

fn step_events(step: &AnyCheck, history: &CheckHistory) -> Vec<TimelineEvent> {
    let mut events = Vec::new();
    let (title, text) = if step.product == Product::ReverseSms {
        events.push(TimelineEvent::new(step.created_at, "SMS expected", "The instructions were ready."));
        ("SMS received", "Sent from the number, incomplete or without the code.")
    } else {
        ("Silent check started", "The device was redirected to its operator.")
    };
    events.extend(history.pending_at.map(|at| TimelineEvent::new(at, title, text)));
    if let Lifecycle::Concluded { outcome, at } = &step.state {
        if is_concluded_by_sms(step) {
            events.push(TimelineEvent::new(*at, "SMS received", describe_connector(history)));
        }
        let name = match step.product {
            Product::ReverseSms => "SMS",
            Product::SimSwap => "SIM Swap",
            _ => "Silent check",
        };
        let has_matched = matches!(outcome, CheckOutcome::Completed(verdict) if verdict.matched() != Some(false));
        let title = format!("{name} {}", if has_matched { "completed" } else { "ended" });
        let text = match outcome {
            CheckOutcome::Completed(_) => result_label(step),
            CheckOutcome::Expired => "Not completed in time.".to_owned(),
            CheckOutcome::Error(code) => code.into_str().to_owned(),
        };
        events.extend(redirect_error_event(step, history));
        events.extend(wallet_event(history, *at));
        let event = TimelineEvent::new(*at, title, text);
        events.push(if has_matched { event } else { event.failure() });
    }
    events
}

/// Returns the error over mobile data after which the phone's wallet was left. `None`: there was no such error.
fn redirect_error_event(check: &AnyCheck, history: &CheckHistory) -> Option<TimelineEvent> {
    let code = history.redirect_error?;
    let at = history.pending_at.unwrap_or(check.created_at);
    Some(TimelineEvent::new(at, "Mobile data failed", code.into_str()).failure())
}

/// Returns what the phone's wallet did at the end of a silent check. `None`: it was not asked.
fn wallet_event(history: &CheckHistory, at: Timestamp) -> Option<TimelineEvent> {
    let event = |title| TimelineEvent::new(at, title, "via operator_token");
    if history.way != Some(SilentWay::OperatorToken) {
        return None;
    }
    let Some(failure) = history.wallet_failure else { return Some(event("Wallet confirmed")) };
    let title = match failure {
        WalletFailure::Declined => "Wallet declined, or no suitable SIM",
        WalletFailure::NoSim => "Wallet has no suitable SIM",
        WalletFailure::TimedOut => "Wallet did not answer in time",
        WalletFailure::Invalid => "Wallet answer invalid",
        WalletFailure::Refused => "Wallet token refused by the operator",
        WalletFailure::Unavailable => "Wallet could not be asked",
    };
    Some(event(title).failure())
}

/// Returns the events that explain why the check became pending: an SMS or a device's request.
fn pending_events(check: &AnyCheck, history: &CheckHistory, at: Timestamp) -> Vec<TimelineEvent> {
    if check.product == Product::ReverseSms {
        // The store keeps only the last connector. If an SMS concluded the check, the connector belongs to that SMS,
        // not to this earlier one.
        let connector = if is_concluded_by_sms(check) { String::new() } else { describe_connector(history) };
        let text = "Sent from the number, incomplete or without the code.";
        return vec![TimelineEvent::new(at, "SMS received", connector), TimelineEvent::new(at, "Pending", text)];
    }
    vec![
        TimelineEvent::new(at, "URL opened", ""),
        TimelineEvent::new(at, "Pending", "The device was redirected to its operator."),
    ]
}

/// Returns whether an SMS concluded the check. A Reverse SMS check ends by an SMS, by expiry, or, as a step of a
/// verification, by being given up.
fn is_concluded_by_sms(check: &AnyCheck) -> bool {
    let is_received = match &check.state {
        Lifecycle::Open(_) => false,
        Lifecycle::Concluded { outcome, .. } => match outcome {
            CheckOutcome::Completed(_) => true,
            CheckOutcome::Expired => false,
            CheckOutcome::Error(code) => *code != ErrorCode::GivenUp,
        },
    };
    check.product == Product::ReverseSms && is_received
}

fn describe_connector(history: &CheckHistory) -> String {
    history.connector.as_ref().map(|name| format!("via connector {name}")).unwrap_or_default()
}

fn conclusion_event<V: Verdict>(
    check: &AnyCheck,
    outcome: &CheckOutcome<V>,
    at: Timestamp,
    was_pending: bool,
) -> TimelineEvent {
    match outcome {
        CheckOutcome::Completed(verdict) if verdict.matched().is_some() => {
            TimelineEvent::new(at, "Completed", result_label(check))
        }
        CheckOutcome::Completed(_) => TimelineEvent::new(at, "Completed", ""),
        CheckOutcome::Expired if was_pending => TimelineEvent::new(at, "Expired", "Not completed in time."),
        CheckOutcome::Expired => TimelineEvent::new(at, "Expired", "Nothing received in time."),
        CheckOutcome::Error(code) => TimelineEvent::new(at, "Failed", code.into_str()).failure(),
    }
}

fn describe_attempt(attempt: &Attempt) -> String {
    match (attempt.status, &attempt.failure) {
        (Some(status), _) => status.to_string(),
        (None, Some(failure)) => failure_label(failure),
        (None, None) => "no response".to_owned(),
    }
}

/// Builds the view of a delivery attempt. `mask` is `None` for users who are not developers: they see only the outcome.
fn attempt_view(attempt: &Attempt, mask: Option<&NumberMask>) -> AttemptView {
    let outcome = describe_attempt(attempt);
    let shown = attempt.exchange.as_ref().zip(mask);
    let (request, response) = shown.map_or((None, None), |(exchange, mask)| {
        let sent = &exchange.sent;
        let request = format!("POST {}\n{}\n{}", sent.url, format_headers(&sent.headers), sent.body);
        let response = exchange
            .received
            .as_ref()
            .map(|received| format!("{}\n{}\n{}", received.status, format_headers(&received.headers), received.body));
        (Some(mask.apply(&request)), response.map(|response| mask.apply(&response)))
    });
    AttemptView {
        number: attempt.number,
        millis: attempt.started_at.duration_until(attempt.ended_at).as_millis(),
        outcome,
        request,
        response,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elapsed_times_have_milliseconds() {
        for (millis, expected) in [(0, "+0.000 s"), (1_234, "+1.234 s"), (61_005, "+1 min 1.005 s"), (-2_000, "")] {
            assert_eq!(format_elapsed(SignedDuration::from_millis(millis)), expected);
        }
    }
}
