//! Map with expiring entries and bounded size.

use std::collections::{BTreeSet, HashMap};

/// When full, the entry that expires first is evicted.
pub(super) struct ExpiringMap<V> {
    capacity: usize,
    entries: HashMap<String, (i64, V)>,
    by_expiry: BTreeSet<(i64, String)>,
}

impl<V> ExpiringMap<V> {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), entries: HashMap::new(), by_expiry: BTreeSet::new() }
    }

    pub(super) fn insert(&mut self, now: i64, key: String, expires_at: i64, value: V) {
        self.remove(&key);
        while self.by_expiry.first().is_some_and(|(first, _)| *first <= now || self.entries.len() >= self.capacity) {
            if let Some((_, evicted)) = self.by_expiry.pop_first() {
                self.entries.remove(&evicted);
            }
        }
        self.by_expiry.insert((expires_at, key.clone()));
        self.entries.insert(key, (expires_at, value));
    }

    pub(super) fn get_mut(&mut self, now: i64, key: &str) -> Option<&mut V> {
        self.entries.get_mut(key).filter(|(expires_at, _)| *expires_at > now).map(|(_, value)| value)
    }

    pub(super) fn contains(&self, now: i64, key: &str) -> bool {
        self.entries.get(key).is_some_and(|(expires_at, _)| *expires_at > now)
    }

    pub(super) fn remove(&mut self, key: &str) {
        if let Some((expires_at, _)) = self.entries.remove(key) {
            self.by_expiry.remove(&(expires_at, key.to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_expires() {
        let mut map = ExpiringMap::new(10);
        map.insert(0, "key".into(), 5, 'a');
        assert_eq!(map.get_mut(4, "key"), Some(&mut 'a'));
        assert_eq!(map.get_mut(5, "key"), None);
        assert!(map.contains(4, "key") && !map.contains(5, "key"));
        map.insert(4, "key".into(), 9, 'b');
        assert_eq!(map.get_mut(8, "key"), Some(&mut 'b'));
        map.remove("key");
        assert!(!map.contains(8, "key") && map.by_expiry.is_empty());
    }

    #[test]
    fn capacity_is_bounded() {
        let mut map = ExpiringMap::new(3);
        for (key, expires_at) in [("a", 30), ("b", 10), ("c", 20), ("d", 40)] {
            map.insert(0, key.into(), expires_at, ());
        }
        assert!(!map.contains(0, "b") && ["a", "c", "d"].iter().all(|key| map.contains(0, key)));
        map.insert(30, "e".into(), 50, ());
        assert_eq!((map.entries.len(), map.by_expiry.len()), (2, 2));
    }
}
