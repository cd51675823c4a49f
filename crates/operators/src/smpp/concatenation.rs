//! Concatenated SMS, whose parts arrive over any bind and in any order.
//!
//! `ringtrue_smpp::reassembly` joins the parts; this module decides how each part is answered. A part is acknowledged
//! after its SMS was delivered. A resent part, whose response was lost or an error, gets the current state of its SMS.
//! Reasons and exceptions: `docs/decisions/0008-acknowledging-sms-parts.md`.
//!
//! No waiting, no clock, and no `Debug`, since it holds texts. Memory is bounded: incomplete SMS by the reassembly's
//! limits, complete ones by [`MAX_COMPLETE_SMS`] and [`MAX_RETAINED_TEXT_OCTETS`], and both by time.

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasher, RandomState},
    mem,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use ringtrue_smpp::{
    content::MessageContent,
    pdu::Address,
    reassembly::{PartOutcome, Reassembly, ReassemblyLimits},
    text::DefaultAlphabet,
    udh::Segment,
};
use tokio::{sync::watch, time::Instant};

use super::PartOrder;

/// Complete SMS kept to answer resent parts.
const MAX_COMPLETE_SMS: usize = 10_000;
/// Text kept of failed SMS, for redelivery.
const MAX_RETAINED_TEXT_OCTETS: usize = 8 * 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReassemblyStage {
    Incomplete,
    /// The inbox is processing it.
    Delivering,
    Delivered,
    /// The inbox failed to process it.
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    source: Address,
    destination: Address,
    reference: u16,
    total: u8,
}

struct ConcatenatedSms {
    id: u64,
    /// Arrival of the first part; of the last one once complete.
    since: Instant,
    /// Numbers and hashes of the received parts.
    parts: Vec<(u8, u64)>,
    /// Parts answered with a temporary error because others were missing.
    deferred: Vec<u8>,
    /// A part was acknowledged before the SMS was complete.
    acknowledged_early: bool,
    stage: watch::Sender<ReassemblyStage>,
    /// Kept until delivered.
    text: Arc<str>,
}

/// How to answer a part.
pub(super) enum PartAction {
    /// The SMS is complete: pass it to the inbox, then answer.
    Deliver(CompleteSms),
    /// Parts are missing, or the inbox is processing the SMS.
    Wait(WaitingPart),
    /// The missing parts will not arrive before this one is acknowledged.
    AcknowledgeEarly { first: bool },
    /// The SMS was delivered.
    Acknowledge,
    /// A reassembly limit is reached.
    Reject,
}

/// A part whose response has to wait.
pub(super) struct WaitingPart {
    /// It is the first part of its SMS to arrive.
    pub(super) first: bool,
    pub(super) stage: watch::Receiver<ReassemblyStage>,
    key: Key,
    id: u64,
    sequence: u8,
}

/// All concatenated SMS of a connector.
pub(super) struct ConcatenatedMessages {
    part_order: PartOrder,
    deadline: Duration,
    default_alphabet: DefaultAlphabet,
    hasher: RandomState,
    state: Mutex<State>,
}

struct State {
    reassembly: Reassembly<Instant>,
    messages: HashMap<Key, ConcatenatedSms>,
    /// Complete SMS, oldest first.
    completed: VecDeque<(Key, u64)>,
    text_octets: usize,
    last_id: u64,
}

impl ConcatenatedMessages {
    pub(super) fn new(part_order: PartOrder, deadline: Duration, default_alphabet: DefaultAlphabet) -> Arc<Self> {
        let reassembly = Reassembly::new(ReassemblyLimits { timeout: deadline, ..ReassemblyLimits::default() });
        let (messages, completed) = (HashMap::new(), VecDeque::new());
        let state = State { reassembly, messages, completed, text_octets: 0, last_id: 0 };
        Arc::new(Self { part_order, deadline, default_alphabet, hasher: RandomState::new(), state: Mutex::new(state) })
    }

    /// Requires a valid segment with `total > 1`.
    pub(super) fn add_part(
        self: &Arc<Self>,
        source: &Address,
        destination: &Address,
        segment: Segment,
        content: &MessageContent<'_>,
        now: Instant,
    ) -> PartAction {
        let Segment { reference, total, sequence } = segment;
        let key = Key { source: source.clone(), destination: destination.clone(), reference, total };
        let part = (sequence, self.hasher.hash_one((content.data_coding, content.octets)));
        let mut state = self.state.lock();
        if let Some(sms) = state.messages.get(&key).filter(|sms| sms.is_complete() && sms.parts.contains(&part)) {
            return self.repeat_part(sms, key, sequence);
        }
        let (first, is_repeated) = match state.reassembly.add(source, destination, segment, content, now) {
            Ok(PartOutcome::Complete(message)) => {
                let text: Arc<str> = message.decode_text(self.default_alphabet).into();
                let sms = state.complete(&key, part, text, now);
                return PartAction::Deliver(self.complete_sms(sms, key));
            }
            Ok(PartOutcome::Stored { first, .. }) => (first, false),
            Ok(PartOutcome::Duplicate) => (false, true),
            Err(_) => return PartAction::Reject,
        };
        let sms = state.record_part(&key, part, first, now);
        let is_deferred = is_repeated && sms.deferred.contains(&sequence);
        if self.part_order == PartOrder::OneByOne || sms.acknowledged_early || is_deferred {
            sms.acknowledged_early = true;
            return PartAction::AcknowledgeEarly { first };
        }
        PartAction::Wait(WaitingPart { first, stage: sms.stage.subscribe(), id: sms.id, key, sequence })
    }

