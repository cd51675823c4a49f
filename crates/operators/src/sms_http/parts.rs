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

use std::{collections::HashMap, time::Duration};

use jiff::Timestamp;
use ringtrue_smpp::{
    content::MessageContent,
    pdu::Address,
    reassembly::{PartOutcome, Reassembly, ReassemblyError, ReassemblyLimits},
    text::DefaultAlphabet,
    udh::Segment,
};

use super::{
    replay_cache::ReplayCache,
    secret::{Digest, digest_parts},
    vendor::MessagePart,
};

/// Lifetime of the longest-lived check.
const REASSEMBLY_TIMEOUT: Duration = Duration::from_mins(15);
/// Slightly longer than vendors resend a part.
const FIRST_SEEN_TTL: Duration = Duration::from_hours(25);
const FIRST_SEEN_ENTRIES: usize = 16_384;

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
