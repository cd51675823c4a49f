//! What the message centre has seen: for tests, and for a page that shows it.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use super::{Outcome, Party, Sms};

/// How many of everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Binds that there are now, of every kind.
    pub binds: usize,
    /// Binds that were refused.
    pub binds_refused: u64,
    /// Connections that were closed at once, because there were too many.
    pub turned_away: u64,
    /// SMS that have not come to their end.
    pub queued: usize,
    /// SMS that a receiver has taken.
    pub delivered: u64,
    /// SMS that a receiver did not want.
    pub refused: u64,
    /// SMS that were tried too often.
    pub given_up: u64,
    /// Messages that were put on a link, each part and copy and repetition counted.
    pub attempts: u64,
    /// Attempts that are, or would be, followed by another.
    pub setbacks: u64,
}

/// An SMS, and what became of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    pub id: u64,
    pub from: Party,
    pub to: Party,
    pub text: String,
    pub attempts: u32,
    /// None while it is on its way.
    pub outcome: Option<Outcome>,
}

/// Tells of the text how long it is, never what it says.
impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("id", &self.id)
            .field("from", &self.from)
            .field("to", &self.to)
            .field("characters", &self.text.chars().count())
            .field("attempts", &self.attempts)
            .field("outcome", &self.outcome)
            .finish()
    }
}

/// Looks on. Clones see the same, also after the message centre has stopped.
#[derive(Clone, Debug)]
pub struct Observer {
    counts: Arc<watch::Sender<Counts>>,
    records: Arc<Mutex<VecDeque<Record>>>,
    remembered: usize,
}

impl Observer {
    pub(super) fn new(remembered: usize) -> Self {
        Self { counts: Arc::default(), records: Arc::default(), remembered }
    }

    pub fn counts(&self) -> Counts {
        *self.counts.borrow()
    }

    /// Waits until the counts are as wished.
    pub async fn wait_until(&self, mut wished: impl FnMut(&Counts) -> bool) -> Counts {
        let mut changes = self.counts.subscribe();
        // There is always a sender: this observer has it.
        changes.wait_for(|counts| wished(counts)).await.map_or_else(|_| self.counts(), |counts| *counts)
    }

    /// The last messages, oldest first.
    pub fn messages(&self) -> Vec<Record> {
        self.records().iter().cloned().collect()
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut Counts)) {
        self.counts.send_modify(change);
    }

    pub(super) fn sent(&self, id: u64, sms: &Sms) {
        let mut records = self.records();
        while records.len() >= self.remembered.max(1) {
            records.pop_front();
        }
        records.push_back(Record {
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

    pub(super) fn attempted(&self, id: u64) {
        self.amend(id, |record| record.attempts += 1);
        self.count(|counts| counts.attempts += 1);
    }

    pub(super) fn ended(&self, id: u64, outcome: Outcome) {
        self.amend(id, |record| record.outcome = Some(outcome));
        self.count(|counts| {
            counts.queued -= 1;
            match outcome {
                Outcome::Acknowledged => counts.delivered += 1,
                Outcome::Rejected(_) => counts.refused += 1,
                Outcome::GaveUp(_) => counts.given_up += 1,
                Outcome::Stopped => {}
            }
        });
    }

    /// Changes a record, if it is still remembered. Those that still move are mostly the newest.
    fn amend(&self, id: u64, change: impl FnOnce(&mut Record)) {
        if let Some(record) = self.records().iter_mut().rev().find(|record| record.id == id) {
            change(record);
        }
    }

    fn records(&self) -> MutexGuard<'_, VecDeque<Record>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
