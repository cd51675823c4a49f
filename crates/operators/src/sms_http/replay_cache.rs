//! Bounded cache with expiry, for detecting repeated requests and messages.

use std::{collections::HashMap, collections::VecDeque, time::Duration};

use jiff::Timestamp;

use super::secret::Digest;

/// Evicts entries after `lifetime`, and the oldest one when full.
#[derive(Debug)]
pub(super) struct ReplayCache<V> {
    lifetime: Duration,
    capacity: usize,
    values: HashMap<Digest, V>,
    /// In insertion order, which is also the expiry order.
    order: VecDeque<(Timestamp, Digest)>,
}

impl<V: Copy> ReplayCache<V> {
    pub(super) fn new(lifetime: Duration, capacity: usize) -> Self {
        ReplayCache { lifetime, capacity, values: HashMap::new(), order: VecDeque::new() }
    }

    pub(super) fn get(&mut self, key: &Digest, now: Timestamp) -> Option<V> {
        self.evict_expired(now);
        self.values.get(key).copied()
    }

    /// Keeps an existing value.
    pub(super) fn insert(&mut self, key: Digest, value: V, now: Timestamp) {
        self.evict_expired(now);
        if self.values.contains_key(&key) {
            return;
        }
        if self.order.len() >= self.capacity {
            self.evict_oldest();
        }
        self.values.insert(key, value);
        self.order.push_back((now, key));
    }

    fn evict_expired(&mut self, now: Timestamp) {
        while self.order.front().is_some_and(|(inserted_at, _)| *inserted_at + self.lifetime <= now) {
            self.evict_oldest();
        }
    }

    fn evict_oldest(&mut self) {
        if let Some((_, key)) = self.order.pop_front() {
            self.values.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn expired_entries_are_evicted() {
        let mut cache = ReplayCache::new(Duration::from_secs(10), 100);
        cache.insert([1; 32], 'a', at(0));
        cache.insert([1; 32], 'b', at(5));
        assert_eq!(cache.get(&[1; 32], at(9)), Some('a'));
        assert_eq!(cache.get(&[1; 32], at(10)), None);
        cache.insert([1; 32], 'b', at(10));
        assert_eq!(cache.get(&[1; 32], at(19)), Some('b'));
    }

    #[test]
    fn capacity_is_respected() {
        let mut cache = ReplayCache::new(Duration::from_secs(10), 3);
        for key in 0..100 {
            cache.insert([key; 32], key, at(0));
        }
        assert_eq!((cache.values.len(), cache.order.len()), (3, 3));
        assert_eq!(cache.get(&[96; 32], at(0)), None);
        assert_eq!(cache.get(&[97; 32], at(0)), Some(97));
    }
}
