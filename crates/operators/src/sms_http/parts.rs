//! Longer messages whose parts a vendor hands over one by one.
//!
//! Parts are held in memory only, so a part is not acknowledged until its message is complete and safe: it is answered
//! 503, and the vendor brings it again. Then it is known, and acknowledged if its message has been dealt with in the
//! meantime. So a crash loses nothing, and parts that came to different nodes meet on one of them sooner or later. The
//! last part to arrive completes the message at once: nobody waits for the repetitions. The price is a few requests
//! more for a message that is rare here, because what we ask for fits into one SMS.
//!
//! A part whose message stays incomplete for longer than any check lives is acknowledged and given up; else the vendor
//! would bring it for a day.
//!
//! If the store fails as a message is completed, the parts come again too, all of them: none was acknowledged.

use std::{collections::HashMap, time::Duration};

use jiff::Timestamp;
use ringtrue_smpp::{
    content::Content,
    pdu::Address,
    reassembly::{Limits, Outcome, Reassembly, Refusal},
    text::DefaultAlphabet,
    udh::Segment,
};

use super::{
    memory::Memory,
    secret::{Digest, digest},
    vendor::Part,
};

/// As long as the longest-lived check.
const PATIENCE: Duration = Duration::from_mins(15);
/// Somewhat longer than vendors go on bringing a part.
const ATTENTION: Duration = Duration::from_hours(25);
const REMEMBERED: usize = 16_384;

pub(super) struct Parts {
    reassembly: Reassembly<Timestamp>,
    waiting: HashMap<Digest, Waiting>,
    first_seen: Memory<Timestamp>,
}

/// The parts that are held of one message.
struct Waiting {
    since: Timestamp,
    keys: Vec<Digest>,
}

/// What became of a part.
pub(super) enum Progress {
    /// The message, and the keys of all its parts.
    Complete { text: String, keys: Vec<Digest> },
    /// `first` when nothing of its message was there before.
    Held { first: bool },
    /// Its message was never completed.
    Abandoned,
    /// There is no room for it now.
    Refused,
}

impl Parts {
    pub fn new() -> Self {
        Parts {
            reassembly: Reassembly::new(Limits { patience: PATIENCE, ..Limits::default() }),
            waiting: HashMap::new(),
            first_seen: Memory::new(ATTENTION, REMEMBERED),
        }
    }

    /// Takes a part in. `key` is the part's own, the same whenever it comes again.
    pub fn add(&mut self, from: &str, to: &str, part: &Part, key: Digest, now: Timestamp) -> Progress {
        self.reassembly.expire(now);
        self.waiting.retain(|_, waiting| now < waiting.since + PATIENCE);
        match self.first_seen.recall(&key, now) {
            Some(first_seen) if first_seen + PATIENCE <= now => return Progress::Abandoned,
            Some(_) => {}
            None => self.first_seen.keep(key, now, now),
        }

        let address = |text: &str| Address { value: text.to_owned(), ..Address::default() };
        let Part { segment, data_coding, octets } = part;
        let content =
            Content { data_coding: *data_coding, octets, fill_bits: 0, segment: Some(*segment), header_fault: None };
        match self.reassembly.add(&address(from), &address(to), *segment, &content, now) {
            Ok(Outcome::Complete(message)) => {
                let waiting = self.waiting.remove(&message_key(from, to, *segment));
                let keys = waiting.into_iter().flat_map(|waiting| waiting.keys).chain([key]).collect();
                Progress::Complete { text: message.text(DefaultAlphabet::default()), keys }
            }
            Ok(Outcome::Held { first, .. }) => {
                let message = self.waiting.entry(message_key(from, to, *segment));
                message.or_insert(Waiting { since: now, keys: vec![] }).keys.push(key);
                Progress::Held { first }
            }
            Ok(Outcome::Duplicate) => Progress::Held { first: false },
            // Numbered like nothing that can be completed: it is taken for what it says.
            Err(Refusal::Numbering { .. }) => {
                Progress::Complete { text: content.text(DefaultAlphabet::default()), keys: vec![key] }
            }
            Err(Refusal::SenderFull | Refusal::Full) => Progress::Refused,
        }
    }
}

fn message_key(from: &str, to: &str, Segment { reference, total, .. }: Segment) -> Digest {
    digest(&[from.as_bytes(), to.as_bytes(), &reference.to_be_bytes(), &[total]])
}
