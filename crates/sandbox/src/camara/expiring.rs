//! What is remembered for a while, and never more of it than there is room for.

use std::collections::{BTreeSet, HashMap};

/// Values by key, each until its time. When there is no room, the one whose time is nearest goes first.
pub(super) struct Expiring<V> {
    room: usize,
    values: HashMap<String, (i64, V)>,
    order: BTreeSet<(i64, String)>,
}

impl<V> Expiring<V> {
    pub(super) fn new(room: usize) -> Self {
        Self { room: room.max(1), values: HashMap::new(), order: BTreeSet::new() }
    }

    pub(super) fn insert(&mut self, now: i64, key: String, until: i64, value: V) {
        self.remove(&key);
        while self.order.first().is_some_and(|(first, _)| *first <= now || self.values.len() >= self.room) {
            if let Some((_, gone)) = self.order.pop_first() {
                self.values.remove(&gone);
            }
        }
        self.order.insert((until, key.clone()));
        self.values.insert(key, (until, value));
    }

    pub(super) fn get_mut(&mut self, now: i64, key: &str) -> Option<&mut V> {
        self.values.get_mut(key).filter(|(until, _)| *until > now).map(|(_, value)| value)
    }

    pub(super) fn contains(&self, now: i64, key: &str) -> bool {
        self.values.get(key).is_some_and(|(until, _)| *until > now)
    }

    pub(super) fn remove(&mut self, key: &str) {
        if let Some((until, _)) = self.values.remove(key) {
            self.order.remove(&(until, key.to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_there_until_its_time() {
        let mut memory = Expiring::new(10);
        memory.insert(0, "key".into(), 5, 'a');
        assert_eq!(memory.get_mut(4, "key"), Some(&mut 'a'));
        assert_eq!(memory.get_mut(5, "key"), None);
        assert!(memory.contains(4, "key") && !memory.contains(5, "key"));
        memory.insert(4, "key".into(), 9, 'b');
        assert_eq!(memory.get_mut(8, "key"), Some(&mut 'b'));
        memory.remove("key");
        assert!(!memory.contains(8, "key") && memory.order.is_empty());
    }

    #[test]
    fn there_is_never_more_than_room() {
        let mut memory = Expiring::new(3);
        for (key, until) in [("a", 30), ("b", 10), ("c", 20), ("d", 40)] {
            memory.insert(0, key.into(), until, ());
        }
        assert!(!memory.contains(0, "b") && ["a", "c", "d"].iter().all(|key| memory.contains(0, key)));
        memory.insert(30, "e".into(), 50, ());
        assert_eq!((memory.values.len(), memory.order.len()), (2, 2));
    }
}
