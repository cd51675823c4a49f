//! What must hold after every step.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp, fmt::temporal::DateTimePrinter};
use ringtrue_domain::{
    lifecycle::{Lifecycle, Outcome},
    sandbox,
};
use ringtrue_engine::{
    callback::LEASE,
    ports::{AttemptLog, CallbackRecord, CallbackState},
};
use serde_json::{Value, json};

use crate::{
    ledger::{End, Said, Subject},
    receivers::Post,
};

/// The specification's gaps between attempts, in seconds.
const GAPS: [i64; 6] = [10, 20, 30, 40, 50, 60];
const MOST_ATTEMPTS: usize = 7;
/// A lease that has less left than this is not used to send.
const NEEDED: SignedDuration = SignedDuration::from_secs(15);

/// What the callback of one check is held against.
pub struct Witness<'a> {
    pub subject: &'a Subject,
    pub end: End,
    pub record: &'a CallbackRecord,
    /// All that receivers have got of this check, in order.
    pub posts: Vec<&'a Post>,
    pub life: u32,
    /// When leases were taken.
    pub leased_at: &'a BTreeSet<Timestamp>,
}

impl Witness<'_> {
    pub fn testify(&self) {
        let settled: Vec<&AttemptLog> = self.record.attempts.iter().map(|(_, log)| log).collect();
        assert!(settled.len() <= MOST_ATTEMPTS, "{} attempts", settled.len());
        self.every_body_is_the_same();
        for (index, post) in self.posts.iter().enumerate() {
            let before = index.checked_sub(1).map(|before| self.posts[before]);
            self.is_timely(post, before);
            if let Some((reply, at)) = post.answered
                && post.life == self.life
            {
                let log = settled.get(post.attempt - 1).expect("who is alive settles what it sent");
                assert_eq!((log.started_at, log.ended_at), (post.at, at), "as it was");
                assert_eq!((log.status, log.failure.is_some()), (reply.ok(), reply.is_err()), "{post:?}");
            }
        }
        for (log, attempt) in settled.iter().zip(1..) {
            let last = self.posts.iter().rfind(|post| post.attempt == attempt).expect("what is settled was sent");
            assert_eq!(log.started_at, last.at, "attempt {attempt} was settled, and sent again");
        }
        self.stands_where_it_should();
    }

    fn every_body_is_the_same(&self) {
        for post in &self.posts {
            assert_eq!(post.body, self.posts[0].body);
            assert_eq!(serde_json::from_slice::<Value>(&post.body).unwrap(), told(self.subject, self.end));
        }
    }

    fn is_timely(&self, post: &Post, before: Option<&Post>) {
        let attempt = post.attempt;
        assert!((1..=MOST_ATTEMPTS).contains(&attempt), "attempt {attempt}");
        match before {
            None => {
                assert_eq!(attempt, 1);
                assert!(post.at >= self.end.recorded_at);
            }
            Some(before) if before.attempt == attempt => {
                assert_ne!(before.life, post.life, "attempt {attempt} was made twice by one process");
                assert!(post.at >= before.at + NEEDED, "attempt {attempt} was repeated while its lease held");
            }
            Some(before) => {
                assert_eq!(attempt, before.attempt + 1);
                let (_, log) = &self.record.attempts[attempt - 2];
                assert_ne!(log.status, Some(200), "sent again, although it was delivered");
                assert!(post.at >= due_after(log, attempt - 1), "attempt {attempt} came early");
            }
        }
    }

    fn stands_where_it_should(&self) {
        let settled: Vec<&AttemptLog> = self.record.attempts.iter().map(|(_, log)| log).collect();
        let delivered = settled.last().is_some_and(|log| log.status == Some(200));
        match self.record.state {
            CallbackState::Delivered => assert!(delivered),
            CallbackState::GivenUp => assert!(!delivered && settled.len() == MOST_ATTEMPTS),
            CallbackState::Waiting { due_at } => {
                assert!(!delivered && settled.len() < MOST_ATTEMPTS);
                let by_the_rules = settled.last().map_or(self.end.recorded_at, |log| due_after(log, settled.len()));
                let is_leased = self.leased_at.contains(&(due_at - LEASE));
                assert!(due_at == by_the_rules || is_leased, "due at {due_at} instead of {by_the_rules}");
            }
        }
    }
}

/// When the attempt after this one is due.
fn due_after(log: &AttemptLog, attempt: usize) -> Timestamp {
    log.ended_at + SignedDuration::from_secs(GAPS[attempt - 1])
}

/// What a callback says.
fn told(subject: &Subject, end: End) -> Value {
    let Lifecycle::Concluded { outcome, at } = end.state else { panic!("it is open") };
    let time = |at| DateTimePrinter::new().precision(Some(3)).timestamp_to_string(&at);
    let mut body = json!({
        "check_id": subject.id.to_string(),
        "status": outcome.status().as_str(),
        "created_at": time(subject.created_at),
        "updated_at": time(at),
    });
    match outcome {
        Outcome::Completed(Said::Match(matched)) => {
            body["match"] = json!(matched);
            if subject.has_device() {
                body["network_id"] = json!(sandbox::NETWORK_ID);
            }
        }
        Outcome::Completed(Said::TheNumber) => body["phone_number"] = json!(subject.number.as_str()),
        Outcome::Completed(Said::AnotherNumber) => panic!("nobody said that"),
        Outcome::Expired => body["error_code"] = json!("check_expired"),
        Outcome::Error(code) => body["error_code"] = json!(code.as_str()),
    }
    body
}
