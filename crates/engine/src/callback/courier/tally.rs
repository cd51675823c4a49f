//! Counting what was sent, for metrics.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::ports::Undelivered;

/// The upper bounds of [`Figures::latency`], in milliseconds. One more bucket takes the rest.
pub const LATENCY_BOUNDS: [u64; 14] = [1, 2, 4, 8, 16, 32, 64, 125, 250, 500, 1_000, 2_000, 5_000, 10_000];

/// What there was at one instant. Counters only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// By result: `ok`, `other_status`, or the word of an [`Undelivered`].
    pub attempts: BTreeMap<&'static str, u64>,
    pub delivered: u64,
    pub given_up: u64,
    /// Leases that were let run out for want of room or of time.
    pub put_off: u64,
    /// Attempts whose end could not be recorded: they will be made again.
    pub unsettled: u64,
    /// Attempts by how long they took, one bucket after the other (not cumulative).
    pub latency: [u64; LATENCY_BOUNDS.len() + 1],
    pub latency_micros: u64,
    pub waiting: u64,
    pub in_flight: u64,
}

const RESULTS: [&str; 9] =
    ["ok", "other_status", "blocked_address", "unresolved", "connection", "tls", "timeout", "too_large", "protocol"];

#[derive(Default)]
pub struct Tally {
    attempts: [AtomicU64; RESULTS.len()],
    latency: [AtomicU64; LATENCY_BOUNDS.len() + 1],
    latency_micros: AtomicU64,
    pub delivered: AtomicU64,
    pub given_up: AtomicU64,
    pub put_off: AtomicU64,
    pub unsettled: AtomicU64,
}

impl Tally {
    pub fn count_attempt(&self, result: Result<u16, Undelivered>, took: Duration) {
        let word = match result {
            Ok(200) => "ok",
            Ok(_) => "other_status",
            Err(why) => why.as_str(),
        };
        if let Some(index) = RESULTS.iter().position(|known| *known == word) {
            add(&self.attempts[index], 1);
        }
        let is_within = |bound: &u64| took <= Duration::from_millis(*bound);
        let bucket = LATENCY_BOUNDS.iter().position(is_within).unwrap_or(LATENCY_BOUNDS.len());
        add(&self.latency[bucket], 1);
        add(&self.latency_micros, u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    pub fn figures(&self, waiting: usize, in_flight: usize) -> Figures {
        Figures {
            attempts: RESULTS.into_iter().zip(self.attempts.iter().map(get)).collect(),
            delivered: get(&self.delivered),
            given_up: get(&self.given_up),
            put_off: get(&self.put_off),
            unsettled: get(&self.unsettled),
            latency: std::array::from_fn(|index| get(&self.latency[index])),
            latency_micros: get(&self.latency_micros),
            waiting: waiting as u64,
            in_flight: in_flight as u64,
        }
    }
}

pub fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
