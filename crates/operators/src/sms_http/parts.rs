//! Concatenated messages whose parts a vendor delivers one by one.
//!
//! Parts are held in memory only, so a part is acknowledged only after its complete message is stored; until then it
//! gets a 503, and the vendor resends it. A crash therefore loses nothing, and parts that reached different nodes
//! eventually meet on one of them. The last part completes the message immediately. The cost is a few extra requests
//! for messages that are rare here, since our codes fit into one SMS.
//!
//! A part whose message stays incomplete for longer than any check lives is acknowledged and dropped; otherwise the
//! vendor would resend it for a day.
//!
//! If the store fails when a message is completed, the vendor resends all parts, since none was acknowledged.

use std::{collections::HashMap, num::NonZeroUsize, time::Duration};

use jiff::Timestamp;
use lru::LruCache;
use ringtrue_smpp::{
    content::MessageContent,
    pdu::Address,
    reassembly::{PartOutcome, Reassembly, ReassemblyError, ReassemblyLimits},
    text::DefaultAlphabet,
    udh::Segment,
};

use super::vendor::{Digest, MessagePart, digest_parts};

/// Lifetime of the longest-lived check.
const REASSEMBLY_TIMEOUT: Duration = Duration::from_mins(15);
/// Slightly longer than vendors resend a part.
const FIRST_SEEN_TTL: Duration = Duration::from_hours(25);
const FIRST_SEEN_ENTRIES: NonZeroUsize = NonZeroUsize::new(16_384).unwrap();

pub(super) struct PartBuffer {
    reassembly: Reassembly<Timestamp>,
    incomplete: HashMap<Digest, IncompleteMessage>,
    first_seen: ReplayCache<Timestamp>,
}

/// Held parts of one message.
struct IncompleteMessage {
    since: Timestamp,
    keys: Vec<Digest>,
}

pub(super) enum PartProgress {
    /// The text, and the keys of all parts.
    Complete { text: String, keys: Vec<Digest> },
    /// `first`: it is the first part of its message.
    Held { first: bool },
    /// Its message expired.
    Abandoned,
    /// A reassembly limit is reached.
    Rejected,
}

impl PartBuffer {
    pub fn new() -> Self {
        PartBuffer {
            reassembly: Reassembly::new(ReassemblyLimits {
                timeout: REASSEMBLY_TIMEOUT,
                ..ReassemblyLimits::default()
            }),
            incomplete: HashMap::new(),
            first_seen: ReplayCache::new(FIRST_SEEN_TTL, FIRST_SEEN_ENTRIES),
        }
    }

    /// `key` identifies the part and is the same when the vendor resends it.
    pub fn add(&mut self, from: &str, to: &str, part: &MessagePart, key: Digest, now: Timestamp) -> PartProgress {
        self.reassembly.expire(now);
        self.incomplete.retain(|_, incomplete| now < incomplete.since + REASSEMBLY_TIMEOUT);
        match self.first_seen.get(&key, now) {
            Some(first_seen) if first_seen + REASSEMBLY_TIMEOUT <= now => return PartProgress::Abandoned,
            Some(_) => {}
            None => self.first_seen.insert(key, now, now),
        }

        let address = |text: &str| Address { value: text.to_owned(), ..Address::default() };
        let MessagePart { segment, data_coding, octets } = part;
        let content = MessageContent {
            data_coding: *data_coding,
            octets,
            fill_bits: 0,
            segment: Some(*segment),
            udh_error: None,
        };
        match self.reassembly.add(&address(from), &address(to), *segment, &content, now) {
            Ok(PartOutcome::Complete(message)) => {
                let incomplete = self.incomplete.remove(&message_key(from, to, *segment));
                let keys = incomplete.into_iter().flat_map(|incomplete| incomplete.keys).chain([key]).collect();
                PartProgress::Complete { text: message.decode_text(DefaultAlphabet::default()), keys }
            }
            Ok(PartOutcome::Stored { first, .. }) => {
                let message = self.incomplete.entry(message_key(from, to, *segment));
                message.or_insert(IncompleteMessage { since: now, keys: vec![] }).keys.push(key);
                PartProgress::Held { first }
            }
            Ok(PartOutcome::Duplicate) => PartProgress::Held { first: false },
            // Invalid part numbers are ignored: the part is complete by itself.
            Err(ReassemblyError::InvalidPartNumber { .. }) => {
                PartProgress::Complete { text: content.decode_text(DefaultAlphabet::default()), keys: vec![key] }
            }
            Err(ReassemblyError::SenderLimitReached | ReassemblyError::LimitReached) => PartProgress::Rejected,
        }
    }
}

fn message_key(from: &str, to: &str, Segment { reference, total, .. }: Segment) -> Digest {
    digest_parts(&[from.as_bytes(), to.as_bytes(), &reference.to_be_bytes(), &[total]])
}

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

    /// Keeps an existing value.
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
