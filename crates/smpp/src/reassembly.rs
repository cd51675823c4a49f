//! Putting longer messages together from their parts.
//!
//! Parts come in any order, twice, or not at all. They are held by who sent them to whom under which reference, until
//! they are complete or their time is up. Everything is bounded: a stranger with a phone can open messages and never
//! end them, so each sender has a small share of its own, and a part that there is no room for is refused rather than
//! another one forgotten; the peer keeps it and sends it again.
//!
//! No clock in here: `now` is an argument, of any type that durations can be added to.
//!
//! Octets are joined before they are read as text, because careless senders cut through characters.

use std::{collections::HashMap, fmt, ops::Add, time::Duration};

use thiserror::Error;

use crate::{
    content::Content,
    pdu::Address,
    text::{DataCoding, DefaultAlphabet},
    udh::Segment,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long the parts of a message may take, counted from the first to arrive.
    pub patience: Duration,
    pub open_messages: usize,
    pub open_messages_per_sender: usize,
    /// Of all parts that are held, each counted with what it takes to hold it.
    pub octets: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            patience: Duration::from_mins(5),
            open_messages: 10_000,
            open_messages_per_sender: 8,
            octets: 8 * 1024 * 1024,
        }
    }
}

/// What became of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<I> {
    /// It was the last one that was missing.
    Complete(LongMessage<I>),
    /// It is held. `first` when nothing of its message was there before.
    Held { first: bool, missing: u8 },
    /// The same part is held already.
    Duplicate,
}

/// Why a part is not held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    #[error("part {sequence} of {total} cannot be")]
    Numbering { sequence: u8, total: u8 },
    #[error("too many unfinished messages of this sender")]
    SenderFull,
    #[error("too many unfinished messages")]
    Full,
}

/// A message whose parts have all arrived.
#[derive(Clone, PartialEq, Eq)]
pub struct LongMessage<I> {
    /// When the first of its parts arrived, which need not be part one.
    pub first_seen: I,
    runs: Vec<(DataCoding, Vec<u8>)>,
}

impl<I: fmt::Debug> fmt::Debug for LongMessage<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let octets: usize = self.runs.iter().map(|(_, octets)| octets.len()).sum();
        f.debug_struct("LongMessage").field("first_seen", &self.first_seen).field("octets", &octets).finish()
    }
}

impl<I> LongMessage<I> {
    pub fn text(&self, default: DefaultAlphabet) -> String {
        self.runs.iter().map(|(data_coding, octets)| data_coding.coding(default).decode(octets)).collect()
    }
}

/// An unfinished message whose time was up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abandoned<I> {
    pub source: Address,
    pub destination: Address,
    pub first_seen: I,
    pub total: u8,
    pub missing: u8,
}

/// The messages that are not complete yet.
#[derive(Debug)]
pub struct Reassembly<I> {
    limits: Limits,
    by_sender: HashMap<Address, Vec<Open<I>>>,
    messages: usize,
    octets: usize,
}

#[derive(Debug)]
struct Open<I> {
    destination: Address,
    reference: u16,
    first_seen: I,
    total: u8,
    /// In the order of their numbers. No place is kept for those that are missing: most never come.
    parts: Vec<Held>,
}

#[derive(PartialEq, Eq)]
struct Held {
    sequence: u8,
    data_coding: DataCoding,
    octets: Vec<u8>,
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Held({}, {:?}, {} octets)", self.sequence, self.data_coding, self.octets.len())
    }
}

impl Held {
    /// A part without octets takes room all the same.
    fn weight(&self) -> usize {
        size_of::<Self>() + self.octets.len()
    }
}

impl<I: Copy + Ord + Add<Duration, Output = I>> Reassembly<I> {
    pub fn new(limits: Limits) -> Self {
        Self { limits, by_sender: HashMap::new(), messages: 0, octets: 0 }
    }

