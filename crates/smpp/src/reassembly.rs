//! Joins the parts of concatenated messages.
//!
//! Parts arrive in any order, repeatedly, or not at all. Incomplete messages are keyed by source, destination,
//! reference and total, and expire after a timeout. Memory is bounded: anyone can send first parts without the rest, so
//! each sender has a limit. A part beyond a limit is rejected, and the peer resends it; stored parts are never evicted.
//!
//! Callers pass the current time as `now`, in any type to which durations can be added.
//!
//! Octets are concatenated before they are decoded, because some senders split within a character.

use std::{collections::HashMap, ops::Add, time::Duration};

use thiserror::Error;

use crate::{
    content::MessageContent,
    pdu::Address,
    text::{DataCoding, DefaultAlphabet},
    udh::{ConcatenationReference, Segment},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReassemblyLimits {
    /// Lifetime of an incomplete message, from its first received part.
    pub timeout: Duration,
    pub max_messages: usize,
    pub max_messages_per_sender: usize,
    /// Maximum memory of all stored parts, including a fixed overhead for each part.
    pub max_octets: usize,
}

impl Default for ReassemblyLimits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_mins(5),
            max_messages: 10_000,
            max_messages_per_sender: 8,
            max_octets: 8 * 1024 * 1024,
        }
    }
}

/// Result of adding a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartOutcome<I> {
    /// The message is complete.
    Complete(ConcatenatedMessage<I>),
    /// The part is stored. `first`: no other part of its message has arrived yet. `missing`: number of missing parts.
    Stored { first: bool, missing: u8 },
    /// The same part is stored already.
    Duplicate,
}

/// Why a part is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReassemblyError {
    #[error("invalid part number {sequence} of {total}")]
    InvalidPartNumber { sequence: u8, total: u8 },
    #[error("too many incomplete messages from this sender")]
    SenderLimitReached,
    #[error("too many incomplete messages")]
    LimitReached,
}

/// A complete message, with all of its parts.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
pub struct ConcatenatedMessage<I> {
    /// Time of the first received part, which need not be part 1.
    pub first_seen: I,
    #[debug(skip)]
    parts: Vec<(DataCoding, Vec<u8>)>,
}

impl<I> ConcatenatedMessage<I> {
    pub fn decode_text(&self, default: DefaultAlphabet) -> String {
        decode_parts(self.parts.iter().map(|(data_coding, octets)| (*data_coding, octets.as_slice())), default)
    }
}

/// Decodes the text of all parts of a message, in order. Concatenates adjacent parts with the same coding first.
pub fn decode_parts<'a>(parts: impl IntoIterator<Item = (DataCoding, &'a [u8])>, default: DefaultAlphabet) -> String {
    let mut coding_runs: Vec<(DataCoding, Vec<u8>)> = vec![];
    for (data_coding, octets) in parts {
        match coding_runs.last_mut() {
            Some((coding, run)) if *coding == data_coding => run.extend(octets),
            _ => coding_runs.push((data_coding, octets.to_vec())),
        }
    }
    coding_runs.iter().map(|(data_coding, octets)| data_coding.text_coding(default).decode(octets)).collect()
}

/// An incomplete message that has expired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiredMessage<I> {
    pub source: Address,
    pub destination: Address,
    pub first_seen: I,
    pub total: u8,
    pub missing: u8,
}

/// Stores incomplete messages until all of their parts have arrived.
#[derive(Debug)]
pub struct Reassembly<I> {
    limits: ReassemblyLimits,
    by_sender: HashMap<Address, Vec<IncompleteMessage<I>>>,
    messages: usize,
    octets: usize,
}

#[derive(Debug)]
struct IncompleteMessage<I> {
    destination: Address,
    reference: ConcatenationReference,
    first_seen: I,
    total: u8,
    /// Sorted by sequence.
    parts: Vec<StoredPart>,
}

#[derive(PartialEq, Eq, derive_more::Debug)]
#[debug("StoredPart({sequence}, {data_coding:?}, {} octets)", octets.len())]
struct StoredPart {
    sequence: u8,
    data_coding: DataCoding,
    octets: Vec<u8>,
}

impl StoredPart {
    fn memory_size(&self) -> usize {
        size_of::<Self>() + self.octets.len()
    }
}

impl<I: Copy + Ord + Add<Duration, Output = I>> Reassembly<I> {
    pub fn new(limits: ReassemblyLimits) -> Self {
        Self { limits, by_sender: HashMap::new(), messages: 0, octets: 0 }
    }

