//! Counts attempts, their results and their latency for metrics.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::ports::transport::TransportError;

/// Upper bounds of the [`CourierMetrics::latency_buckets`], in milliseconds. One more bucket counts longer attempts.
pub const LATENCY_BOUNDS_MILLIS: [u64; 14] = [1, 2, 4, 8, 16, 32, 64, 125, 250, 500, 1_000, 2_000, 5_000, 10_000];

/// Snapshot of this node's counters since its start, and of the gauges `waiting` and `in_flight`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CourierMetrics {
    /// Number of attempts by result: `ok` (status 200), `other_status`, or the name of a [`TransportError`].
    pub attempts: BTreeMap<&'static str, u64>,
    pub delivered: u64,
    pub given_up: u64,
    /// Callbacks that were leased but not sent, because a queue was full or too little lease time was left. Their
    /// leases expire, and a later poll leases them again.
    pub deferred: u64,
    /// Attempts whose result could not be stored. They are repeated after the leases of their callbacks expire.
    pub unrecorded: u64,
    /// Number of attempts by duration. Each attempt counts in one bucket only (not cumulative).
    pub latency_buckets: [u64; LATENCY_BOUNDS_MILLIS.len() + 1],
    pub latency_sum_micros: u64,
    pub waiting: u64,
    pub in_flight: u64,
}

const ATTEMPT_RESULTS: [&str; 17] = [
    "ok",
    "other_status",
    "blocked_address",
    "own_address_unknown",
    "unresolved",
    "connection",
    "certificate_expired",
    "certificate_not_yet_valid",
    "certificate_untrusted",
    "certificate_wrong_host",
    "certificate_invalid",
    "tls_version",
    "not_tls",
    "tls",
    "timeout",
    "too_large",
    "protocol",
];

#[derive(Default)]
pub struct CourierCounters {
    attempts: [AtomicU64; ATTEMPT_RESULTS.len()],
    latency_buckets: [AtomicU64; LATENCY_BOUNDS_MILLIS.len() + 1],
    latency_sum_micros: AtomicU64,
    pub delivered: AtomicU64,
    pub given_up: AtomicU64,
    pub deferred: AtomicU64,
    pub unrecorded: AtomicU64,
}

impl CourierCounters {
    pub fn count_attempt(&self, result: Result<u16, TransportError>, elapsed: Duration) {
        let result_name = match result {
            Ok(200) => "ok",
            Ok(_) => "other_status",
            Err(error) => error.into_str(),
        };
        if let Some(index) = ATTEMPT_RESULTS.iter().position(|known| *known == result_name) {
            add(&self.attempts[index], 1);
        }
        let is_within = |bound: &u64| elapsed <= Duration::from_millis(*bound);
        let bucket = LATENCY_BOUNDS_MILLIS.iter().position(is_within).unwrap_or(LATENCY_BOUNDS_MILLIS.len());
        add(&self.latency_buckets[bucket], 1);
        add(&self.latency_sum_micros, u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX));
    }

    pub fn snapshot(&self, waiting: usize, in_flight: usize) -> CourierMetrics {
        CourierMetrics {
            attempts: ATTEMPT_RESULTS.into_iter().zip(self.attempts.iter().map(load)).collect(),
            delivered: load(&self.delivered),
            given_up: load(&self.given_up),
            deferred: load(&self.deferred),
            unrecorded: load(&self.unrecorded),
            latency_buckets: std::array::from_fn(|index| load(&self.latency_buckets[index])),
            latency_sum_micros: load(&self.latency_sum_micros),
            waiting: waiting as u64,
            in_flight: in_flight as u64,
        }
    }
}

pub fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::transport::TlsError;
    use strum::VariantArray as _;

    #[test]
    fn every_failure_is_counted() {
        let tls = TlsError::VARIANTS.iter().map(|error| TransportError::Tls(*error));
        let others = [
            TransportError::BlockedAddress,
            TransportError::OwnAddressUnknown,
            TransportError::Unresolved,
            TransportError::Connection,
            TransportError::Timeout,
            TransportError::TooLarge,
            TransportError::Protocol,
        ];
        let errors: Vec<_> = tls.chain(others).collect();
        let counters = CourierCounters::default();
        for result in errors.iter().map(|error| Err(*error)).chain([Ok(200), Ok(204)]) {
            counters.count_attempt(result, Duration::ZERO);
        }
        let metrics = counters.snapshot(0, 0);
        assert!(metrics.attempts.values().all(|count| *count == 1), "{:?}", metrics.attempts);
        assert_eq!(metrics.attempts.len(), errors.len() + 2);
    }
}