    /// Handles a resent part of a complete SMS.
    fn repeat_part(self: &Arc<Self>, sms: &ConcatenatedSms, key: Key, sequence: u8) -> PartAction {
        // Under the lock, so that only one of several resent parts redelivers the SMS.
        let failed = sms.stage.send_if_modified(|stage| {
            let failed = *stage == ReassemblyStage::Failed;
            if failed {
                *stage = ReassemblyStage::Delivering;
            }
            failed
        });
        if failed {
            return PartAction::Deliver(self.complete_sms(sms, key));
        }
        if *sms.stage.borrow() == ReassemblyStage::Delivered {
            return PartAction::Acknowledge;
        }
        PartAction::Wait(WaitingPart { first: false, stage: sms.stage.subscribe(), id: sms.id, key, sequence })
    }

    fn complete_sms(self: &Arc<Self>, sms: &ConcatenatedSms, key: Key) -> CompleteSms {
        let (text, stage) = (Arc::clone(&sms.text), sms.stage.clone());
        CompleteSms { messages: Arc::clone(self), key, id: sms.id, text, stage }
    }

    /// Records that a part was answered with a temporary error.
    pub(super) fn mark_deferred(&self, waiting: &WaitingPart) {
        let mut state = self.state.lock();
        if let Some(sms) = state.messages.get_mut(&waiting.key).filter(|sms| sms.id == waiting.id) {
            sms.deferred.retain(|sequence| *sequence != waiting.sequence);
            sms.deferred.push(waiting.sequence);
        }
    }

    /// Removes expired SMS. Returns the number of incomplete ones.
    pub(super) fn expire(&self, now: Instant) -> usize {
        let mut state = self.state.lock();
        let expired_count = state.reassembly.expire(now).len();
        let is_expired = |sms: &ConcatenatedSms| sms.since + self.deadline <= now;
        let mut freed = 0;
        state.messages.retain(|_, sms| {
            let is_kept = !is_expired(sms);
            freed += if is_kept { 0 } else { sms.text.len() };
            is_kept
        });
        state.text_octets -= freed;
        let State { messages, completed, .. } = &mut *state;
        completed.retain(|(key, id)| messages.get(key).is_some_and(|sms| sms.id == *id));
        expired_count
    }
}

impl ConcatenatedSms {
    fn is_complete(&self) -> bool {
        *self.stage.borrow() != ReassemblyStage::Incomplete
    }
}

impl State {
    /// Records a part of an incomplete SMS.
    fn record_part(&mut self, key: &Key, part: (u8, u64), first: bool, now: Instant) -> &mut ConcatenatedSms {
        if first {
            // Replaces an older SMS with the same reference and releases its waiting parts.
            self.remove(key);
        }
        let sms = self.entry(key, now);
        if !sms.parts.contains(&part) {
            sms.parts.push(part);
        }
        sms
    }

    fn complete(&mut self, key: &Key, part: (u8, u64), text: Arc<str>, now: Instant) -> &ConcatenatedSms {
        while self.completed.len() >= MAX_COMPLETE_SMS {
            self.remove_oldest();
        }
        self.text_octets += text.len();
        let id = self.entry(key, now).id;
        self.completed.push_back((key.clone(), id));
        let sms = self.entry(key, now);
        sms.parts.push(part);
        sms.since = now;
        sms.text = text;
        sms.stage.send_replace(ReassemblyStage::Delivering);
        sms
    }

    fn entry(&mut self, key: &Key, now: Instant) -> &mut ConcatenatedSms {
        self.messages.entry(key.clone()).or_insert_with(|| {
            self.last_id += 1;
            ConcatenatedSms {
                id: self.last_id,
                since: now,
                parts: vec![],
                deferred: vec![],
                acknowledged_early: false,
                stage: watch::Sender::new(ReassemblyStage::Incomplete),
                text: "".into(),
            }
        })
    }

    fn remove_oldest(&mut self) {
        if let Some((key, id)) = self.completed.pop_front()
            && self.messages.get(&key).is_some_and(|sms| sms.id == id)
        {
            self.remove(&key);
        }
    }

    fn remove(&mut self, key: &Key) {
        if let Some(sms) = self.messages.remove(key) {
            self.text_octets -= sms.text.len();
        }
    }
}

/// A complete SMS on its way to the inbox. Dropping it without `mark_delivered` marks it as failed.
pub(super) struct CompleteSms {
    messages: Arc<ConcatenatedMessages>,
    key: Key,
    id: u64,
    pub(super) text: Arc<str>,
    stage: watch::Sender<ReassemblyStage>,
}

impl CompleteSms {
    pub(super) fn mark_delivered(self) {
        self.settle(ReassemblyStage::Delivered);
    }

    fn settle(&self, stage: ReassemblyStage) {
        let mut state = self.messages.state.lock();
        if let Some(sms) = state.messages.get_mut(&self.key).filter(|sms| sms.id == self.id) {
            if stage == ReassemblyStage::Delivered {
                let octets = mem::replace(&mut sms.text, "".into()).len();
                state.text_octets -= octets;
            } else if state.text_octets > MAX_RETAINED_TEXT_OCTETS {
                // The SMSC resends the parts that were not acknowledged.
                state.remove(&self.key);
            }
        }
        self.stage.send_replace(stage);
    }
}

impl Drop for CompleteSms {
    fn drop(&mut self) {
        if *self.stage.borrow() == ReassemblyStage::Delivering {
            self.settle(ReassemblyStage::Failed);
        }
    }
}
