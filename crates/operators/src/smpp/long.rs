//! SMS that come in parts, over whichever binds, in any order.
//!
//! `ringtrue_smpp::reassembly` puts the parts together. This knows for whom the parts wait: each is answered once its
//! SMS has been dealt with, and a part that comes again, because its answer was lost or was an error, finds the SMS
//! as it stands. Why, and when a part is acknowledged without that: `docs/decisions/0008-parts-of-an-sms.md`.
//!
//! No waiting in here, no clock, and no `Debug`: texts are in here. Everything is bounded: unfinished SMS by the reassembly's limits, whole ones by
//! [`KEPT`] and [`KEPT_OCTETS`], and both by time.

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasher, RandomState},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ringtrue_smpp::{
    content::Content,
    pdu::Address,
    reassembly::{Limits, Outcome, Reassembly},
    text::DefaultAlphabet,
    udh::Segment,
};
use tokio::{sync::watch, time::Instant};

use super::Succession;

/// How many whole SMS are remembered.
const KEPT: usize = 10_000;
/// How much of the texts of those that are to be tried again.
const KEPT_OCTETS: usize = 8 * 1024 * 1024;

/// How far an SMS has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Parts are missing.
    Gathering,
    /// It is with the inbox.
    Whole,
    Concluded,
    /// The inbox could not deal with it.
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    source: Address,
    destination: Address,
    reference: u16,
    total: u8,
}

struct Long {
    id: u64,
    /// When the first part came, or the last.
    since: Instant,
    /// The numbers of the parts that have come, and what is remembered of them.
    parts: Vec<(u8, u64)>,
    /// Those that the message centre was asked to send again, because the others were missing.
    put_off: Vec<u8>,
    /// A part of it has been acknowledged.
    on_trust: bool,
    stage: watch::Sender<Stage>,
    /// Kept until it is concluded.
    text: Arc<str>,
}

/// What is to be done about a part.
pub(super) enum Step {
    /// The SMS is whole: bring it to the inbox, and settle it.
    Deliver(Whole),
    /// Others are missing, or the SMS is with the inbox.
    Wait(Waiting),
    /// Others are missing, and will not come before this one is acknowledged.
    Trust { first: bool },
    /// The SMS has been dealt with.
    Acknowledge,
    /// There is no room.
    Refuse,
}

/// A part whose answer has to wait.
pub(super) struct Waiting {
    /// Nothing of its SMS was there before.
    pub(super) first: bool,
    pub(super) stage: watch::Receiver<Stage>,
    key: Key,
    id: u64,
    sequence: u8,
}

/// All SMS of a connector of which there are parts.
pub(super) struct LongMessages {
    succession: Succession,
    deadline: Duration,
    default_alphabet: DefaultAlphabet,
    hasher: RandomState,
    state: Mutex<State>,
}

struct State {
    gathering: Reassembly<Instant>,
    known: HashMap<Key, Long>,
    /// Those that are whole, oldest first.
    whole: VecDeque<(Key, u64)>,
    text_octets: usize,
    last_id: u64,
}

impl LongMessages {
    pub(super) fn new(succession: Succession, deadline: Duration, default_alphabet: DefaultAlphabet) -> Arc<Self> {
        let gathering = Reassembly::new(Limits { patience: deadline, ..Limits::default() });
        let (known, whole) = (HashMap::new(), VecDeque::new());
        let state = State { gathering, known, whole, text_octets: 0, last_id: 0 };
        Arc::new(Self { succession, deadline, default_alphabet, hasher: RandomState::new(), state: Mutex::new(state) })
    }

    /// Takes a part in. Its segment is one of several.
    pub(super) fn take(
        self: &Arc<Self>,
        source: &Address,
        destination: &Address,
        segment: Segment,
        content: &Content<'_>,
        now: Instant,
    ) -> Step {
        let Segment { reference, total, sequence } = segment;
        let key = Key { source: source.clone(), destination: destination.clone(), reference, total };
        let part = (sequence, self.hasher.hash_one((content.data_coding, content.octets)));
        let mut state = self.lock();
        if let Some(long) = state.known.get(&key).filter(|long| long.is_whole() && long.parts.contains(&part)) {
            return self.take_again(long, key, sequence);
        }
        let (first, again) = match state.gathering.add(source, destination, segment, content, now) {
            Ok(Outcome::Complete(message)) => {
                let text: Arc<str> = message.text(self.default_alphabet).into();
                let long = state.complete(&key, part, text, now);
                return Step::Deliver(self.whole(long, key));
            }
            Ok(Outcome::Held { first, .. }) => (first, false),
            Ok(Outcome::Duplicate) => (false, true),
            Err(_) => return Step::Refuse,
        };
        let long = state.gather(&key, part, first, now);
        let alone = again && long.put_off.contains(&sequence);
        if self.succession == Succession::OneByOne || long.on_trust || alone {
            long.on_trust = true;
            return Step::Trust { first };
        }
        Step::Wait(Waiting { first, stage: long.stage.subscribe(), id: long.id, key, sequence })
    }

