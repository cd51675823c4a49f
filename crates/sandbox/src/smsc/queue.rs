//! Bounded queue of SMS, with limits for accounts and groups.
//!
//! Handsets belong to accounts, and accounts to groups. In the service, an account is a project, and its group is the
//! workspace. An account can neither fill the queue nor block the connections: its SMS delay only each other.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::SendError;

/// The account that owns a handset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueueAccount {
    pub id: u128,
    /// Accounts with the same group share the limit [`QueueLimits::per_group`].
    pub group: u128,
}

/// Limits for the number of queued SMS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    pub total: usize,
    pub per_group: usize,
    pub per_account: usize,
    /// Maximum number of concurrent deliveries of an account.
    pub deliveries_per_account: usize,
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self { total: 20_000, per_group: 1_000, per_account: 500, deliveries_per_account: 8 }
    }
}

#[derive(Debug)]
pub(super) struct SmsQueue {
    limits: QueueLimits,
    state: Mutex<QueueState>,
}

#[derive(Debug, Default)]
struct QueueState {
    total: usize,
    groups: HashMap<u128, usize>,
    accounts: HashMap<u128, AccountShare>,
}

#[derive(Debug)]
struct AccountShare {
    queued: usize,
    deliveries: Arc<Semaphore>,
}

impl SmsQueue {
    pub(super) fn new(limits: QueueLimits) -> Arc<Self> {
        Arc::new(Self { limits, state: Mutex::default() })
    }

    /// Reserves a slot. SMS without an account count only towards the total.
    pub(super) fn reserve(self: &Arc<Self>, account: Option<QueueAccount>) -> Result<QueueSlot, SendError> {
        let QueueLimits { total, per_group, per_account, deliveries_per_account } = self.limits;
        let mut state = self.state.lock();
        if state.total >= total {
            return Err(SendError::QueueFull);
        }
        let mut deliveries = None;
        if let Some(QueueAccount { id, group }) = account {
            let group_queued = state.groups.get(&group).copied().unwrap_or_default();
            let account_queued = state.accounts.get(&id).map_or(0, |share| share.queued);
            if group_queued >= per_group || account_queued >= per_account {
                return Err(SendError::AccountFull);
            }
            *state.groups.entry(group).or_default() += 1;
            let share = state.accounts.entry(id).or_insert_with(|| AccountShare {
                queued: 0,
                deliveries: Arc::new(Semaphore::new(deliveries_per_account.max(1))),
            });
            share.queued += 1;
            deliveries = Some(Arc::clone(&share.deliveries));
        }
        state.total += 1;
        drop(state);
        Ok(QueueSlot { queue: Arc::clone(self), account, deliveries })
    }
}

/// A slot in the queue; dropping it releases the slot.
#[derive(Debug)]
pub(super) struct QueueSlot {
    queue: Arc<SmsQueue>,
    account: Option<QueueAccount>,
    deliveries: Option<Arc<Semaphore>>,
}

impl QueueSlot {
    /// Waits until the account may deliver another SMS. `None`: an SMS without an account needs no permit.
    pub(super) async fn delivery_permit(&self) -> Option<SemaphorePermit<'_>> {
        // `acquire` fails only if the semaphore is closed, which never happens.
        self.deliveries.as_ref()?.acquire().await.ok()
    }
}

impl Drop for QueueSlot {
    fn drop(&mut self) {
        let mut state = self.queue.state.lock();
        state.total -= 1;
        let Some(QueueAccount { id, group }) = self.account else { return };
        if let Some(queued) = state.groups.get_mut(&group) {
            *queued -= 1;
            if *queued == 0 {
                state.groups.remove(&group);
            }
        }
        if let Some(share) = state.accounts.get_mut(&id) {
            share.queued -= 1;
            if share.queued == 0 {
                state.accounts.remove(&id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_limited() {
        let queue = SmsQueue::new(QueueLimits { total: 6, per_group: 3, per_account: 2, ..QueueLimits::default() });
        let account = |id, group| Some(QueueAccount { id, group });
        let mut slots: Vec<QueueSlot> =
            [account(1, 1), account(1, 1), account(2, 1)].map(|account| queue.reserve(account).unwrap()).into();
        assert_eq!(queue.reserve(account(1, 1)).err(), Some(SendError::AccountFull));
        assert_eq!(queue.reserve(account(3, 1)).err(), Some(SendError::AccountFull), "the group is full");
        slots.extend([account(4, 2), account(4, 2), None].map(|account| queue.reserve(account).unwrap()));
        assert_eq!(queue.reserve(account(5, 3)).err(), Some(SendError::QueueFull));
        slots.clear();
        let state = queue.state.lock();
        assert_eq!((state.total, state.groups.len(), state.accounts.len()), (0, 0, 0));
    }
}
