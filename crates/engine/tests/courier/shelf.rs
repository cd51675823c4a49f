//! A store of callbacks whose failures a test can order. What real stores do is held by their own contract suite.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard},
};

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{audit::AuditEvent, lifecycle::CheckId, tenancy::ProjectId};
use ringtrue_engine::ports::{
    CallbackRecord, CallbackStore, Completion, Found, LeasedCallback, Resent, Settlement, StoreError, Then,
};

#[derive(Default)]
pub struct Shelf(Mutex<Contents>);

#[derive(Default)]
pub struct Contents {
    /// What waits, and from when on it may be leased.
    pub waiting: BTreeMap<CheckId, (LeasedCallback, Timestamp)>,
    pub settled: Vec<Settlement>,
    /// So many calls of `settle` fail from now on.
    pub failures: u32,
    /// So many are refused for good.
    pub refusals: u32,
}

impl Shelf {
    pub fn contents(&self) -> MutexGuard<'_, Contents> {
        self.0.lock().unwrap()
    }

    pub fn put(&self, callback: LeasedCallback, due_at: Timestamp) {
        self.contents().waiting.insert(callback.check, (callback, due_at));
    }
}

#[async_trait]
impl CallbackStore for Shelf {
    async fn lease_due(
        &self,
        now: Timestamp,
        lease_until: Timestamp,
        limit: u32,
        skip: &[ProjectId],
    ) -> Result<Vec<LeasedCallback>, StoreError> {
        let mut contents = self.contents();
        let is_due = |callback: &LeasedCallback, due_at: Timestamp| due_at <= now && !skip.contains(&callback.project);
        let due = contents.waiting.values_mut().filter(|(callback, due_at)| is_due(callback, *due_at));
        let due = due.take(limit as usize);
        Ok(due
            .map(|(callback, due_at)| {
                *due_at = lease_until;
                callback.clone()
            })
            .collect())
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.contents().waiting.values().map(|(_, due_at)| *due_at).min())
    }

    async fn settle(&self, settlement: Settlement) -> Result<bool, StoreError> {
        let mut contents = self.contents();
        if contents.failures > 0 {
            contents.failures -= 1;
            return Err(StoreError::Unavailable("away".to_owned()));
        }
        if contents.refusals > 0 {
            contents.refusals -= 1;
            return Err(StoreError::Refused("no".to_owned()));
        }
        let Some((callback, due_at)) = contents.waiting.get_mut(&settlement.check) else { return Ok(false) };
        if callback.failed_attempts + 1 != settlement.attempt {
            return Ok(false);
        }
        match settlement.then {
            Then::RetryAt(at) => {
                callback.failed_attempts += 1;
                *due_at = at;
            }
            Then::Delivered | Then::GivenUp => {
                contents.waiting.remove(&settlement.check);
            }
        }
        contents.settled.push(settlement);
        Ok(true)
    }

    async fn give_up_overdue(&self, _: Timestamp, _: u32) -> Result<u64, StoreError> {
        unreachable!("nothing is restored here")
    }

    async fn release(&self, leases: Vec<(CheckId, Timestamp)>, due_at: Timestamp) -> Result<(), StoreError> {
        let mut contents = self.contents();
        for (check, lease_until) in leases {
            if let Some((_, lease)) = contents.waiting.get_mut(&check).filter(|(_, lease)| *lease == lease_until) {
                *lease = due_at;
            }
        }
        Ok(())
    }

    async fn resend(
        &self,
        _project: ProjectId,
        _check: CheckId,
        _due_at: Timestamp,
        _audit: &AuditEvent,
        _completion: Option<Completion>,
    ) -> Result<Found<Resent>, StoreError> {
        Ok(Found::Nothing)
    }

    async fn callback(&self, _project: ProjectId, _check: CheckId) -> Result<Found<CallbackRecord>, StoreError> {
        Ok(Found::Nothing)
    }
}
