//! What happened to a check, and when.

use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::{AnyCheck, Lifecycle, Outcome, Verdict},
    product::Product,
};
use ringtrue_engine::{
    callback::{Attempt, CallbackLog},
    ports::{CallbackState, Course},
};

use super::result_of;
use crate::console::page::Moment;

/// A line of the timeline.
#[derive(Debug)]
pub(super) struct Event {
    pub at: Moment,
    pub title: String,
    pub text: String,
}

impl Event {
    fn new(at: Timestamp, title: impl Into<String>, text: impl Into<String>) -> Self {
        Event { at: Moment(at), title: title.into(), text: text.into() }
    }
}

pub(super) fn timeline(check: &AnyCheck, course: &Course, log: Option<&CallbackLog>) -> Vec<Event> {
    let mut events = vec![Event::new(check.created_at, "Created", "")];
    if let Some(at) = course.pending_at {
        events.extend(first_seen(check, course, at));
    }
    match &check.state {
        Lifecycle::Open(_) => events.push(Event::new(check.expires_at, "Expires", "If nothing comes before.")),
        Lifecycle::Concluded { outcome, at } => {
            if ended_by_sms(check) {
                events.push(Event::new(*at, "SMS received", by(course)));
            }
            events.push(end(check, outcome, *at, course.pending_at.is_some()));
        }
    }
    for attempt in log.iter().flat_map(|log| &log.attempts) {
        events.push(Event::new(
            attempt.started_at,
            format!("Callback, attempt {}", attempt.number),
            outcome_of(attempt),
        ));
    }
    if let Some(CallbackState::Waiting { due_at }) = log.map(|log| log.state) {
        events.push(Event::new(due_at, "Callback, next attempt", ""));
    }
    events
}

/// Something came that made it pending.
fn first_seen(check: &AnyCheck, course: &Course, at: Timestamp) -> [Event; 2] {
    if check.product == Product::ReverseSms {
        // Only the last connector is known: once an SMS has ended the check, it is that one's.
        let by = if ended_by_sms(check) { String::new() } else { by(course) };
        let text = "It came from the number, in part or without the code.";
        return [Event::new(at, "SMS received", by), Event::new(at, "Pending", text)];
    }
    [Event::new(at, "Device seen", ""), Event::new(at, "Pending", "The device was sent to its operator.")]
}

/// Nothing but an SMS and time ends a Reverse SMS check.
fn ended_by_sms(check: &AnyCheck) -> bool {
    let is_timely =
        matches!(check.state, Lifecycle::Concluded { outcome: Outcome::Completed(_) | Outcome::Error(_), .. });
    check.product == Product::ReverseSms && is_timely
}

fn by(course: &Course) -> String {
    course.connector.as_ref().map(|name| format!("by connector {name}")).unwrap_or_default()
}

fn end<V: Verdict>(check: &AnyCheck, outcome: &Outcome<V>, at: Timestamp, was_pending: bool) -> Event {
    match outcome {
        Outcome::Completed(verdict) if verdict.matched().is_some() => Event::new(at, "Completed", result_of(check)),
        Outcome::Completed(_) => Event::new(at, "Completed", ""),
        Outcome::Expired if was_pending => Event::new(at, "Expired", "The rest did not come in time."),
        Outcome::Expired => Event::new(at, "Expired", "Nothing came in time."),
        Outcome::Error(code) => Event::new(at, "Ended with an error", code.as_str()),
    }
}

pub(super) fn outcome_of(attempt: &Attempt) -> String {
    match (attempt.status, &attempt.failure) {
        (Some(status), _) => status.to_string(),
        (None, Some(failure)) => failure.replace('_', " "),
        (None, None) => "no answer".to_owned(),
    }
}