    /// Adds a part.
    ///
    /// A part that differs from the stored part with the same number belongs to a newer message with a reused
    /// reference; it replaces the older message.
    pub fn add(
        &mut self,
        source: &Address,
        destination: &Address,
        segment: Segment,
        content: &MessageContent<'_>,
        now: I,
    ) -> Result<PartOutcome<I>, ReassemblyError> {
        let Segment { total, sequence, .. } = segment;
        if sequence == 0 || sequence > total {
            return Err(ReassemblyError::InvalidPartNumber { sequence, total });
        }
        let part = StoredPart { sequence, data_coding: content.data_coding, octets: content.octets.to_vec() };

        let existing = self.remove_message(source, destination, segment).filter(|message| {
            let is_expired = message.first_seen + self.limits.timeout <= now;
            !is_expired && message.part(sequence).is_none_or(|stored| *stored == part)
        });
        let mut message = existing.unwrap_or_else(|| IncompleteMessage::new(destination, segment, now));
        let outcome = self.store_part(source, &mut message, part);
        if outcome.is_ok() && message.missing() == 0 {
            return Ok(PartOutcome::Complete(message.into_concatenated()));
        }
        if !message.parts.is_empty() {
            self.insert_message(source, message);
        }
        outcome
    }

    /// Removes and returns expired messages.
    pub fn expire(&mut self, now: I) -> Vec<ExpiredMessage<I>> {
        let timeout = self.limits.timeout;
        let mut expired = vec![];
        for (source, messages) in &mut self.by_sender {
            for message in messages.extract_if(.., |message| message.first_seen + timeout <= now) {
                self.messages -= 1;
                self.octets -= message.memory_size();
                expired.push(ExpiredMessage {
                    source: source.clone(),
                    first_seen: message.first_seen,
                    total: message.total,
                    missing: message.missing(),
                    destination: message.destination,
                });
            }
        }
        self.by_sender.retain(|_, messages| !messages.is_empty());
        expired
    }

    /// Returns the earliest expiry of an incomplete message.
    pub fn next_deadline(&self) -> Option<I> {
        self.by_sender.values().flatten().map(|message| message.first_seen + self.limits.timeout).min()
    }

    /// Returns the number of incomplete messages.
    pub fn incomplete_message_count(&self) -> usize {
        self.messages
    }

    fn store_part(
        &self,
        source: &Address,
        message: &mut IncompleteMessage<I>,
        part: StoredPart,
    ) -> Result<PartOutcome<I>, ReassemblyError> {
        let Err(index) = message.position(part.sequence) else { return Ok(PartOutcome::Duplicate) };
        let first = message.parts.is_empty();
        let sender_messages = self.by_sender.get(source).map_or(0, Vec::len);
        if first && message.total > 1 && sender_messages >= self.limits.max_messages_per_sender {
            return Err(ReassemblyError::SenderLimitReached);
        }
        if first && message.total > 1 && self.messages >= self.limits.max_messages {
            return Err(ReassemblyError::LimitReached);
        }
        if self.octets + message.memory_size() + part.memory_size() > self.limits.max_octets {
            return Err(ReassemblyError::LimitReached);
        }
        message.parts.insert(index, part);
        Ok(PartOutcome::Stored { first, missing: message.missing() })
    }

    fn remove_message(
        &mut self,
        source: &Address,
        destination: &Address,
        segment: Segment,
    ) -> Option<IncompleteMessage<I>> {
        let messages = self.by_sender.get_mut(source)?;
        let index = messages.iter().position(|message| {
            message.reference == segment.reference
                && message.total == segment.total
                && message.destination == *destination
        })?;
        let message = messages.swap_remove(index);
        if messages.is_empty() {
            self.by_sender.remove(source);
        }
        self.messages -= 1;
        self.octets -= message.memory_size();
        Some(message)
    }

    fn insert_message(&mut self, source: &Address, message: IncompleteMessage<I>) {
        self.messages += 1;
        self.octets += message.memory_size();
        self.by_sender.entry(source.clone()).or_default().push(message);
    }
}

impl<I> IncompleteMessage<I> {
    fn new(destination: &Address, segment: Segment, now: I) -> Self {
        Self {
            destination: destination.clone(),
            reference: segment.reference,
            first_seen: now,
            total: segment.total,
            parts: vec![],
        }
    }

    fn missing(&self) -> u8 {
        u8::try_from(self.parts.len()).map_or(0, |stored| self.total.saturating_sub(stored))
    }

    /// Returns the index of a part. The error is the index at which the part would be inserted.
    fn position(&self, sequence: u8) -> Result<usize, usize> {
        self.parts.binary_search_by_key(&sequence, |part| part.sequence)
    }

    fn part(&self, sequence: u8) -> Option<&StoredPart> {
        self.position(sequence).ok().map(|index| &self.parts[index])
    }

    fn memory_size(&self) -> usize {
        self.parts.iter().map(StoredPart::memory_size).sum()
    }

    fn into_concatenated(self) -> ConcatenatedMessage<I> {
        let parts = self.parts.into_iter().map(|part| (part.data_coding, part.octets)).collect();
        ConcatenatedMessage { first_seen: self.first_seen, parts }
    }
}
