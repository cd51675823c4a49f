//! How many windows are open, in all and for each account.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ringtrue_domain::account::AccountId;

use super::WatchError;

/// Enough for some tabs. Browsers open six connections to a host, and a page needs one of them.
pub(super) const PER_ACCOUNT: usize = 5;
/// Each holds a connection and little else.
const IN_ALL: usize = 200;

#[derive(Debug, Default)]
pub(super) struct Seats(Mutex<HashMap<AccountId, usize>>);

/// Given back when it is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Arc<Seats>,
    account: AccountId,
}

impl Seats {
    pub(super) fn take(self: &Arc<Self>, account: AccountId) -> Result<Seat, WatchError> {
        let mut taken = self.taken();
        if taken.values().sum::<usize>() >= IN_ALL {
            return Err(WatchError::TooMany);
        }
        let own = taken.entry(account).or_default();
        if *own >= PER_ACCOUNT {
            return Err(WatchError::TooManyOfYours);
        }
        *own += 1;
        Ok(Seat { seats: Arc::clone(self), account })
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<AccountId, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken();
        if let Some(own) = taken.get_mut(&self.account) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.account);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn seats_are_limited_for_each_account_and_in_all_and_come_back() {
        let seats = Arc::<Seats>::default();
        let account = |number: u128| AccountId(Uuid::from_u128(number));
        let mut held: Vec<_> = (0..5).map(|_| seats.take(account(1)).unwrap()).collect();
        assert!(matches!(seats.take(account(1)), Err(WatchError::TooManyOfYours)));
        held.pop();
        held.push(seats.take(account(1)).unwrap());
        held.extend((5..200).map(|number| seats.take(account(number)).unwrap()));
        assert!(matches!(seats.take(account(2)), Err(WatchError::TooMany)));
        drop(held);
        assert!(seats.taken().is_empty());
    }
}
