//! SIMs that were swapped on purpose, and when.
//!
//! Numbers are simulated, and many use the same ones: each owner has a drawer of its own, and sees what it has swapped
//! itself and nothing else. Kept in memory, and never more of it than there is room for.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// How many numbers one owner may have swapped at a time. The one that was swapped first goes back first.
const PER_OWNER: usize = 20;

/// The swaps of all owners.
#[derive(Default)]
pub struct SimDrawer(Mutex<Swaps>);

#[derive(Default)]
struct Swaps {
    /// By owner and number.
    made: BTreeMap<(u128, String), Swap>,
    /// Grows with every swap.
    turn: u64,
}

struct Swap {
    /// In seconds.
    at: i64,
    turn: u64,
}

impl SimDrawer {
    /// However many owners there are.
    const ROOM: usize = 10_000;

    /// The number has had another SIM since this instant, in seconds.
    pub fn swap(&self, owner: u128, number: &str, at: i64) {
        let mut swaps = self.lock();
        swaps.turn += 1;
        let turn = swaps.turn;
        swaps.made.insert((owner, number.to_owned()), Swap { at, turn });
        if swaps.of(owner).count() > PER_OWNER {
            swaps.forget_first(|of| of == owner);
        }
        if swaps.made.len() > Self::ROOM {
            swaps.forget_first(|_| true);
        }
    }

    /// The number has its first SIM again.
    pub fn put_back(&self, owner: u128, number: &str) {
        self.lock().made.remove(&(owner, number.to_owned()));
    }

    pub fn swapped_at(&self, owner: u128, number: &str) -> Option<i64> {
        self.lock().made.get(&(owner, number.to_owned())).map(|swap| swap.at)
    }

    /// Numbers that this owner has swapped, and since when.
    pub fn swapped(&self, owner: u128) -> Vec<(String, i64)> {
        self.lock().of(owner).map(|(number, swap)| (number.to_owned(), swap.at)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Swaps> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Swaps {
    fn of(&self, owner: u128) -> impl Iterator<Item = (&str, &Swap)> {
        let from = self.made.range((owner, String::new())..);
        from.take_while(move |((of, _), _)| *of == owner).map(|((_, number), swap)| (number.as_str(), swap))
    }

    /// Forgets the swap that was made first, of those whose owner is meant.
    fn forget_first(&mut self, is_meant: impl Fn(u128) -> bool) {
        let meant = self.made.iter().filter(|((owner, _), _)| is_meant(*owner));
        let first = meant.min_by_key(|(_, swap)| swap.turn).map(|(key, _)| key.clone());
        first.and_then(|key| self.made.remove(&key));
    }
}

/// Full of numbers.
impl fmt::Debug for SimDrawer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimDrawer({} swapped)", self.lock().made.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_owner_swaps_its_own_sims() {
        let drawer = SimDrawer::default();
        drawer.swap(1, "+99012300", 100);
        drawer.swap(1, "+99012302", 200);
        drawer.swap(2, "+99012300", 300);
        assert_eq!(drawer.swapped(1), [("+99012300".to_owned(), 100), ("+99012302".to_owned(), 200)]);
        assert_eq!(drawer.swapped_at(2, "+99012300"), Some(300));
        drawer.swap(1, "+99012300", 400);
        drawer.put_back(1, "+99012302");
        assert_eq!(drawer.swapped(1), [("+99012300".to_owned(), 400)]);
        assert_eq!((drawer.swapped_at(1, "+99012302"), drawer.swapped(3)), (None, vec![]));
    }

    #[test]
    fn an_owner_has_so_many_and_the_first_goes_back() {
        let drawer = SimDrawer::default();
        drawer.swap(2, "+9901230000", 0);
        for number in (0..=PER_OWNER).rev() {
            drawer.swap(1, &format!("+99012300{number:02}"), 0);
        }
        let swapped = drawer.swapped(1);
        assert_eq!(swapped.len(), PER_OWNER);
        assert!(!swapped.iter().any(|(number, _)| number.ends_with("0020")), "it was the first");
        assert_eq!(drawer.swapped(2).len(), 1);
    }

    #[test]
    fn there_is_room_for_so_many() {
        let drawer = SimDrawer::default();
        for owner in 0..=SimDrawer::ROOM as u128 {
            drawer.swap(owner, "+9901230000", 0);
        }
        assert_eq!((drawer.swapped(0), drawer.swapped(1).len()), (vec![], 1));
        assert_eq!(format!("{drawer:?}"), "SimDrawer(10000 swapped)");
    }
}
