//! Recorded requests, for tests and for display.

use std::{
    collections::VecDeque,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use http::StatusCode;
use tokio::sync::Notify;

use super::Endpoint;

/// A handled request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedRequest {
    pub endpoint: Endpoint,
    /// `None` if a fault closed the connection.
    pub status: Option<StatusCode>,
    /// `x-correlator` of the request.
    pub correlator: Option<String>,
}

#[derive(Debug)]
pub(super) struct RequestObserver {
    capacity: usize,
    recent: Mutex<VecDeque<RecordedRequest>>,
    /// Indexed like [`Endpoint::ALL`].
    requests: [AtomicU64; Endpoint::ALL.len()],
    request_received: Notify,
}

impl RequestObserver {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, recent: Mutex::default(), requests: Default::default(), request_received: Notify::new() }
    }

    /// Counts a request, even if its client disconnects before the response.
    pub(super) fn record_request(&self, endpoint: Endpoint) {
        if let Some(count) = self.counter(endpoint) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.request_received.notify_waiters();
    }

    pub(super) fn record_response(&self, endpoint: Endpoint, status: Option<StatusCode>, correlator: Option<String>) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.push_back(RecordedRequest { endpoint, status, correlator });
        while recent.len() > self.capacity {
            recent.pop_front();
        }
    }

    pub(super) fn request_count(&self, endpoint: Endpoint) -> u64 {
        self.counter(endpoint).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    pub(super) async fn wait_for_requests(&self, endpoint: Endpoint, count: u64) {
        loop {
            let next = self.request_received.notified();
            if self.request_count(endpoint) >= count {
                return;
            }
            next.await;
        }
    }

    fn counter(&self, endpoint: Endpoint) -> Option<&AtomicU64> {
        Endpoint::ALL.into_iter().zip(&self.requests).find_map(|(other, count)| (other == endpoint).then_some(count))
    }

    /// Oldest first.
    pub(super) fn recorded_requests(&self) -> Vec<RecordedRequest> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}
