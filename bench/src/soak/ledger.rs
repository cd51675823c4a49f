//! Acknowledged checks and their callbacks.
//!
//! A check whose create was acknowledged must exist, conclude once, and have its callback delivered on time. Checks whose
//! acknowledgement was lost may exist or not; their callbacks are ignored.

use std::{collections::HashMap, num::NonZeroU32, time::Duration};

use jiff::Timestamp;
use parking_lot::Mutex;
use ringtrue_domain::callback::{MAX_ATTEMPTS, RetryDecision, retry_after_failure};
use tokio::time::Instant;

use super::{faults::FaultLog, violations::Violations};
use crate::receiver::Reaction;

/// Difference between the clocks of two nodes, each of which follows the database's clock by samples.
const CLOCK_TOLERANCE: Duration = Duration::from_millis(100);
/// Limit of an attempt, after which the node gives up waiting for the receiver.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
/// A receiver sees a request later than the node starts to measure, on a busy machine much later.
const ATTEMPT_TIMEOUT_TOLERANCE: Duration = Duration::from_secs(1);
/// The lease of a callback whose node was killed, and the time until another node polls it.
const LEASE_DURATION: Duration = Duration::from_secs(35);
/// Time in which a node replaces a pooled connection that the receiver closed.
const RECONNECT_TIME: Duration = Duration::from_secs(1);
/// Time in which the sandbox operator delivers an SMS that it has accepted, with its retries.
const SMS_DELIVERY_TIME: Duration = Duration::from_secs(5);

pub struct Ledger {
    checks: Mutex<HashMap<String, Check>>,
    violations: Violations,
}

/// An acknowledged check.
pub struct Check {
    /// Path of its product.
    pub path: &'static str,
    /// Before the create request was sent.
    pub created: Instant,
    pub ttl: Duration,
    /// Before the request was sent that concludes it.
    pub concluding: Option<Instant>,
    /// The node that accepted its SMS, and the time of the acknowledgement.
    pub sms_accepted: Option<(usize, Instant)>,
    /// Acknowledged conclusion.
    pub conclusion: Option<Conclusion>,
    pub has_callback: bool,
    pub attempts: Vec<Attempt>,
}

/// Status and verdict, as in a check and in its callback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conclusion {
    pub status: String,
    pub is_match: Option<bool>,
}

impl Conclusion {
    /// Reads a check or a callback. `None`: the check is open.
    pub fn parse(json: &[u8]) -> anyhow::Result<Option<Self>> {
        #[derive(serde::Deserialize)]
        struct Fields {
            status: String,
            #[serde(rename = "match")]
            is_match: Option<bool>,
        }
        let Fields { status, is_match } = serde_json::from_slice(json)?;
        let is_open = matches!(status.as_str(), "ACCEPTED" | "PENDING");
        Ok((!is_open).then_some(Conclusion { status, is_match }))
    }
}

/// A received callback.
pub struct Attempt {
    pub number: u32,
    pub received: Instant,
    pub reaction: Reaction,
    pub conclusion: Conclusion,
}

impl Attempt {
    /// Earliest end of the attempt on the sending node.
    fn ended(&self) -> Instant {
        match self.reaction {
            Reaction::Accept | Reaction::Fail | Reaction::Disconnect => self.received,
            Reaction::Hang => self.received + ATTEMPT_TIMEOUT - ATTEMPT_TIMEOUT_TOLERANCE,
        }
    }

    /// Earliest time of the next attempt, if there is one.
    fn retry_at(&self) -> Option<Instant> {
        let failed_attempts = NonZeroU32::new(self.number)?;
        // The projects of the soak keep the regular schedule.
        let (ended, deadline) = (Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH);
        match (self.reaction, retry_after_failure(failed_attempts, ended, deadline)) {
            (Reaction::Accept, _) | (_, RetryDecision::GiveUp) => None,
            (_, RetryDecision::RetryAt(at)) => {
                Some(self.ended() + Duration::try_from(at.duration_since(Timestamp::UNIX_EPOCH)).ok()?)
            }
        }
    }
}

impl Check {
    pub fn new(path: &'static str, created: Instant, ttl: Duration) -> Self {
        Check {
            path,
            created,
            ttl,
            concluding: None,
            sms_accepted: None,
            conclusion: None,
            has_callback: true,
            attempts: vec![],
        }
    }

    /// Time until which the callback may still be undelivered. `None`: it is delivered, or given up.
    fn delivery_deadline(&self) -> Option<Instant> {
        let last_due = match self.attempts.last() {
            None if !self.has_callback => None,
            None => Some(self.concluding.unwrap_or(self.created).max(self.created + self.ttl)),
            Some(attempt) => attempt.retry_at(),
        };
        // The node that tries it may be killed twice.
        last_due.map(|due| due + ATTEMPT_TIMEOUT + 2 * LEASE_DURATION)
    }
}

impl Ledger {
    pub fn new(violations: Violations) -> Self {
        Ledger { checks: Mutex::default(), violations }
    }

