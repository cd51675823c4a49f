//! Invariants of callbacks. The simulation asserts them after every step.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp, fmt::temporal::DateTimePrinter};
use ringtrue_domain::lifecycle::{CheckOutcome, Lifecycle};
use ringtrue_engine::{
    courier::LEASE_DURATION,
    ports::callbacks::{AttemptRecord, CallbackRecord, CallbackState},
};
use ringtrue_sandbox::operator_access::NETWORK_ID;
use serde_json::{Value, json};

use crate::{
    model::{ModelCheck, ModelConclusion, ModelVerdict},
    receivers::Post,
};

/// Delays between attempts, as specified by the API.
const RETRY_DELAYS_SECONDS: [i64; 6] = [10, 20, 30, 40, 50, 60];
const MAX_ATTEMPTS: usize = 7;
/// The courier starts no attempt if less time than this is left of the callback's lease.
const MIN_LEASE_LEFT: SignedDuration = SignedDuration::from_secs(15);

/// Asserts that the callback of one check agrees with the model.
pub struct CallbackAssertion<'a> {
    pub model: &'a ModelCheck,
    pub end: ModelConclusion,
    pub record: &'a CallbackRecord,
    /// All callbacks of the check that receivers got, in order.
    pub posts: Vec<&'a Post>,
    pub process_run: u32,
    /// Times at which the courier may have leased callbacks, of this check or another.
    pub leased_at: &'a BTreeSet<Timestamp>,
}

impl CallbackAssertion<'_> {
    pub fn assert_all(&self) {
        let settled: Vec<&AttemptRecord> = self.record.attempts.iter().map(|(_, log)| log).collect();
        assert!(settled.len() <= MAX_ATTEMPTS, "{} attempts", settled.len());
        self.assert_bodies();
        for (index, post) in self.posts.iter().enumerate() {
            let before = index.checked_sub(1).map(|before| self.posts[before]);
            self.assert_timing(post, before);
            if let Some((response, at)) = post.response
                && post.process_run == self.process_run
            {
                let log = settled.get(post.attempt - 1).expect("a running process settles its attempts");
                assert_eq!((log.started_at, log.ended_at), (post.at, at), "logged times");
                assert_eq!((log.status, log.failure.is_some()), (response.ok(), response.is_err()), "{post:?}");
            }
        }
        for (log, attempt) in settled.iter().zip(1..) {
            let last = self.posts.iter().rfind(|post| post.attempt == attempt).expect("settled attempts were sent");
            assert_eq!(log.started_at, last.at, "attempt {attempt} was sent again after it was settled");
        }
        self.assert_state();
    }

    fn assert_bodies(&self) {
        for post in &self.posts {
            assert_eq!(post.body, self.posts[0].body);
            assert_eq!(serde_json::from_slice::<Value>(&post.body).unwrap(), expected_body(self.model, self.end));
        }
    }

    fn assert_timing(&self, post: &Post, before: Option<&Post>) {
        let attempt = post.attempt;
        assert!((1..=MAX_ATTEMPTS).contains(&attempt), "attempt {attempt}");
        match before {
            None => {
                assert_eq!(attempt, 1);
                assert!(post.at >= self.end.recorded_at);
            }
            Some(before) if before.attempt == attempt => {
                assert_ne!(before.process_run, post.process_run, "attempt {attempt} was sent twice by one process");
                assert!(post.at >= before.at + MIN_LEASE_LEFT, "attempt {attempt} was repeated during its lease");
            }
            Some(before) => {
                assert_eq!(attempt, before.attempt + 1);
                let (_, log) = &self.record.attempts[attempt - 2];
                assert_ne!(log.status, Some(200), "sent again after delivery");
                assert!(post.at >= due_after(log, attempt - 1), "attempt {attempt} was early");
            }
        }
    }

    fn assert_state(&self) {
        let settled: Vec<&AttemptRecord> = self.record.attempts.iter().map(|(_, log)| log).collect();
        let delivered = settled.last().is_some_and(|log| log.status == Some(200));
        match self.record.state {
            CallbackState::Delivered => assert!(delivered),
            CallbackState::GivenUp => assert!(!delivered && settled.len() == MAX_ATTEMPTS),
            CallbackState::Waiting { due_at } => {
                assert!(!delivered && settled.len() < MAX_ATTEMPTS);
                let expected = settled.last().map_or(self.end.recorded_at, |log| due_after(log, settled.len()));
                let is_leased = self.leased_at.contains(&(due_at - LEASE_DURATION));
                assert!(due_at == expected || is_leased, "due at {due_at} instead of {expected}");
            }
        }
    }
}

/// Returns when the next attempt is due after a failed one. `attempt` is the number of the failed one, from 1.
fn due_after(log: &AttemptRecord, attempt: usize) -> Timestamp {
    log.ended_at + SignedDuration::from_secs(RETRY_DELAYS_SECONDS[attempt - 1])
}

fn expected_body(model: &ModelCheck, end: ModelConclusion) -> Value {
    let Lifecycle::Concluded { outcome, at } = end.state else { panic!("the check is open") };
    let time = |at| DateTimePrinter::new().precision(Some(3)).timestamp_to_string(&at);
    let mut body = json!({
        "check_id": model.id.to_string(),
        "status": outcome.status().into_str(),
        "created_at": time(model.created_at),
        "updated_at": time(at),
    });
    match outcome {
        CheckOutcome::Completed(ModelVerdict::Match(matched)) => {
            body["match"] = json!(matched);
            if model.has_device() {
                body["network_id"] = json!(NETWORK_ID);
            }
        }
        CheckOutcome::Completed(ModelVerdict::OwnNumber) => body["phone_number"] = json!(model.number.as_str()),
        CheckOutcome::Completed(ModelVerdict::AnotherNumber) => panic!("the model never predicts another number"),
        CheckOutcome::Expired => body["error_code"] = json!("check_expired"),
        CheckOutcome::Error(code) => body["error_code"] = json!(code.into_str()),
    }
    body
}
