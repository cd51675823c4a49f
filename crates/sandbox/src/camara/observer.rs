//! What the operator was asked: for tests, and for a page that shows it.

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

/// A request, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    pub endpoint: Endpoint,
    /// `None` if the connection broke instead.
    pub status: Option<StatusCode>,
    /// The request's `x-correlator`.
    pub correlator: Option<String>,
}

#[derive(Debug)]
pub(super) struct Observer {
    room: usize,
    last: Mutex<VecDeque<Exchange>>,
    /// In the order of the endpoints.
    requests: [AtomicU64; Endpoint::ALL.len()],
    has_come: Notify,
}

impl Observer {
    pub(super) fn new(room: usize) -> Self {
        Self { room, last: Mutex::default(), requests: Default::default(), has_come: Notify::new() }
    }

    /// A request has come. It counts even if its client does not wait for the answer.
    pub(super) fn came(&self, endpoint: Endpoint) {
        if let Some(count) = self.count(endpoint) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.has_come.notify_waiters();
    }

    pub(super) fn went(&self, endpoint: Endpoint, status: Option<StatusCode>, correlator: Option<String>) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.push_back(Exchange { endpoint, status, correlator });
        while last.len() > self.room {
            last.pop_front();
        }
    }

    pub(super) fn requests(&self, endpoint: Endpoint) -> u64 {
        self.count(endpoint).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    pub(super) async fn wait_for_requests(&self, endpoint: Endpoint, count: u64) {
        loop {
            let next = self.has_come.notified();
            if self.requests(endpoint) >= count {
                return;
            }
            next.await;
        }
    }

    fn count(&self, endpoint: Endpoint) -> Option<&AtomicU64> {
        Endpoint::ALL.into_iter().zip(&self.requests).find_map(|(other, count)| (other == endpoint).then_some(count))
    }

    /// The last ones, oldest first.
    pub(super) fn exchanges(&self) -> Vec<Exchange> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}