    /// A part of an SMS that is whole.
    fn take_again(self: &Arc<Self>, long: &Long, key: Key, sequence: u8) -> Step {
        // Within the lock, so that one of several brings it to the inbox.
        let failed = long.stage.send_if_modified(|stage| {
            let failed = *stage == Stage::Failed;
            if failed {
                *stage = Stage::Whole;
            }
            failed
        });
        if failed {
            return Step::Deliver(self.whole(long, key));
        }
        if *long.stage.borrow() == Stage::Concluded {
            return Step::Acknowledge;
        }
        Step::Wait(Waiting { first: false, stage: long.stage.subscribe(), id: long.id, key, sequence })
    }

    fn whole(self: &Arc<Self>, long: &Long, key: Key) -> Whole {
        let (text, stage) = (Arc::clone(&long.text), long.stage.clone());
        Whole { messages: Arc::clone(self), key, id: long.id, text, stage }
    }

    /// Notes that a part is to be sent again, unless its SMS has become whole.
    pub(super) fn put_off(&self, waiting: &Waiting) {
        let mut state = self.lock();
        if let Some(long) = state.known.get_mut(&waiting.key).filter(|long| long.id == waiting.id) {
            long.put_off.retain(|sequence| *sequence != waiting.sequence);
            long.put_off.push(waiting.sequence);
        }
    }

    /// Forgets what has been there for too long. Tells how many SMS will never be whole.
    pub(super) fn expire(&self, now: Instant) -> usize {
        let mut state = self.lock();
        let missing = state.gathering.expire(now).len();
        let overdue = |long: &Long| long.since + self.deadline <= now;
        let mut freed = 0;
        state.known.retain(|_, long| {
            let stays = !overdue(long);
            freed += if stays { 0 } else { long.text.len() };
            stays
        });
        state.text_octets -= freed;
        let State { known, whole, .. } = &mut *state;
        whole.retain(|(key, id)| known.get(key).is_some_and(|long| long.id == *id));
        missing
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Long {
    fn is_whole(&self) -> bool {
        *self.stage.borrow() != Stage::Gathering
    }
}

impl State {
    /// The SMS of a part that was taken in while others are missing.
    fn gather(&mut self, key: &Key, part: (u8, u64), first: bool, now: Instant) -> &mut Long {
        if first {
            // An older one under the same reference makes way; who waits for it is let go.
            self.forget(key);
        }
        let long = self.long(key, now);
        if !long.parts.contains(&part) {
            long.parts.push(part);
        }
        long
    }

    fn complete(&mut self, key: &Key, part: (u8, u64), text: Arc<str>, now: Instant) -> &Long {
        while self.whole.len() >= KEPT {
            self.forget_oldest();
        }
        self.text_octets += text.len();
        let id = self.long(key, now).id;
        self.whole.push_back((key.clone(), id));
        let long = self.long(key, now);
        long.parts.push(part);
        long.since = now;
        long.text = text;
        long.stage.send_replace(Stage::Whole);
        long
    }

    fn long(&mut self, key: &Key, now: Instant) -> &mut Long {
        self.known.entry(key.clone()).or_insert_with(|| {
            self.last_id += 1;
            Long {
                id: self.last_id,
                since: now,
                parts: vec![],
                put_off: vec![],
                on_trust: false,
                stage: watch::Sender::new(Stage::Gathering),
                text: "".into(),
            }
        })
    }

    fn forget_oldest(&mut self) {
        if let Some((key, id)) = self.whole.pop_front()
            && self.known.get(&key).is_some_and(|long| long.id == id)
        {
            self.forget(&key);
        }
    }

    fn forget(&mut self, key: &Key) {
        if let Some(long) = self.known.remove(key) {
            self.text_octets -= long.text.len();
        }
    }
}

/// An SMS whose parts are all there. If it is dropped without a word it has failed.
pub(super) struct Whole {
    messages: Arc<LongMessages>,
    key: Key,
    id: u64,
    pub(super) text: Arc<str>,
    stage: watch::Sender<Stage>,
}

impl Whole {
    /// The inbox has dealt with it.
    pub(super) fn conclude(self) {
        self.settle(Stage::Concluded);
    }

    fn settle(&self, settled: Stage) {
        let mut state = self.messages.lock();
        if let Some(long) = state.known.get_mut(&self.key).filter(|long| long.id == self.id) {
            if settled == Stage::Concluded {
                let octets = mem::replace(&mut long.text, "".into()).len();
                state.text_octets -= octets;
            } else if state.text_octets > KEPT_OCTETS {
                // Its parts come again by themselves, those that were not acknowledged.
                state.forget(&self.key);
            }
        }
        self.stage.send_replace(settled);
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        if *self.stage.borrow() == Stage::Whole {
            self.settle(Stage::Failed);
        }
    }
}
