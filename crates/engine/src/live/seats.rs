//! How many windows are open, in all and for each account.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ringtrue_domain::account::AccountId;
use tokio_util::sync::CancellationToken;

use super::WatchError;

/// Enough for some tabs. Browsers open six connections to a host, and a page needs one of them.
const PER_ACCOUNT: usize = 5;
/// Each holds a connection and little else.
const IN_ALL: usize = 200;

#[derive(Debug, Default)]
pub(super) struct Seats(Mutex<Taken>);

#[derive(Debug, Default)]
struct Taken {
    /// What each account holds, the oldest first.
    held: HashMap<AccountId, VecDeque<Held>>,
    last: u64,
}

#[derive(Debug)]
struct Held {
    number: u64,
    lost: CancellationToken,
}

/// Given back when it is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Arc<Seats>,
    account: AccountId,
    number: u64,
    lost: CancellationToken,
}

impl Seats {
    /// Takes a seat. Whoever has as many as may be loses the oldest: a window that was closed is noticed late, and must
    /// not keep its place from the next.
    pub(super) fn take(self: &Arc<Self>, account: AccountId) -> Result<Seat, WatchError> {
        let mut taken = self.taken();
        let in_all = taken.held.values().map(VecDeque::len).sum::<usize>();
        taken.last += 1;
        let number = taken.last;
        let has_all = taken.held.get(&account).is_some_and(|own| own.len() >= PER_ACCOUNT);
        if in_all >= IN_ALL && !has_all {
            return Err(WatchError::TooMany);
        }
        let own = taken.held.entry(account).or_default();
        if has_all && let Some(oldest) = own.pop_front() {
            oldest.lost.cancel();
        }
        let lost = CancellationToken::new();
        own.push_back(Held { number, lost: lost.clone() });
        Ok(Seat { seats: Arc::clone(self), account, number, lost })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// Ends when a later window of the same account has taken the seat.
    pub(super) async fn lost(&self) {
        self.lost.cancelled().await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken();
        if let Some(own) = taken.held.get_mut(&self.account) {
            own.retain(|held| held.number != self.number);
            if own.is_empty() {
                taken.held.remove(&self.account);
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
        let lost = |held: &[Seat]| held.iter().map(|seat| seat.lost.is_cancelled()).collect::<Vec<_>>();
        let mut held: Vec<_> = (0..5).map(|_| seats.take(account(1)).unwrap()).collect();
        assert_eq!(lost(&held), [false; 5]);
        held.pop();
        held.push(seats.take(account(1)).unwrap());
        assert_eq!(lost(&held), [false; 5]);
        held.push(seats.take(account(1)).unwrap());
        assert_eq!(lost(&held), [true, false, false, false, false, false]);
        // What was lost is not given back a second time.
        held.remove(0);
        held.push(seats.take(account(1)).unwrap());
        assert_eq!(lost(&held), [true, false, false, false, false, false]);

        held.extend((5..200).map(|number| seats.take(account(number)).unwrap()));
        assert!(matches!(seats.take(account(2)), Err(WatchError::TooMany)));
        held.push(seats.take(account(1)).unwrap());
        drop(held);
        assert!(seats.taken().held.is_empty());
    }
}
