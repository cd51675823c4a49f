//! Timeline of a check.

use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::{AnyCheck, CheckOutcome, Lifecycle, Verdict},
    product::Product,
};
use ringtrue_engine::{
    callback::{Attempt, CallbackLog},
    ports::{CallbackState, CheckHistory},
};

use super::result_label;
use crate::console::page::UtcTime;

#[derive(Debug)]
pub(super) struct TimelineEvent {
    pub at: UtcTime,
    pub title: String,
    pub text: String,
}

impl TimelineEvent {
    fn new(at: Timestamp, title: impl Into<String>, text: impl Into<String>) -> Self {
        TimelineEvent { at: UtcTime(at), title: title.into(), text: text.into() }
    }
}

pub(super) fn build_timeline(
    check: &AnyCheck,
    history: &CheckHistory,
    log: Option<&CallbackLog>,
) -> Vec<TimelineEvent> {
    let mut events = vec![TimelineEvent::new(check.created_at, "Created", "")];
    if let Some(at) = history.pending_at {
        events.extend(pending_events(check, history, at));
    }
    match &check.state {
        Lifecycle::Open(_) => {
            events.push(TimelineEvent::new(check.expires_at, "Expires", "Unless it completes earlier."));
        }
        Lifecycle::Concluded { outcome, at } => {
            if is_concluded_by_sms(check) {
                events.push(TimelineEvent::new(*at, "SMS received", describe_connector(history)));
            }
            events.push(conclusion_event(check, outcome, *at, history.pending_at.is_some()));
        }
    }
    for attempt in log.iter().flat_map(|log| &log.attempts) {
        events.push(TimelineEvent::new(
            attempt.started_at,
            format!("Callback, attempt {}", attempt.number),
            describe_attempt(attempt),
        ));
    }
    if let Some(CallbackState::Waiting { due_at }) = log.map(|log| log.state) {
        events.push(TimelineEvent::new(due_at, "Callback, next attempt", ""));
    }
    events
}

/// Events of the SMS or device request that made the check pending.
fn pending_events(check: &AnyCheck, history: &CheckHistory, at: Timestamp) -> [TimelineEvent; 2] {
    if check.product == Product::ReverseSms {
        // Only the last connector is stored. If an SMS concluded the check, it belongs to that SMS.
        let connector = if is_concluded_by_sms(check) { String::new() } else { describe_connector(history) };
        let text = "Sent from the number, incomplete or without the code.";
        return [TimelineEvent::new(at, "SMS received", connector), TimelineEvent::new(at, "Pending", text)];
    }
    [
        TimelineEvent::new(at, "URL opened", ""),
        TimelineEvent::new(at, "Pending", "The device was redirected to its operator."),
    ]
}

/// Reverse SMS checks end only by an SMS or by expiry.
fn is_concluded_by_sms(check: &AnyCheck) -> bool {
    let is_concluded_in_time = matches!(
        check.state,
        Lifecycle::Concluded { outcome: CheckOutcome::Completed(_) | CheckOutcome::Error(_), .. }
    );
    check.product == Product::ReverseSms && is_concluded_in_time
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
        CheckOutcome::Error(code) => TimelineEvent::new(at, "Failed", code.as_str()),
    }
}

pub(super) fn describe_attempt(attempt: &Attempt) -> String {
    match (attempt.status, &attempt.failure) {
        (Some(status), _) => status.to_string(),
        (None, Some(failure)) => failure.replace('_', " "),
        (None, None) => "no response".to_owned(),
    }
}