    /// Takes a part in.
    ///
    /// A part that differs from the one held in its place belongs to a newer message under a reference used again:
    /// the older one, which had its chance, makes way.
    pub fn add(
        &mut self,
        source: &Address,
        destination: &Address,
        segment: Segment,
        content: &Content<'_>,
        now: I,
    ) -> Result<Outcome<I>, Refusal> {
        let Segment { total, sequence, .. } = segment;
        if sequence == 0 || sequence > total {
            return Err(Refusal::Numbering { sequence, total });
        }
        let part = Held { sequence, data_coding: content.data_coding, octets: content.octets.to_vec() };

        let known = self.take(source, destination, segment).filter(|open| {
            let overdue = open.first_seen + self.limits.patience <= now;
            !overdue && open.part(sequence).is_none_or(|held| *held == part)
        });
        let mut open = known.unwrap_or_else(|| Open::new(destination, segment, now));
        let placed = self.place(source, &mut open, part);
        if placed.is_ok() && open.missing() == 0 {
            return Ok(Outcome::Complete(open.join()));
        }
        if !open.parts.is_empty() {
            self.put_back(source, open);
        }
        placed
    }

    /// Gives up the messages whose time is up, and names them.
    pub fn expire(&mut self, now: I) -> Vec<Abandoned<I>> {
        let patience = self.limits.patience;
        let mut abandoned = vec![];
        for (source, messages) in &mut self.by_sender {
            for open in messages.extract_if(.., |open| open.first_seen + patience <= now) {
                self.messages -= 1;
                self.octets -= open.octets();
                abandoned.push(Abandoned {
                    source: source.clone(),
                    first_seen: open.first_seen,
                    total: open.total,
                    missing: open.missing(),
                    destination: open.destination,
                });
            }
        }
        self.by_sender.retain(|_, messages| !messages.is_empty());
        abandoned
    }

    /// When [`expire`](Self::expire) will next have something to do.
    pub fn next_deadline(&self) -> Option<I> {
        self.by_sender.values().flatten().map(|open| open.first_seen + self.limits.patience).min()
    }

    /// How many messages are not complete.
    pub fn open_messages(&self) -> usize {
        self.messages
    }

    fn place(&self, source: &Address, open: &mut Open<I>, part: Held) -> Result<Outcome<I>, Refusal> {
        let Err(at) = open.position(part.sequence) else { return Ok(Outcome::Duplicate) };
        let first = open.parts.is_empty();
        let of_sender = self.by_sender.get(source).map_or(0, Vec::len);
        if first && open.total > 1 && of_sender >= self.limits.open_messages_per_sender {
            return Err(Refusal::SenderFull);
        }
        if first && open.total > 1 && self.messages >= self.limits.open_messages {
            return Err(Refusal::Full);
        }
        if self.octets + open.octets() + part.weight() > self.limits.octets {
            return Err(Refusal::Full);
        }
        open.parts.insert(at, part);
        Ok(Outcome::Held { first, missing: open.missing() })
    }

    fn take(&mut self, source: &Address, destination: &Address, segment: Segment) -> Option<Open<I>> {
        let messages = self.by_sender.get_mut(source)?;
        let at = messages.iter().position(|open| {
            open.reference == segment.reference && open.total == segment.total && open.destination == *destination
        })?;
        let open = messages.swap_remove(at);
        if messages.is_empty() {
            self.by_sender.remove(source);
        }
        self.messages -= 1;
        self.octets -= open.octets();
        Some(open)
    }

    fn put_back(&mut self, source: &Address, open: Open<I>) {
        self.messages += 1;
        self.octets += open.octets();
        self.by_sender.entry(source.clone()).or_default().push(open);
    }
}

impl<I> Open<I> {
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
        u8::try_from(self.parts.len()).map_or(0, |held| self.total.saturating_sub(held))
    }

    /// Where a part is, or where it would be.
    fn position(&self, sequence: u8) -> Result<usize, usize> {
        self.parts.binary_search_by_key(&sequence, |part| part.sequence)
    }

    fn part(&self, sequence: u8) -> Option<&Held> {
        self.position(sequence).ok().map(|at| &self.parts[at])
    }

    fn octets(&self) -> usize {
        self.parts.iter().map(Held::weight).sum()
    }

    /// Joins neighbours of the same coding.
    fn join(self) -> LongMessage<I> {
        let mut runs: Vec<(DataCoding, Vec<u8>)> = vec![];
        for Held { data_coding, octets, .. } in self.parts {
            match runs.last_mut() {
                Some((coding, run)) if *coding == data_coding => run.extend(octets),
                _ => runs.push((data_coding, octets)),
            }
        }
        LongMessage { first_seen: self.first_seen, runs }
    }
}
