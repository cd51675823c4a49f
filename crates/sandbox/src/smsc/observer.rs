//! Counts and records of SMS, for tests and for display.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use super::{DeliveryOutcome, Sms, SmsAddress};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmscCounts {
    /// Current binds of every mode.
    pub binds: usize,
    pub binds_rejected: u64,
    /// Connections closed because of the limit.
    pub connections_rejected: u64,
    /// SMS without an outcome.
    pub queued: usize,
    /// SMS accepted by a receiver.
    pub delivered: u64,
    /// SMS rejected by a receiver.
    pub rejected: u64,
    /// SMS whose attempts are exhausted.
    pub retries_exhausted: u64,
    /// Sent messages, including parts, copies and retries.
    pub attempts: u64,
    /// Attempts that failed temporarily.
    pub failed_attempts: u64,
}

/// A sent SMS and its outcome.
#[derive(Clone, PartialEq, Eq)]
pub struct SmsRecord {
    pub id: u64,
    pub from: SmsAddress,
    pub to: SmsAddress,
    pub text: String,
    pub attempts: u32,
    /// `None` while it is queued.
    pub outcome: Option<DeliveryOutcome>,
}

/// Shows the length of the text, never the text.
impl fmt::Debug for SmsRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SmsRecord")
            .field("id", &self.id)
            .field("from", &self.from)
            .field("to", &self.to)
            .field("characters", &self.text.chars().count())
            .field("attempts", &self.attempts)
            .field("outcome", &self.outcome)
            .finish()
    }
}

/// Observer of an SMSC. Clones share the data, which stays available after a shutdown.
#[derive(Clone, Debug)]
pub struct SmscObserver {
    counts: Arc<watch::Sender<SmscCounts>>,
    records: Arc<Mutex<VecDeque<SmsRecord>>>,
    max_records: usize,
}

impl SmscObserver {
    pub(super) fn new(max_records: usize) -> Self {
        Self { counts: Arc::default(), records: Arc::default(), max_records }
    }

    pub fn counts(&self) -> SmscCounts {
        *self.counts.borrow()
    }

    /// Waits until the counts match.
    pub async fn wait_until(&self, mut predicate: impl FnMut(&SmscCounts) -> bool) -> SmscCounts {
        let mut changes = self.counts.subscribe();
        // The sender is never dropped.
        changes.wait_for(|counts| predicate(counts)).await.map_or_else(|_| self.counts(), |counts| *counts)
    }

    /// Recent SMS, oldest first.
    pub fn sent_sms(&self) -> Vec<SmsRecord> {
        self.records().iter().cloned().collect()
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut SmscCounts)) {
        self.counts.send_modify(change);
    }

    pub(super) fn record_sent(&self, id: u64, sms: &Sms) {
        let mut records = self.records();
        while records.len() >= self.max_records.max(1) {
            records.pop_front();
        }
        records.push_back(SmsRecord {
            id,
            from: sms.from.clone(),
            to: sms.to.clone(),
            text: sms.text.clone(),
            attempts: 0,
            outcome: None,
        });
        drop(records);
        self.count(|counts| counts.queued += 1);
    }

    pub(super) fn record_attempt(&self, id: u64) {
        self.update_record(id, |record| record.attempts += 1);
        self.count(|counts| counts.attempts += 1);
    }

    pub(super) fn record_outcome(&self, id: u64, outcome: DeliveryOutcome) {
        self.update_record(id, |record| record.outcome = Some(outcome));
        self.count(|counts| {
            counts.queued -= 1;
            match outcome {
                DeliveryOutcome::Acknowledged => counts.delivered += 1,
                DeliveryOutcome::Rejected(_) => counts.rejected += 1,
                DeliveryOutcome::RetriesExhausted(_) => counts.retries_exhausted += 1,
                DeliveryOutcome::Stopped => {}
            }
        });
    }

    /// Updates a record, if it is still kept; searches from the newest.
    fn update_record(&self, id: u64, change: impl FnOnce(&mut SmsRecord)) {
        if let Some(record) = self.records().iter_mut().rev().find(|record| record.id == id) {
            change(record);
        }
    }

    fn records(&self) -> MutexGuard<'_, VecDeque<SmsRecord>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