    /// Adds an acknowledged check.
    pub fn insert(&self, id: &str, check: Check) {
        self.checks.lock().insert(id.to_owned(), check);
    }

    pub fn update(&self, id: &str, change: impl FnOnce(&mut Check)) {
        if let Some(check) = self.checks.lock().get_mut(id) {
            change(check);
        }
    }

    /// Records the conclusion in a response.
    pub fn record_conclusion(&self, id: &str, conclusion: &Conclusion) {
        self.update(id, |check| {
            let recorded = check.conclusion.get_or_insert_with(|| conclusion.clone());
            if recorded != conclusion {
                self.violations.add("conclusions changed", || format!("{id}: {recorded:?}, then {conclusion:?}"));
            }
        });
    }

    pub fn len(&self) -> usize {
        self.checks.lock().len()
    }

    /// Ids and product paths of all checks.
    pub fn ids(&self) -> Vec<(String, &'static str)> {
        self.checks.lock().iter().map(|(id, check)| (id.clone(), check.path)).collect()
    }

    /// Number of checks whose callbacks are on the way.
    pub fn undelivered(&self) -> usize {
        let now = Instant::now();
        let is_undelivered = |check: &&Check| {
            // A receiver that hangs twice hangs for ever. Its attempts must be on time, but are not awaited.
            let is_hopeless = check.attempts.iter().filter(|attempt| attempt.reaction == Reaction::Hang).count() > 1;
            !is_hopeless && check.delivery_deadline().is_some_and(|deadline| deadline > now)
        };
        self.checks.lock().values().filter(is_undelivered).count()
    }

    /// Compares the conclusions that nodes return at the end, by check, with everything acknowledged before.
    pub fn verify(&self, conclusions: &HashMap<String, Conclusion>, faults: &FaultLog) {
        let violations = &self.violations;
        for (id, check) in &*self.checks.lock() {
            let Some(conclusion) = conclusions.get(id) else {
                violations.add("acknowledged checks without a conclusion", || id.clone());
                continue;
            };
            if check.conclusion.as_ref().is_some_and(|acknowledged| acknowledged != conclusion) {
                violations.add("conclusions changed", || format!("{id}: {:?}, now {conclusion:?}", check.conclusion));
            }
            if conclusion.status == "EXPIRED"
                && let Some((node, accepted)) = check.sms_accepted
                && !faults.affects(node, accepted, accepted + SMS_DELIVERY_TIME)
            {
                violations.add("SMS lost without a fault", || id.clone());
            }
            if conclusion.status == "ERROR" {
                violations.add("checks with an error", || format!("{}/{id}", check.path));
            }
            if check.has_callback {
                verify_callback(id, check, conclusion, faults, violations);
            }
        }
    }
}

fn verify_callback(id: &str, check: &Check, conclusion: &Conclusion, faults: &FaultLog, violations: &Violations) {
    let Some(first) = check.attempts.first() else {
        violations.add("callbacks missing", || format!("{id}: {conclusion:?}"));
        return;
    };
    let earliest = if first.conclusion.status == "EXPIRED" {
        Some(check.created + check.ttl - CLOCK_TOLERANCE)
    } else {
        check.concluding
    };
    if earliest.is_none_or(|earliest| first.received < earliest) {
        violations.add("callbacks before the conclusion", || format!("{id}: {:?}", first.conclusion));
    }
    for attempt in check.attempts.iter().filter(|attempt| attempt.conclusion != *conclusion) {
        violations.add("callbacks that differ from their check", || {
            format!("{id}: {:?}, check {conclusion:?}", attempt.conclusion)
        });
    }
    if first.number != 1 {
        violations.add("first attempts missing", || format!("{id}: attempt {}", first.number));
    }
    for (attempt, next) in check.attempts.iter().zip(&check.attempts[1..]) {
        let sequence = || {
            let gap = next.received - attempt.received;
            format!("{id}: attempt {} after {:.1} s, {:?}", next.number, gap.as_secs_f64(), attempt.reaction)
        };
        if next.number == attempt.number {
            // The node could not store the result, or a pooled connection was closed, which it replaces immediately.
            let replaced_connection =
                attempt.reaction == Reaction::Disconnect && next.received - attempt.received < RECONNECT_TIME;
            if !replaced_connection && !faults.affects_any(attempt.received, next.received) {
                violations.add("callbacks repeated without a fault", sequence);
            }
        } else if next.number != attempt.number + 1 || attempt.retry_at().is_none() {
            violations.add("callbacks out of sequence", sequence);
        } else if attempt.retry_at().is_some_and(|due| next.received + CLOCK_TOLERANCE < due) {
            violations.add("callbacks before their retry time", sequence);
        }
    }
    if check.attempts.last().is_some_and(|last| last.number > MAX_ATTEMPTS) {
        violations.add("callbacks with too many attempts", || id.to_owned());
    }
    if check.delivery_deadline().is_some_and(|deadline| deadline < Instant::now()) {
        violations.add("callbacks missing", || format!("{id}: {} attempts", check.attempts.len()));
    }
}
