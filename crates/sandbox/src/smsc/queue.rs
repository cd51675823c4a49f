//! The queue of SMS on their way, and everybody's share of it.
//!
//! Handsets belong to accounts, and accounts to groups. No account can fill the queue, nor keep the links busy: SMS that
//! are late, lost or many delay those of their own account only.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Semaphore, SemaphorePermit};

use super::SendError;

/// Whom a handset belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Account {
    pub id: u128,
    /// Accounts of one group have a share of the queue together.
    pub group: u128,
}

/// How many SMS may be on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    pub total: usize,
    pub per_group: usize,
    pub per_account: usize,
    /// Of those, how many are being delivered at a time.
    pub deliveries_per_account: usize,
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self { total: 20_000, per_group: 1_000, per_account: 500, deliveries_per_account: 8 }
    }
}

#[derive(Debug)]
pub(super) struct Queue {
    limits: QueueLimits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    total: usize,
    groups: HashMap<u128, usize>,
    accounts: HashMap<u128, Share>,
}

#[derive(Debug)]
struct Share {
    queued: usize,
    deliveries: Arc<Semaphore>,
}

impl Queue {
    pub(super) fn new(limits: QueueLimits) -> Arc<Self> {
        Arc::new(Self { limits, state: Mutex::default() })
    }

    /// A place in the queue. SMS without an account have no share of their own.
    pub(super) fn enter(self: &Arc<Self>, account: Option<Account>) -> Result<Place, SendError> {
        let QueueLimits { total, per_group, per_account, deliveries_per_account } = self.limits;
        let mut state = self.lock();
        if state.total >= total {
            return Err(SendError::QueueFull);
        }
        let mut deliveries = None;
        if let Some(Account { id, group }) = account {
            let of_group = state.groups.get(&group).copied().unwrap_or_default();
            let of_account = state.accounts.get(&id).map_or(0, |share| share.queued);
            if of_group >= per_group || of_account >= per_account {
                return Err(SendError::AccountFull);
            }
            *state.groups.entry(group).or_default() += 1;
            let share = state.accounts.entry(id).or_insert_with(|| Share {
                queued: 0,
                deliveries: Arc::new(Semaphore::new(deliveries_per_account.max(1))),
            });
            share.queued += 1;
            deliveries = Some(Arc::clone(&share.deliveries));
        }
        state.total += 1;
        drop(state);
        Ok(Place { queue: Arc::clone(self), account, deliveries })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the queue, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    queue: Arc<Queue>,
    account: Option<Account>,
    deliveries: Option<Arc<Semaphore>>,
}

impl Place {
    /// Waits until the account may have one more SMS delivered.
    pub(super) async fn delivery_permit(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.deliveries.as_ref()?.acquire().await.ok()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.total -= 1;
        let Some(Account { id, group }) = self.account else { return };
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
    fn nobody_takes_more_than_a_share() {
        let queue = Queue::new(QueueLimits { total: 6, per_group: 3, per_account: 2, ..QueueLimits::default() });
        let account = |id, group| Some(Account { id, group });
        let mut places: Vec<Place> =
            [account(1, 1), account(1, 1), account(2, 1)].map(|account| queue.enter(account).unwrap()).into();
        assert_eq!(queue.enter(account(1, 1)).err(), Some(SendError::AccountFull));
        assert_eq!(queue.enter(account(3, 1)).err(), Some(SendError::AccountFull), "the group is full");
        places.extend([account(4, 2), account(4, 2), None].map(|account| queue.enter(account).unwrap()));
        assert_eq!(queue.enter(account(5, 3)).err(), Some(SendError::QueueFull));
        places.clear();
        let state = queue.lock();
        assert_eq!((state.total, state.groups.len(), state.accounts.len()), (0, 0, 0));
    }
}
