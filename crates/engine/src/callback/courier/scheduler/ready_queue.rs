//! Priority queue of tenants or destinations that can start an attempt.

use std::{
    collections::{BTreeSet, HashMap},
    hash::Hash,
};

/// Ordered by held slots; among equals, least recently served first.
pub struct ReadyQueue<K> {
    ranks: HashMap<K, (usize, u64)>,
    order: BTreeSet<(usize, u64, K)>,
}

impl<K> Default for ReadyQueue<K> {
    fn default() -> Self {
        ReadyQueue { ranks: HashMap::new(), order: BTreeSet::new() }
    }
}

impl<K: Clone + Eq + Hash + Ord> ReadyQueue<K> {
    /// Adds a key with this turn, or updates its held slots and keeps its turn.
    pub fn set(&mut self, key: &K, held: usize, turn: u64) {
        let turn = match self.ranks.get(key) {
            Some((known, _)) if *known == held => return,
            Some((_, turn)) => *turn,
            None => turn,
        };
        self.place(key, (held, turn));
    }

    /// Moves a key behind its equals after it was served.
    pub fn move_back(&mut self, key: &K, turn: u64) {
        if let Some((held, _)) = self.ranks.get(key) {
            self.place(key, (*held, turn));
        }
    }

    pub fn remove(&mut self, key: &K) {
        if let Some((held, turn)) = self.ranks.remove(key) {
            self.order.remove(&(held, turn, key.clone()));
        }
    }

    pub fn first(&self) -> Option<&K> {
        self.order.first().map(|(_, _, key)| key)
    }

    pub fn iter(&self) -> impl Iterator<Item = &K> {
        self.order.iter().map(|(_, _, key)| key)
    }

    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    fn place(&mut self, key: &K, (held, turn): (usize, u64)) {
        if let Some((held, turn)) = self.ranks.insert(key.clone(), (held, turn)) {
            self.order.remove(&(held, turn, key.clone()));
        }
        self.order.insert((held, turn, key.clone()));
    }
}
