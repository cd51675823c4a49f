//! Reassembles concatenated SMS in memory. Connectors under test share one reassembly, as nodes share a database.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use ringtrue_engine::ports::{
    clock::Clock,
    sms::{CompleteSms, ConcatenatedSmsKey, PartOutcome, Reassembly, SmsPart},
    store::StoreError,
};
use uuid::Uuid;

const MAX_INCOMPLETE_PER_SENDER: usize = 8;

/// Behaves like the engine's reassembly over a database, including its limit per sender.
#[derive(derive_more::Debug)]
#[debug("InMemoryReassembly")]
pub struct InMemoryReassembly {
    clock: Arc<dyn Clock>,
    stored: Mutex<HashMap<String, StoredSms>>,
    is_down: AtomicBool,
}

struct StoredSms {
    key: ConcatenatedSmsKey,
    sms: Uuid,
    connector: Arc<str>,
    from: String,
    total: u8,
    parts: BTreeMap<u8, Vec<u8>>,
    expires_at: Timestamp,
    is_processed: bool,
}

impl InMemoryReassembly {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        InMemoryReassembly { clock, stored: Mutex::default(), is_down: AtomicBool::new(false) }
    }

    /// While set, all calls fail, as if the database were unavailable.
    pub fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::SeqCst);
    }

    fn check(&self) -> Result<(), StoreError> {
        if self.is_down.load(Ordering::SeqCst) { Err(StoreError::Unavailable("down".to_owned())) } else { Ok(()) }
    }
}

#[async_trait]
impl Reassembly for InMemoryReassembly {
    async fn add_part(&self, part: SmsPart) -> Result<PartOutcome, StoreError> {
        self.check()?;
        let SmsPart { environment, connector, from, to, reference, total, sequence, content, lifetime } = part;
        let name = format!("{environment:?} {connector} {from} {to} {reference:?} {total}");
        let now = self.clock.now();
        let mut messages = self.stored.lock();
        messages.retain(|known, message| {
            let differs = message.parts.get(&sequence).is_some_and(|stored| *stored != content);
            *known != name || message.expires_at > now && !differs
        });
        let first = !messages.contains_key(&name);
        let of_sender = messages.values().filter(|message| message.from == from && !message.is_processed).count();
        if first && of_sender >= MAX_INCOMPLETE_PER_SENDER {
            return Ok(PartOutcome::LimitReached);
        }
        let sms = Uuid::from_u128(messages.len() as u128);
        let message = messages.entry(name).or_insert_with(|| StoredSms {
            key: ConcatenatedSmsKey([sequence; 32]),
            sms,
            connector,
            from,
            total,
            parts: BTreeMap::new(),
            expires_at: now + SignedDuration::try_from(lifetime).unwrap(),
            is_processed: false,
        });
        if message.is_processed {
            return Ok(PartOutcome::AlreadyProcessed);
        }
        message.parts.insert(sequence, content);
        if message.parts.len() < usize::from(total) {
            return Ok(PartOutcome::Stored { first });
        }
        let contents = message.parts.values().cloned().collect();
        Ok(PartOutcome::Complete(CompleteSms { key: message.key, sms: message.sms, contents }))
    }

    async fn mark_processed(&self, sms: &CompleteSms) -> Result<(), StoreError> {
        self.check()?;
        let mut messages = self.stored.lock();
        let processed = messages.values_mut().filter(|message| message.sms == sms.sms && message.key == sms.key);
        processed.for_each(|message| message.is_processed = true);
        Ok(())
    }

    async fn discard_expired(&self, connector: &str) -> Result<u64, StoreError> {
        self.check()?;
        let now = self.clock.now();
        let is_expired =
            |_: &String, message: &mut StoredSms| &*message.connector == connector && message.expires_at <= now;
        let expired: Vec<_> = self.stored.lock().extract_if(is_expired).collect();
        let is_incomplete = |message: &StoredSms| message.parts.len() < usize::from(message.total);
        Ok(expired.iter().filter(|(_, message)| is_incomplete(message)).count() as u64)
    }
}
