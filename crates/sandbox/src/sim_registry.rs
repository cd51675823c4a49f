//! SIM swaps of simulated numbers, by owner.
//!
//! Owners share the simulated numbers, so each owner sees only its own swaps. Kept in bounded memory.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// The oldest swap of an owner is removed beyond this.
const MAX_SWAPS_PER_OWNER: usize = 20;

/// Swapped SIMs of all owners. `Debug` hides the numbers.
#[derive(Default, derive_more::Debug)]
#[debug("SimRegistry({} swapped)", self.0.lock().by_owner_and_number.len())]
pub struct SimRegistry(Mutex<Swaps>);

#[derive(Default)]
struct Swaps {
    by_owner_and_number: BTreeMap<(u128, String), Swap>,
    /// Incremented by every swap.
    sequence: u64,
}

struct Swap {
    /// Unix time in seconds.
    at: i64,
    sequence: u64,
}

impl SimRegistry {
    /// For all owners together.
    const MAX_SWAPS: usize = 10_000;

    /// Records a SIM swap at a Unix time in seconds.
    pub fn swap(&self, owner: u128, number: &str, at: i64) {
        let mut swaps = self.0.lock();
        swaps.sequence += 1;
        let sequence = swaps.sequence;
        swaps.by_owner_and_number.insert((owner, number.to_owned()), Swap { at, sequence });
        if swaps.of_owner(owner).count() > MAX_SWAPS_PER_OWNER {
            swaps.remove_oldest(|of| of == owner);
        }
        if swaps.by_owner_and_number.len() > Self::MAX_SWAPS {
            swaps.remove_oldest(|_| true);
        }
    }

    /// Undoes the swap of a number.
    pub fn restore(&self, owner: u128, number: &str) {
        self.0.lock().by_owner_and_number.remove(&(owner, number.to_owned()));
    }

    pub fn swapped_at(&self, owner: u128, number: &str) -> Option<i64> {
        self.0.lock().by_owner_and_number.get(&(owner, number.to_owned())).map(|swap| swap.at)
    }

    /// Swapped numbers of an owner, with the Unix time of the swap.
    pub fn swapped_numbers(&self, owner: u128) -> Vec<(String, i64)> {
        self.0.lock().of_owner(owner).map(|(number, swap)| (number.to_owned(), swap.at)).collect()
    }
}

impl Swaps {
    fn of_owner(&self, owner: u128) -> impl Iterator<Item = (&str, &Swap)> {
        let from = self.by_owner_and_number.range((owner, String::new())..);
        from.take_while(move |((of, _), _)| *of == owner).map(|((_, number), swap)| (number.as_str(), swap))
    }

    /// Removes the oldest swap of the matching owners.
    fn remove_oldest(&mut self, matches_owner: impl Fn(u128) -> bool) {
        let matching = self.by_owner_and_number.iter().filter(|((owner, _), _)| matches_owner(*owner));
        let oldest = matching.min_by_key(|(_, swap)| swap.sequence).map(|(key, _)| key.clone());
        oldest.and_then(|key| self.by_owner_and_number.remove(&key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swaps_are_separate_for_each_owner() {
        let registry = SimRegistry::default();
        registry.swap(1, "+99012300", 100);
        registry.swap(1, "+99012302", 200);
        registry.swap(2, "+99012300", 300);
        assert_eq!(registry.swapped_numbers(1), [("+99012300".to_owned(), 100), ("+99012302".to_owned(), 200)]);
        assert_eq!(registry.swapped_at(2, "+99012300"), Some(300));
        registry.swap(1, "+99012300", 400);
        registry.restore(1, "+99012302");
        assert_eq!(registry.swapped_numbers(1), [("+99012300".to_owned(), 400)]);
        assert_eq!((registry.swapped_at(1, "+99012302"), registry.swapped_numbers(3)), (None, vec![]));
    }

    #[test]
    fn oldest_swap_of_an_owner_is_removed() {
        let registry = SimRegistry::default();
        registry.swap(2, "+9901230000", 0);
        for number in (0..=MAX_SWAPS_PER_OWNER).rev() {
            registry.swap(1, &format!("+99012300{number:02}"), 0);
        }
        let swapped = registry.swapped_numbers(1);
        assert_eq!(swapped.len(), MAX_SWAPS_PER_OWNER);
        assert!(!swapped.iter().any(|(number, _)| number.ends_with("0020")), "the oldest swap is removed");
        assert_eq!(registry.swapped_numbers(2).len(), 1);
    }

    #[test]
    fn total_swaps_are_bounded() {
        let registry = SimRegistry::default();
        for owner in 0..=SimRegistry::MAX_SWAPS as u128 {
            registry.swap(owner, "+9901230000", 0);
        }
        assert_eq!((registry.swapped_numbers(0), registry.swapped_numbers(1).len()), (vec![], 1));
        assert_eq!(format!("{registry:?}"), "SimRegistry(10000 swapped)");
    }
}
