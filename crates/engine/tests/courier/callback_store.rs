//! In-memory callback store with scripted failures.

use std::{collections::BTreeMap, ops::RangeInclusive};

use async_trait::async_trait;
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use ringtrue_domain::{audit::AuditEvent, lifecycle::CheckId, tenancy::ProjectId};
use ringtrue_engine::ports::{
    callbacks::{
        AttemptOutcome, AttemptSettlement, AttemptSummary, CallbackList, CallbackQuery, CallbackRecord, CallbackStore,
        LeasedCallback, ResendOutcome, ResendProgress,
    },
    idempotency::IdempotentResponse,
    store::{StoreError, TenantLookup},
};

#[derive(Default)]
pub struct FakeCallbackStore(Mutex<StoreState>);

#[derive(Default)]
pub struct StoreState {
    /// Callbacks that wait for an attempt, with their due times.
    pub waiting: BTreeMap<CheckId, (LeasedCallback, Timestamp)>,
    pub settled: Vec<AttemptSettlement>,
    /// How many of the next `settle_attempt` calls fail with `StoreError::Unavailable`.
    pub transient_failures: u32,
    /// How many of the next `settle_attempt` calls fail with `StoreError::Refused`.
    pub permanent_failures: u32,
}

impl FakeCallbackStore {
    pub fn state(&self) -> MutexGuard<'_, StoreState> {
        self.0.lock()
    }

    pub fn put(&self, callback: LeasedCallback, due_at: Timestamp) {
        self.state().waiting.insert(callback.check, (callback, due_at));
    }
}

#[async_trait]
impl CallbackStore for FakeCallbackStore {
    async fn lease_due_callbacks(
        &self,
        now: Timestamp,
        lease_until: Timestamp,
        limit: u32,
        skip: &[ProjectId],
    ) -> Result<Vec<LeasedCallback>, StoreError> {
        let mut state = self.state();
        let is_due = |callback: &LeasedCallback, due_at: Timestamp| due_at <= now && !skip.contains(&callback.project);
        let due = state.waiting.values_mut().filter(|(callback, due_at)| is_due(callback, *due_at));
        let due = due.take(limit as usize);
        Ok(due
            .map(|(callback, due_at)| {
                *due_at = lease_until;
                callback.clone()
            })
            .collect())
    }

    async fn next_callback_due_at(&self) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.state().waiting.values().map(|(_, due_at)| *due_at).min())
    }

    async fn settle_attempt(&self, settlement: AttemptSettlement) -> Result<bool, StoreError> {
        let mut state = self.state();
        if state.transient_failures > 0 {
            state.transient_failures -= 1;
            return Err(StoreError::Unavailable("scripted failure".to_owned()));
        }
        if state.permanent_failures > 0 {
            state.permanent_failures -= 1;
            return Err(StoreError::Refused("no".to_owned()));
        }
        let Some((callback, due_at)) = state.waiting.get_mut(&settlement.check) else { return Ok(false) };
        if callback.failed_attempts + 1 != settlement.attempt {
            return Ok(false);
        }
        match settlement.outcome {
            AttemptOutcome::RetryAt(at) => {
                callback.failed_attempts += 1;
                *due_at = at;
            }
            AttemptOutcome::Delivered | AttemptOutcome::GivenUp => {
                state.waiting.remove(&settlement.check);
            }
        }
        state.settled.push(settlement);
        Ok(true)
    }

    async fn give_up_overdue_callbacks(&self, _: Timestamp, _: u32) -> Result<u64, StoreError> {
        unreachable!("no test restores a backup")
    }

    async fn release_leases(&self, leases: Vec<(CheckId, Timestamp)>, due_at: Timestamp) -> Result<(), StoreError> {
        let mut state = self.state();
        for (check, lease_until) in leases {
            if let Some((_, lease)) = state.waiting.get_mut(&check).filter(|(_, lease)| *lease == lease_until) {
                *lease = due_at;
            }
        }
        Ok(())
    }

    async fn resend_callback(
        &self,
        _project: ProjectId,
        _check: CheckId,
        _due_at: Timestamp,
        _audit: &AuditEvent,
        _completion: Option<IdempotentResponse>,
    ) -> Result<TenantLookup<ResendOutcome>, StoreError> {
        Ok(TenantLookup::NotFound)
    }

    async fn find_callback(
        &self,
        _project: ProjectId,
        _check: CheckId,
    ) -> Result<TenantLookup<CallbackRecord>, StoreError> {
        Ok(TenantLookup::NotFound)
    }

    async fn list_callbacks(&self, _: CallbackQuery) -> Result<CallbackList, StoreError> {
        Ok(CallbackList::default())
    }

    async fn list_attempts(&self, _: ProjectId, _: Vec<CheckId>, _: u32) -> Result<Vec<AttemptSummary>, StoreError> {
        Ok(vec![])
    }

    async fn resend_progress(
        &self,
        _: ProjectId,
        _: RangeInclusive<CheckId>,
        _: Timestamp,
    ) -> Result<ResendProgress, StoreError> {
        Ok(ResendProgress::default())
    }
}
