//! What was dealt with lately, so that nothing is done twice.

use std::{collections::HashMap, collections::VecDeque, time::Duration};

use jiff::Timestamp;

use super::secret::Digest;

/// Keeps values for a while, and the newest of too many.
#[derive(Debug)]
pub(super) struct Memory<V> {
    lifetime: Duration,
    capacity: usize,
    values: HashMap<Digest, V>,
    /// In the order of coming, which is that of forgetting.
    order: VecDeque<(Timestamp, Digest)>,
}

impl<V: Copy> Memory<V> {
    pub(super) fn new(lifetime: Duration, capacity: usize) -> Self {
        Memory { lifetime, capacity, values: HashMap::new(), order: VecDeque::new() }
    }

    pub(super) fn recall(&mut self, key: &Digest, now: Timestamp) -> Option<V> {
        self.forget(now);
        self.values.get(key).copied()
    }

    /// Keeps a value, unless there is one under the key already.
    pub(super) fn keep(&mut self, key: Digest, value: V, now: Timestamp) {
        self.forget(now);
        if self.values.contains_key(&key) {
            return;
        }
        if self.order.len() >= self.capacity {
            self.drop_oldest();
        }
        self.values.insert(key, value);
        self.order.push_back((now, key));
    }

    fn forget(&mut self, now: Timestamp) {
        while self.order.front().is_some_and(|(kept_at, _)| *kept_at + self.lifetime <= now) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
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
    fn it_forgets_what_is_old() {
        let mut memory = Memory::new(Duration::from_secs(10), 100);
        memory.keep([1; 32], 'a', at(0));
        memory.keep([1; 32], 'b', at(5));
        assert_eq!(memory.recall(&[1; 32], at(9)), Some('a'));
        assert_eq!(memory.recall(&[1; 32], at(10)), None);
        memory.keep([1; 32], 'b', at(10));
        assert_eq!(memory.recall(&[1; 32], at(19)), Some('b'));
    }

    #[test]
    fn it_never_holds_more_than_it_may() {
        let mut memory = Memory::new(Duration::from_secs(10), 3);
        for key in 0..100 {
            memory.keep([key; 32], key, at(0));
        }
        assert_eq!((memory.values.len(), memory.order.len()), (3, 3));
        assert_eq!(memory.recall(&[96; 32], at(0)), None);
        assert_eq!(memory.recall(&[97; 32], at(0)), Some(97));
    }
}
