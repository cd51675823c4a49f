//! Detects repeated requests and messages.

use std::{num::NonZeroUsize, time::Duration};

use jiff::Timestamp;
use lru::LruCache;

use super::vendor::Digest;

/// Bounded cache for detecting repeated requests and messages. Entries expire after `lifetime`; the oldest one is
/// evicted when the cache is full.
#[derive(Debug)]
pub(super) struct ReplayCache<V> {
    lifetime: Duration,
    entries: LruCache<Digest, (Timestamp, V)>,
}

impl<V: Copy> ReplayCache<V> {
    pub(super) fn new(lifetime: Duration, capacity: NonZeroUsize) -> Self {
        // `LruCache::new` would allocate the whole capacity.
        let mut entries = LruCache::unbounded();
        entries.resize(capacity);
        ReplayCache { lifetime, entries }
    }

    pub(super) fn get(&self, key: &Digest, now: Timestamp) -> Option<V> {
        let (inserted_at, value) = self.entries.peek(key)?;
        (now < *inserted_at + self.lifetime).then_some(*value)
    }

    /// Inserts a value, unless the key already has one that has not expired.
    pub(super) fn insert(&mut self, key: Digest, value: V, now: Timestamp) {
        if self.get(&key, now).is_none() {
            self.entries.put(key, (now, value));
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
        let mut cache = ReplayCache::new(Duration::from_secs(10), NonZeroUsize::new(100).unwrap());
        cache.insert([1; 32], 'a', at(0));
        cache.insert([1; 32], 'b', at(5));
        assert_eq!(cache.get(&[1; 32], at(9)), Some('a'));
        assert_eq!(cache.get(&[1; 32], at(10)), None);
        cache.insert([1; 32], 'b', at(10));
        assert_eq!(cache.get(&[1; 32], at(19)), Some('b'));
    }

    #[test]
    fn capacity_is_respected() {
        let mut cache = ReplayCache::new(Duration::from_secs(10), NonZeroUsize::new(3).unwrap());
        for key in 0..100 {
            cache.insert([key; 32], key, at(0));
        }
        assert_eq!(cache.entries.len(), 3);
        assert_eq!(cache.get(&[96; 32], at(0)), None);
        assert_eq!(cache.get(&[97; 32], at(0)), Some(97));
    }
}
